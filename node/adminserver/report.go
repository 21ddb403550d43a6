package adminserver

import (
	"cmp"
	"context"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/singleflight"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/health"
	"github.com/commons-cluster/commons/node/memory"
)

// reportTimeout bounds the wait for one node's report: a hanging node must not delay
// those of the others.
const reportTimeout = 2 * time.Second

func (a *Server) report() admin.NodeReport {
	v := a.cfg.Machine.View()
	format, entries, sealed := v.Format(), v.LastSeq(), v.SealedDataKey()
	set, err := a.settings(v)
	v.Release()
	if err != nil {
		a.cfg.Logger.Error("the settings cannot be read", "error", err)
	}
	stats := a.cfg.Pipeline.Stats()
	r := admin.NodeReport{
		ID: a.cfg.ServerID, Name: a.cfg.NodeName, Version: a.cfg.Version, ClusterID: a.cfg.ClusterID(),
		HTTP: a.cfg.HTTPAddr, Private: a.cfg.PrivateAddr, Gossip: a.cfg.Gossip.Addr(),
		Role: health.Role(a.cfg.Raft.State()), Leader: a.cfg.Raft.LeaderID(), Term: a.cfg.Raft.CurrentTerm(),
		Applied: a.cfg.Machine.Applied(), Commit: a.cfg.Raft.CommitIndex(), LastLog: a.cfg.Raft.LastIndex(), Format: format,
		UptimeMillis: time.Since(a.cfg.Started).Milliseconds(), StaleMillis: a.cfg.Health.StaleFor().Milliseconds(),
		Commands: a.cfg.Health.Commands.Load(), Open: stats.Open, QueueBytes: stats.LeaderQueue,
		Entries: entries, LogBytes: a.cfg.Raft.LogBytes(), MemoryBytes: heldMemory(), MemoryLimit: memory.Limit(), CacheBytes: memory.Cache(),
		Settings: set, Secrets: a.cfg.Secrets.KeyIDs(), SealedUnder: cluster.SealedUnder(sealed),
		Problems: []string{}, Condition: a.cfg.Health.Condition(),
	}
	if r.Purges, err = a.cfg.Purges(); err != nil {
		a.cfg.Logger.Error("what was purged cannot be read", "error", err)
	}
	r.Warnings = a.cfg.Health.Warnings(&r.Condition)
	more := []string{a.cfg.Gossip.AddressProblem(), a.cfg.Health.HouseWarning()}
	if stats.Leading { // it is of the cluster
		more = append(more, a.cfg.Health.TimeWarning())
	}
	r.Warnings = append(r.Warnings, slices.DeleteFunc(more, func(warning string) bool { return warning == "" })...)
	for _, c := range a.cfg.Health.Checks() {
		if !c.OK {
			r.Problems = append(r.Problems, c.Name+": "+cmp.Or(c.Operators, c.Detail))
		}
	}
	r.Ready = len(r.Problems) == 0
	if r.Rejects != "" {
		r.Problems = append(r.Problems, "writes are rejected: "+r.Rejects)
	}
	r.Requests = a.cfg.Requests()
	if r.DiskFree, r.DiskSize, err = a.cfg.Machine.DiskSpace(); err != nil {
		a.cfg.Logger.Debug("the free space is not known", "error", err)
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

// ClusterReport gathers the reports of all servers that the configuration or gossip has.
func (a *Server) ClusterReport(ctx context.Context) admin.ClusterReport {
	return a.clusterReport(ctx, reportTimeout)
}

// clusterReport is ClusterReport with a timeout for each server.
func (a *Server) clusterReport(ctx context.Context, timeout time.Duration) admin.ClusterReport {
	report := admin.ClusterReport{
		ClusterID: a.cfg.ClusterID(), AskedNode: a.cfg.ServerID, Leader: a.cfg.Raft.LeaderID(), Servers: a.knownServers(),
	}
	var wg sync.WaitGroup
	for i := range report.Servers {
		s := &report.Servers[i]
		if s.ID == a.cfg.ServerID {
			own := a.report()
			s.Report = &own
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			r, err := call[admin.NodeReport](ctx, a, s.ID, admin.PathNode, nil)
			if err != nil {
				now := time.Now()
				silent := now.Sub(a.cfg.LastHeard(s.ID))
				s.Error, s.SilentMillis, s.HeardAt = err.Error(), silent.Milliseconds(), now.Add(-silent).UnixMilli()
				return
			}
			s.Report = &r
		})
	}
	wg.Wait()
	return report
}

// knownServers lists the servers of the configuration and of gossip, by id.
func (a *Server) knownServers() []admin.Server {
	alive := map[string]bool{}
	for _, m := range a.cfg.Gossip.Members() {
		alive[m.ServerID] = true
	}
	known := a.cfg.Raft.Servers()
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

const (
	pulseAge     = 400 * time.Millisecond // of a cached report: clients cannot make nodes query each other more often
	pulseTimeout = 700 * time.Millisecond // of a node's answer for it: a lost node is shown as lost within two seconds
)

// pulse is the cached report of the cluster. The zero value is ready.
type pulse struct {
	asking singleflight.Group
	mu     sync.Mutex
	at     time.Time
	report admin.ClusterReport
}

func (p *pulse) last() (report admin.ClusterReport, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report, time.Since(p.at)
}

// Pulse returns a recent report of all servers, or the last one if ctx ends first. All callers that
// wait share one round of requests, which goes on when one of them stops waiting.
func (a *Server) Pulse(ctx context.Context) admin.ClusterReport {
	p := &a.pulse
	if report, age := p.last(); age < pulseAge {
		return report
	}
	asked := p.asking.DoChan("", func() (any, error) {
		report := a.clusterReport(context.WithoutCancel(ctx), pulseTimeout)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.report, p.at = report, time.Now()
		return nil, nil
	})
	select {
	case <-asked:
	case <-ctx.Done():
	}
	report, _ := p.last()
	return report
}
