package integration

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/node/nodetest"
)

// recoverBy sets who may replace the key of an agent.
func (c *testCluster) recoverBy(agent, key, by string) {
	c.t.Helper()
	c.mustPost(c.Running()[0], "/api/agents", map[string]any{"id": agent, "recover_by": by, "edit_key": key}, &struct{}{})
}

// askRecovery asks a node for a recovery code.
func (c *testCluster) askRecovery(i int, agent string) {
	c.t.Helper()
	status := must.Get(c.Nodes[i].PostJSON("/api/agents", map[string]any{"id": agent, "recover": true}, &struct{}{}))(c.t)
	if status != http.StatusAccepted {
		c.t.Fatalf("recover: %d", status)
	}
}

// recoveryCode waits for the nth code of an agent and returns it.
func (c *testCluster) recoveryCode(h *hooks, agent string, n int) (code string) {
	c.t.Helper()
	c.Eventually("a recovery code", func() error {
		var codes []string
		for _, p := range h.pushed(c.t, agent) {
			var event struct{ Code string }
			must.Do(c.t, json.Unmarshal(p.Body, &event))
			if event.Code != "" && !slices.Contains(codes, event.Code) {
				codes = append(codes, event.Code)
			}
		}
		if len(codes) >= n {
			code = codes[n-1]
		}
		return nodetest.ErrorIf(code == "", "%d codes arrived", len(codes))
	})
	return code
}

// redeem returns the key that a recovery code gives at a node.
func (c *testCluster) redeem(i int, agent, code string) (key string) {
	c.t.Helper()
	var a registered
	c.mustPost(i, "/api/agents", map[string]any{"id": agent, "recovery_code": code, "request_id": "recover-" + agent}, &a)
	if a.EditKey == "" {
		c.t.Fatalf("no key: %+v", a)
	}
	return a.EditKey
}

// TestLostKeyIsRecovered: the code that one leader has sent opens the name at another node when
// that leader is dead, and a thief who holds the key and sets another receiver is locked out.
func TestLostKeyIsRecovered(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := newCluster(t, 3, h.reach)
	key := c.listen(h, "ada", 0)
	c.recoverBy("ada", key, "receiver")
	c.askRecovery(c.Follower(), "ada")
	code := c.recoveryCode(h, "ada", 1)
	c.Kill(c.WaitLeader())
	c.WaitLeader()
	at := c.Running()[0]
	second := c.redeem(at, "ada", code)

	// The thief has the new key.
	c.mustPost(at, "/api/agents", map[string]any{"id": "ada", "notify_url": h.url(1), "edit_key": second}, &struct{}{})
	change := func() (told int) {
		for _, p := range h.pushed(t, "ada") {
			if p.Event.Type == "common.change" && strings.HasPrefix(p.Host, hookHost(0)) {
				told++
			}
		}
		return told
	}
	c.Eventually("the owner is told", func() error { return nodetest.ErrorIf(change() < 2, "told %d times", change()) })
	c.askRecovery(at, "ada")
	third := c.redeem(c.Running()[1], "ada", c.recoveryCode(h, "ada", 2))
	if a, status := c.register(at, map[string]any{"id": "ada", "note": "Mine.", "edit_key": second}); status != http.StatusForbidden {
		t.Errorf("with the thief's key: %d %+v", status, a)
	}
	if a, status := c.register(at, map[string]any{"id": "ada", "note": "Mine.", "edit_key": third}); status != http.StatusCreated {
		t.Errorf("with the owner's key: %d %+v", status, a)
	}
	for _, i := range c.Running() {
		if strings.Contains(c.Nodes[i].Log(), code) {
			t.Errorf("node %d has logged the code", i)
		}
	}
}
