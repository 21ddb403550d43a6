package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/push"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// pushTimeout bounds an exchange with the receiver. It is long, for a busy machine must not
// make an exchange fail: events would come again, or in another order.
const pushTimeout = time.Minute

// hookHosts is how many names the receiver of these tests is reached under.
const hookHosts = 40

// hookHost is one of these names.
func hookHost(i int) string { return fmt.Sprintf("hook%d.hooks.example", i) }

// hooks is a receiver that takes challenges, and what a cluster needs to reach it.
type hooks struct {
	authority *pushtest.Authority
	names     *pushtest.Names
	receiver  *pushtest.Receiver

	mu      sync.Mutex
	senders int // addresses that listen has used
	// event answers what is no challenge, by default with 204.
	event func(w http.ResponseWriter, got pushtest.Received, r *http.Request)
	// challenge answers a challenge, by default as it should.
	challenge func(w http.ResponseWriter, got pushtest.Received, r *http.Request)
}

func newHooks(t testing.TB) *hooks {
	t.Helper()
	h := &hooks{
		authority: pushtest.NewAuthority(t), names: pushtest.NewNames(t),
		challenge: func(w http.ResponseWriter, got pushtest.Received, _ *http.Request) { pushtest.Agree(w, got) },
	}
	h.answerWith(http.StatusNoContent)
	for i := range hookHosts {
		h.names.Set(hookHost(i), "127.0.0.1")
	}
	h.receiver = pushtest.NewReceiver(t, h.authority.Certificate("*.hooks.example"), func(w http.ResponseWriter, got pushtest.Received, r *http.Request) {
		h.mu.Lock()
		answer := h.event
		if isChallenge(got) {
			answer = h.challenge
		}
		h.mu.Unlock()
		answer(w, got, r)
	})
	return h
}

// answerWith sets the status with which events are answered from now on.
func (h *hooks) answerWith(status int) {
	h.onEvent(func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) { w.WriteHeader(status) })
}

