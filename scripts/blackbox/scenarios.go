package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// How much happens in the short and in the long run.
const (
	shortKills = 2
	longKills  = 20
)

// publishAndList publishes through each node and reads it back from each.
func publishAndList(c *cluster) {
	forms := []struct{ contentType, body string }{
		{"application/json", `{"body":"Grüße aus dem ersten Knoten","agent":"ada","channel":"rounds","tags":["a","b"]}`},
		{"application/x-www-form-urlencoded", "body=from+the+second+node&agent=ada&channel=rounds"},
		{"text/plain", "from the third node"},
	}
	for i, p := range c.Nodes {
		answer := harness.Got(p.Publish(http.Header{"Content-Type": {forms[i].contentType}}, []byte(forms[i].body), http.StatusCreated))
		for _, reader := range c.Nodes {
			entries := harness.Got(reader.List(answer.Index, url.Values{"agent": {answer.Entry.Agent}}))
			if len(entries) == 0 || entries[0].ID != answer.Entry.ID || entries[0].Body != answer.Entry.Body {
				harness.Failf("%s lists %v at index %d, want %s first", reader.Name, entries, answer.Index, answer.Entry.ID)
			}
		}
	}
	found := harness.Got(c.Nodes[1].List(0, url.Values{"q": {"grusse knot"}, "tag": {"a"}}))
	if len(found) != 1 {
		harness.Failf("a search without accents finds %v, want one entry", found)
	}
	for _, p := range c.Nodes {
		if code, out, errs := c.Run.Command([]string{"COMMONS_HTTP_ADDR=" + p.HTTP}, "health"); code != 0 {
			harness.Failf("health of %s: exit code %d, %s%s", p.Name, code, out, errs)
		}
	}
	var rejected struct {
		Issues  []struct{ Field string }
		Example json.RawMessage
	}
	const target = "/api/entries"
	harness.Got(c.Nodes[2].Call(http.MethodPost, target, nil, []byte(`{"body":"x","kind":"song"}`), &rejected, http.StatusUnprocessableEntity))
	if len(rejected.Issues) != 2 {
		harness.Failf("two problems give the issues %v", rejected.Issues)
	}
	// An error that only the sender could correct has no example; too many tags have one.
	harness.Got(c.Nodes[2].Call(http.MethodPost, target, nil, []byte(`{"body":"A song for everybody","tags":"a,b,c,d,e,f,g,h,i"}`), &rejected, http.StatusUnprocessableEntity))
	harness.Got(c.Nodes[2].Call(http.MethodPost, target, nil, []byte(rejected.Example), nil, http.StatusCreated))
}

// leaderKilled kills the leader, again and again, while clients of the others
// write and poll, and restarts it.
func leaderKilled(c *cluster) {
	kills := shortKills
	if c.bench.long {
		kills = longKills
	}
	l := c.startLoad("leader-killed", false)
	defer l.Stop()
	gaps := make([]time.Duration, 0, kills)
	for range kills {
		gap := leaderLost(c, l, func(leader *harness.Node) error {
			leader.Kill()
			return nil
		})
		gaps = append(gaps, gap)
	}
	slices.Sort(gaps)
	fmt.Printf("   no write was acknowledged for, after each of %d kills: p50 %v, max %v\n",
		kills, gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)-1].Round(time.Millisecond))
	l.end()
}

// leaderTerminated asks the leader to end while clients of the others write.
func leaderTerminated(c *cluster) {
	l := c.startLoad("leader-terminated", false)
	defer l.Stop()
	gap := leaderLost(c, l, (*harness.Node).Terminate)
	fmt.Printf("   no write was acknowledged for %v\n", gap.Round(time.Millisecond))
	l.end()
}

// leaderLost takes the leader away under load and brings it back; it returns the
// longest time without an acknowledged write.
func leaderLost(c *cluster, l *load, lose func(*harness.Node) error) time.Duration {
	leader, _ := c.Leader()
	return nodeLost(c, l, leader, lose)
}

