package membership

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
	"github.com/commons-cluster/commons/internal/check"
)

// probes answers a planner's questions from sets.
type probes struct {
	up      map[string]bool     // answers
	configs map[string][]string // knows
}

func (p probes) Answers(_ context.Context, id string) bool { return p.up[id] }
func (p probes) knows(_ context.Context, id string) ([]string, error) {
	known, ok := p.configs[id]
	if !ok {
		return nil, errors.New("no answer")
	}
	return known, nil
}

var testTiming = Timing{StableFor: 3 * time.Second, GoneFor: 10 * time.Second}

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
// another cluster, a tilde one that does not want to vote, a hash one whose
// disk is nearly full, a percent sign one that is slow, and a caret one that leaves.
func alive(list string) []cluster.Member {
	var out []cluster.Member
	for id := range strings.FieldsSeq(list) {
		m := cluster.Member{Meta: cluster.Meta{ServerID: strings.Trim(id, "?!@~#%^"), ClusterID: "c"}}
		if strings.HasSuffix(id, "?") {
			m.ClusterID, m.Fresh = "", true
		}
		if strings.HasSuffix(id, "!") {
			m.ClusterID = ""
		}
		if strings.HasSuffix(id, "@") {
			m.ClusterID = "d"
		}
		m.NonVoter, m.DiskLow, m.Slow, m.Leaving = strings.HasSuffix(id, "~"), strings.HasSuffix(id, "#"), strings.HasSuffix(id, "%"), strings.HasSuffix(id, "^")
		m.NodeName = NameOf(m.ServerID)
		out = append(out, m)
	}
	return out
}

// healthOfAll returns the health of a configuration: who is alive and does not lag is
// healthy, since the given time.
func healthOfAll(config []raft.Server, members []cluster.Member, lagging string, since time.Time) (h Health) {
	for i, s := range config {
		id := string(s.ID)
		alive := slices.ContainsFunc(members, func(m cluster.Member) bool { return m.ServerID == id })
		healthy := alive && !slices.Contains(strings.Fields(lagging), id)
		h = append(h, ServerHealth{
			ID: id, Voter: s.Suffrage == raft.Voter, Alive: alive, Healthy: healthy, StableSince: since, LastIndex: uint64(100 - i),
		})
	}
	slices.SortFunc(h, func(a, b ServerHealth) int { return strings.Compare(a.ID, b.ID) })
	return h
}

