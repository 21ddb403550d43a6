package integration

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/push"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// signed reports whether an event was signed with the secret of its receiver ("whsec_…").
func signed(p *pushed, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, op.WebhookSecretPrefix))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", p.ID, p.Header.Get(push.HeaderTimestamp), p.Body)
	return err == nil && secret != "" && p.Header.Get(push.HeaderSignature) == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// delivery is one of the deliveries in the list that an agent gets.
type delivery struct {
	ID, Type, Status string
	Entry            *string
	Attempts         int
	Reason           *string
}

// deliveriesOf returns what a node says of an agent's deliveries, newest first.
func deliveriesOf(nd *nodetest.Node, agent, key string) (list []delivery, active bool, err error) {
	var body struct {
		Active     bool
		Deliveries []delivery
	}
	_, err = nd.GetJSON("/api/agents/"+agent+"/deliveries", &body, "Authorization", "Bearer "+key)
	return body.Deliveries, body.Active, err
}

// TestDeliveries holds what is pushed to whom, through every node.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	const base = "https://commons.example"
	c := newCluster(t, 3, h.reach, func(cfg *config.Config) { cfg.PublicURL = base + "/" })
	ada := c.registerReceiver(h, "Ada", 0)
	key := ada.EditKey
	question := c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "A note to myself, @ada: who knows tides?"})
	reply := c.MustPublish(1, nodetest.Post{Agent: "bob", Body: "I do, @Ada & <you>.", ReplyTo: question.Entry.ID})
	mention := c.MustPublish(2, nodetest.Post{Agent: "eve", Body: "Ask @ada about tides."})
	c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Nobody is asked here."})
	var job struct {
		Job struct{ ID string }
	}
	c.mustPost(1, "/api/jobs", map[string]string{"agent": "ada", "title": "Measure the tide", "body": "At noon, please."}, &job)
	var claim, result struct{ Claim, Result nodetest.Entry }
	c.mustPost(2, "/api/jobs", map[string]string{"agent": "bob", "action": "claim", "job_id": job.Job.ID}, &claim)
	c.mustPost(0, "/api/jobs", map[string]string{"agent": "bob", "action": "result", "job_id": job.Job.ID, "result": "Four metres."}, &result)

	want := []struct{ kind, entry string }{
		{"common.reply", reply.Entry.ID},
		{"common.mention", mention.Entry.ID},
		{"common.reply", claim.Claim.ID},
		{"common.reply", result.Result.ID},
	}
	c.waitPushed(h, len(want))
	c.Eventually("all outcomes", func() error {
		list, active, err := deliveriesOf(c.Nodes[c.Follower()], "ada", key)
		for _, d := range list {
			if d.Status != "delivered" || d.Attempts != 1 || d.Reason != nil {
				return fmt.Errorf("%+v", d)
			}
		}
		return nodetest.ErrorIf(err != nil || !active || len(list) != len(want), "%+v, active %v, %v", list, active, err)
	})
	apitest.CheckValue(t, h.receiver.Received()[0].Body, "ReceiverCheck")
	got := h.pushed(t, "")
	must.Equal(t, len(got), len(want), "events")
	ids := map[string]bool{}
	for i, p := range got {
		e := p.Event
		if e.Type != want[i].kind || e.Entry == nil || e.Entry.ID != want[i].entry || e.Agent != "Ada" {
			t.Errorf("event %d: %s, want %v", i, p.Body, want[i])
			continue
		}
		reply := "POST " + base + `/api/entries {"agent":"Ada","reply_to":"` + e.Entry.ID + `","body":"(your answer)"}`
		if e.Read != "GET "+base+"/api/entries/"+e.Entry.ID || e.Reply == nil || *e.Reply != reply {
			t.Errorf("event %d: read %q, reply %v", i, e.Read, e.Reply)
		}
		check.Equal(t, must.Get(time.Parse(time.RFC3339, e.Timestamp))(t).UnixMilli(), e.Entry.CreatedAt, "event %d: timestamp %q", i, e.Timestamp)
		apitest.CheckValue(t, p.Body, "Event")
		if !signed(&p, ada.NotifySecret) {
			t.Errorf("event %d is not signed: %v", i, p.Header)
		}
		if ids[p.ID] || strings.Contains(p.ID, ".") {
			t.Errorf("event %d: id %q", i, p.ID)
		}
		ids[p.ID] = true
	}
	c.WaitConverged()
}

