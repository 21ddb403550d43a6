package node

import (
	"context"
	"net/http"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"

	"github.com/commons-cluster/commons/node/health"
)

// reportTimeout bounds the wait for one node's report: a node that hangs must
// not keep those of the others back.
const reportTimeout = 2 * time.Second

// report is what this node says about itself to operators.
func (n *Node) report() admin.NodeReport {
	v := n.machine.View()
	format, entries, sealed := v.Format(), v.LastSeq(), v.SealedDataKey()
	v.Release()
	stats := n.pipeline.Stats()
	r := admin.NodeReport{
		ID: n.identity.ServerID, Name: n.identity.NodeName, Version: n.cfg.Version, ClusterID: n.clusterID(),
		HTTP: n.httpAdvertise, Private: n.port.AdvertiseAddr(), Gossip: n.gossip.Addr(),
		Role: health.Role(n.raft.State()), Leader: n.raft.LeaderID(), Term: n.raft.CurrentTerm(),
		Applied: n.machine.Applied(), Commit: n.raft.CommitIndex(), LastLog: n.raft.LastIndex(), Format: format,
		UptimeMillis: time.Since(n.started).Milliseconds(), StaleMillis: n.health.StaleFor().Milliseconds(),
		Commands: n.health.Commands.Load(), Open: stats.Open, QueueBytes: stats.LeaderQueue,
		Entries: entries, LogBytes: n.raft.LogBytes(), MemoryBytes: heldMemory(),
		Secrets: n.secrets.KeyIDs(), SealedUnder: cluster.SealedUnder(sealed),
		Problems: []string{}, Condition: n.health.Condition(),
	}
	r.Warnings = n.health.Warnings(&r.Condition)
	for _, c := range n.health.Checks() {
		if !c.OK {
			r.Problems = append(r.Problems, c.Name+": "+c.Detail)
		}
	}
	r.Ready = len(r.Problems) == 0
	if r.Refuses != "" {
		r.Problems = append(r.Problems, "writes are refused: "+r.Refuses)
	}
	if server := n.serving.Load(); server != nil {
		r.Requests = server.Requests()
	}
	var err error
	if r.DiskFree, r.DiskSize, err = n.machine.DiskSpace(); err != nil {
		n.logger.Debug("the free space is not known", "error", err)
	}
	return r
}

// heldMemory returns how many bytes the Go runtime has from the system.
func heldMemory() uint64 {
	const total, released = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	samples := []metrics.Sample{{Name: total}, {Name: released}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// clusterReport gathers the reports of all servers that the configuration or
// gossip knows.
func (n *Node) clusterReport(ctx context.Context) admin.ClusterReport {
	report := admin.ClusterReport{
		ClusterID: n.clusterID(), AskedNode: n.identity.ServerID, Leader: n.raft.LeaderID(), Servers: n.knownServers(),
	}
	var wg sync.WaitGroup
	for i := range report.Servers {
		s := &report.Servers[i]
		if s.ID == n.identity.ServerID {
			own := n.report()
			s.Report = &own
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, reportTimeout)
			defer cancel()
			r, err := call[admin.NodeReport](ctx, n, s.ID, admin.PathNode, nil)
			if err != nil {
				s.Error = err.Error()
				return
			}
			s.Report = &r
		})
	}
	wg.Wait()
	return report
}

// knownServers lists the servers of the configuration and of gossip, by id.
func (n *Node) knownServers() []admin.Server {
	alive := map[string]bool{}
	for _, m := range n.gossip.Members() {
		alive[m.ServerID] = true
	}
	known := n.raft.Servers()
	servers := make([]admin.Server, 0, len(known)+len(alive))
	for _, s := range known {
		part := admin.NonVoter
		if s.Suffrage == raft.Voter {
			part = admin.Voter
		}
		servers = append(servers, admin.Server{ID: string(s.ID), Part: part, Alive: alive[string(s.ID)]})
		delete(alive, string(s.ID))
	}
	for id := range alive {
		servers = append(servers, admin.Server{ID: id, Part: admin.Outside, Alive: true})
	}
	slices.SortFunc(servers, func(a, b admin.Server) int { return strings.Compare(a.ID, b.ID) })
	return servers
}

// healthReport gathers it.
func (n *Node) healthReport(ctx context.Context, _ struct{}) (admin.HealthReport, error) {
	h, leading := n.members.Health()
	if !leading {
		return admin.HealthReport{}, refusef(http.StatusServiceUnavailable, "%s does not lead yet; repeat", n.identity.ServerID)
	}
	return admin.HealthReport{Health: h, Reports: n.clusterReport(ctx).Servers}, nil
}
