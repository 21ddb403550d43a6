package health

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	metrics "github.com/hashicorp/go-metrics/compat"
	metricsprometheus "github.com/hashicorp/go-metrics/compat/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/admin"
)

// raftMeasurements are the measurements of Raft that are exported (docs/operating/alerts.md).
// The others, about twenty for each log entry, would cost a thirtieth of a write.
var raftMeasurements = []string{
	"raft.apply", "raft.boltdb.storeLogs", "raft.commitTime", "raft.fsm.lastRestoreDuration",
	"raft.leader.lastContact", "raft.snapshot", "raft.state", "raft.transition",
}

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
	config.FilterDefault, config.AllowedPrefixes = false, raftMeasurements
	config.TimerGranularity = time.Millisecond
	if _, err := metrics.NewGlobal(config, sink); err != nil {
		return nil, err
	}
	return sink, nil
})

// NewRegistry returns the registry of /metrics, without the metrics of the HTTP service.
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
		registry.Register(h.rejectedWrites),
		registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "commons", Name: "build_info", Help: "1; the labels say what runs.",
			ConstLabels: prometheus.Labels{"version": h.cfg.Version, "go": runtime.Version()},
		}, func() float64 { return 1 })),
		registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "commons", Name: "commands_applied_total", Help: "Commands that the state machine has applied.",
		}, func() float64 { return float64(h.Commands.Load()) })),
		registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "commons", Name: "log_lines_dropped_total", Help: "Lines of the log that were dropped, because their reader stalled or had ended, or the disk was full.",
		}, func() float64 { return float64(h.cfg.LogDropped()) })),
	)
	for _, c := range more {
		err = errors.Join(err, registry.Register(c))
	}
	for _, g := range slices.Concat(h.gauges(), h.conditionGauges()) {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "commons", Name: g.name, Help: g.help}, g.value)))
	}
	return registry, err
}

// gauge is a measurement that is read on demand.
type gauge struct {
	name, help string
	value      func() float64
}

// count returns a gauge of a whole number, and truth one that is 1 while a condition holds.
func count[N int | int64 | uint64](name, help string, value func() N) gauge {
	return gauge{name, help, func() float64 { return float64(value()) }}
}

func truth(name, help string, value func() bool) gauge {
	return gauge{name, help, func() float64 {
		if value() {
			return 1
		}
		return 0
	}}
}

func (h *Health) gauges() []gauge {
	s := &h.src
	return []gauge{
		count("applied_index", "Index of the newest log entry that the state machine has applied.", s.Machine.Applied),
		count("commit_index", "Index of the newest log entry that this node knows to be committed.", s.Raft.CommitIndex),
		count("apply_lag_entries", "Committed log entries that the state machine has not applied.", func() uint64 {
			commit := s.Raft.CommitIndex()
			return commit - min(s.Machine.Applied(), commit)
		}),
		count("log_bytes", "Bytes of log since the newest snapshot.", s.Raft.LogBytes),
		truth("leader", "1 when this node leads and takes writes.", func() bool { return s.Pipeline.Stats().Leading }),
		count("term", "Raft's term.", s.Raft.CurrentTerm),
		count("voters", "Servers with a vote.", func() int { return len(s.Raft.Voters()) }),
		truth("voter", "1 when this node has a vote.", func() bool { return s.Members.Part() == admin.Voter }),
		count("servers", "Servers in the configuration.", func() int { return len(s.Raft.Servers()) }),
		count("members", "Live nodes that gossip knows, this one included.", func() int { return len(s.Gossip.Members()) }),
		truth("ready", "1 when every condition of readiness holds.", func() bool {
			return !slices.ContainsFunc(h.Checks(), func(c Check) bool { return !c.OK })
		}),
		{
			"stale_seconds", "Time since this node heard from the leader, or for which it has lacked what the leader had applied; 0 on the leader.",
			func() float64 { return h.StaleFor().Seconds() },
		},
		count("open_commands", "Commands taken in by this node and not answered.", func() int { return s.Pipeline.Stats().Open }),
		count("leader_queue_bytes", "Bytes of commands that wait at this node as the leader.", func() int { return s.Pipeline.Stats().LeaderQueue }),
		{
			"clock_correction_seconds", "What this node adds to its clock when it stamps log entries.",
			func() float64 { return s.Pipeline.Clocks().Correction().Seconds() },
		},
		truth("writes_refused", "1 while this node rejects writes because too few disks have space.", func() bool { return h.diskFull.Load() != nil }),
		count("disk_free_bytes", "Free space for the data directory; 0 when it cannot be told.", func() uint64 {
			free, _, _ := h.src.Machine.DiskSpace() // both are 0 if that fails
			return free
		}),
		count("disk_size_bytes", "Size of the file system that holds the data directory; 0 when it cannot be told.", func() uint64 {
			_, size, _ := h.src.Machine.DiskSpace()
			return size
		}),
	}
}

