package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The load: closed loops that publish and read through the balancer.
const (
	writers      = 8
	readers      = 4
	enoughWrites = 200                   // to call it normal service
	loadPause    = 10 * time.Millisecond // leaves the processors to the nodes
	retryPause   = 200 * time.Millisecond
	homeWait     = 25 * time.Second
	settleTime   = 60 * time.Second // within which a repeated publication must be answered
)

// load publishes and reads while it runs, and keeps what was acknowledged.
type load struct {
	*harness.Load
	p *project
	// fresh makes every call on a new connection, so that no call is silently repeated.
	fresh *harness.Client

	mu    sync.Mutex
	cut   []error       // calls that were lost with a node
	gap   time.Duration // the longest that a client waited for what it wanted
	reads int
}

func newLoad(p *project) *load {
	fresh := harness.NewClient(callTimeout)
	fresh.Transport = &http.Transport{DisableKeepAlives: true}
	return &load{Load: harness.NewLoad(p.ctx, "compose"), p: p, fresh: fresh}
}

// start begins to publish and to read.
func (l *load) start() {
	l.Start(writers, loadPause, func(_ int, requestID string) error { return l.publish(requestID) })
	for range readers {
		l.Go(loadPause, l.read)
	}
	l.Go(loadPause, l.waitAtHome)
}

// read lists the newest entries, every other time as they are at the leader. A
// read may never fail: there is always a node that can answer it.
func (l *load) read(_ context.Context, n int) error {
	query := url.Values{"channel": {l.Channel}, "limit": {"1"}}
	if n%2 == 1 {
		query.Set("consistency", "strong")
	}
	start := time.Now()
	if _, err := l.fresh.Call(l.p.ctx, http.MethodGet, l.p.url+"/api/entries?"+query.Encode(), nil, nil, nil, http.StatusOK); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	l.gap = max(l.gap, time.Since(start))
	return nil
}

// waitAtHome waits for longer than the balancer allows for calls that do not wait.
func (l *load) waitAtHome(ctx context.Context, _ int) error {
	query := url.Values{"for": {"nobody-writes-to-me"}, "wait": {strconv.Itoa(int(homeWait.Seconds()))}}
	if _, err := l.fresh.Call(ctx, http.MethodGet, l.p.url+"/api/home?"+query.Encode(), nil, nil, nil, http.StatusOK); ctx.Err() == nil {
		return err
	}
	return nil // the load ends, and does not wait for this call
}

// publish publishes one entry. If the node fails during the call, the entry is published
// again under its request id, as an agent would do.
func (l *load) publish(requestID string) error {
	start := time.Now()
	want := []int{http.StatusCreated}
	for {
		answer, err := l.p.client.Publish(l.p.ctx, l.p.url, nil, l.Fields(requestID), want...)
		if err == nil {
			l.Acknowledged(requestID, answer)
			l.mu.Lock()
			l.gap = max(l.gap, time.Since(start))
			l.mu.Unlock()
			return nil
		}
		if !lostOnTheWay(err) || time.Since(start) > settleTime {
			return err
		}
		l.mu.Lock()
		l.cut = append(l.cut, err)
		l.mu.Unlock()
		want = []int{http.StatusCreated, http.StatusOK}
		time.Sleep(retryPause)
	}
}

// lostOnTheWay reports whether the outcome of a call is unknown because its node is gone.
// On a connection that has served other calls, the balancer closes without an answer, as
// HTTP requires.
func lostOnTheWay(err error) bool {
	if r, answered := errors.AsType[*harness.RejectedError](err); answered {
		return r.Code == "outcome_unknown"
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// cutShort fails if more calls than allowed were lost with a node since cutShort was last
// called. The allowed ones were under way at the node.
func (l *load) cutShort(allowed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.cut
	l.cut = nil
	if len(cut) > allowed {
		harness.Failf("%d calls were lost, %d could be: %w", len(cut), allowed, errors.Join(cut...))
	}
	acks, _ := l.Acks()
	fmt.Printf("   %d publications acknowledged in all, %d sent again\n", len(acks), len(cut))
}

// withoutGap fails if a client has waited longer than limit since withoutGap was last
// called.
func (l *load) withoutGap(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := l.gap
	l.gap = 0
	fmt.Printf("   %d reads in all, none failed; nobody waited longer than %v\n", l.reads, gap.Round(time.Millisecond))
	if gap > limit {
		harness.Failf("a client waited for %v, and %v is the most", gap.Round(time.Millisecond), limit)
	}
}

// verifyOn compares what each of the nodes holds with what was acknowledged.
func (l *load) verifyOn(nodes ...string) {
	for _, node := range nodes {
		base := harness.Got(l.p.nodeURL(node))
		entries := harness.Got(l.p.client.List(l.p.ctx, base, nil, url.Values{"channel": {l.Channel}, "consistency": {"strong"}}))
		if err := l.Verify(entries); err != nil {
			harness.Failf("on %s: %w", node, err)
		}
	}
	acks, _ := l.Acks()
	fmt.Printf("   all %d publications are there, once, on each of %d nodes\n", len(acks), len(nodes))
}

// imageVariable names the image of Prometheus if none can be pulled.
const imageVariable = "PROMETHEUS_IMAGE"

// measure starts Prometheus: it has to find every node and the balancer, and to
// evaluate every rule, and none may find fault with five healthy nodes.
func measure(p *project) {
	if os.Getenv(imageVariable) == "" {
		fmt.Println("   left out: there is no image of Prometheus here")
		return
	}
	p.up("--profile", "five", "--profile", "observability", "up", "--detach", "prometheus")
	harness.Must(p.eventually(harness.ReadyTimeout, func() error { return p.wantSamples("up == 1 and on (instance) commons_ready == 1", len(five)) }))
	harness.Must(p.eventually(harness.ReadyTimeout, func() error {
		return p.wantSamples(`up{job="commons-balancer"} == 1 and on () haproxy_frontend_http_requests_total{proxy="public"} > 0`, 1)
	}))
	harness.Must(p.eventually(harness.ReadyTimeout, p.rulesHold))
	harness.Must(p.load.WaitForMore(enoughWrites))
	p.load.cutShort(0)
}

// wantSamples asks Prometheus, and wants a given number of samples.
func (p *project) wantSamples(query string, want int) error {
	var answer struct {
		Data struct{ Result []struct{} }
	}
	if err := p.get(p.prometheus+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), &answer, http.StatusOK); err != nil {
		return err
	}
	if got := len(answer.Data.Result); got != want {
		return fmt.Errorf("%s has %d samples, want %d", query, got, want)
	}
	return nil
}

// rulesHold wants every rule evaluated, and none firing.
func (p *project) rulesHold() error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
	}
	if err := p.get(p.prometheus+"/api/v1/rules", &answer, http.StatusOK); err != nil {
		return err
	}
	evaluated := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" || rule.State == "firing" {
				return fmt.Errorf("alert %s is %s, health %s %s", rule.Name, rule.State, rule.Health, rule.LastError)
			}
			evaluated++
		}
	}
	if evaluated == 0 {
		return errors.New("no rule is known")
	}
	fmt.Printf("   %d alerts evaluated, none fires\n", evaluated)
	return nil
}
