package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
)

// tripper answers requests by a function.
type tripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPassedOnCallEnds holds that a call that is passed on to another node has an end
// that the caller hears of, whether or not that node answers.
func TestPassedOnCallEnds(t *testing.T) {
	o := New(Config{Logger: slog.New(slog.DiscardHandler), ServerID: "n1-x"})
	deaf := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
		end, ok := r.Context().Deadline()
		if left := time.Until(end); !ok || left > passOnTimeout {
			t.Errorf("the call may take %v", left)
		}
		return nil, context.DeadlineExceeded
	})}
	w := httptest.NewRecorder()
	o.passOn(deaf, w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin", http.NoBody), "n2-x")
	if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "n2-x does not answer") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// TestRemovedServerKnowsThatItIsGone holds that a server which leaves takes the answer of
// a leader that has removed it already for one: that leader's private port rejects it.
func TestRemovedServerKnowsThatItIsGone(t *testing.T) {
	removed := cluster.Members(func() string { return "c1" }, func(string) bool { return false }, http.NotFoundHandler())
	for name, h := range map[string]http.Handler{
		"by the gate": removed,
		"by the call": http.NotFoundHandler(),
	} {
		o := New(Config{Client: &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result(), nil
		})}})
		_, err := call[admin.ServerRef](t.Context(), o, "n2-x", admin.PathRemove, admin.Removal{ID: "n1-x", Leaving: true})
		if !noMember(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if noMember(context.DeadlineExceeded) || noMember(&admin.CallError{Status: http.StatusServiceUnavailable}) {
		t.Error("no answer, or none yet, passes for a removal")
	}
}
