package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/cluster"
)

// probes answers a planner's questions from sets.
type probes struct {
	up      map[string]bool     // answers
	current map[string]bool     // keeps up
	configs map[string][]string // knows
}

func (p probes) answers(_ context.Context, id string) bool { return p.up[id] }
func (p probes) keepsUp(_ context.Context, id string) bool { return p.current[id] }
func (p probes) knows(_ context.Context, id string) ([]string, error) {
	known, ok := p.configs[id]
	if !ok {
		return nil, errors.New("no answer")
	}
	return known, nil
}

var testTuning = Tuning{StableFor: 3 * time.Second, GoneFor: 10 * time.Second}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// servers reads a configuration: ids with a vote, and in brackets without.
func servers(list string) []raft.Server {
	var out []raft.Server
	for id := range strings.FieldsSeq(list) {
		s := raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(strings.Trim(id, "()"))}
		if id[0] == '(' {
			s.Suffrage = raft.Nonvoter
		}
		out = append(out, s)
	}
	return out
}

// alive reads live members of cluster "c"; a question mark makes one fresh, an
// exclamation mark one with state but without a cluster, an at sign one of
// another cluster, and a tilde one that does not want to vote.
func alive(list string) []cluster.Member {
	var out []cluster.Member
	for id := range strings.FieldsSeq(list) {
		m := cluster.Member{Meta: cluster.Meta{ServerID: strings.Trim(id, "?!@~"), ClusterID: "c"}}
		if strings.HasSuffix(id, "?") {
			m.ClusterID, m.Fresh = "", true
		}
		if strings.HasSuffix(id, "!") {
			m.ClusterID = ""
		}
		if strings.HasSuffix(id, "@") {
			m.ClusterID = "d"
		}
		m.NonVoter = strings.HasSuffix(id, "~")
		m.NodeName = nameOf(m.ServerID)
		out = append(out, m)
	}
	return out
}

