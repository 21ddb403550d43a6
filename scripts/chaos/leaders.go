package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// movesWithin is how soon another node has to lead after the leader's disk or processor
// became slow.
const movesWithin = 10 * time.Second

// slowLeaders checks that another node took over from each leader that was made slow, or
// whose disk hung, for at least movesWithin, without another fault at the same time.
func (r *report) slowLeaders() check.Verdict {
	v := check.Verdict{Name: "a leader that became slow gives way"}
	for i := range r.plan {
		e := &r.plan[i]
		slows := e.Fault == "slow disk" || e.Fault == "starve" || e.Fault == "hang disk"
		if !slows || e.Note != "" || e.End-e.Begin < movesWithin || r.overlapped(i) || !slices.Contains(e.Nodes, r.leaderAt(e.Begin)) {
			continue
		}
		v.Looked++
		if slices.Contains(e.Nodes, r.leaderAt(e.Begin+movesWithin)) {
			v.Add(fmt.Sprintf("%s led on for %v after its fault, %q, began", strings.Join(e.Nodes, ", "), movesWithin, e.Fault))
		}
	}
	return v
}

// living checks that whoever calls a node that is not a target sees no error, in a plan of
// events in turn.
func (r *report) living() check.Verdict {
	v := check.Verdict{Name: "whoever calls a living node sees no error"}
	if len(r.plan) == 0 || !r.plan[0].InTurn {
		return v
	}
	lost := map[string]bool{}
	for i := range r.calls {
		c := &r.calls[i]
		if !c.Kind.Patient() || r.excused(c, lost) {
			continue
		}
		v.Looked++
		if c.Outcome == record.Failed || c.Outcome == record.Unknown || c.Outcome == record.Rejected && c.Job == "" && c.Code != "too_many_claims" {
			v.Add(fmt.Sprintf("%s %s at %s: %s %s %s", c.Client, c.Kind, c.Node, c.Outcome, c.Code, c.Error), *c)
		}
	}
	return v
}

// excused reports whether a call's node was the target of a fault, or too few voters were
// left, until all nodes were well again. A client of the balancer may lose one write without a
// request_id with each target, and hears of it before the timeout. Such writes are added to lost.
func (r *report) excused(c *record.Call, lost map[string]bool) bool {
	for i, e := range r.plan {
		if c.Begin > e.Well || e.Begin > c.End {
			continue
		}
		if e.Minority || slices.Contains(e.Nodes, c.Node) && e.Fault != "lead" {
			return true
		}
		mayBeLost := c.Node == balancerService && len(e.Nodes) > 0 && c.Kind.Writes() && c.RequestID == "" && c.Outcome == record.Unknown && c.End-c.Begin < record.CallTimeout
		if one := fmt.Sprint(i, c.Client); mayBeLost && !lost[one] {
			lost[one] = true
			return true
		}
	}
	return false
}

// overlapped reports whether another fault of the plan was there at the same time.
func (r *report) overlapped(i int) bool {
	e := &r.plan[i]
	for j := range r.plan {
		if other := &r.plan[j]; j != i && other.Note == "" && other.Begin <= e.End && e.Begin <= other.End {
			return true
		}
	}
	return false
}

// leaderAt returns the node that last began to lead before an instant of the run.
func (r *report) leaderAt(at time.Duration) (node string) {
	for _, l := range r.leads { // oldest first
		if l.At <= at {
			node = l.Node
		}
	}
	return node
}

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
