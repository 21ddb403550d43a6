package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