func TestPlan(t *testing.T) {
	tests := []struct {
		name    string
		servers string
		alive   string
		up      string // ids that answer though gossip does not know them
		lagging string // ids that do not keep up
		configs map[string][]string
		at      map[int]change // by second; none at other times up to 20
	}{
		{name: "all is well", servers: "a-1 b-1 c-1", alive: "a-1 b-1 c-1"},
		{name: "gossip alone removes nobody", servers: "a-1 b-1 (c-1)", alive: "a-1"},
		{name: "new node", servers: "a-1", alive: "a-1 b-1?", at: every(change{add: "b-1"})},
		{name: "promotion", servers: "a-1 (b-1)", alive: "a-1 b-1", at: from(3, change{promote: "b-1"}, 3)},
		{name: "wants no vote", servers: "a-1 (b-1)", alive: "a-1 b-1~"},
		{name: "of another cluster", servers: "a-1", alive: "a-1 b-1@", configs: map[string][]string{"b-1": {"a-1"}}},
		{name: "lagging", servers: "a-1 (b-1)", alive: "a-1 b-1", lagging: "b-1"},
		{name: "dead non-voter", servers: "a-1 (b-1)", alive: "a-1"},
		{name: "of this cluster", servers: "a-1", alive: "a-1 b-1", at: every(change{add: "b-1"})},
		{name: "another cluster being formed", servers: "a-1", alive: "a-1 b-1!", configs: map[string][]string{"b-1": {"b-1", "x-1"}}},
		{
			name: "taken in by a lost leader", servers: "a-1 z-1", alive: "a-1 z-1 b-1!",
			configs: map[string][]string{"b-1": {"a-1", "b-1"}}, at: every(change{add: "b-1"}),
		},
		{
			name: "voted but has no configuration", servers: "a-1", alive: "a-1 b-1!",
			configs: map[string][]string{"b-1": nil}, at: every(change{add: "b-1"}),
		},
		{name: "does not say what it is", servers: "a-1", alive: "a-1 b-1!"},
		{name: "same name, both alive", servers: "a-1 b-1", alive: "a-1 b-1 b-2?"},
		{name: "same name, the old one is gone", servers: "a-1 b-1 c-1", alive: "a-1 c-1 b-2?", at: every(change{add: "b-2"})},
		{name: "replacement", servers: "a-1 b-1 c-1 (b-2)", alive: "a-1 c-1 b-2", at: from(10, change{promote: "b-2", remove: "b-1"}, 3)},
		{name: "replacement of one that answers", servers: "a-1 b-1 c-1 (b-2)", alive: "a-1 c-1 b-2", up: "b-1"},
		{name: "left by a lost leader", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1 b-2", at: from(10, change{remove: "b-1"}, 1)},
		{name: "new one died instead", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1 b-1", at: from(10, change{remove: "b-2"}, 1)},
		{name: "both died", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1"},
		{name: "old non-voter of the name", servers: "a-1 (b-1) (b-2)", alive: "a-1 b-2", lagging: "b-2", at: from(10, change{remove: "b-1"}, 1)},
		{name: "enough voters", servers: "a-1 b-1 c-1 d-1 e-1 f-1 g-1 h-1 i-1 (j-1)", alive: "a-1 b-1 c-1 d-1 e-1 f-1 g-1 h-1 i-1 j-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pr := probes{up: map[string]bool{}, current: map[string]bool{}, configs: tt.configs}
			for id := range strings.FieldsSeq(tt.up) {
				pr.up[id] = true
			}
			for _, m := range alive(tt.alive) {
				pr.current[m.ServerID] = !slices.Contains(strings.Fields(tt.lagging), m.ServerID)
			}
			p := newPlanner("a-1", pr, testTuning, quiet())
			start := time.Now()
			for second := range 20 {
				got := p.plan(t.Context(), "c", alive(tt.alive), servers(tt.servers), start.Add(time.Duration(second)*time.Second))
				if got != tt.at[second] {
					t.Errorf("after %d s: %+v, want %+v", second, got, tt.at[second])
				}
			}
		})
	}
}

func every(c change) map[int]change { return from(0, c, 1) }

// from expects a change at the second first, and again each time it has become
// due anew: a planner forgets that a server was healthy when it has said so.
func from(first int, c change, again int) map[int]change {
	at := map[int]change{}
	for s := first; s < 20; s += again {
		at[s] = c
		if again > 1 {
			s++ // the second in which health is noted again
		}
	}
	return at
}

// TestPlanKeepsVoters lets nodes come, die, come back and come back empty at
// random, carries every plan out, and looks at the configuration.
func TestPlanKeepsVoters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running := map[string]string{"a": "a-1", "b": "b-1", "c": "c-1"} // id by name; "" is down
		last := map[string]string{"a": "a-1", "b": "b-1", "c": "c-1"}
		config := servers("a-1 b-1 c-1")
		p := newPlanner("a-1", nil, testTuning, quiet())
		now, serial, least := time.Now(), 1, 3
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
			name := rapid.SampledFrom([]string{"b", "c", "d"}).Draw(t, "name")
			switch rapid.SampledFrom([]string{"", "", "", "", "down", "up", "wiped"}).Draw(t, "event") {
			case "down":
				running[name] = ""
			case "up":
				running[name] = last[name]
			case "wiped":
				if running[name] == "" {
					serial++
					running[name] = fmt.Sprintf("%s-%d", name, serial)
					last[name] = running[name]
				}
			}
			pr := probes{up: map[string]bool{}, current: map[string]bool{}}
			var members []cluster.Member
			for _, id := range running {
				if id != "" {
					members = append(members, alive(id)...)
					pr.up[id], pr.current[id] = true, true
				}
			}
			p.probe = pr
			c := p.plan(context.Background(), "c", members, config, now)
			if c.remove != "" && pr.up[c.remove] {
				t.Fatalf("%s is alive and was removed", c.remove)
			}
			config = apply(config, c)
			voters, names := 0, map[string]int{}
			for _, s := range config {
				if s.Suffrage == raft.Voter {
					voters++
					names[nameOf(string(s.ID))]++
				}
			}
			for name, n := range names {
				if n > 1 {
					t.Fatalf("%d voters are called %s: %v", n, name, config)
				}
			}
			if voters < least {
				t.Fatalf("%d voters, there were %d: %v", voters, least, config)
			}
			least = max(least, voters)
		}
	})
}

// apply carries a change out as Raft would.
func apply(config []raft.Server, c change) []raft.Server {
	config = slices.Clone(config)
	if c.add != "" {
		config = append(config, raft.Server{Suffrage: raft.Nonvoter, ID: raft.ServerID(c.add)})
	}
	for i, s := range config {
		if string(s.ID) == c.promote {
			config[i].Suffrage = raft.Voter
		}
	}
	return slices.DeleteFunc(config, func(s raft.Server) bool { return c.remove != "" && string(s.ID) == c.remove })
}
