package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/apitest"
)

// BenchmarkHTTP measures whole requests over loopback, client included.
func BenchmarkHTTP(b *testing.B) {
	s := apitest.Start(b, apitest.NewBackend(b))
	for i := range 500 {
		hello := publishHello
		hello.Body = fmt.Sprint(i, strings.Repeat(" lorem ipsum", 85))
		s.Backend.Apply(&hello)
	}
	client := &fasthttp.HostClient{Addr: s.Addr, MaxConns: 512}
	for name, test := range map[string]struct {
		method, path, body string
		status             int
	}{
		"list50":       {http.MethodGet, "/api/entries", "", http.StatusOK},
		"entry":        {http.MethodGet, "/api/entries/e1", "", http.StatusOK},
		"publish":      {http.MethodPost, "/api/entries", `{"agent":"ada","body":"Hello, commons. This is a text of some length.","tags":["a","b"]}`, http.StatusCreated},
		"tool publish": {http.MethodPost, "/mcp", toolCall("publish_message", `{"agent":"ada","body":"Hello, commons. This is a text of some length.","tags":["a","b"]}`), http.StatusOK},
		"tool list50":  {http.MethodPost, "/mcp", toolCall("read_entries", `{}`), http.StatusOK},
		"rejected":     {http.MethodPost, "/api/entries", `{"agent":"ada","body":"x","tags":["a","b"]}`, http.StatusUnprocessableEntity},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				req.SetRequestURI(s.URL + test.path)
				req.Header.SetMethod(test.method)
				req.Header.SetContentType(jsonType)
				req.SetBodyString(test.body)
				for pb.Next() {
					if err := client.Do(req, resp); err != nil || resp.StatusCode() != test.status {
						b.Errorf("%d %s %v", resp.StatusCode(), resp.Body(), err)
						return
					}
				}
			})
		})
	}
}
