package membership

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/consensus"
)

const (
	maxVoters = 9 // bounds the voters: each additional one makes every write slower
	minVoters = 3 // that stay when dead ones are removed: with fewer the loss of one more stops all writes
	// slowPatience is for how long a leader is slow before it transfers leadership: if all
	// voters become slow, this is known by then. After a failed transfer it waits as long
	// before it tries again, then twice as long each time.
	slowPatience = 2 * time.Second
	// slowPause is the longest wait, and the first one if another voter is slow, too, or
	// was in the last minute: leading itself may make a node slow.
	slowPause = time.Minute
)

// change is the next change of a planner, with its steps in this order. Empty fields
// are no steps.
type change struct {
	add     string // becomes a server without a vote
	promote string // gets its vote
	demote  string // loses its vote
	remove  string // leaves
	reason  string // it is removed, or another leads
	lead    string // leads from now on
}

// Reasons of changes.
const (
	replaced = "another of its name has its place"
	tooSlow  = "this node is slow, and that one is not"
)

// prober asks other nodes for what gossip does not have.
type prober interface {
	Answers(ctx context.Context, id string) bool
	knows(ctx context.Context, id string) ([]string, error)
}

// planner decides on changes of the configuration. It is used for one term of a leader
// and by one goroutine.
type planner struct {
	self      string
	probe     prober
	stableFor time.Duration
	goneFor   time.Duration
	deadFor   time.Duration // 0: dead servers stay
	logger    *slog.Logger

	seen     map[string]time.Time // when a server was last alive in gossip
	slow     time.Time            // since when this node was seen to be slow; zero: it is not, or it has just tried to give way
	pause    time.Duration        // until it tries that again, 0 before the first try
	warned   map[string]bool
	rejected map[string]string // why the newest plan rejected live nodes, by id; each plan makes a new map
}

// newPlanner returns a planner for the server self. deadFor is how long a server
// is dead before it is removed; 0 keeps it.
func newPlanner(self string, probe prober, t Timing, deadFor time.Duration, logger *slog.Logger) *planner {
	return &planner{
		self: self, probe: probe, stableFor: t.StableFor, goneFor: t.GoneFor, deadFor: deadFor, logger: logger,
		seen: map[string]time.Time{}, warned: map[string]bool{},
	}
}

type situation struct {
	now     time.Time
	cluster string // its id
	format  int    // of its log
	members []cluster.Member
	servers []raft.Server
	index   uint64 // of the configuration that has these servers
	health  Health
	alive   map[string]cluster.Member // members by id
}

// plan returns the next change. The zero value means that the configuration is right.
func (p *planner) plan(ctx context.Context, sit situation) change {
	sit.alive = make(map[string]cluster.Member, len(sit.members))
	for _, m := range sit.members {
		sit.alive[m.ServerID] = m
	}
	p.remember(&sit)
	p.rejected = map[string]string{}
	if sit.alive[p.self].DiskLow { // another leader makes the changes
		return p.succession(&sit)
	}
	if old := p.superseded(ctx, &sit); old != "" {
		return change{remove: old, reason: replaced}
	}
	for _, m := range sit.members {
		if !consensus.Contains(sit.servers, m.ServerID) && p.mayAdd(ctx, &sit, m) {
			return change{add: m.ServerID}
		}
	}
	for _, s := range sit.servers {
		id := string(s.ID)
		// A server without a vote gets one if it wants it, is alive, has been healthy for long
		// enough, and has the configuration. With an older one it would reject candidates that
		// it does not know; if its vote is needed, there is no leader again.
		m, alive := sit.alive[id]
		h, _ := sit.health.Server(id)
		if s.Suffrage == raft.Voter || !alive || m.NonVoter || !h.Stable(sit.now, p.stableFor) || h.LastIndex < sit.index {
			continue
		}
		if old, ok := p.mayVote(ctx, &sit, id); ok {
			c := change{promote: id, remove: old}
			if old != "" {
				c.reason = replaced
			}
			return c
		}
	}
	if id := p.unwilling(ctx, &sit); id != "" {
		return change{demote: id}
	}
	if dead := p.dead(ctx, &sit); dead != "" {
		return change{remove: dead, reason: fmt.Sprintf("it has been dead for %v", p.deadFor)}
	}
	return p.succession(&sit)
}

