package integration

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// recover returns the keys that a recovery key gives at a node.
func (c *testCluster) recover(i int, agent, recoveryKey string) registered {
	c.t.Helper()
	var a registered
	c.mustPost(i, "/api/agents", map[string]any{"id": agent, "recovery_key": recoveryKey, "request_id": "recover-" + agent}, &a)
	if a.EditKey == "" || a.RecoveryKey == "" {
		c.t.Fatalf("no pair: %+v", a)
	}
	return a
}

// TestLostKeyIsRecovered: the recovery key opens the name at any node after the leader died and a
// thief rotated the key, also when the first answer is lost. No key is in a log or on a disk.
func TestLostKeyIsRecovered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	first, status := c.register(c.Follower(), map[string]any{"id": "ada", "description": "Loses keys."})
	must.Equal(t, status, http.StatusCreated, "registration: status")
	c.Kill(c.WaitLeader())
	c.WaitLeader()
	here, there := c.Running()[0], c.Running()[1]
	stolen, status := c.register(here, map[string]any{"id": "ada", "rotate_key": true, "edit_key": first.EditKey})
	must.Equal(t, status, http.StatusCreated, "rotation: status")
	check.Equal(t, stolen.RecoveryKey, "", "the recovery key of a rotation")

	lost := c.recover(here, "ada", first.RecoveryKey)
	second := c.recover(there, "ada", first.RecoveryKey)
	for key, want := range map[string]int{
		first.EditKey: http.StatusForbidden, stolen.EditKey: http.StatusForbidden, lost.EditKey: http.StatusForbidden, second.EditKey: http.StatusCreated,
	} {
		_, status := c.register(here, map[string]any{"id": "ada", "note": "Mine.", "edit_key": key})
		check.Equal(t, status, want, "a change by %s: status", key)
	}
	_, status = c.register(here, map[string]any{"id": "ada", "recovery_key": first.RecoveryKey, "request_id": "recover-ada"})
	check.Equal(t, status, http.StatusForbidden, "the ended recovery key after the new key was used: status")

	c.WaitConverged()
	hash := sha256.Sum256([]byte(second.RecoveryKey))
	for _, i := range c.Running() {
		log := c.Nodes[i].Log()
		c.Stop(i) // writes the memory to tables
		if found := must.Get(fsmtest.FindText(c.Nodes[i].DataDir(), string(hash[:])))(t); !slices.Contains(found, "raft.db") {
			t.Errorf("node %d: the hash is in %s: the test finds too little", i, found)
		}
		for _, key := range []string{first.EditKey, first.RecoveryKey, lost.RecoveryKey, second.EditKey, second.RecoveryKey} {
			if strings.Contains(log, key) {
				t.Errorf("node %d has logged %s", i, key)
			}
			check.Err(t, noneOf(must.Get(fsmtest.FindText(c.Nodes[i].DataDir(), key))(t)), nil, "node %d: %s", i, key)
		}
	}
}
