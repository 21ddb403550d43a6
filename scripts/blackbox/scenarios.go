package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// How much happens in the short and in the long run.
const (
	shortKills = 2
	longKills  = 20
)

// publishAndList publishes through each node and reads it back from each.
func publishAndList(c *cluster) error {
	forms := []struct{ contentType, body string }{
		{"application/json", `{"body":"Grüße aus dem ersten Knoten","agent":"ada","channel":"rounds","tags":["a","b"]}`},
		{"application/x-www-form-urlencoded", "body=from+the+second+node&agent=ada&channel=rounds"},
		{"text/plain", "from the third node"},
	}
	for i, p := range c.Nodes {
		answer, err := p.Publish(http.Header{"Content-Type": {forms[i].contentType}}, []byte(forms[i].body), http.StatusCreated)
		if err != nil {
			return err
		}
		for _, reader := range c.Nodes {
			entries, err := reader.List(answer.Index, url.Values{"agent": {answer.Entry.Agent}})
			if err != nil {
				return err
			}
			if len(entries) == 0 || entries[0].ID != answer.Entry.ID || entries[0].Body != answer.Entry.Body {
				return fmt.Errorf("%s lists %v at index %d, want %s first", reader.Name, entries, answer.Index, answer.Entry.ID)
			}
		}
	}
	found, err := c.Nodes[1].List(0, url.Values{"q": {"grusse knot"}, "tag": {"a"}})
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("a search without accents finds %v, want one entry", found)
	}
	for _, p := range c.Nodes {
		code, out, errs, err := c.Run.Command([]string{"COMMONS_HTTP_ADDR=" + p.HTTP}, "health")
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("health of %s: exit code %d, %s%s", p.Name, code, out, errs)
		}
	}
	var rejected struct {
		Issues  []struct{ Field string }
		Example json.RawMessage
	}
	const target = "/api/entries"
	if _, err := c.Nodes[2].Call(http.MethodPost, target, nil, []byte(`{"body":"x","kind":"song"}`), &rejected, http.StatusUnprocessableEntity); err != nil {
		return err
	}
	if len(rejected.Issues) != 2 {
		return fmt.Errorf("two problems give the issues %v", rejected.Issues)
	}
	_, err = c.Nodes[2].Call(http.MethodPost, target, nil, []byte(rejected.Example), nil, http.StatusCreated)
	return err
}

// leaderKilled kills the leader, again and again, while clients of the others
// write and poll, and restarts it.
func leaderKilled(c *cluster) error {
	kills := shortKills
	if c.bench.long {
		kills = longKills
	}
	l := c.startLoad("leader-killed", false)
	defer l.Stop()
	var gaps []time.Duration
	for range kills {
		gap, err := leaderLost(c, l, func(leader *harness.Node) error {
			leader.Kill()
			return nil
		})
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
	}
	slices.Sort(gaps)
	fmt.Printf("   no write was acknowledged for, after each of %d kills: p50 %v, max %v\n",
		kills, gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)-1].Round(time.Millisecond))
	return l.end()
}

// leaderTerminated asks the leader to end while clients of the others write.
func leaderTerminated(c *cluster) error {
	l := c.startLoad("leader-terminated", false)
	defer l.Stop()
	gap, err := leaderLost(c, l, (*harness.Node).Terminate)
	if err != nil {
		return err
	}
	fmt.Printf("   no write was acknowledged for %v\n", gap.Round(time.Millisecond))
	return l.end()
}

// leaderLost takes the leader away under load and brings it back; it returns the
// longest time without an acknowledged write.
func leaderLost(c *cluster, l *load, lose func(*harness.Node) error) (time.Duration, error) {
	leader, _, err := c.Leader()
	if err != nil {
		return 0, err
	}
	return nodeLost(c, l, leader, lose)
}