// onEvent sets how events are answered from now on.
func (h *hooks) onEvent(answer func(w http.ResponseWriter, got pushtest.Received, r *http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.event = answer
}

func isChallenge(got pushtest.Received) bool {
	return strings.Contains(string(got.Body), `"type":"common.verify"`)
}

// reach lets a cluster's nodes reach the receiver.
func (h *hooks) reach(cfg *config.Config) {
	cfg.PushPort, cfg.PushCAFile, cfg.PushAllowNet = int(h.receiver.Port()), h.authority.File(), []string{"127.0.0.0/8"}
	cfg.TrustedProxies = []string{"127.0.0.0/8"}
	cfg.Tuning.Resolver, cfg.Tuning.PushTimeout = h.names.Resolver(), pushTimeout
}

// url returns the receiver's address at one of its hosts.
func (h *hooks) url(host int) string {
	return fmt.Sprintf("https://%s:%d/hook", hookHost(host), h.receiver.Port())
}

// pushed is an event that arrived.
type pushed struct {
	pushtest.Received
	ID    string // webhook-id
	Event struct {
		Type, Agent, Timestamp, Read string
		Reply                        *string
		Entry                        *nodetest.Entry
	}
}

// pushed returns the events that arrived, those for one agent or for all ("").
func (h *hooks) pushed(t testing.TB, agent string) (events []pushed) {
	t.Helper()
	for _, got := range h.receiver.Received() {
		if isChallenge(got) {
			continue
		}
		p := pushed{Received: got, ID: got.Header.Get(push.HeaderID)}
		if err := json.Unmarshal(got.Body, &p.Event); err != nil {
			t.Fatalf("%s: %v", got.Body, err)
		}
		if agent == "" || p.Event.Agent == agent {
			events = append(events, p)
		}
	}
	return events
}

// challenges returns how often somebody was challenged.
func (h *hooks) challenges() (n int) {
	for _, got := range h.receiver.Received() {
		if isChallenge(got) {
			n++
		}
	}
	return n
}

// registered is the answer to a registration.
type registered struct {
	EditKey      string `json:"edit_key"`
	RecoveryKey  string `json:"recovery_key"`
	NotifySecret string `json:"notify_secret"`
	Notes        []string
	Code         string
	Issues       []struct{ Field, Message string }
}

// register registers an agent, or changes its profile, on a node.
func (c *testCluster) register(i int, fields map[string]any) (a registered, status int) {
	c.t.Helper()
	status = must.Get(c.Nodes[i].PostJSON("/api/agents", fields, &a))(c.t)
	return a, status
}

// listen registers an agent with a receiver at one of the hosts and returns its key.
func (c *testCluster) listen(h *hooks, agent string, host int) (key string) {
	c.t.Helper()
	return c.registerReceiver(h, agent, host).EditKey
}

// registerReceiver is listen with the whole answer. Each call comes from an address of its own,
// because checks are limited for each.
func (c *testCluster) registerReceiver(h *hooks, agent string, host int) (a registered) {
	c.t.Helper()
	c.Eventually(agent+" listens", func() error { // on a busy machine the check of a receiver may take too long
		h.mu.Lock()
		h.senders++
		sender := h.senders
		h.mu.Unlock()
		status, err := c.Nodes[c.Running()[0]].PostJSON("/api/agents", map[string]any{"id": agent, "description": "Listens.", "notify_url": h.url(host)}, &a,
			"X-Forwarded-For", fmt.Sprintf("203.0.113.%d", sender))
		return errors.Join(err, nodetest.ErrorIf(status/100 != 2, "status %d", status))
	})
	return a
}

// TestVerification registers receivers through every node and holds that the
// leader asks them, and what is said of those that fail.
func TestVerification(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := newCluster(t, 3, h.reach)
	for i := range c.Nodes {
		a, status := c.register(i, map[string]any{"id": fmt.Sprint("agent-", i), "description": "Listens.", "notify_url": h.url(i)})
		if status != http.StatusCreated || !slices.ContainsFunc(a.Notes, func(s string) bool { return strings.Contains(s, "answered the challenge") }) {
			t.Errorf("node %d: %d %+v", i, status, a)
		}
		check.Equal(t, h.challenges(), i+1, "node %d: challenges", i)
	}
	c.WaitConverged()
	h.names.Set("other.example", "127.0.0.1")
	h.names.Set("inner.example", "10.0.0.1")
	port := h.receiver.Port()
	for url, reason := range map[string]push.Reason{
		fmt.Sprintf("https://none.example:%d/", port):  push.NameNotFound,
		fmt.Sprintf("https://inner.example:%d/", port): push.RejectedAddress,
		fmt.Sprintf("https://other.example:%d/", port): push.TLSFailed,
	} {
		a, status := c.register(c.Follower(), map[string]any{"id": "eve", "description": "Listens.", "notify_url": url})
		if status != http.StatusUnprocessableEntity || len(a.Issues) != 1 || a.Issues[0].Field != "notify_url" || !strings.Contains(a.Issues[0].Message, reason.Sentence()) {
			t.Errorf("%s: %d %+v", url, status, a)
		}
	}
	check.Equal(t, must.Get(c.Nodes[0].GetJSON("/api/agents/eve", &struct{}{}))(t), http.StatusNotFound, "eve")
}

// TestVerificationOfOurselves holds that no node of the cluster is taken for a
// receiver, whichever of them is asked.
func TestVerificationOfOurselves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(cfg *config.Config) {
		cfg.HTTPAdvertise, cfg.PublicURL = cfg.NodeID+".nodes.example:8080", "https://commons.example"
	})
	c.WaitConverged()
	own := []string{"https://commons.example/hook"}
	for _, nd := range c.Nodes {
		own = append(own, "https://"+nd.Config.NodeID+".nodes.example/hook")
	}
	for _, own := range own {
		for i := range c.Nodes {
			a, status := c.register(i, map[string]any{"id": "eve", "description": "Listens.", "notify_url": own})
			if status != http.StatusUnprocessableEntity || len(a.Issues) != 1 || a.Issues[0].Message != "must name another host than this service" {
				t.Errorf("%s at node %d: %d %+v", own, i, status, a)
			}
		}
	}
}
