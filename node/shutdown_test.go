package node

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// TestShutdownDelay: a node that ends says so first, and serves on meanwhile.
func TestShutdownDelay(t *testing.T) {
	c := local(t)
	c.ShutdownDelay = maxShutdownDelay // cut short below
	n := mustStart(t, c)
	until(t, "ready", n.readyForTest)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Shutdown(ctx) // cut short: its error is ctx's
	}()
	until(t, "not ready", func() bool { return statusOf(t, http.MethodGet, n, "/readyz", "") == http.StatusServiceUnavailable })
	if got := statusOf(t, http.MethodPost, n, "/api/entries", "written during the delay"); got != http.StatusCreated {
		t.Errorf("a publication during the delay: %d", got)
	}
	select {
	case <-ended:
		t.Error("the node ended before its delay was over")
	default:
	}
	cancel()
	<-ended
}

func statusOf(t *testing.T, method string, n *Node, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
