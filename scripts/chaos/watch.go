package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	watchEvery = 100 * time.Millisecond
	watchFor   = 500 * time.Millisecond // one look
)

// lead is the time since which a node has said that it leads.
type lead struct {
	At   time.Duration `json:"at"`
	Node string        `json:"node"`
	Term uint64        `json:"term"`
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
func watchLeaders(ctx context.Context, nodes []*harness.Node, transport *http.Transport, began time.Time) *watch {
	w := &watch{began: began, http: &http.Client{Timeout: watchFor, Transport: transport}, says: map[string]bool{}}
	for _, n := range nodes {
		go func() {
			for ctx.Err() == nil {
				w.look(ctx, n)
				rest(ctx, watchEvery)
			}
		}()
	}
	return w
}

func (w *watch) look(ctx context.Context, n *harness.Node) {
	caller := &harness.Client{Client: w.http}
	var status struct{ Role string }
	_, err := caller.Call(ctx, http.MethodGet, n.URL+"/status", nil, nil, &status, http.StatusOK)
	leads := err == nil && status.Role == "leader"
	w.mu.Lock()
	before := w.says[n.Name]
	w.says[n.Name] = leads
	w.mu.Unlock()
	if !leads || before {
		return
	}
	l := lead{time.Since(w.began), n.Name, w.term(ctx, n)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads = append(w.leads, l)
}

// term returns the node's term, 0 if it does not say it.
func (w *watch) term(ctx context.Context, n *harness.Node) uint64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/metrics", http.NoBody)
	if err != nil {
		return 0
	}
	res, err := w.http.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var text strings.Builder
	if err := res.Write(&text); err != nil {
		return 0
	}
	_, after, _ := strings.Cut(text.String(), "\ncommons_term ")
	line, _, _ := strings.Cut(after, "\n")
	term, _ := strconv.ParseUint(strings.TrimSpace(line), 10, 64) // 0 if it is not a number
	return term
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

// movesWithin is how soon another node has to lead after the leader's disk or processor
// became slow.
const movesWithin = 10 * time.Second

// slowLeaders checks that another node took over from each leader that was made slow for
// at least movesWithin, without another fault at the same time.
func (r *report) slowLeaders() verdict {
	v := verdict{Name: "a leader that became slow gives way", Findings: []finding{}}
	for i := range r.Plan {
		e := &r.Plan[i]
		slows := e.Fault == "slow disk" || e.Fault == "starve"
		if !slows || e.Note != "" || e.End-e.Begin < movesWithin || r.overlapped(i) || !slices.Contains(e.Nodes, r.leaderAt(e.Begin)) {
			continue
		}
		v.Looked++
		if slices.Contains(e.Nodes, r.leaderAt(e.Begin+movesWithin)) {
			v.add(fmt.Sprintf("%s led on for %v after its fault, %q, began", strings.Join(e.Nodes, ", "), movesWithin, e.Fault))
		}
	}
	return v
}

// overlapped reports whether another fault of the plan was there at the same time.
func (r *report) overlapped(i int) bool {
	e := &r.Plan[i]
	for j := range r.Plan {
		if other := &r.Plan[j]; j != i && other.Note == "" && other.Begin <= e.End && e.Begin <= other.End {
			return true
		}
	}
	return false
}

// leaderAt returns the node that last began to lead before an instant of the run.
func (r *report) leaderAt(at time.Duration) (node string) {
	last := lead{At: -1}
	for _, l := range r.Leads {
		if l.At <= at && l.At >= last.At {
			last = l
		}
	}
	return last.Node
}
