package health

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metrics "github.com/hashicorp/go-metrics/compat"
	metricsprometheus "github.com/hashicorp/go-metrics/compat/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/admin"
)

// raftSink collects Raft's own measurements. They go through a registry of the
// process in go-metrics, so all nodes of one process share them.
var raftSink = sync.OnceValues(func() (prometheus.Collector, error) {
	sink, err := metricsprometheus.NewPrometheusSinkFrom(metricsprometheus.PrometheusOpts{
		Registerer: prometheus.NewRegistry(), // each node registers it with its own
		Name:       "raft",
	})
	if err != nil {
		return nil, err
	}
	config := metrics.DefaultConfig("")
	config.EnableHostname = false
	config.EnableRuntimeMetrics = false
	config.TimerGranularity = time.Millisecond
	if _, err := metrics.NewGlobal(config, sink); err != nil {
		return nil, err
	}
	return sink, nil
})

// NewRegistry returns what /metrics shows, with more, but without the HTTP service's
// own part.
func (h *Health) NewRegistry(more ...prometheus.Collector) (*prometheus.Registry, error) {
	sink, err := raftSink()
	if err != nil {
		return nil, fmt.Errorf("collecting Raft's measurements: %w", err)
	}
	registry := prometheus.NewRegistry()
	err = errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		registry.Register(sink),
		registry.Register(h.refusedWrites),
		registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "commons", Name: "commands_applied_total", Help: "Commands that the state machine has applied.",
		}, func() float64 { return float64(h.Commands.Load()) })),
		registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "commons", Name: "leader_changes_total", Help: "Times that this node saw another leader than before.",
		}, func() float64 { return float64(h.LeaderChanges.Load()) })),
	)
	for _, c := range more {
		err = errors.Join(err, registry.Register(c))
	}
	for _, g := range slices.Concat(h.gauges(), h.conditionGauges(), h.diskGauges()) {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "commons", Name: g.name, Help: g.help}, g.value)))
	}
	return registry, err
}

type gauge struct {
	name, help string
	value      func() float64
}

// gauges are the node's own measurements. They are read when asked for.
func (h *Health) gauges() []gauge {
	return []gauge{
		{
			"applied_index", "Index of the newest log entry that the state machine has applied.",
			func() float64 { return float64(h.src.Machine.Applied()) },
		},
		{
			"commit_index", "Index of the newest log entry that this node knows to be committed.",
			func() float64 { return float64(h.src.Raft.CommitIndex()) },
		},
		{
			"apply_lag_entries", "Committed log entries that the state machine has not applied.",
			func() float64 {
				return float64(h.src.Raft.CommitIndex()) - float64(min(h.src.Machine.Applied(), h.src.Raft.CommitIndex()))
			},
		},
		{
			"log_bytes", "Bytes of log since the newest snapshot.",
			func() float64 { return float64(h.src.Raft.LogBytes()) },
		},
		{
			"leader", "1 when this node leads and takes writes.",
			func() float64 { return boolGauge(h.src.Pipeline.Stats().Leading) },
		},
		{"term", "Raft's term.", func() float64 { return float64(h.src.Raft.CurrentTerm()) }},
		{"voters", "Servers with a vote.", func() float64 { return float64(len(h.src.Raft.Voters())) }},
		{
			"voter", "1 when this node has a vote.",
			func() float64 { return boolGauge(h.src.Members.Part() == admin.Voter) },
		},
		{"servers", "Servers in the configuration.", func() float64 { return float64(len(h.src.Raft.Servers())) }},
		{
			"members", "Live nodes that gossip knows, this one included.",
			func() float64 { return float64(len(h.src.Gossip.Members())) },
		},
		{"ready", "1 when every condition of readiness holds.", func() float64 {
			for _, c := range h.Checks() {
				if !c.OK {
					return 0
				}
			}
			return 1
		}},
		{
			"stale_seconds", "Time since this node heard from the leader, or for which it has lacked what the leader had applied; 0 on the leader.",
			func() float64 { return h.StaleFor().Seconds() },
		},
		{
			"open_commands", "Commands taken in by this node and not answered.",
			func() float64 { return float64(h.src.Pipeline.Stats().Open) },
		},
		{
			"leader_queue_bytes", "Bytes of commands that wait at this node as the leader.",
			func() float64 { return float64(h.src.Pipeline.Stats().LeaderQueue) },
		},
		{
			"clock_correction_seconds", "What this node adds to its clock when it stamps log entries.",
			func() float64 { return h.src.Pipeline.Clocks().Correction().Seconds() },
		},
		{
			"candidate", "1 while this node asks for votes.",
			func() float64 { return boolGauge(h.src.Raft.State() == raft.Candidate) },
		},
	}
}

