package integration

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/node/nodetest"
)

// TestSigningKeysAreShared holds that every node shows one and the same key, and
// that the next leader makes no other.
func TestSigningKeysAreShared(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.WaitReady()
	keys := ""
	same := func(i int) {
		t.Helper()
		c.Eventually(fmt.Sprintf("the key at node %d", i), func() string {
			status, body, err := c.Nodes[i].GetText("/.well-known/commons-keys.json")
			if err != nil || status != http.StatusOK {
				return fmt.Sprint(status, body, err)
			}
			if keys == "" {
				keys = body
			}
			if body != keys {
				return body + " is not " + keys
			}
			return ""
		})
	}
	for _, i := range c.Running() {
		same(i)
	}
	c.Kill(c.WaitLeader())
	leader := c.WaitLeader()
	c.MustPublish(leader, nodetest.Post{Agent: "ada", Body: "The new leader leads."})
	for _, i := range c.Running() {
		same(i)
	}
}
