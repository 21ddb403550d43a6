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
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"entries":[]}`) }))
	defer list.Close()
	listen := must.Get(freeport.Addr())(t)
	go ServeStatic(listen, list.URL+"/api/entries") //nolint:errcheck // it ends with the process
	await.Eventually(t, "the body of the list", func() bool {
		status, body, err := fasthttp.Get(nil, "http://"+listen+"/api/entries?limit=50&channel=bench-1")
		return err == nil && status == fasthttp.StatusOK && string(body) == `{"entries":[]}`
	})
}