// nodeLost is leaderLost for any node.
func nodeLost(c *cluster, l *load, victim *harness.Node, lose func(*harness.Node) error) time.Duration {
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(p *harness.Node) bool { return p == victim })
	c.route.use(c.Run, others)
	l.waitForMore()
	lost := time.Now()
	harness.Must(lose(victim))
	l.waitForMore()
	gap := l.Gap(lost)
	harness.Must(victim.Start())
	harness.Must(c.WaitReady(harness.ReadyTimeout, victim))
	c.route.use(c.Run, c.Nodes)
	l.waitForMore()
	return gap
}

// allKilled kills every node at once under load and starts them again.
func allKilled(c *cluster) {
	rounds := 1
	if c.bench.long {
		rounds = 3
	}
	for round := range rounds {
		c.killAll(fmt.Sprintf("all-killed-%d", round))
	}
}

func (c *cluster) killAll(channel string) {
	l := c.startLoad(channel, true)
	defer l.Stop()
	l.waitForMore()
	var group sync.WaitGroup
	for _, p := range c.Nodes {
		group.Go(p.Kill)
	}
	group.Wait()
	start := time.Now()
	for _, p := range c.Nodes {
		harness.Must(p.Start())
	}
	harness.Must(c.WaitReady(quorumTimeout, c.Nodes...))
	fmt.Printf("   all ready again after %v\n", time.Since(start).Round(time.Millisecond))
	l.waitForMore()
	l.end()
}

// wipedNode deletes the data of a node: it has to come back under a new server
// id and take the place of the old one.
func wipedNode(c *cluster) {
	leader, others := c.Leader()
	c.wipe(others[0])
	if c.bench.long {
		c.wipe(leader)
	}
}

func (c *cluster) wipe(victim *harness.Node) {
	old := harness.Got(victim.Status())
	var others []*harness.Node
	for _, p := range c.Nodes {
		if p != victim {
			others = append(others, p)
		}
	}
	l := c.startLoad("wiped-"+victim.Name, false)
	defer l.Stop()
	c.route.use(c.Run, others)
	victim.Kill()
	harness.Must(os.RemoveAll(victim.Dir))
	start := time.Now()
	harness.Must(victim.Start())
	var tooFew error
	err := c.Run.Eventually(harness.ReplaceTimeout, func() error {
		for _, p := range c.Nodes {
			s, err := p.Status()
			if err != nil {
				return err
			}
			if p != victim && len(s.Voters) < clusterSize {
				tooFew = fmt.Errorf("%s counted the voters %v: the old one was removed before the new one voted", p.Name, s.Voters)
			}
			if slices.Contains(s.Voters, old.Node) {
				return fmt.Errorf("%s: %s still votes", p.Name, old.Node)
			}
		}
		return nil
	})
	harness.Must(errors.Join(err, tooFew, c.WaitVoters()))
	fmt.Printf("   %s was replaced after %v\n", old.Node, time.Since(start).Round(time.Millisecond))
	harness.Must(c.WaitReady(harness.ReadyTimeout, victim))
	c.route.use(c.Run, c.Nodes)
	l.waitForMore()
	l.end()
}

// allTerminated ends every node gracefully; the data must survive.
func allTerminated(c *cluster) {
	answer := harness.Got(c.Nodes[0].Publish(nil, map[string]any{"body": "before the end", "channel": "end"}, http.StatusCreated))
	harness.Must(c.Terminate())
	harness.Must(c.Start())
	for _, p := range c.Nodes {
		entries := harness.Got(p.List(answer.Index, url.Values{"channel": {"end"}}))
		if len(entries) != 1 {
			harness.Failf("an entry did not survive a graceful end")
		}
	}
	harness.Must(c.Terminate())
}

// How often all nodes are restarted in the short and in the long run.
const (
	shortRestarts = 1
	longRestarts  = 20
)

// How long the leader is stopped; in the long run for longer than a write may hang.
const (
	shortPause = 5 * time.Second
	longPause  = harness.HangTimeout + 10*time.Second
)

