package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

// homes answers as home does: a call is held until its agent is mentioned.
type homes struct {
	mu    sync.Mutex
	now   int64
	said  map[string]int64 // when an agent was mentioned last
	woken *sync.Cond
	since map[string]int64 // the last since of each agent
	loose []string         // malformed calls
}

func newHomes() *homes {
	h := &homes{said: map[string]int64{}, since: map[string]int64{}}
	h.woken = sync.NewCond(&h.mu)
	return h
}

func (h *homes) serve(w http.ResponseWriter, req *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	agent := req.URL.Query().Get("for")
	since, err := strconv.ParseInt(req.URL.Query().Get("since"), 10, 64)
	if err != nil || req.URL.Path != "/api/home" || req.URL.Query().Get("wait") != "60" || agent == "" || since < h.since[agent] {
		h.loose = append(h.loose, req.URL.String())
	}
	h.since[agent] = since
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the client hangs up at the end
		select {
		case <-req.Context().Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			h.woken.Broadcast()
		case <-stop:
		}
	}()
	for h.said[agent] <= since && req.Context().Err() == nil {
		h.woken.Wait()
	}
	fmt.Fprintf(w, `{"now":%d,"more":false,"forYou":[{"id":"e1"}]}`, h.now)
}

// publish wakes the agent that a body mentions.
func (h *homes) publish(body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, _, _ := strings.Cut(strings.TrimPrefix(body, "@"), ":")
	h.now++
	h.said[name] = h.now
	h.woken.Broadcast()
}

// TestWaitWakes holds that callers are held, woken one by one, and go on from now.
func TestWaitWakes(t *testing.T) {
	h := newHomes()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/home", h.serve)
	mux.HandleFunc("POST /api/entries", func(w http.ResponseWriter, req *http.Request) {
		var entry struct{ Body string }
		check.Err(t, json.NewDecoder(req.Body).Decode(&entry), nil, "decode")
		w.WriteHeader(http.StatusCreated)
		h.publish(entry.Body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o := options(Wait, server.URL)
	o.Connections, o.PID = 20, os.Getpid()
	report := mustRun(t, o, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.now >= 2*wakers // each waker writes again only after the answer
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	woken := report.Latency[wakeName].Requests
	// The last write of each waker may be cut off by the end.
	if woken == 0 || woken > report.Statuses["200"] || woken+wakers < report.Statuses["200"] || report.Errors > 0 || len(h.loose) > 0 {
		t.Errorf("report %+v, calls %v", report, h.loose)
	}
	if report.Held < int64(o.Connections-wakers) || report.Held > int64(o.Connections) || report.PeakRSSAnonMB <= 0 {
		t.Errorf("%d calls held, %f MB", report.Held, report.PeakRSSAnonMB)
	}
}

// TestWaitEndsWithoutAnswers holds that rejected writes are counted, and that calls
// that are never answered end with the time.
func TestWaitEndsWithoutAnswers(t *testing.T) {
	var writes atomic.Int64
	_, base := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			writes.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		<-req.Context().Done()
	})
	o := options(Wait, base)
	o.Connections = 2 * wakers
	report := mustRun(t, o, func() bool { return writes.Load() > wakers }) // each waker writes again only after an answer
	if report.Statuses["429"] == 0 || report.Errors != report.Statuses["429"] || report.Latency[wakeName].Requests != 0 {
		t.Errorf("report %+v", report)
	}
}
