package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// TestCallsWaitUntilTheNodeHasJoined: what needs the state waits, what operators
// ask does not.
func TestCallsWaitUntilTheNodeHasJoined(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Joining = make(chan struct{})
	_, addr := serve(t, b)
	statuses := make(chan int, 1)
	go func() {
		res, err := http.Post("http://"+addr+"/api/entries", "text/plain", strings.NewReader("sent too early"))
		if err != nil {
			statuses <- 0
			return
		}
		_ = res.Body.Close()
		statuses <- res.StatusCode
	}()
	// The call for the measurements is the second one under way.
	eventually(t, func() bool { return strings.Contains(metricsOf(t, addr), "commons_http_requests_in_flight 2") })
	select {
	case got := <-statuses:
		t.Fatalf("answered %d before the node had joined", got)
	default:
	}
	close(b.Joining)
	if got := <-statuses; got != http.StatusCreated {
		t.Errorf("status %d once the node had joined, want 201", got)
	}
}