func (p *planner) remember(sit *situation) {
	for id := range sit.alive {
		p.seen[id] = sit.now
	}
	for _, s := range sit.servers {
		if _, ok := p.seen[string(s.ID)]; !ok {
			p.seen[string(s.ID)] = sit.now // not seen yet, but this leader has only just begun to look
		}
	}
	for id := range p.seen {
		if _, alive := sit.alive[id]; !alive && !consensus.Contains(sit.servers, id) {
			delete(p.seen, id)
		}
	}
}

// mayAdd reports whether a live node outside of the configuration may be added.
func (p *planner) mayAdd(ctx context.Context, sit *situation, m cluster.Member) bool {
	if m.Leaving || m.ClusterID != "" && m.ClusterID != sit.cluster {
		return false
	}
	if err := command.CheckFormat(sit.format, max(m.Format, command.InitialFormat)); err != nil {
		p.rejected[m.ServerID] = err.Error()
		if p.firstTime(m.ServerID) {
			p.logger.WarnContext(ctx, "a node is not taken in: its program is too old", "server", m.ServerID, "version", m.Version, "error", err)
		}
		return false
	}
	for _, s := range sit.servers {
		id := string(s.ID)
		if _, alive := sit.alive[id]; alive && NameOf(id) == NameOf(m.ServerID) {
			p.rejected[m.ServerID] = id + " is a member and has the same name; give this node another --node-id, or end the other one for good"
			if p.firstTime(m.ServerID) {
				p.logger.WarnContext(ctx, "two nodes run under one name; give one another --node-id, or stop the one that is not a member",
					"name", NameOf(id), "member", id, "other", m.ServerID)
			}
			return false
		}
	}
	if m.ClusterID != "" || m.Fresh {
		return true
	}
	// It has state but no cluster id: either another cluster is just being formed, or this
	// one's former leader was lost while it added the node.
	known, err := p.probe.knows(ctx, m.ServerID)
	if err != nil {
		p.rejected[m.ServerID] = "its private port does not answer the leader; look at its --cluster-advertise and at the firewall"
		return false
	}
	if len(known) > 0 && !slices.ContainsFunc(known, func(id string) bool { return consensus.Contains(sit.servers, id) }) {
		p.rejected[m.ServerID] = "it has begun to form another cluster; empty its data directory and start it again"
		return false
	}
	return true
}

// mayVote reports whether a server may be promoted, and which voter of the same name,
// which has left for good, it replaces.
func (p *planner) mayVote(ctx context.Context, sit *situation, id string) (old string, ok bool) {
	voters := 0
	for _, s := range sit.servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if other := string(s.ID); NameOf(other) == NameOf(id) {
			if old != "" || !p.hasLeft(ctx, sit, other) {
				return "", false
			}
			old = other
		}
	}
	if old == "" && voters >= maxVoters {
		if p.firstTime(id) {
			p.logger.WarnContext(ctx, "a server stays without a vote: there are enough voters", "server", id, "voters", voters)
		}
		return "", false
	}
	return old, true
}

// superseded returns a server that has left and was replaced by a live one of the same
// name. It is still there if a leader was lost between the promotion of the new server
// and the removal of the old one.
func (p *planner) superseded(ctx context.Context, sit *situation) string {
	for _, old := range sit.servers {
		for _, other := range sit.servers {
			_, alive := sit.alive[string(other.ID)]
			outranked := other.Suffrage == raft.Voter || old.Suffrage != raft.Voter
			if other.ID != old.ID && NameOf(string(other.ID)) == NameOf(string(old.ID)) && alive && outranked &&
				p.hasLeft(ctx, sit, string(old.ID)) {
				return string(old.ID)
			}
		}
	}
	return ""
}

