package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/commons-cluster/commons/node/admin"
)

// What a healthy server may lack.
const (
	// maxTrailing is how many log entries a server may be behind the leader and
	// still count as caught up.
	maxTrailing = 256
	// contactHeartbeats is how many heartbeats long a server may not have heard
	// from the leader.
	contactHeartbeats = 4
)

// rateHealth lets raft-autopilot rate the health of the servers, for as long as this node leads.
// The library changes nothing: the planner decides what follows.
func (ms *Membership) rateHealth(ctx context.Context) {
	pilot := autopilot.New(ms.cfg.Raft.Raft, &surveyor{ms, ctx},
		autopilot.WithLogger(hclog.NewNullLogger()), // it has to say only that Raft was shut down
		autopilot.WithReconciliationDisabled(),
		autopilot.WithUpdateInterval(ms.cfg.ReconcileInterval))
	pilot.Start(ctx)
	ms.pilot.Store(pilot)
	ms.wakeReconciler()
	<-ctx.Done()
	ms.pilot.Store(nil)
	<-pilot.Stop()
}

// surveyor answers autopilot's questions.
type surveyor struct {
	ms  *Membership
	ctx context.Context // ends with the leadership
}

var _ autopilot.ApplicationIntegration = (*surveyor)(nil)

// AutopilotConfig says what is healthy.
func (s *surveyor) AutopilotConfig() *autopilot.Config {
	return &autopilot.Config{
		LastContactThreshold:    max(contactHeartbeats*s.ms.cfg.Heartbeat, time.Second),
		MaxTrailingLogs:         maxTrailing,
		ServerStabilizationTime: s.ms.cfg.StableFor,
	}
}

// KnownServers returns the servers of the configuration; those that gossip knows
// are alive.
func (s *surveyor) KnownServers() map[raft.ServerID]*autopilot.Server {
	known := map[raft.ServerID]*autopilot.Server{}
	for _, server := range s.ms.cfg.Raft.Servers() {
		id := string(server.ID)
		status := autopilot.NodeFailed
		member, alive := s.ms.cfg.Gossip.Member(id)
		if alive || id == s.ms.cfg.ServerID {
			status = autopilot.NodeAlive
		}
		known[server.ID] = &autopilot.Server{
			ID: server.ID, Address: server.Address, Name: NameOf(id), NodeStatus: status,
			Version: member.Version, IsLeader: id == s.ms.cfg.ServerID,
		}
	}
	return known
}

// FetchServerStats asks every server how far it is. A server that does not answer
// is said to have no contact: autopilot would else go on with its last answer.
// The library allows half its interval for this, which is too short for a busy
// node.
func (s *surveyor) FetchServerStats(_ context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	var (
		asked sync.WaitGroup
		mu    sync.Mutex
		stats = make(map[raft.ServerID]*autopilot.ServerStats, len(servers))
	)
	for id := range servers {
		asked.Go(func() {
			answer := s.ask(string(id))
			mu.Lock()
			defer mu.Unlock()
			stats[id] = answer
		})
	}
	asked.Wait()
	return stats
}

func (s *surveyor) ask(id string) *autopilot.ServerStats {
	if id == s.ms.cfg.ServerID {
		return s.ms.stats().forAutopilot()
	}
	answer, err := s.ms.statsOf(s.ctx, id)
	if err != nil {
		return &autopilot.ServerStats{LastContact: -1}
	}
	return answer.forAutopilot()
}

// forAutopilot counts as a server's log only what it has applied, too.
func (a statsAnswer) forAutopilot() *autopilot.ServerStats {
	return &autopilot.ServerStats{
		LastContact: time.Duration(a.ContactMs) * time.Millisecond,
		LastTerm:    a.LastTerm, LastIndex: min(a.LastLog, a.Applied),
	}
}

// NotifyState implements autopilot.ApplicationIntegration.
func (s *surveyor) NotifyState(*autopilot.State) {}

// RemoveFailedServer implements autopilot.ApplicationIntegration. It is not
// called: the planner removes servers.
func (s *surveyor) RemoveFailedServer(*autopilot.Server) {}

// Health returns the servers' health as this node sees it. Only a leader has one.
func (ms *Membership) Health() (h admin.Health, leading bool) {
	if pilot := ms.pilot.Load(); pilot != nil {
		return healthOf(pilot.GetState()), true
	}
	return admin.Health{}, false
}

// healthOf puts the library's result in our own terms.
func healthOf(state *autopilot.State) admin.Health {
	h := admin.Health{Healthy: state.Healthy, FailureTolerance: state.FailureTolerance}
	for id, s := range state.Servers {
		contact := s.Stats.LastContact.Milliseconds()
		if s.Server.NodeStatus != autopilot.NodeAlive || s.Stats.LastContact < 0 {
			contact = -1
		}
		h.Servers = append(h.Servers, admin.ServerHealth{
			ID: string(id), Name: NameOf(string(id)), Leader: s.State == autopilot.RaftLeader, Voter: s.HasVotingRights(),
			Alive: s.Server.NodeStatus == autopilot.NodeAlive, Healthy: s.Health.Healthy, StableSince: admin.Instant{Time: s.Health.StableSince},
			LastContactMs: contact, LastTerm: s.Stats.LastTerm, LastIndex: s.Stats.LastIndex, Version: s.Server.Version,
		})
	}
	slices.SortFunc(h.Servers, func(a, b admin.ServerHealth) int { return cmp.Compare(a.ID, b.ID) })
	return h
}
