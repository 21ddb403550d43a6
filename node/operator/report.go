package operator

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

func (o *Operator) report() admin.NodeReport {
	v := o.cfg.Machine.View()
	format, entries, sealed := v.Format(), v.LastSeq(), v.SealedDataKey()
	set, err := o.settings(v)
	v.Release()
	if err != nil {
		o.cfg.Logger.Error("the settings cannot be read", "error", err)
	}
	stats := o.cfg.Pipeline.Stats()
	r := admin.NodeReport{
		ID: o.cfg.ServerID, Name: o.cfg.NodeName, Version: o.cfg.Version, ClusterID: o.cfg.ClusterID(),
		HTTP: o.cfg.HTTPAddr, Private: o.cfg.PrivateAddr, Gossip: o.cfg.Gossip.Addr(),
		Role: health.Role(o.cfg.Raft.State()), Leader: o.cfg.Raft.LeaderID(), Term: o.cfg.Raft.CurrentTerm(),
		Applied: o.cfg.Machine.Applied(), Commit: o.cfg.Raft.CommitIndex(), LastLog: o.cfg.Raft.LastIndex(), Format: format,
		UptimeMillis: time.Since(o.cfg.Started).Milliseconds(), StaleMillis: o.cfg.Health.StaleFor().Milliseconds(),
		Commands: o.cfg.Health.Commands.Load(), Open: stats.Open, QueueBytes: stats.LeaderQueue,
		Entries: entries, LogBytes: o.cfg.Raft.LogBytes(), MemoryBytes: heldMemory(), MemoryLimit: memory.Limit(), CacheBytes: memory.Cache(),
		Settings: set, Secrets: o.cfg.Secrets.KeyIDs(), SealedUnder: cluster.SealedUnder(sealed),
		Problems: []string{}, Condition: o.cfg.Health.Condition(),
	}
	if r.Purges, err = o.cfg.Purges(); err != nil {
		o.cfg.Logger.Error("what was purged cannot be read", "error", err)
	}
	r.Warnings = o.cfg.Health.Warnings(&r.Condition)
	more := []string{o.cfg.Gossip.AddressProblem(), o.cfg.Health.HouseWarning()}
	if stats.Leading { // it is of the cluster
		more = append(more, o.cfg.Health.TimeWarning())
	}
	r.Warnings = append(r.Warnings, slices.DeleteFunc(more, func(warning string) bool { return warning == "" })...)
	for _, c := range o.cfg.Health.Checks() {
		if !c.OK {
			r.Problems = append(r.Problems, c.Name+": "+cmp.Or(c.Operators, c.Detail))
		}
	}
	r.Ready = len(r.Problems) == 0
	if r.Rejects != "" {
		r.Problems = append(r.Problems, "writes are rejected: "+r.Rejects)
	}
	r.Requests = o.cfg.Requests()
	if r.DiskFree, r.DiskSize, err = o.cfg.Machine.DiskSpace(); err != nil {
		o.cfg.Logger.Debug("the free space is not known", "error", err)
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
func (o *Operator) ClusterReport(ctx context.Context) admin.ClusterReport {
	return o.clusterReport(ctx, reportTimeout)
}

// clusterReport is ClusterReport with a timeout for each server.
func (o *Operator) clusterReport(ctx context.Context, timeout time.Duration) admin.ClusterReport {
	report := admin.ClusterReport{
		ClusterID: o.cfg.ClusterID(), AskedNode: o.cfg.ServerID, Leader: o.cfg.Raft.LeaderID(), Servers: o.knownServers(),
	}
	var wg sync.WaitGroup
	for i := range report.Servers {
		s := &report.Servers[i]
		if s.ID == o.cfg.ServerID {
			own := o.report()
			s.Report = &own
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			r, err := call[admin.NodeReport](ctx, o, s.ID, admin.PathNode, nil)
			if err != nil {
				now := time.Now()
				silent := now.Sub(o.cfg.LastHeard(s.ID))
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
func (o *Operator) knownServers() []admin.Server {
	alive := map[string]bool{}
	for _, m := range o.cfg.Gossip.Members() {
		alive[m.ServerID] = true
	}
	known := o.cfg.Raft.Servers()
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
func (o *Operator) Pulse(ctx context.Context) admin.ClusterReport {
	p := &o.pulse
	if report, age := p.last(); age < pulseAge {
		return report
	}
	asked := p.asking.DoChan("", func() (any, error) {
		report := o.clusterReport(context.WithoutCancel(ctx), pulseTimeout)
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