// planSeconds is for how long TestPlan asks each planner.
const planSeconds = 80

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name    string
		servers string
		alive   string
		up      string // ids that answer though gossip does not know them
		lagging string // ids that are alive but not healthy
		index   uint64 // of the configuration
		deadFor int    // seconds
		configs map[string][]string
		at      map[int]change // by second; no change at other times
	}{
		{name: "all is well", servers: "a-1 b-1 c-1", alive: "a-1 b-1 c-1"},
		{name: "gossip alone removes nobody", servers: "a-1 b-1 (c-1)", alive: "a-1"},
		{name: "new node", servers: "a-1", alive: "a-1 b-1?", at: every(change{add: "b-1"})},
		{name: "new node, and a full disk", servers: "a-1", alive: "a-1# b-1?"},
		{name: "new node, and another voter has space", servers: "a-1 c-1", alive: "a-1# c-1 b-1?", at: from(3, change{lead: "c-1"})},
		{name: "promotion", servers: "a-1 (b-1)", alive: "a-1 b-1", at: from(3, change{promote: "b-1"})},
		{name: "has the configuration", servers: "a-1 (b-1)", alive: "a-1 b-1", index: 99, at: from(3, change{promote: "b-1"})},
		{name: "lacks the configuration", servers: "a-1 (b-1)", alive: "a-1 b-1", index: 100},
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
		{name: "replacement", servers: "a-1 b-1 c-1 (b-2)", alive: "a-1 c-1 b-2", at: from(10, change{promote: "b-2", remove: "b-1", reason: replaced})},
		{name: "replacement of one that answers", servers: "a-1 b-1 c-1 (b-2)", alive: "a-1 c-1 b-2", up: "b-1"},
		{name: "left by a lost leader", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1 b-2", at: from(10, change{remove: "b-1", reason: replaced})},
		{name: "new one died instead", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1 b-1", at: from(10, change{remove: "b-2", reason: replaced})},
		{name: "both died", servers: "a-1 b-1 c-1 b-2", alive: "a-1 c-1"},
		{name: "old non-voter of the name", servers: "a-1 (b-1) (b-2)", alive: "a-1 b-2", lagging: "b-2", at: from(10, change{remove: "b-1", reason: replaced})},
		{name: "three voters stay", servers: "a-1 b-1 c-1", alive: "a-1 b-1", deadFor: 15},
		{name: "a fourth that is dead", servers: "a-1 b-1 c-1 d-1", alive: "a-1 b-1 c-1", deadFor: 15, at: from(15, change{remove: "d-1", reason: dead15})},
		{name: "a fourth that answers", servers: "a-1 b-1 c-1 d-1", alive: "a-1 b-1 c-1", up: "d-1", deadFor: 15},
		{name: "dead servers are to stay", servers: "a-1 b-1 c-1 d-1", alive: "a-1 b-1 c-1"},
		{name: "one of two", servers: "a-1 b-1 c-1 d-1 e-1", alive: "a-1 b-1 c-1", deadFor: 15, at: from(15, change{remove: "d-1", reason: dead15})},
		{name: "no quorum would stay", servers: "a-1 b-1 c-1 d-1 e-1", alive: "a-1 b-1", deadFor: 15},
		{name: "no healthy quorum would stay", servers: "a-1 b-1 c-1 d-1 e-1", alive: "a-1 b-1 c-1", lagging: "c-1", deadFor: 15},
		{name: "a dead one without a vote", servers: "a-1 b-1 c-1 (d-1)", alive: "a-1 b-1", deadFor: 15, at: from(15, change{remove: "d-1", reason: dead15})},
		{name: "no vote any more", servers: "a-1 b-1 c-1 d-1", alive: "a-1 b-1 c-1 d-1~", at: every(change{demote: "d-1"})},
		{name: "its vote is needed", servers: "a-1 b-1 c-1", alive: "a-1 b-1 c-1~"},
		{name: "its vote is needed for a quorum", servers: "a-1 b-1 c-1 d-1", alive: "a-1 b-1 d-1~", lagging: "b-1"},
		{name: "the leader wants no vote any more", servers: "a-1 b-1 c-1 d-1", alive: "a-1~ b-1 c-1 d-1", at: from(3, change{lead: "b-1"})},
		{name: "leader with a full disk", servers: "a-1 b-1 c-1 d-1", alive: "a-1# b-1# c-1# d-1", at: from(3, change{lead: "d-1"})},
		{name: "leader with a full disk, others slow", servers: "a-1 b-1 c-1", alive: "a-1# b-1% c-1", at: from(3, change{lead: "c-1"})},
		{name: "leader with a full disk, all others slow", servers: "a-1 b-1 c-1", alive: "a-1# b-1% c-1%", at: from(3, change{lead: "b-1"})},
		{name: "slow leader", servers: "a-1 b-1 c-1 d-1", alive: "a-1% b-1^ c-1# d-1", at: tries("d-1", 3, 3, 5, 9, 17, 33)},
		{name: "slow leader, another is slow", servers: "a-1 b-1 c-1", alive: "a-1% b-1% c-1", at: tries("c-1", 60)},
		{name: "slow leader that lags", servers: "a-1 b-1 c-1", alive: "a-1% b-1 c-1", lagging: "a-1 b-1", at: from(3, change{lead: "c-1"})},
		{name: "slow leader, others lag", servers: "a-1 b-1 c-1", alive: "a-1% b-1 c-1", lagging: "b-1 c-1"},
		{name: "all are slow", servers: "a-1 b-1 c-1", alive: "a-1% b-1% c-1%"},
		{name: "no disk has space", servers: "a-1 b-1 c-1", alive: "a-1# b-1# c-1#"},
		{name: "unhealthy leader", servers: "a-1 b-1 c-1", alive: "a-1 b-1 c-1", lagging: "a-1 b-1", at: from(3, change{lead: "c-1"})},
		{name: "nobody healthier", servers: "a-1 b-1 c-1 (d-1)", alive: "a-1 b-1 c-1 d-1~", lagging: "a-1 b-1 c-1"},
		{name: "enough voters", servers: "a-1 b-1 c-1 d-1 e-1 f-1 g-1 h-1 i-1 (j-1)", alive: "a-1 b-1 c-1 d-1 e-1 f-1 g-1 h-1 i-1 j-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pr := probes{up: map[string]bool{}, configs: tt.configs}
			for id := range strings.FieldsSeq(tt.up) {
				pr.up[id] = true
			}
			p := newPlanner("a-1", pr, testTiming, time.Duration(tt.deadFor)*time.Second, quiet())
			start, config, members := time.Now(), servers(tt.servers), alive(tt.alive)
			health := healthOfAll(config, members, tt.lagging, start)
			for second := range planSeconds {
				now := start.Add(time.Duration(second) * time.Second)
				sit := situation{now: now, cluster: "c", members: members, servers: config, index: tt.index, health: health}
				got := p.plan(t.Context(), sit)
				check.Equal(t, got, tt.at[second], "after %d s", second)
			}
		})
	}
}

