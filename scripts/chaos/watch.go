package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	watchEvery = 100 * time.Millisecond
	watchFor   = 500 * time.Millisecond // one look
)

// lead is the time since which a node has said that it leads.
type lead struct {
	At   time.Duration
	Node string
}

// watch observes which node leads.
type watch struct {
	began time.Time
	http  *http.Client

	mu    sync.Mutex
	says  map[string]bool // nodes that said so at the last look
	leads []lead
}

// watchLeaders looks at nodes until ctx ends.
func watchLeaders(ctx context.Context, nodes []*harness.Node, h *http.Client, began time.Time) *watch {
	w := &watch{began: began, http: &http.Client{Timeout: watchFor, Transport: h.Transport}, says: map[string]bool{}}
	for _, n := range nodes {
		go func() {
			for ctx.Err() == nil {
				w.look(ctx, n)
				harness.Pause(ctx, watchEvery)
			}
		}()
	}
	return w
}

func (w *watch) look(ctx context.Context, n *harness.Node) {
	res, err := raw.Do(ctx, w.http, http.MethodGet, n.URL+"/status", "")
	leads := err == nil && strings.Contains(string(res.Body), `"role":"leader"`)
	w.mu.Lock()
	defer w.mu.Unlock()
	if leads && !w.says[n.Name] {
		w.leads = append(w.leads, lead{time.Since(w.began), n.Name})
	}
	w.says[n.Name] = leads
}

// leader returns the newest node that says that it leads; if no node does, the last one
// that did.
func (w *watch) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	newest := ""
	for _, l := range w.leads {
		if w.says[l.Node] || newest == "" || !w.says[newest] {
			newest = l.Node
		}
	}
	return newest
}

func (w *watch) all() []lead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]lead{}, w.leads...)
}
