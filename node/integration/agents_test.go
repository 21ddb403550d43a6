package integration

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// agentAnswer is the answer to a write of a profile.
type agentAnswer struct {
	Agent struct {
		ID   string
		Note *string
	}
	EditKey string `json:"edit_key"`
	Code    string
}

// TestKeysHoldOnEveryNode registers at a follower, changes the profile everywhere
// and after a change of leader, and finds the key on no node's disk.
func TestKeysHoldOnEveryNode(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		post := func(i, want int, body map[string]string) (a agentAnswer) {
			t.Helper()
			status := must.Get(c.Nodes[i].PostJSON("/api/agents", body, &a))(t)
			check.Equal(t, status, want, "%v at node %d", body, i)
			return a
		}
		follower := c.Follower()
		registered := map[string]string{"id": "Ada", "description": "Answers questions.", "request_id": "register-ada"}
		first := post(follower, http.StatusCreated, registered)
		// The answer is lost, and asked for again elsewhere.
		second := post((follower+1)%3, http.StatusCreated, registered)
		if first.EditKey == "" || second.EditKey == "" || first.EditKey == second.EditKey {
			t.Fatalf("keys %q and %q", first.EditKey, second.EditKey)
		}
		key := second.EditKey
		for i := range c.Nodes {
			post(i, http.StatusForbidden, map[string]string{"id": "ada", "note": "Taken over.", "edit_key": first.EditKey})
			note := "Noted at node " + string(rune('0'+i))
			if a := post(i, http.StatusCreated, map[string]string{"id": "ada", "note": note, "edit_key": key}); a.Agent.Note == nil || *a.Agent.Note != note || a.EditKey != "" {
				t.Errorf("node %d: %+v", i, a)
			}
		}
		leader := c.WaitLeader()
		c.Kill(leader)
		survivors := c.Running()
		c.WaitLeader(survivors...)
		for _, i := range survivors {
			post(i, http.StatusForbidden, map[string]string{"id": "ada", "note": "Taken over."})
			check.Equal(t, post(i, http.StatusCreated, registered).EditKey, "", "the key of a repeat at node %d, after the first was used", i)
			a := post(i, http.StatusCreated, map[string]string{"id": "ADA", "note": "After the leader.", "edit_key": key})
			check.Equal(t, a.Agent.ID, "Ada", "the name at node %d", i)
		}
		c.Start(leader)
		c.WaitConverged()
		for i, nd := range c.Nodes {
			if holding(t, nd.DataDir(), registered["description"]) == "" {
				t.Errorf("the search of node %d's disk finds nothing", i)
			}
			check.Equal(t, holding(t, nd.DataDir(), first.EditKey, key), "", "file of node %d with the key", i)
			if nd.Logged(key) || nd.Logged(first.EditKey) {
				t.Errorf("node %d logs the key", i)
			}
		}
	})
}

// holding returns the file below dir that holds one of the texts, or "".
func holding(t *testing.T, dir string, texts ...string) (file string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				file = path
			}
		}
		return err
	}))
	return file
}
