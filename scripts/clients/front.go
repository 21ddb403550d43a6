package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Steps of a front, beside a status with which it answers itself.
const (
	pass   = "pass"    // to the node
	lose   = "lose"    // pass, and lose the answer
	hangUp = "hang up" // without passing it on
	hang   = "hang"    // until the client gives up
)

// front stands before a node. It meets each attempt with the next step, and passes on
// those after the last.
type front struct {
	url  string
	node http.Handler
	stop func()

	mu    sync.Mutex
	steps []string // a status may be followed by the seconds of Retry-After, or a place to go to
	seen  []attempt
}

// attempt is a request that a front saw.
type attempt struct {
	at        time.Time
	header    http.Header
	requestID string
}

func newFront(n *harness.Node, steps ...string) *front {
	target := harness.Got(url.Parse(n.URL))
	f := &front{steps: steps, node: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	server := httptest.NewServer(f)
	f.url, f.stop = server.URL, server.Close
	return f
}

// attempts returns what the front saw so far.
func (f *front) attempts() []attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // one that is cut short is not passed on as a whole
	var fields struct {
		RequestID string `json:"request_id"`
	}
	_ = json.Unmarshal(body, &fields) // a read has no body
	f.mu.Lock()
	step := pass
	if len(f.seen) < len(f.steps) {
		step = f.steps[len(f.seen)]
	}
	f.seen = append(f.seen, attempt{time.Now(), r.Header.Clone(), fields.RequestID})
	f.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	switch step {
	case pass:
		f.node.ServeHTTP(w, r)
	case lose:
		f.node.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case hangUp:
		panic(http.ErrAbortHandler)
	case hang:
		<-r.Context().Done()
	default:
		answer(w, strings.Fields(step))
	}
}

// unknown is the code of a balancer's answer for a call that a node may have carried out.
const unknown = "outcome_unknown"

// answer answers in place of a node, or of a balancer: status, code of an error, Retry-After
// or Location.
func answer(w http.ResponseWriter, step []string) {
	status := harness.Got(strconv.Atoi(step[0]))
	body := "<html>" + http.StatusText(status) + "</html>"
	switch {
	case status < http.StatusBadRequest:
		w.Header().Set("Location", step[1])
	case len(step) > 1:
		body = `{"error":"No.","issues":[],"example":{},"docs":"/docs/errors","code":"` + step[1] + `","retryable":` + strconv.FormatBool(status != http.StatusInternalServerError && step[1] != unknown) + `}`
	}
	if len(step) > 2 {
		w.Header().Set("Retry-After", step[2])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have gone
}