// conditionGauges are what the node has measured of its own condition.
func (h *Health) conditionGauges() []gauge {
	return []gauge{
		{
			"clock_ahead_seconds", "How far this node's clock is ahead of the voters' median.",
			func() float64 { ahead, _ := h.clockOffset(); return ahead.Seconds() },
		},
		{
			"stall_seconds", "How late this node ran at most in the last minute when it wanted to: for want of the processor, or stopped.",
			func() float64 {
				return h.stalls.timing(h.sinceStart()).MostMillis / float64(time.Second/time.Millisecond)
			},
		},
		{
			"last_backup_timestamp_seconds", "When the newest backup that was saved was begun; 0 when none ever was.",
			func() float64 { return h.instant((*fsm.View).LastBackup) },
		},
		{
			"first_entry_timestamp_seconds", "When the first entry was published; 0 when none was.",
			func() float64 { return h.instant((*fsm.View).FirstEntry) },
		},
		{
			"budget_bytes", "What all senders together may write without a key in a day of UTC; 0: as much as they want.",
			func() float64 {
				return h.number(func(v *fsm.View) (uint64, error) { set, err := v.Settings(); return set.DailyBytes, err })
			},
		},
		{
			"budget_used_bytes", "What was written without a key today, in UTC.",
			func() float64 {
				return h.number(func(v *fsm.View) (uint64, error) { b, err := v.Budget(h.now()); return b.Bytes, err })
			},
		},
		{
			"budget_senders", "Senders that wrote without a key today, in UTC.",
			func() float64 {
				return h.number(func(v *fsm.View) (uint64, error) { b, err := v.Budget(h.now()); return b.Senders, err })
			},
		},
	}
}

// now is the time of the cluster in milliseconds since the epoch.
func (h *Health) now() int64 { return h.src.Pipeline.Clocks().Corrected().UnixMilli() }

// number reads a number in the state; 0 where that fails.
func (h *Health) number(read func(*fsm.View) (uint64, error)) float64 {
	v := h.src.Machine.View()
	defer v.Release()
	n, err := read(v)
	if err != nil {
		return 0
	}
	return float64(n)
}

// diskGauges are the measurements of the data directory's file system.
func (h *Health) diskGauges() []gauge {
	return []gauge{
		{
			"writes_refused", "1 while this node refuses writes because too few disks have space.",
			func() float64 { return boolGauge(h.diskFull.Load() != nil) },
		},
		{"disk_free_bytes", "Free space for the data directory; 0 when it cannot be told.", func() float64 {
			free, _, err := h.src.Machine.DiskSpace()
			if err != nil {
				return 0
			}
			return float64(free)
		}},
		{"disk_size_bytes", "Size of the file system that holds the data directory; 0 when it cannot be told.", func() float64 {
			_, size, err := h.src.Machine.DiskSpace()
			if err != nil {
				return 0
			}
			return float64(size)
		}},
	}
}

// newRefusedWrites counts writes that a node does not take.
func newRefusedWrites() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "commons", Name: "refused_writes_total", Help: "Writes of clients that this node did not take, by the code of the answer.",
	}, []string{"code"})
}

// instant reads an instant in the state as seconds; 0 where that fails.
func (h *Health) instant(read func(*fsm.View) (int64, error)) float64 {
	v := h.src.Machine.View()
	defer v.Release()
	at, err := read(v)
	if err != nil {
		return 0
	}
	return float64(at) / float64(time.Second.Milliseconds())
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