// rollingRestarts restarts node after node in good order while clients of the
// others write and poll, as an upgrade does. No request may fail.
func rollingRestarts(c *cluster) {
	rounds := shortRestarts
	if c.bench.long {
		rounds = longRestarts
	}
	l := c.startLoad("rolling-restarts", false)
	defer l.Stop()
	restarts := rounds * len(c.Nodes)
	ends, gaps := make([]time.Duration, 0, restarts), make([]time.Duration, 0, restarts)
	for range rounds {
		for _, p := range c.Nodes {
			gap := nodeLost(c, l, p, func(p *harness.Node) error {
				start := time.Now()
				defer func() { ends = append(ends, time.Since(start)) }()
				return p.Terminate()
			})
			gaps = append(gaps, gap)
		}
	}
	fmt.Printf("   %d restarts: a node ended after %v at most, no write was acknowledged for %v at most\n",
		len(ends), slices.Max(ends).Round(time.Millisecond), slices.Max(gaps).Round(time.Millisecond))
	l.end()
}

// leaderPaused stops the leader's process and lets it continue, like a paused container:
// another node leads meanwhile, no node is removed, and the process takes part again
// instead of believing that its disk hung.
func leaderPaused(c *cluster) {
	pause := shortPause
	if c.bench.long {
		pause = longPause
	}
	leader, others := c.Leader()
	l := c.startLoad("leader-paused", false)
	defer l.Stop()
	c.route.use(c.Run, others)
	l.waitForMore()
	stopped := time.Now()
	harness.Must(leader.Signal(syscall.SIGSTOP))
	for time.Since(stopped) < pause {
		l.waitForMore()
		if s, err := others[0].Status(); err != nil || len(s.Voters) < clusterSize {
			harness.Failf("%s says that %v vote, while %s is only stopped (%w)", others[0].Name, s.Voters, leader.Name, err)
		}
	}
	harness.Must(leader.Signal(syscall.SIGCONT))
	harness.Must(c.WaitReady(harness.ReadyTimeout, leader))
	fmt.Printf("   no write was acknowledged for %v\n", l.Gap(stopped).Round(time.Millisecond))
	c.route.use(c.Run, c.Nodes)
	l.waitForMore()
	l.end()
}

const (
	slowConns = 5000
	// slowPause is the pause between two bytes of a request that never ends.
	slowPause = time.Second
	// slowClosed is how long the node may take to close such a connection, and
	// slowPatience what a busy machine may add.
	slowClosed   = 10 * time.Second
	slowPatience = 20 * time.Second
)

// slowClients has thousands of clients that send a request byte by byte, and looks
// at what the others see meanwhile. The node has to close all of them.
func slowClients(c *cluster) {
	if !c.bench.long || !filesFor(slowConns) {
		return
	}
	node := c.Nodes[0]
	list := func() measured {
		return c.measure("list", "--connections", "16", "--duration", "5s", "--url", node.URL)
	}
	alone := list()
	ctx, cancel := context.WithTimeout(context.Background(), slowClosed+slowPatience)
	defer cancel()
	var wg sync.WaitGroup
	lasted, failed := make([]time.Duration, slowConns), make([]error, slowConns)
	for i := range slowConns {
		wg.Go(func() { lasted[i], failed[i] = dribble(ctx, node.HTTP) })
	}
	beside := list()
	wg.Wait()
	harness.Must(errors.Join(failed...))
	fmt.Printf("   %d slow connections, the last closed after %.1f s; lists took %.2f ms (p99), beside them %.2f ms\n",
		slowConns, slices.Max(lasted).Seconds(), alone.LatencyMs["list"].P99, beside.LatencyMs["list"].P99)
}

// dribble sends a request byte by byte until the other side closes the connection,
// and returns how long that took. It fails when ctx ends first.
func dribble(ctx context.Context, addr string) (time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	start := time.Now()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // to the end of the connection
		close(closed)
	}()
	tick := time.NewTicker(slowPause)
	defer tick.Stop()
	const request = "GET /api/entries HTTP/1.1\r\nX-Long: "
	for sent := 0; ; sent++ {
		if _, err := conn.Write([]byte{(request + "a")[min(sent, len(request))]}); err != nil {
			return time.Since(start), nil
		}
		select {
		case <-tick.C:
		case <-closed:
			return time.Since(start), nil
		case <-ctx.Done():
			return 0, fmt.Errorf("a slow connection was still open after %v", time.Since(start).Round(time.Second))
		}
	}
}
