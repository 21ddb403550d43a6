package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/loop"
)

// The limits of a healthy server.
const (
	maxTrailing = 256 // the maximum number of log entries that a server is behind the leader
	// contactHeartbeats is the maximum time without contact with the leader, in heartbeats,
	// and at least minContact.
	contactHeartbeats = 4
	minContact        = time.Second
)

// ServerHealth is the leader's view of one server in Raft's configuration.
type ServerHealth struct {
	ID            string
	Voter         bool
	Alive         bool // according to gossip
	Healthy       bool
	StableSince   time.Time // when Healthy last changed, or this leader's first check
	LastContactMs int64     // since it heard from the leader; -1 if it does not answer
	LastTerm      uint64    // of its newest log entry
	LastIndex     uint64    // up to which it has logged and applied
}

// Stable reports whether the server has been healthy for a time.
func (s ServerHealth) Stable(now time.Time, since time.Duration) bool {
	return s.Healthy && now.Sub(s.StableSince) >= since
}

// Health is the leader's view of all servers, ordered by id.
type Health []ServerHealth

// Server returns the health of one server.
func (h Health) Server(id string) (ServerHealth, bool) {
	i, found := slices.BinarySearchFunc(h, id, func(s ServerHealth, id string) int { return cmp.Compare(s.ID, id) })
	if !found {
		return ServerHealth{}, false
	}
	return h[i], true
}

// Health returns the servers' health as this node sees it. Only a leader has one.
func (ms *Membership) Health() (h Health, leading bool) {
	if health := ms.health.Load(); health != nil {
		return *health, true
	}
	return nil, false
}

// rateHealth rates the health of the servers, for as long as this node leads.
func (ms *Membership) rateHealth(ctx context.Context) {
	health := Health{}
	ms.health.Store(new(health)) // a copy: readers keep it
	defer ms.health.Store(nil)
	loop.Wake(ms.reconcileNow)
	maxContact := max(contactHeartbeats*ms.cfg.Heartbeat, minContact)
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		begun, leader := time.Now(), ms.aboutPeer(ms.cfg.ServerID)
		servers := ms.survey(ctx, leader)
		if len(servers) == 0 || ctx.Err() != nil {
			return // Raft or the leadership ends
		}
		health = rate(servers, health, leader, maxContact, begun)
		ms.health.Store(new(health))
	})
}

// survey asks every server of the configuration for its position. The servers that gossip
// has are alive.
func (ms *Membership) survey(ctx context.Context, own peerAnswer) Health {
	servers := ms.cfg.Raft.Servers()
	found := make(Health, len(servers))
	var asked sync.WaitGroup
	for i, s := range servers {
		asked.Go(func() {
			id := string(s.ID)
			_, alive := ms.cfg.Gossip.Member(id)
			answer := own
			if id != ms.cfg.ServerID {
				var err error
				if answer, err = ms.peer(ctx, id); err != nil {
					answer = peerAnswer{ContactMs: -1}
				}
			}
			found[i] = ServerHealth{
				ID: id, Voter: s.Suffrage == raft.Voter, Alive: alive || id == ms.cfg.ServerID,
				LastContactMs: answer.ContactMs, LastTerm: answer.LastTerm, LastIndex: min(answer.LastLog, answer.Applied),
			}
		})
	}
	asked.Wait()
	return found
}

// rate rates the servers that were found, by the position of the leader. A server is stable
// since the rating that changed its health, counted from the former result.
func rate(servers, former Health, leader peerAnswer, maxContact time.Duration, now time.Time) Health {
	for i := range servers {
		s := &servers[i]
		if !s.Alive {
			s.LastContactMs = -1
		}
		s.Healthy = s.LastContactMs >= 0 && s.LastContactMs <= maxContact.Milliseconds() &&
			s.LastTerm == leader.LastTerm && leader.LastTerm > 0 && s.LastIndex+maxTrailing >= leader.LastLog
		s.StableSince = now
		if was, known := former.Server(s.ID); known && was.Healthy == s.Healthy {
			s.StableSince = was.StableSince
		}
	}
	slices.SortFunc(servers, func(a, b ServerHealth) int { return cmp.Compare(a.ID, b.ID) })
	return servers
}
