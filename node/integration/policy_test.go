package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestModerationOutlivesTheLeader: what was hidden and purged while a node was away is
// hidden and purged there once it is back, and everywhere after the leader died; an order
// that is under way when it dies is carried out, or may be repeated.
func TestModerationOutlivesTheLeader(t *testing.T) {
	t.Parallel()
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
		if err := moderate(leader, operation, id); err != nil {
			t.Fatal(err)
		}
	}
	c.Start(away)
	c.WaitReady(away)
	check := func(mark, id string) {
		t.Helper()
		for _, i := range c.Running() {
			c.Eventually(fmt.Sprintf("%s at node %d", id, i), func() string {
				_, body, err := c.Nodes[i].GetText("/api/entries/" + id + "?consistency=strong")
				if err != nil || !strings.Contains(body, mark) || strings.Contains(body, doomed) != (mark == doomed) {
					return fmt.Sprint(body, err)
				}
				return ""
			})
		}
	}
	check(`"hidden":{"at":`, hidden)
	check(`"purged":true`, purged)
	dying := make(chan error)
	other := slices.DeleteFunc(c.Running(), func(i int) bool { return i == leader })[0]
	go func() { dying <- moderate(other, "purge", later) }()
	c.Kill(leader)
	err := <-dying
	c.WaitLeader(c.Running()...)
	if err != nil { // the order may be lost: it is repeated
		c.Eventually("the order", func() string {
			if err := moderate(other, "purge", later); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	for _, id := range []string{purged, later} {
		check(`"purged":true`, id)
	}
	check(`"hidden":{"at":`, hidden)
	c.Eventually("the entry is shown again", func() string {
		if err := moderate(other, "unhide", hidden); err != nil {
			return err.Error()
		}
		return ""
	})
	c.Start(leader)
	c.WaitReady(leader)
	check(doomed, hidden)
	c.Eventually("the last one is purged", func() string {
		if err := moderate(other, "purge", hidden); err != nil {
			return err.Error()
		}
		return ""
	})
	c.waitErased(0, 1, 2)
	c.WaitConverged()
}

// TestBlocksOutliveTheLeader: what was blocked while a node was away is blocked there
// once it is back, and goes on being so when the leader dies; what is lifted then is
// lifted everywhere.
func TestBlocksOutliveTheLeader(t *testing.T) {
	t.Parallel()
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
		if err := moderate(leader, "block", body); err != nil {
			t.Fatal(err)
		}
	}
	c.Start(away)
	c.WaitReady(away)
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
			c.Eventually("eve's writes at a node", func() string {
				if got := write(i, "eve", "Another one of eve's"); got != want {
					return got
				}
				return ""
			})
			if got := write(i, "bob", "One of bob's"); got != created {
				t.Errorf("bob's write at node %d: %s", i, got)
			}
		}
	}
	check(blocked, c.Running()...)
	c.Kill(leader)
	c.WaitLeader(c.Running()...)
	check(blocked, c.Running()...)
	c.Eventually("lifting the block", func() string {
		if err := moderate(away, "lift", `{"number":1}`); err != nil && !strings.Contains(err.Error(), "of no rule") {
			return err.Error()
		}
		return ""
	})
	c.Start(leader)
	c.WaitReady(leader)
	check(created, c.Running()...)
	c.WaitConverged()
}

// TestSelectionMissesNothing: a node that was cut off, or has just started, selects from
// what the leader has confirmed, and does not answer before.
func TestSelectionMissesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.WaitVoters()
	away := c.Follower()
	to := (away + 1) % len(c.Nodes)
	hide := func(patience time.Duration, agent string) (matched int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		order := admin.Moderation{Operation: "hide", Body: fmt.Appendf(nil, `{"agent":%q,"reason":"a test"}`, agent)}
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
		if matched, err := hide(time.Second, agent); err == nil {
			t.Errorf("cut off, the node finds %d entries of %s", matched, agent)
		}
		c.Heal()
		c.Eventually("hiding", func() string {
			matched, err := hide(nodetest.Patience, agent)
			if err == nil && matched != written {
				t.Errorf("the node finds %d entries of %s, want %d", matched, agent, written)
			}
			if err != nil {
				return err.Error()
			}
			return ""
		})
	}
}
