package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// How much happens in the short and in the long run.
const (
	shortKills = 2
	longKills  = 20
)

// padding makes entries as long as real ones.
var padding = strings.Repeat("the quick brown fox jumps over the lazy dog and ", 25)

// publishAndList publishes through each node and reads it back from each.
func publishAndList(b *bench, c *cluster) error {
	forms := []struct{ contentType, body string }{
		{"application/json", `{"body":"Grüße aus dem ersten Knoten","agent":"ada","channel":"rounds","tags":["a","b"]}`},
		{"application/x-www-form-urlencoded", "body=from+the+second+node&agent=ada&channel=rounds"},
		{"text/plain", "from the third node"},
	}
	for i, p := range c.nodes {
		answer, err := p.publish(forms[i].contentType, []byte(forms[i].body), http.StatusCreated)
		if err != nil {
			return err
		}
		for _, reader := range c.nodes {
			entries, err := reader.list(answer.index, url.Values{"agent": {answer.Entry.Agent}})
			if err != nil {
				return err
			}
			if len(entries) == 0 || entries[0].ID != answer.Entry.ID || entries[0].Body != answer.Entry.Body {
				return fmt.Errorf("%s lists %v at index %d, want %s first", reader.name, entries, answer.index, answer.Entry.ID)
			}
		}
	}
	found, err := c.nodes[1].list(0, url.Values{"q": {"grusse knot"}, "tag": {"a"}})
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("a search without accents finds %v, want one entry", found)
	}
	for _, p := range c.nodes {
		code, out, errs, err := b.command([]string{"COMMONS_HTTP_ADDR=" + p.http}, "health")
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("health of %s: exit code %d, %s%s", p.name, code, out, errs)
		}
	}
	var refusal struct {
		Issues  []struct{ Field string }
		Example json.RawMessage
	}
	target := c.nodes[2].url + "/api/entries"
	if _, err := call(b.ctx, http.MethodPost, target, nil, []byte(`{"body":"x","kind":"song"}`), http.StatusUnprocessableEntity, &refusal); err != nil {
		return err
	}
	if len(refusal.Issues) != 2 {
		return fmt.Errorf("two problems give the issues %v", refusal.Issues)
	}
	_, err = call(b.ctx, http.MethodPost, target, nil, refusal.Example, http.StatusCreated, nil)
	return err
}

