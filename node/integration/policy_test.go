package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestModerationOutlivesTheLeader: what was hidden, purged and blocked while a node was away is so
// there once it is back, and everywhere after the leader died; an order that is under way when it
// dies is carried out, or may be repeated. What is shown again or lifted then is so everywhere.
func TestModerationOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		publish := func() string { return c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Buy " + doomed}).Entry.ID }
		hidden, purged, later := publish(), publish(), publish()
		c.WaitConverged()
		moderate := func(i int, operation, body string) error {
			_, err := operate[json.RawMessage](c, i, admin.PathModerate, admin.Moderation{Operation: operation, Body: []byte(body)})
			return err
		}
		order := func(id string) string { return fmt.Sprintf(`{"ids":[%q],"reason":"a test"}`, id) }
		leader, away := c.WaitLeader(), c.Follower()
		c.Kill(away)
		for _, block := range []string{
			`{"agent":"eve","for":"1h","reason":"a test"}`, `{"network":"192.0.2.0/24","for":"1h","reason":"a test"}`,
		} {
			must.Do(t, moderate(leader, "block", block))
		}
		must.Do(t, moderate(leader, "hide", order(hidden)))
		must.Do(t, moderate(leader, "purge", order(purged)))
		c.StartReady(away)
		shows := func(mark, id string) {
			t.Helper()
			for _, i := range c.Running() {
				c.Eventually(fmt.Sprintf("%s at node %d", id, i), func() error {
					_, body, err := c.Nodes[i].GetText("/api/entries/" + id + "?consistency=strong")
					return nodetest.ErrorIf(err != nil || !strings.Contains(body, mark) || strings.Contains(body, doomed) != (mark == doomed), "%v %v", body, err)
				})
			}
		}
		write := func(i int, agent string) string {
			a, err := c.Nodes[i].Publish(context.Background(), nodetest.Post{Agent: agent, Body: "Another one of " + agent})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%d %s", a.Status, a.Code)
		}
		const blocked, created = "403 blocked", "201 "
		writes := func(want string) {
			t.Helper()
			for _, i := range c.Running() {
				c.Eventually("eve's writes at a node", func() error {
					got := write(i, "eve")
					return nodetest.ErrorIf(got != want, "%s", got)
				})
				check.Equal(t, write(i, "bob"), created, "bob's write at node %d", i)
			}
		}
		shows(`"hidden":{"at":`, hidden)
		shows(`"purged":true`, purged)
		writes(blocked)
		dying := make(chan error)
		other := c.Others(leader)[0]
		go func() { dying <- moderate(other, "purge", order(later)) }()
		c.Kill(leader)
		err := <-dying
		c.WaitLeader(c.Running()...)
		if err != nil { // the order may be lost: it is repeated
			c.Eventually("the order", func() error { return moderate(other, "purge", order(later)) })
		}
		for _, id := range []string{purged, later} {
			shows(`"purged":true`, id)
		}
		shows(`"hidden":{"at":`, hidden)
		writes(blocked)
		c.Eventually("the entry is shown again", func() error { return moderate(other, "unhide", order(hidden)) })
		c.Eventually("lifting the block", func() error {
			err := moderate(away, "undo", `{"number":1}`)
			return nodetest.ErrorIf(err != nil && !strings.Contains(err.Error(), "nothing holds"), "%v", err)
		})
		c.StartReady(leader)
		shows(doomed, hidden)
		writes(created)
		c.Eventually("the last one is purged", func() error { return moderate(other, "purge", order(hidden)) })
		c.waitErased(0, 1, 2)
		c.WaitConverged()
	})
}

// TestSelectionMissesNothing: a node that was cut off, or has just started, selects from
// what the leader has confirmed, and does not answer before. The selections are dry runs:
// a node carries out an order that it got even if its client has given up since.
func TestSelectionMissesNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		away := c.Follower()
		to := (away + 1) % len(c.Nodes)
		count := func(patience time.Duration, agent string) (matched int, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			order := admin.Moderation{Operation: "hide", Body: fmt.Appendf(nil, `{"agent":%q,"reason":"a test","dry_run":true}`, agent)}
			a, err := operateFor[struct{ Matched int }](ctx, c, away, admin.PathModerate, order)
			return a.Matched, err
		}
		const written = 20
		for agent, cutOff := range map[string]func(){
			"eve":     func() { c.Isolate(away) },
			"mallory": func() { c.Kill(away); c.Isolate(away) },
		} {
			cutOff()
			for i := range written {
				c.MustPublish(to, nodetest.Post{Agent: agent, Body: fmt.Sprintf("Buy %s, number %d", doomed, i)})
			}
			if c.Nodes[away].Run == nil {
				c.Start(away)
			}
			check.Fails(count(time.Second, agent))(t, "count the entries of %s at a node that is cut off", agent)
			c.Heal()
			c.Eventually("a selection", func() error {
				matched, err := count(nodetest.Patience, agent)
				if err == nil && matched != written {
					t.Errorf("the node finds %d entries of %s, want %d", matched, agent, written)
				}
				return err
			})
		}
	})
}
