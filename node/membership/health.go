package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/admin"
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

// Health returns the servers' health as this node sees it. Only a leader has one.
func (ms *Membership) Health() (h admin.Health, leading bool) {
	if health := ms.health.Load(); health != nil {
		return *health, true
	}
	return admin.Health{}, false
}

// rateHealth rates the health of the servers, for as long as this node leads.
func (ms *Membership) rateHealth(ctx context.Context) {
	health := admin.Health{}
	ms.health.Store(new(health)) // a copy: readers keep it
	defer ms.health.Store(nil)
	ms.wakeReconciler()
	maxContact := max(contactHeartbeats*ms.cfg.Heartbeat, minContact)
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		begun, leader := time.Now(), ms.stats()
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
func (ms *Membership) survey(ctx context.Context, own statsAnswer) []admin.ServerHealth {
	servers := ms.cfg.Raft.Servers()
	found := make([]admin.ServerHealth, len(servers))
	var asked sync.WaitGroup
	for i, s := range servers {
		asked.Go(func() {
			id := string(s.ID)
			member, alive := ms.cfg.Gossip.Member(id)
			answer := own
			if id != ms.cfg.ServerID {
				var err error
				if answer, err = ms.statsOf(ctx, id); err != nil {
					answer = statsAnswer{ContactMs: -1}
				}
			}
			found[i] = admin.ServerHealth{
				ID: id, Name: NameOf(id), Leader: id == ms.cfg.ServerID, Voter: s.Suffrage == raft.Voter,
				Alive: alive || id == ms.cfg.ServerID, LastContactMs: answer.ContactMs,
				LastTerm: answer.LastTerm, LastIndex: min(answer.LastLog, answer.Applied), Version: member.Version,
			}
		})
	}
	asked.Wait()
	return found
}

// rate rates the servers that were found, by the position of the leader. A server is stable
// since the rating that changed its health, counted from the former result.
func rate(servers []admin.ServerHealth, former admin.Health, leader statsAnswer, maxContact time.Duration, now time.Time) admin.Health {
	h := admin.Health{Healthy: true, Servers: servers}
	voters, healthy := 0, 0
	for i := range servers {
		s := &servers[i]
		if !s.Alive {
			s.LastContactMs = -1
		}
		s.Healthy = s.LastContactMs >= 0 && s.LastContactMs <= maxContact.Milliseconds() &&
			s.LastTerm == leader.LastTerm && leader.LastTerm > 0 && s.LastIndex+maxTrailing >= leader.LastLog
		s.StableSince.Time = now
		if was, known := former.Server(s.ID); known && was.Healthy == s.Healthy {
			s.StableSince = was.StableSince
		}
		h.Healthy = h.Healthy && s.Healthy
		if s.Voter {
			voters++
			if s.Healthy {
				healthy++
			}
		}
	}
	h.FailureTolerance = max(healthy-voters/2-1, 0)
	slices.SortFunc(servers, func(a, b admin.ServerHealth) int { return cmp.Compare(a.ID, b.ID) })
	return h
}