// leaderKilled kills the leader, again and again, while clients of the others
// write and poll, and restarts it.
func leaderKilled(b *bench, c *cluster) error {
	kills := shortKills
	if b.long {
		kills = longKills
	}
	l := c.startLoad("leader-killed", false)
	defer l.cancel()
	var gaps []time.Duration
	for range kills {
		gap, err := leaderLost(c, l, func(leader *process) error {
			leader.kill()
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
func leaderTerminated(_ *bench, c *cluster) error {
	l := c.startLoad("leader-terminated", false)
	defer l.cancel()
	gap, err := leaderLost(c, l, (*process).terminate)
	if err != nil {
		return err
	}
	fmt.Printf("   no write was acknowledged for %v\n", gap.Round(time.Millisecond))
	return l.end()
}

// leaderLost takes the leader away under load and brings it back; it returns the
// longest time without an acknowledged write.
func leaderLost(c *cluster, l *load, lose func(*process) error) (time.Duration, error) {
	leader, _, err := c.leader()
	if err != nil {
		return 0, err
	}
	return nodeLost(c, l, leader, lose)
}

// nodeLost is leaderLost for any node.
func nodeLost(c *cluster, l *load, victim *process, lose func(*process) error) (time.Duration, error) {
	others := slices.DeleteFunc(slices.Clone(c.nodes), func(p *process) bool { return p == victim })
	if err := c.route.use(c.bench, others); err != nil {
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
	gap := l.gap(lost)
	if err := victim.start(); err != nil {
		return 0, err
	}
	if err := c.waitReady(readyTimeout, victim); err != nil {
		return 0, err
	}
	if err := c.route.use(c.bench, c.nodes); err != nil {
		return 0, err
	}
	return gap, l.waitForMore()
}

// allKilled kills every node at once under load and starts them again.
func allKilled(b *bench, c *cluster) error {
	rounds := 1
	if b.long {
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
	defer l.cancel()
	if err := l.waitForMore(); err != nil {
		return err
	}
	for _, p := range c.nodes {
		if err := p.cmd.Process.Kill(); err != nil {
			return err
		}
	}
	for _, p := range c.nodes {
		<-p.gone
	}
	start := time.Now()
	for _, p := range c.nodes {
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := c.waitReady(quorumTimeout, c.nodes...); err != nil {
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
func wipedNode(b *bench, c *cluster) error {
	leader, others, err := c.leader()
	if err != nil {
		return err
	}
	if err := c.wipe(others[0]); err != nil {
		return err
	}
	if b.long {
		return c.wipe(leader)
	}
	return nil
}

func (c *cluster) wipe(victim *process) error {
	old, err := victim.status()
	if err != nil {
		return err
	}
	var others []*process
	for _, p := range c.nodes {
		if p != victim {
			others = append(others, p)
		}
	}
	l := c.startLoad("wiped-"+victim.name, false)
	defer l.cancel()
	if err := c.route.use(c.bench, others); err != nil {
		return err
	}
	victim.kill()
	if err := os.RemoveAll(victim.dir); err != nil {
		return err
	}
	start := time.Now()
	if err := victim.start(); err != nil {
		return err
	}
	var tooFew error
	err = c.bench.eventually(replaceTimeout, func() error {
		for _, p := range c.nodes {
			s, err := p.status()
			if err != nil {
				return err
			}
			if p != victim && len(s.Voters) < clusterSize {
				tooFew = fmt.Errorf("%s counted the voters %v: the old one was removed before the new one voted", p.name, s.Voters)
			}
			if err := replaced(s.Voters, old.Node); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	if err := errors.Join(err, tooFew); err != nil {
		return err
	}
	fmt.Printf("   %s was replaced after %v\n", old.Node, time.Since(start).Round(time.Millisecond))
	if err := c.waitReady(readyTimeout, victim); err != nil {
		return err
	}
	if err := c.route.use(c.bench, c.nodes); err != nil {
		return err
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	return l.end()
}

// replaced reports what keeps voters from being three, of three names, without
// the old one.
func replaced(voters []string, old string) error {
	names := map[string]string{}
	for _, id := range voters {
		if id == old {
			return fmt.Errorf("%s still votes", old)
		}
		if other, twice := names[nameOf(id)]; twice {
			return fmt.Errorf("two voters of one name: %s and %s", other, id)
		}
		names[nameOf(id)] = id
	}
	if len(voters) != clusterSize {
		return fmt.Errorf("voters %v", voters)
	}
	return nil
}

// allTerminated ends every node gracefully; the data outlives that.
func allTerminated(_ *bench, c *cluster) error {
	answer, err := c.nodes[0].publishJSON(http.StatusCreated, map[string]any{"body": "before the end", "channel": "end"})
	if err != nil {
		return err
	}
	if err := c.terminateAll(); err != nil {
		return err
	}
	if err := c.startAll(); err != nil {
		return err
	}
	for _, p := range c.nodes {
		entries, err := p.list(answer.index, url.Values{"channel": {"end"}})
		if err != nil {
			return err
		}
		if len(entries) != 1 {
			return errors.New("an entry did not survive a graceful end")
		}
	}
	return c.terminateAll()
}

// terminateAll asks all nodes to end, one after the other, and wants code 0.
func (c *cluster) terminateAll() error {
	for _, p := range c.nodes {
		if !p.running() {
			continue
		}
		if err := p.terminate(); err != nil {
			return err
		}
	}
	return nil
}