// mustPost is PostJSON for a write that has to succeed.
func (c *testCluster) mustPost(i int, path string, body, into any, headers ...string) {
	c.t.Helper()
	if status, err := c.Nodes[i].PostJSON(path, body, into, headers...); err != nil || status/100 != 2 {
		c.t.Fatalf("%s: %d, %v", path, status, err)
	}
}

// testEvent has a test event sent to an agent.
func (c *testCluster) testEvent(agent, key string) {
	c.t.Helper()
	res, err := c.Nodes[c.Running()[0]].Raw(http.MethodPost, "/api/agents/"+agent+"/deliveries/test", "", "Authorization", "Bearer "+key)
	if err != nil || res.Status != http.StatusCreated {
		c.t.Fatalf("test event for %s: %+v, %v", agent, res, err)
	}
}

// TestReceiversThatFail holds retries, the end of a receiver, and the test event.
func TestReceiversThatFail(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := newCluster(t, 1, h.reach)
	flaky, gone := c.listen(h, "flaky", 0), c.listen(h, "gone", 1)
	failures := 0 // under h.mu
	mentioned := make(chan struct{})
	h.onEvent(func(w http.ResponseWriter, got pushtest.Received, r *http.Request) {
		select {
		case <-mentioned: // both events wait before the first one has its answer
		case <-r.Context().Done():
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case strings.Contains(string(got.Body), `"agent":"gone"`):
			w.WriteHeader(http.StatusGone)
		case failures == 0:
			failures++
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	c.testEvent("flaky", flaky)
	c.testEvent("gone", gone)
	c.MustPublish(0, nodetest.Post{Agent: "bob", Body: "Are you there, @gone and @flaky?"})
	close(mentioned)
	c.Eventually("the receiver that is gone to be removed", func() error {
		list, active, err := deliveriesOf(c.Nodes[0], "gone", gone)
		return nodetest.ErrorIf(err != nil || active || len(list) != 2 || list[1].Status != "failed" || list[0].Status != "dropped", "%+v, active %v, %v", list, active, err)
	})
	c.Eventually("the delivery behind it, and the second attempt", func() error {
		list, active, err := deliveriesOf(c.Nodes[0], "flaky", flaky)
		return nodetest.ErrorIf(err != nil || !active || len(list) != 2 || list[0].Status != "delivered" || list[1].Status != "delivered" || list[1].Attempts != 2, "%+v, active %v, %v", list, active, err)
	})
	got := h.pushed(t, "flaky")
	if len(got) != 3 || got[0].ID != got[2].ID || got[0].ID == got[1].ID || !bytes.Equal(got[0].Body, got[2].Body) {
		t.Fatalf("%d events: %+v, want the mention between two attempts with the test event", len(got), got)
	}
	apitest.CheckValue(t, got[0].Body, "Event")
	if e := got[0].Event; e.Type != "common.test" || e.Entry != nil || e.Reply != nil || e.Read != "GET /api/home?for=flaky" {
		t.Errorf("test event: %s", got[0].Body)
	}
	mention := got[1].Event
	if mention.Read != "GET /api/entries/"+mention.Entry.ID || mention.Reply == nil || !strings.HasPrefix(*mention.Reply, "POST /api/entries {") {
		t.Errorf("without a public URL: %s", got[1].Body)
	}
	apitest.CheckValue(t, got[1].Body, "Event")
	c.WaitLogged(0, "give --public-url")
	check.Equal(t, len(h.pushed(t, "gone")), 1, "events for the receiver that is gone")
	c.Eventually("the measurements", func() error {
		metrics := c.Nodes[0].Metrics()
		for _, line := range []string{
			`commons_push_attempts_total{outcome="ok"} 2`, `commons_push_attempts_total{outcome="status_5xx"} 1`,
			`commons_push_attempts_total{outcome="status_4xx"} 1`, `commons_push_verifications_total{outcome="ok"} 2`,
			`commons_push_deliveries_total{reason="ok",status="delivered"} 2`, `commons_push_deliveries_total{reason="status_4xx",status="failed"} 1`,
			`commons_push_deliveries_total{reason="hook_removed",status="dropped"} 1`,
			`commons_push_attempt_seconds_count 4`, `commons_push_sending 0`, `commons_push_waiting 0`,
		} {
			if !strings.Contains(metrics, "\n"+line+"\n") {
				return errors.New("no " + line)
			}
		}
		return nil
	})
	for _, text := range []string{"outcome=ok", "outcome=status_500", "outcome=status_410", "a receiver is gone; its notify_url was removed"} {
		c.WaitLogged(0, text)
	}
	check.Equal(t, c.Nodes[0].Logged("/hook"), false, "the path of a notify_url is logged")
}

// listenAll registers the agents a0, a1 and so on with receivers, so many at each host, and
// returns their mentions.
func (c *testCluster) listenAll(h *hooks, agents, perHost int) (mentions []string) {
	c.t.Helper()
	for i := range agents {
		agent := fmt.Sprintf("a%d", i)
		c.listen(h, agent, i/perHost%hookHosts)
		mentions = append(mentions, "@"+agent)
	}
	return mentions
}

// waitPushed waits until at least so many events have arrived.
func (c *testCluster) waitPushed(h *hooks, least int) {
	c.t.Helper()
	c.Eventually(fmt.Sprint(least, " events"), func() error {
		n := len(h.pushed(c.t, ""))
		return nodetest.ErrorIf(n < least, "%d have arrived", n)
	})
}

// TestEventsOfALeaderWithASkewedClock: receivers believe no event that is older than
// five minutes by their own clocks.
func TestEventsOfALeaderWithASkewedClock(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := newCluster(t, 3, h.reach, func(cfg *config.Config) {
		if cfg.NodeID == "n1" {
			cfg.ClockOffset = -20 * time.Minute
		}
	})
	c.WaitVoters()
	for leader := c.WaitLeader(); leader != 0; leader = c.WaitLeader() {
		c.Restart(leader)
	}
	c.waitCorrected(0)
	c.listen(h, "ada", 0)
	c.MustPublish(0, nodetest.Post{Agent: "bob", Body: "Is this new, @ada?"})
	c.waitPushed(h, 1)
	for _, got := range h.receiver.Received() {
		at, err := strconv.ParseInt(got.Header.Get(push.HeaderTimestamp), 10, 64)
		if age := time.Since(time.Unix(at, 0)).Abs(); err != nil || age > 5*time.Minute {
			t.Errorf("%s: %v, off by %v", got.Header, err, age)
		}
	}
}

// TestLeaderDiesWhileSending kills the leader between an event and its outcome:
// the next one sends it again, under the same id.
func TestLeaderDiesWhileSending(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "waits until the attempt of the dead leader counts as lost")
	h := newHooks(t)
	c := newCluster(t, 3, h.reach)
	c.WaitVoters()
	key := c.listen(h, "ada", 0)
	arrived := make(chan struct{})
	var later atomic.Bool
	h.onEvent(func(w http.ResponseWriter, _ pushtest.Received, r *http.Request) {
		if !later.Swap(true) {
			close(arrived)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	c.MustPublish(c.Follower(), nodetest.Post{Agent: "bob", Body: "Are you there, @ada?"})
	<-arrived
	c.Kill(c.WaitLeader())
	c.Eventually("the second attempt", func() error {
		list, _, err := deliveriesOf(c.Nodes[c.Running()[0]], "ada", key)
		return nodetest.ErrorIf(err != nil || len(list) != 1 || list[0].Status != "delivered" || list[0].Attempts != 2, "%+v, %v", list, err)
	})
	if got := h.pushed(t, ""); len(got) != 2 || got[0].ID != got[1].ID {
		t.Errorf("%+v", got)
	}
}

// crowd counts the requests that a receiver answers at once.
type crowd struct {
	mu             sync.Mutex
	hosts          map[string]int
	now            int
	most, mostHost int
	cut            bool // a sender went away before the answer: it may send on before that is noticed
}

// in counts a request, and out ends it.
func (c *crowd) in(host string) (out func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.hosts[host]++
	c.most, c.mostHost = max(c.most, c.now), max(c.mostHost, c.hosts[host])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
		c.hosts[host]--
	}
}

// cutShort notes that a sender went away.
func (c *crowd) cutShort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

func (c *crowd) peaks() (most, mostHost int, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.mostHost, c.cut
}

// TestCrowd holds how many events are on their way at once, in all and to a host, and that a
// host that does not answer does not keep the others waiting.
func TestCrowd(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	at := &crowd{hosts: map[string]int{}}
	release := make(chan struct{})
	h.onEvent(func(w http.ResponseWriter, got pushtest.Received, r *http.Request) {
		defer at.in(got.Host)()
		select {
		case <-release:
		case <-r.Context().Done():
			at.cutShort()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	c := newCluster(t, 1, h.reach)
	const most, mostHost, agents = 64, 16, 100
	names := c.listenAll(h, agents, agents/5)
	for some := range slices.Chunk(names, 20) { // an entry mentions only so many
		c.MustPublish(0, nodetest.Post{Agent: "bob", Body: "You all: " + strings.Join(some, " ")})
	}
	c.Eventually("as many as may be", func() error {
		n, _, _ := at.peaks()
		return nodetest.ErrorIf(n < most, "%v", n)
	})
	close(release)
	c.waitPushed(h, agents)
	if n, perHost, cut := at.peaks(); !cut && (n > most || perHost != mostHost) {
		t.Errorf("%d events at once, %d to a host", n, perHost)
	}
}

// TestMovingLeadership moves leadership while hundreds of events are on their way:
// each arrives once, in its agent's order, and no agent gets too many. One comes
// again only if its sender did not wait for the answer, or, on a busy machine, if the next
// leader took so long that the sender ended before its outcome was recorded.
func TestMovingLeadership(t *testing.T) {
	t.Parallel()
	agents, each, moves := 20, 25, 4
	if testing.Short() {
		agents, each, moves = 8, 10, 2
	}
	const limit = 30
	h := newHooks(t)
	c := newCluster(t, 3, h.reach)
	c.WaitVoters()
	names := c.listenAll(h, agents, 1)
	begin := make(chan struct{})
	var cut atomic.Int64
	h.onEvent(func(w http.ResponseWriter, _ pushtest.Received, r *http.Request) {
		select {
		case <-begin:
		case <-r.Context().Done():
			cut.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var entries []string
	for n := range each {
		a := c.MustPublish(n%3, nodetest.Post{Agent: "bob", Body: fmt.Sprintf("Number %d: %s", n, strings.Join(names, " "))})
		entries = append(entries, a.Entry.ID)
	}
	close(begin)
	unrecorded := 0 // the largest number of outcomes that their senders did not wait for
	for range moves {
		before := len(h.pushed(t, ""))
		leader := c.WaitLeader()
		stopping := time.Now()
		c.Stop(leader)
		if time.Since(stopping) > pushTimeout {
			unrecorded += agents
		}
		c.StartReady(leader)
		c.Eventually("events from the new leader", func() error {
			n := len(h.pushed(t, ""))
			return nodetest.ErrorIf(n == before && n < agents*each, "%v", n)
		})
	}
	c.Eventually("all events", func() error {
		c.WaitLeader()
		arrived := map[string]bool{}
		for _, p := range h.pushed(t, "") {
			arrived[p.ID] = true
		}
		return nodetest.ErrorIf(len(arrived) < agents*each, "%d of %d", len(arrived), agents*each)
	})
	repeats := 0
	for i := range agents {
		var order, ids []string
		got := h.pushed(t, fmt.Sprintf("a%d", i))
		for _, p := range got {
			if slices.Contains(ids, p.ID) {
				repeats++
				continue
			}
			ids = append(ids, p.ID)
			order = append(order, p.Event.Entry.ID)
		}
		check.Diff(t, order, entries, "entries of a%d", i)
		if len(got) > limit {
			t.Errorf("a%d got %d events in an hour", i, len(got))
		}
	}
	if most := int(cut.Load()) + unrecorded; repeats > most {
		t.Errorf("%d of %d events came again, and %d were cut short, %d at most not recorded", repeats, agents*each, cut.Load(), unrecorded)
	}
	c.WaitConverged()
}