// hasLeft reports whether a server has left for good: it is out of gossip for a
// while, and does not answer.
func (p *planner) hasLeft(ctx context.Context, sit *situation, id string) bool {
	if _, alive := sit.alive[id]; alive || id == p.self {
		return false
	}
	return sit.now.Sub(p.seen[id]) >= p.goneFor && !p.probe.Answers(ctx, id)
}

// mayLose reports whether a voter may go: at least minVoters stay, and of those
// a quorum is healthy.
func (p *planner) mayLose(sit *situation, id string) bool {
	left, healthy := Without(sit.servers, id, func(id string) bool {
		h, _ := sit.health.Server(id)
		return h.Healthy
	})
	return left >= minVoters && Decides(healthy, left)
}

// unwilling returns a voter that was restarted as a non-voter.
func (p *planner) unwilling(ctx context.Context, sit *situation) string {
	for _, s := range sit.servers {
		id := string(s.ID)
		if s.Suffrage != raft.Voter || !sit.alive[id].NonVoter || id == p.self {
			continue
		}
		if p.mayLose(sit, id) {
			return id
		}
		if p.firstTime(id) {
			p.logger.WarnContext(ctx, "a server that does not want to vote keeps its vote: too few voters would stay", "server", id)
		}
	}
	return ""
}

// dead returns a server that has been dead for longer than deadFor and may be removed.
func (p *planner) dead(ctx context.Context, sit *situation) string {
	if p.deadFor == 0 {
		return ""
	}
	for _, s := range sit.servers {
		id := string(s.ID)
		if s.Suffrage == raft.Voter && !p.mayLose(sit, id) || sit.now.Sub(p.seen[id]) < p.deadFor {
			continue
		}
		if p.hasLeft(ctx, sit, id) {
			return id
		}
	}
	return ""
}

// succession transfers leadership to another server if this node is not fit to lead and
// the other one is. A slow server takes over only if all fit ones are slow, and never
// because this node is slow.
func (p *planner) succession(sit *situation) (next change) {
	health, known := sit.health.Server(p.self)
	own := sit.alive[p.self]
	unfit := known && !health.Healthy && sit.now.Sub(health.StableSince) >= p.stableFor || own.NonVoter || own.DiskLow
	slow := p.slowForLong(sit)
	if !unfit && !slow {
		return next
	}
	best, bestSlow := ServerHealth{}, true
	for _, s := range sit.health {
		m := sit.alive[s.ID]
		if !s.Voter || s.ID == p.self || !s.Stable(sit.now, p.stableFor) || m.NonVoter || m.DiskLow || m.Leaving || m.Slow && !unfit {
			continue
		}
		if bestSlow && !m.Slow || bestSlow == m.Slow && s.LastIndex > best.LastIndex {
			best, bestSlow = s, m.Slow
		}
	}
	if next.lead = best.ID; best.ID != "" && !unfit {
		next.reason = tooSlow
		// The pause begins with the next plan, when this try is over.
		p.slow, p.pause = time.Time{}, min(max(slowPatience, 2*p.pause), slowPause)
	}
	return next
}

// slowForLong reports whether this node has been slow for long enough to transfer
// leadership.
func (p *planner) slowForLong(sit *situation) bool {
	switch {
	case !sit.alive[p.self].Slow:
		p.slow, p.pause = time.Time{}, 0
	case p.slow.IsZero():
		p.slow = sit.now
	}
	patience := cmp.Or(p.pause, slowPatience)
	if slices.ContainsFunc(sit.health, func(s ServerHealth) bool { return s.Voter && s.ID != p.self && sit.alive[s.ID].Slow }) {
		patience = slowPause
	}
	return !p.slow.IsZero() && sit.now.Sub(p.slow) >= patience
}

// firstTime reports whether a lasting obstacle has not been reported yet.
func (p *planner) firstTime(key string) bool {
	was := p.warned[key]
	p.warned[key] = true
	return !was
}

// NameOf returns the node name in a server id.
func NameOf(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}