// TestRejectionsOutliveThePlan: what was published of a plan is read by others while
// the next plan is made.
func TestRejectionsOutliveThePlan(t *testing.T) {
	p := newPlanner("a-1", probes{}, testTiming, 0, quiet())
	config := servers("a-1 b-1")
	plan := func(members []cluster.Member) {
		p.plan(t.Context(), situation{now: time.Now(), cluster: "c", members: members, servers: config, health: healthOfAll(config, members, "", time.Now())})
	}
	plan(alive("a-1 b-1 b-2?"))
	published := p.rejected
	plan(alive("a-1 b-1"))
	if now := p.rejected; len(published) != 1 || len(now) != 0 {
		t.Errorf("the first plan rejected %v, after the second %v", published, now)
	}
}

// TestPlanSaysWhomItRejects: a node that is not taken in learns what to do.
func TestPlanSaysWhomItRejects(t *testing.T) {
	for _, tt := range []struct {
		name    string
		alive   string
		configs map[string][]string
		format  int    // of the cluster; nodes know format 1
		want    string // of b-2's rejection; empty means that it is added
	}{
		{"same name", "a-1 b-1 b-2?", nil, 1, "b-1 is a member and has the same name; give this node another --node-id"},
		{"forms another", "a-1 b-2!", map[string][]string{"b-2": {"b-2", "x-1"}}, 1, "empty its data directory"},
		{"out of reach", "a-1 b-2!", nil, 1, "--cluster-advertise"},
		{"too old", "a-1 b-2?", nil, 2, "run a newer version of this program: format 2, and this one knows up to 1"},
		{"too old for its own cluster", "a-1 b-2", nil, 2, "run a newer version"},
		{"taken in", "a-1 b-2?", nil, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlanner("a-1", probes{configs: tt.configs}, testTiming, 0, quiet())
			config, members := servers("a-1 b-1"), alive(tt.alive)
			next := p.plan(t.Context(), situation{
				now: time.Now(), cluster: "c", format: tt.format, members: members, servers: config, health: healthOfAll(config, members, "", time.Now()),
			})
			check.Equal(t, next.add == "", tt.want != "", "the plan is %+v", next)
			if got := p.rejected["b-2"]; (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || len(p.rejected) > 1 {
				t.Errorf("rejected: %v, want %q", p.rejected, tt.want)
			}
		})
	}
}

const dead15 = "it has been dead for 15s"

func every(c change) map[int]change { return from(0, c) }

// from expects a change at every second from the first on.
func from(first int, c change) map[int]change {
	at := map[int]change{}
	for s := first; s < planSeconds; s++ {
		at[s] = c
	}
	return at
}

// tries expects that a slow leader tries to give way after so many seconds each.
func tries(to string, after ...int) map[int]change {
	at, s := map[int]change{}, 0
	for _, seconds := range after {
		s += seconds
		at[s] = change{lead: to, reason: tooSlow}
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
		p := newPlanner("a-1", nil, testTiming, 20*time.Second, quiet())
		now, serial := time.Now(), 1
		since := now // an approximation: everybody alive has been healthy from the beginning
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
			name := rapid.SampledFrom([]string{"b", "c", "d", "e"}).Draw(t, "name")
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
			pr := probes{up: map[string]bool{}}
			var members []cluster.Member
			for _, id := range running {
				if id != "" {
					members = append(members, alive(id)...)
					pr.up[id] = true
				}
			}
			p.probe = pr
			before := votersOf(config)
			c := p.plan(context.Background(), situation{
				now: now, cluster: "c", members: members, servers: config, health: healthOfAll(config, members, "", since),
			})
			if c.remove != "" && pr.up[c.remove] {
				t.Fatalf("%s is alive and was removed", c.remove)
			}
			config = apply(config, c)
			after, names := votersOf(config), map[string]int{}
			for _, id := range after {
				names[NameOf(id)]++
			}
			for name, n := range names {
				if n > 1 {
					t.Fatalf("%d voters are called %s: %v", n, name, config)
				}
			}
			if len(after) < len(before) && len(after) < minVoters {
				t.Fatalf("voters were %v and are %v", before, after)
			}
			living := slices.DeleteFunc(slices.Clone(after), func(id string) bool { return !pr.up[id] })
			if len(after) < len(before) && len(living) <= len(after)/2 {
				t.Fatalf("a voter was removed while of %v only %v were alive", after, living)
			}
		}
	})
}

// votersOf returns the ids of a configuration's voters.
func votersOf(config []raft.Server) []string {
	var ids []string
	for _, s := range config {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
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

func TestNameOf(t *testing.T) {
	for id, want := range map[string]string{"n1-abc": "n1", "a-b-c": "a-b", "n1": "n1", "-x": "-x"} {
		check.Equal(t, NameOf(id), want, "NameOf(%q)", id)
	}
}
