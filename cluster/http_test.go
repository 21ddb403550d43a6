package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

// TestMembers checks the peers that the private port answers.
func TestMembers(t *testing.T) {
	own := "c1"
	h := Members(func() string { return own }, func(id string) bool { return id == "n1-a" }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	for _, tt := range []struct {
		own  string
		who  peerIdentity
		want int
	}{
		{"c1", peerIdentity{"c1", "n1-a"}, http.StatusNoContent},
		{"c1", peerIdentity{"", "n1-a"}, http.StatusNoContent}, // it has just joined
		{"c1", peerIdentity{"c1", "n2-a"}, http.StatusForbidden},
		{"c1", peerIdentity{"", "n2-a"}, http.StatusForbidden},
		{"c1", peerIdentity{"c2", "n1-a"}, http.StatusForbidden},
		{"c1", peerIdentity{"", operatorName + "x"}, http.StatusNoContent},
		{"c1", peerIdentity{"c1", operatorName + "x"}, http.StatusForbidden},
		{"c1", peerIdentity{}, http.StatusForbidden},
		{"", peerIdentity{"", "n2-a"}, http.StatusNoContent},
	} {
		own = tt.own
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, tt.who), http.MethodPost, "/", http.NoBody))
		check.Equal(t, w.Code, tt.want, "%+v in cluster %q", tt.who, tt.own)
	}
}