// nodeLost is leaderLost for any node.
func nodeLost(c *cluster, l *load, victim *harness.Node, lose func(*harness.Node) error) (time.Duration, error) {
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(p *harness.Node) bool { return p == victim })
	if err := c.route.use(c.Run, others); err != nil {
		return 0, err
	}
	if err := l.waitForMore(); err != nil {
		return 0, err
	}
	lost := time.Now()
	if err := lose(victim); err != nil {
		return 0, err
	}
	if err := l.waitForMore(); err != nil {
		return 0, err
	}
	gap := l.Gap(lost)
	if err := victim.Start(); err != nil {
		return 0, err
	}
	if err := c.WaitReady(harness.ReadyTimeout, victim); err != nil {
		return 0, err
	}
	if err := c.route.use(c.Run, c.Nodes); err != nil {
		return 0, err
	}
	return gap, l.waitForMore()
}

// allKilled kills every node at once under load and starts them again.
func allKilled(c *cluster) error {
	rounds := 1
	if c.bench.long {
		rounds = 3
	}
	for round := range rounds {
		if err := c.killAll(fmt.Sprintf("all-killed-%d", round)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) killAll(channel string) error {
	l := c.startLoad(channel, true)
	defer l.Stop()
	if err := l.waitForMore(); err != nil {
		return err
	}
	var group sync.WaitGroup
	for _, p := range c.Nodes {
		group.Go(p.Kill)
	}
	group.Wait()
	start := time.Now()
	for _, p := range c.Nodes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	if err := c.WaitReady(quorumTimeout, c.Nodes...); err != nil {
		return err
	}
	fmt.Printf("   all ready again after %v\n", time.Since(start).Round(time.Millisecond))
	if err := l.waitForMore(); err != nil {
		return err
	}
	return l.end()
}

// wipedNode deletes the data of a node: it has to come back under a new server
// id and take the place of the old one.
func wipedNode(c *cluster) error {
	leader, others, err := c.Leader()
	if err != nil {
		return err
	}
	if err := c.wipe(others[0]); err != nil {
		return err
	}
	if c.bench.long {
		return c.wipe(leader)
	}
	return nil
}

func (c *cluster) wipe(victim *harness.Node) error {
	old, err := victim.Status()
	if err != nil {
		return err
	}
	var others []*harness.Node
	for _, p := range c.Nodes {
		if p != victim {
			others = append(others, p)
		}
	}
	l := c.startLoad("wiped-"+victim.Name, false)
	defer l.Stop()
	if err := c.route.use(c.Run, others); err != nil {
		return err
	}
	victim.Kill()
	if err := os.RemoveAll(victim.Dir); err != nil {
		return err
	}
	start := time.Now()
	if err := victim.Start(); err != nil {
		return err
	}
	var tooFew error
	err = c.Run.Eventually(harness.ReplaceTimeout, func() error {
		for _, p := range c.Nodes {
			s, err := p.Status()
			if err != nil {
				return err
			}
			if p != victim && len(s.Voters) < clusterSize {
				tooFew = fmt.Errorf("%s counted the voters %v: the old one was removed before the new one voted", p.Name, s.Voters)
			}
			if slices.Contains(s.Voters, old.Node) {
				return fmt.Errorf("%s: %s still votes", p.Name, old.Node)
			}
		}
		return nil
	})
	if err := errors.Join(err, tooFew, c.WaitVoters()); err != nil {
		return err
	}
	fmt.Printf("   %s was replaced after %v\n", old.Node, time.Since(start).Round(time.Millisecond))
	if err := c.WaitReady(harness.ReadyTimeout, victim); err != nil {
		return err
	}
	if err := c.route.use(c.Run, c.Nodes); err != nil {
		return err
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	return l.end()
}

// allTerminated ends every node gracefully; the data outlives that.
func allTerminated(c *cluster) error {
	answer, err := c.Nodes[0].Publish(nil, map[string]any{"body": "before the end", "channel": "end"}, http.StatusCreated)
	if err != nil {
		return err
	}
	if err := c.Terminate(); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	for _, p := range c.Nodes {
		entries, err := p.List(answer.Index, url.Values{"channel": {"end"}})
		if err != nil {
			return err
		}
		if len(entries) != 1 {
			return errors.New("an entry did not survive a graceful end")
		}
	}
	return c.Terminate()
}