func (h *Health) conditionGauges() []gauge {
	const perSecond = float64(time.Second / time.Millisecond)
	return []gauge{
		{
			"clock_ahead_seconds", "How far this node's clock is ahead of the voters' median.",
			func() float64 { ahead, _ := h.clockOffset(); return ahead.Seconds() },
		},
		{
			"certificate_expiry_timestamp_seconds", "When the certificate of HTTPS ends; 0 without HTTPS.",
			func() float64 { return float64(max(0, h.cfg.Certificate.Expiry().Unix())) },
		},
		truth("certificate_rejected", "1 while the files hold a new certificate that cannot be used.", func() bool { return h.cfg.Certificate.Rejected() != "" }),
		truth("slow", "1 while this node's disk or processor is too slow to lead.", h.Slow),
		inState(h, "log_timestamp_seconds", "Time of the newest log entry that this node has applied.", perSecond, func(v *view.View) (int64, error) { return v.Time(), nil }),
		inState(h, "last_backup_timestamp_seconds", "When the newest backup that was saved was begun; 0 when none ever was, or by clocks that were ahead.", perSecond, h.lastBackup),
		inState(h, "backup_every_seconds", "Time between two scheduled backups; 0 without a schedule.", perSecond, func(v *view.View) (uint64, error) {
			set, err := v.Settings()
			if set.BackupURL == "" {
				return 0, err
			}
			return set.BackupMillis, err
		}),
		inState(h, "backup_run_timestamp_seconds", "When the newest run of the schedule of backups began; 0 before the first one.", perSecond, func(v *view.View) (int64, error) { run, err := v.BackupRun(); return run.Began, err }),
		inState(h, "backup_run_failed", "1 when the newest run of the schedule saved no backup.", 1, func(v *view.View) (uint64, error) {
			run, err := v.BackupRun()
			if run.Failed {
				return 1, err
			}
			return 0, err
		}),
		inState(h, "backup_verified_timestamp_seconds", "When the newest scheduled backup was begun that a node has restored as a check; 0 before the first one.", perSecond, func(v *view.View) (int64, error) { run, err := v.BackupRun(); return run.Verified, err }),
		inState(h, "backup_verify", "1 when scheduled backups are restored as a check.", 1, func(v *view.View) (uint64, error) {
			set, err := v.Settings()
			if set.BackupURL != "" && set.BackupVerify {
				return 1, err
			}
			return 0, err
		}),
		inState(h, "first_entry_timestamp_seconds", "When the first entry was published; 0 when none was.", perSecond, (*view.View).FirstEntry),
		inState(h, "retention_swept_entries", "Entries that became stubs because they were older than the retention.", 1, func(v *view.View) (uint64, error) { swept, _, err := v.Sweeps(h.now()); return swept, err }),
		inState(h, "retention_waiting_entries", "Entries that are old enough and were not looked at yet, be their texts to be kept or not.", 1, func(v *view.View) (uint64, error) { _, waiting, err := v.Sweeps(h.now()); return waiting, err }),
		inState(h, "budget_bytes", "What all senders together may write in a day of UTC; 0: as much as they want.", 1, func(v *view.View) (uint64, error) { set, err := v.Settings(); return set.DailyBytes, err }),
		inState(h, "budget_used_bytes", "What was written today, in UTC.", 1, func(v *view.View) (uint64, error) { b, err := v.Budget(h.now()); return b.Bytes, err }),
		inState(h, "reports_open", "Reports that wait for a moderator.", 1, func(v *view.View) (int64, error) { n, _ := v.OpenReports(); return int64(n), nil }),
		inState(h, "reports_oldest_timestamp_seconds", "When the oldest report that waits for a moderator came; 0: none waits.", perSecond, func(v *view.View) (int64, error) { _, oldest := v.OpenReports(); return oldest, nil }),
		inState(h, "reports_rejected", "Reports that there was no room for, since the cluster began.", 1, (*view.View).RejectedReports),
	}
}

// lastBackup returns when the newest backup was begun. The state keeps the latest begin: if the clocks
// were ahead then, that of the schedule counts, which later runs replace.
func (h *Health) lastBackup(v *view.View) (int64, error) {
	at, err := v.LastBackup()
	if err != nil || !h.IsAhead(at) {
		return at, err
	}
	run, err := v.BackupRun()
	if h.IsAhead(run.Saved) {
		return 0, err
	}
	return run.Saved, err
}

// now is the time of the cluster in milliseconds since the epoch.
func (h *Health) now() int64 { return h.src.Pipeline.Clocks().Corrected().UnixMilli() }

// inState returns a gauge of a number in the state, divided by a unit. It is 0 if the number
// cannot be read.
func inState[N int64 | uint64](h *Health, name, help string, by float64, read func(*view.View) (N, error)) gauge {
	return gauge{name, help, func() float64 {
		v := h.src.Machine.View()
		defer v.Release()
		n, err := read(v)
		if err != nil {
			return 0
		}
		return float64(n) / by
	}}
}

func newRejectedWrites() *prometheus.CounterVec {
	counted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "commons", Name: "refused_writes_total", Help: "Writes of clients that this node did not take, by the code of the answer.",
	}, []string{"code"})
	for _, code := range []command.Code{command.CodeNotEnqueued, command.CodeOutcomeUnknown, command.CodeNoLeader, command.CodeDiskFull, command.CodeBehind} {
		counted.WithLabelValues(string(code)) // there from the start, at 0
	}
	return counted
}
