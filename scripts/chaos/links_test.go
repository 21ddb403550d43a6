package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

// TestLinks: what a way carries waits while it is cut, and arrives when it is healed;
// the way back is another one. Lost data arrives later.
func TestLinks(t *testing.T) {
	l, err := newLinks()
	if err != nil {
		t.Skip(err)
	}
	served := make(chan string, 10)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		_, _ = io.WriteString(w, "heard")
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	l.runs("me", os.Getpid())
	other := &harness.Node{Name: "other", Private: listener.Addr().String(), Flags: map[string]string{}}
	l.add(t.Context(), other)
	answers := make(chan string, 10)
	ask := func(path string) {
		res, err := http.Get("http://" + other.Flags["cluster-advertise"] + path)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			text = []byte(err.Error())
		}
		answers <- string(text)
	}
	ask("/plain")
	if got := <-answers; got != "heard" || <-served != "/plain" {
		t.Fatalf("over a good way: %s", got)
	}
	l.set("other", "me", quality{cut: true})
	go ask("/back")
	check.Equal(t, <-served, "/back", "the way there is cut, too")
	select {
	case got := <-answers:
		t.Errorf("over a way that is cut: %s", got)
	case <-time.After(5 * cutLook): // long enough for an answer to pass by mistake
	}
	l.set("other", "me", quality{})
	check.Equal(t, <-answers, "heard", "after it was healed")
	for i, q := range []quality{{delay: 10 * time.Millisecond, loss: 1}, {delay: 10 * time.Millisecond, jitter: time.Millisecond}, {}} {
		if wait := q.wait(); (wait >= resendAfter) != (i == 0) || (wait >= 10*time.Millisecond) != (i < 2) {
			t.Errorf("%+v delays data by %v", q, wait)
		}
	}
}
