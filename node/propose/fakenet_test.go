package propose

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"
)

// fate is the network's treatment of one request.
type fate int

const (
	arrives    fate = iota
	rejected        // no connection
	lostAnswer      // carried out, the answer is lost
	lostBefore      // read and lost on the way
	late            // lost for the client, and carried out afterwards
)

// fakeNet carries requests between the nodes' handlers.
type fakeNet struct {
	nodes map[string]*fakeNode
	late  running
	mu    sync.Mutex
	fate  func(from, to string, r *http.Request) fate
	paths map[string]int
	// served is called for every request that a handler has answered.
	served func(from, to string, r *http.Request)
}

func (n *fakeNet) decide(decide func(from, to string, r *http.Request) fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fate = decide
}

// cut rejects the requests to one node.
func (n *fakeNet) cut(node string) {
	n.decide(func(_, to string, _ *http.Request) fate {
		if to == node {
			return rejected
		}
		return arrives
	})
}

// onServed sets the function that is called for every answered request.
func (n *fakeNet) onServed(served func(from, to string, r *http.Request)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.served = served
}

// running counts goroutines. Unlike with a WaitGroup, more of them may start during Wait.
type running struct{ n atomic.Int64 }

// Go runs f in a goroutine.
func (r *running) Go(f func()) {
	r.n.Add(1)
	go func() {
		defer r.n.Add(-1)
		f()
	}()
}

// Wait returns once all have ended.
func (r *running) Wait() {
	for r.n.Load() > 0 {
		time.Sleep(100 * time.Microsecond)
	}
}

type fakeTransport struct {
	net  *fakeNet
	from string
}

var errLink = errors.New("link broke")

// RoundTrip carries a request like a transport: it reads the body only of a request that it
// sends.
func (t *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.net.mu.Lock()
	f := arrives
	if t.net.fate != nil {
		f = t.net.fate(t.from, r.URL.Host, r)
	}
	if t.net.paths == nil {
		t.net.paths = make(map[string]int)
	}
	t.net.paths[r.URL.Path]++
	t.net.mu.Unlock()
	to := t.net.nodes[r.URL.Host]
	if f == rejected || to == nil {
		return nil, errLink
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	serve := func(ctx context.Context) *http.Response {
		req := httptest.NewRequestWithContext(ctx, r.Method, r.URL.Path, bytes.NewReader(body))
		w := httptest.NewRecorder()
		to.handler.ServeHTTP(w, req)
		t.net.mu.Lock()
		served := t.net.served
		t.net.mu.Unlock()
		if served != nil {
			served(t.from, to.id, r)
		}
		return w.Result()
	}
	switch f {
	case lostBefore:
		return nil, errLink
	case late:
		t.net.late.Go(func() {
			time.Sleep(time.Millisecond) // lets the client ask another node first
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			serve(ctx)
		})
		return nil, errLink
	}
	served := make(chan *http.Response, 1)
	t.net.late.Go(func() { served <- serve(r.Context()) })
	select {
	case resp := <-served:
		if f == lostAnswer {
			return nil, errLink
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
