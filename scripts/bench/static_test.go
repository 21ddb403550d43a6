package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
)

func TestServeStatic(t *testing.T) {
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/entries" {
			fmt.Fprint(w, `{"entries":[]}`)
		} else {
			http.NotFound(w, r)
		}
	}))
	defer list.Close()
	listen := fmt.Sprintf("127.0.0.1:%d", must.Get(freeport.Take(1))(t))
	if err := ServeStatic(listen, list.URL+"/none"); err == nil {
		t.Fatal("an answer of 404 is served")
	}
	go ServeStatic(listen, list.URL+"/api/entries") //nolint:errcheck // it ends with the process
	await.Eventually(t, "the body of the list", func() bool {
		status, body, err := fasthttp.Get(nil, "http://"+listen+"/api/entries?limit=50&channel=bench-1")
		return err == nil && status == fasthttp.StatusOK && string(body) == `{"entries":[]}`
	})
}
