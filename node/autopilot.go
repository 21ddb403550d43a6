package node

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"
)

// judge lets raft-autopilot judge the servers, for as long as this node leads.
// The library changes nothing: what follows from its judgement is the planner's.
func (n *Node) judge(ctx context.Context) {
	pilot := autopilot.New(n.raft.Raft, &surveyor{n, ctx},
		autopilot.WithLogger(hclog.NewNullLogger()), // it has to say only that Raft was shut down
		autopilot.WithReconciliationDisabled(),
		autopilot.WithUpdateInterval(n.cfg.Tuning.ReconcileInterval))
	pilot.Start(ctx)
	n.pilot.Store(pilot)
	n.wakeReconciler()
	<-ctx.Done()
	n.pilot.Store(nil)
	<-pilot.Stop()
}

// surveyor tells autopilot what it asks for.
type surveyor struct {
	n   *Node
	ctx context.Context // ends with the leadership
}

var _ autopilot.ApplicationIntegration = (*surveyor)(nil)

// AutopilotConfig says what is healthy.
func (s *surveyor) AutopilotConfig() *autopilot.Config {
	return &autopilot.Config{
		LastContactThreshold:    max(contactHeartbeats*s.n.cfg.Heartbeat, time.Second),
		MaxTrailingLogs:         maxTrailing,
		ServerStabilizationTime: s.n.cfg.Tuning.StableFor,
	}
}

// KnownServers returns the servers of the configuration; those that gossip knows
// are alive.
func (s *surveyor) KnownServers() map[raft.ServerID]*autopilot.Server {
	known := map[raft.ServerID]*autopilot.Server{}
	for _, server := range s.n.raft.Servers() {
		id := string(server.ID)
		status := autopilot.NodeFailed
		member, alive := s.n.gossip.Member(id)
		if alive || id == s.n.identity.ServerID {
			status = autopilot.NodeAlive
		}
		known[server.ID] = &autopilot.Server{
			ID: server.ID, Address: server.Address, Name: nameOf(id), NodeStatus: status,
			Version: member.Version, IsLeader: id == s.n.identity.ServerID,
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
	if id == s.n.identity.ServerID {
		return s.n.stats().forAutopilot()
	}
	answer, err := ask[statsAnswer](s.ctx, s.n.port.Client(), id, pathStats)
	if err != nil || answer.ID != id {
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
