package nodetest

import (
	"fmt"
	"net/http"
	"testing"
)

// TestSigningKeysAreShared holds that every node shows one and the same key, and
// that the next leader makes no other.
func TestSigningKeysAreShared(t *testing.T) {
	c := New(t, 3)
	c.WaitReady()
	keys := ""
	same := func(i int) {
		t.Helper()
		c.Eventually(fmt.Sprintf("the key at node %d", i), func() string {
			status, body, err := c.Nodes[i].get("/.well-known/commons-keys.json")
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
	c.MustPublish(leader, Post{Agent: "ada", Body: "The new leader leads."})
	for _, i := range c.Running() {
		same(i)
	}
}
