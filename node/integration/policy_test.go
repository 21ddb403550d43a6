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

// TestModerationOutlivesTheLeader: what was hidden and purged while a node was away is
// hidden and purged there once it is back, and everywhere after the leader died; an order
// that is under way when it dies is carried out, or may be repeated.
func TestModerationOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		publish := func() string { return c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Buy " + doomed}).Entry.ID }
		hidden, purged, later := publish(), publish(), publish()
		c.WaitConverged()
		moderate := func(i int, operation, id string) error {
			body := fmt.Sprintf(`{"ids":[%q],"reason":"a test"}`, id)
			_, err := operate[json.RawMessage](c, i, admin.PathModerate, admin.Moderation{Operation: operation, Body: []byte(body)})
			return err
		}
		leader, away := c.WaitLeader(), c.Follower()
		c.Kill(away)
		for operation, id := range map[string]string{"hide": hidden, "purge": purged} {
			must.Do(t, moderate(leader, operation, id))
		}
		c.StartReady(away)
		check := func(mark, id string) {
			t.Helper()
			for _, i := range c.Running() {
				c.Eventually(fmt.Sprintf("%s at node %d", id, i), func() error {
					_, body, err := c.Nodes[i].GetText("/api/entries/" + id + "?consistency=strong")
					return nodetest.ErrorIf(err != nil || !strings.Contains(body, mark) || strings.Contains(body, doomed) != (mark == doomed), "%v %v", body, err)
				})
			}
		}
		check(`"hidden":{"at":`, hidden)
		check(`"purged":true`, purged)
		dying := make(chan error)
		other := c.Others(leader)[0]
		go func() { dying <- moderate(other, "purge", later) }()
		c.Kill(leader)
		err := <-dying
		c.WaitLeader(c.Running()...)
		if err != nil { // the order may be lost: it is repeated
			c.Eventually("the order", func() error {
				err := moderate(other, "purge", later)
				return err
			})
		}
		for _, id := range []string{purged, later} {
			check(`"purged":true`, id)
		}
		check(`"hidden":{"at":`, hidden)
		c.Eventually("the entry is shown again", func() error {
			err := moderate(other, "unhide", hidden)
			return err
		})
		c.StartReady(leader)
		check(doomed, hidden)
		c.Eventually("the last one is purged", func() error {
			err := moderate(other, "purge", hidden)
			return err
		})
		c.waitErased(0, 1, 2)
		c.WaitConverged()
	})
}

// TestBlocksOutliveTheLeader: what was blocked while a node was away is blocked there
// once it is back, and goes on being so when the leader dies; what is lifted then is
// lifted everywhere.
func TestBlocksOutliveTheLeader(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "The first of eve's"})
		leader, away := c.WaitLeader(), c.Follower()
		c.Kill(away)
		moderate := func(i int, operation, body string) error {
			_, err := operate[json.RawMessage](c, i, admin.PathModerate, admin.Moderation{Operation: operation, Body: []byte(body)})
			return err
		}
		for _, body := range []string{
			`{"agent":"eve","for":"1h","reason":"a test"}`, `{"network":"192.0.2.0/24","for":"1h","reason":"a test"}`,
		} {
			must.Do(t, moderate(leader, "block", body))
		}
		c.StartReady(away)
		write := func(i int, agent, body string) string {
			a, err := c.Nodes[i].Publish(context.Background(), nodetest.Post{Agent: agent, Body: body})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%d %s", a.Status, a.Code)
		}
		const blocked, created = "403 blocked", "201 "
		check := func(want string, nodes ...int) {
			t.Helper()
			for _, i := range nodes {
				c.Eventually("eve's writes at a node", func() error {
					got := write(i, "eve", "Another one of eve's")
					return nodetest.ErrorIf(got != want, "%s", got)
				})
				check.Equal(t, write(i, "bob", "One of bob's"), created, "bob's write at node %d", i)
			}
		}
		check(blocked, c.Running()...)
		c.Kill(leader)
		c.WaitLeader(c.Running()...)
		check(blocked, c.Running()...)
		c.Eventually("lifting the block", func() error {
			if err := moderate(away, "undo", `{"number":1}`); err != nil && !strings.Contains(err.Error(), "nothing holds") {
				return err
			}
			return nil
		})
		c.StartReady(leader)
		check(created, c.Running()...)
		c.WaitConverged()
	})
}

// TestSelectionMissesNothing: a node that was cut off, or has just started, selects from
// what the leader has confirmed, and does not answer before. The selections are dry runs:
// a node carries out an order that it got even if its client has given up since.
func TestSelectionMissesNothing(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
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
			if matched, err := count(time.Second, agent); err == nil {
				t.Errorf("cut off, the node finds %d entries of %s", matched, agent)
			}
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
