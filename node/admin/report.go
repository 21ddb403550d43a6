package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// The parts that a server can have in the configuration.
const (
	Voter    = "voter"
	NonVoter = "non-voter"
	Outside  = "outside" // known to gossip, not in the configuration
)

// SavedBackup is a backup that was saved: its file is whole and on the disk.
type SavedBackup struct {
	CreatedAt int64 `json:"createdAt"` // start of the backup according to its header, milliseconds since the epoch
}

// SettingsChange is a change of the replicated settings. Fields that are nil do not change. The leader
// tries a store of backups, and looks for the entry of a welcome, before it stores them.
type SettingsChange struct {
	command.SetSettings
	// DryRun only counts the entries that the retention would affect.
	DryRun bool `json:"dryRun,omitempty"`
}

// SettingsReport is the replicated settings, and today's use of the budget.
type SettingsReport struct {
	command.Settings
	Backup          state.BackupRun `json:"backup"`          // the newest run of the schedule of backups
	SmallShareBytes uint64          `json:"smallShareBytes"` // a sender may always write these in a day
	UsedBytes       uint64          `json:"usedBytes"`       // today, in UTC
	Senders         uint64          `json:"senders"`         // of UsedBytes
	DayMillis       int64           `json:"dayMs"`           // time since the start of today
	Swept           uint64          `json:"swept"`           // entries that became stubs because of the retention
	// SweepWaiting is the number of entries that are old enough and not checked yet.
	SweepWaiting uint64 `json:"sweepWaiting"`
	// Older is, after a dry run, the number of entries older than the new retention.
	Older uint64 `json:"older,omitempty"`
}

// MaxEvents bounds how many events a node returns at once.
const MaxEvents = 1000

// EventsRequest asks for events.
type EventsRequest struct {
	Since int64 `json:"since,omitempty"` // milliseconds since the epoch
	Limit int   `json:"limit,omitempty"` // of the newest events; 0 and more than MaxEvents mean MaxEvents
	// From asks for the oldest events with this number or a higher one. 0 means the newest events.
	From uint64 `json:"from,omitempty"`
}

// Events are the newest actions of operators, moderators and leaders, the oldest first.
type Events struct {
	Events []Event `json:"events"`
	More   bool    `json:"more"` // some were left out: older ones since the instant, or newer ones than those from a number
}

// Event is an action of an operator, a moderator or a leader.
type Event struct {
	Number uint64 `json:"number"` // in the order of all events, from 1; the same on every node
	At     int64  `json:"at"`     // milliseconds since the epoch
	By     string `json:"by"`     // operator, a moderator's name, leader, or a server id
	Action string `json:"action"` // such as hide, set_settings, remove_server
	What   string `json:"what"`   // object of the action
	Reason string `json:"reason,omitempty"`
}

// Moderation is a call of the public interface that only moderators and operators make.
type Moderation struct {
	Operation string          `json:"operation"` // operationId
	Query     string          `json:"query,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
}

// Status is a node's part in the cluster.
type Status struct {
	Process    string `json:"process"`    // random id of the process, which /readyz shows, too
	Membership string `json:"membership"` // see membership.Part
}

// NodeReport is a node's report about itself.
type NodeReport struct {
	ID        string `json:"id"` // server id
	Name      string `json:"name"`
	Version   string `json:"version"`
	ClusterID string `json:"clusterId"`
	HTTP      string `json:"http"`    // host:port that others get
	Private   string `json:"private"` // the same of the private port
	Gossip    string `json:"gossip"`

	Role     string   `json:"role"`   // leader, follower or candidate
	Leader   string   `json:"leader"` // server id according to this node; empty if unknown
	Term     uint64   `json:"term"`
	Applied  uint64   `json:"applied"` // index of the newest log entry that the state machine has applied
	Commit   uint64   `json:"commit"`  // index of the newest log entry known to be committed
	LastLog  uint64   `json:"lastLog"` // index of the newest log entry on this node's disk
	Format   int      `json:"format"`  // replicated format number
	Ready    bool     `json:"ready"`
	Problems []string `json:"problems"` // conditions of readiness that do not hold, and rejection of writes
	Warnings []string `json:"warnings"` // other problems
	Condition

	UptimeMillis int64  `json:"uptimeMs"`
	StaleMillis  int64  `json:"staleMs"`  // since the last contact with the leader, or duration of the lag behind it; 0 on the leader
	Requests     uint64 `json:"requests"` // public HTTP requests answered since the start
	Commands     uint64 `json:"commands"` // commands applied since the start
	Open         int    `json:"open"`     // commands accepted and not answered
	QueueBytes   int    `json:"queueBytes"`
	Entries      uint64 `json:"entries"`  // entries published so far
	LogBytes     int64  `json:"logBytes"` // of log since the newest snapshot
	DiskFree     uint64 `json:"diskFree"` // bytes for the data directory
	DiskSize     uint64 `json:"diskSize"`
	MemoryBytes  uint64 `json:"memoryBytes"` // held by the process, as the runtime counts
	MemoryLimit  int64  `json:"memoryLimit"` // the soft limit of that; 0 without one
	CacheBytes   int64  `json:"cacheBytes"`  // size of the cache of the state

	Settings SettingsReport `json:"settings"`
	Purges   Purges         `json:"purges"`

	Secrets     []string `json:"secrets"`     // public names of the secrets it accepts, the one in use first
	SealedUnder string   `json:"sealedUnder"` // public name of the secret that the data key is sealed under
}

// Purges is the progress of erasing purged texts from a node's disk. Purges are numbered
// from 1. State and Log are the newest purge of which, and of all earlier ones, no text is left.
type Purges struct {
	Known uint64 `json:"known"` // the newest in the node's state
	State uint64 `json:"state"` // in the files of the state
	Log   uint64 `json:"log"`   // in the log
}

// Done returns the newest purge of which, and of all earlier ones, no text is on the disk.
func (p Purges) Done() uint64 { return min(p.State, p.Log) }

// Pending returns the number of purges after Done.
func (p Purges) Pending() uint64 { return p.Known - p.Done() }

// Condition is a node's measurements of itself. Times are in milliseconds.
type Condition struct {
	Rejects          string     `json:"refuses"`      // the reason why it rejects writes now, or empty
	Rejected         []Rejected `json:"refused"`      // writes rejected in the last minute
	ClockAheadMillis float64    `json:"clockAheadMs"` // of the voters' median
	Clocks           int        `json:"clocks"`       // that the median is of, its own included
	ApplyLag         uint64     `json:"applyLag"`     // log entries known to be committed and not applied
	ApplyLagMillis   float64    `json:"applyLagMs"`   // duration of the lag behind the leader
	Sync             Timing     `json:"sync"`         // writes of its log, through to the disk
	Write            Timing     `json:"write"`        // writes of clients that it answered
	Read             Timing     `json:"read"`         // reads of clients that it answered at once
	Stall            Timing     `json:"stall"`        // delay of the process's timers
	Slow             bool       `json:"slow"`         // its disk or its processor is too slow to lead
	// Proxy is the address of the newest proxy of the last hour that passed a request and
	// that the node does not trust, or empty.
	Proxy      string `json:"untrustedProxy"`
	LogDropped uint64 `json:"logDropped"` // log lines dropped since the start, which the reader did not take
}

// Timing is the mean and maximum duration of an operation over the last minute.
type Timing struct {
	Count      uint64  `json:"count"`
	MeanMillis float64 `json:"meanMs"`
	MostMillis float64 `json:"mostMs"`
}

// Rejected counts the writes that a node rejected for one reason.
type Rejected struct {
	Code   string `json:"code"`
	Count  uint64 `json:"count"`
	Reason string `json:"reason"` // of the newest
}

// Server is one server of the cluster as a node sees it.
type Server struct {
	ID     string      `json:"id"`
	Part   string      `json:"part"`             // Voter, NonVoter or Outside
	Alive  bool        `json:"alive"`            // in gossip
	Report *NodeReport `json:"report,omitempty"` // nil if it did not answer
	Error  string      `json:"error,omitempty"`  // the reason why it did not answer
	// SilentMillis is the time since the asked node last heard it, or since that node's start. It is
	// 0 if the server answered.
	SilentMillis int64 `json:"silentMs,omitempty"`
	HeardAt      int64 `json:"heardAt,omitempty"` // begin of that time, milliseconds since the epoch
}

// ClusterReport is the whole cluster as one node sees it.
type ClusterReport struct {
	ClusterID string   `json:"clusterId"`
	AskedNode string   `json:"askedNode"` // server id of the node that gathered this
	Leader    string   `json:"leader"`    // according to that node; empty if unknown
	Servers   []Server `json:"servers"`   // by id
}

// Find returns the server with an id, or the only one with a node name.
func (r *ClusterReport) Find(name string) (Server, bool) {
	var found []Server
	for _, s := range r.Servers {
		if s.ID == name {
			return s, true
		}
		if i := strings.LastIndexByte(s.ID, '-'); i > 0 && s.ID[:i] == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return Server{}, false
	}
	return found[0], true
}

// Newest returns the highest applied index of any server.
func (r *ClusterReport) Newest() uint64 {
	var newest uint64
	for _, s := range r.Servers {
		if s.Report != nil {
			newest = max(newest, s.Report.Applied)
		}
	}
	return newest
}

// ServerRef names a server. An empty id leaves the choice to the leader, if there is a
// choice.
type ServerRef struct {
	ID string `json:"id"`
}

// Removal names a server to remove. Leaving is true if the server itself asks.
type Removal struct {
	ID      string `json:"id"`
	Leaving bool   `json:"leaving,omitempty"`
}

// DigestRequest asks for the digest at an index that the node has not passed yet.
type DigestRequest struct {
	Index uint64 `json:"index"`
}

// CompareRequest asks for a comparison of all servers.
type CompareRequest struct {
	PatienceMillis int64 `json:"patienceMs,omitempty"` // time limit; 0 means the node's default
}

// Digest is the hashes of a server's state at an index, in hexadecimal.
type Digest struct {
	ID     string `json:"id"` // server id
	Index  uint64 `json:"index"`
	Digest string `json:"digest,omitempty"` // over all log entries and their results
	Rows   string `json:"rows,omitempty"`   // over the rows of the state
	Error  string `json:"error,omitempty"`  // the reason why the hashes are missing
}

// Comparison is every server's digest at one index.
type Comparison struct {
	Index   uint64   `json:"index"`
	Equal   bool     `json:"equal"` // all that answered have the same log and rows
	Digests []Digest `json:"digests"`
}

// Complete reports whether every server answered.
func (c *Comparison) Complete() bool {
	return !slices.ContainsFunc(c.Digests, func(d Digest) bool { return d.Error != "" })
}

// AgentRef names an agent.
type AgentRef struct {
	Agent string `json:"agent"`
}

// Protection protects a name from writes without its edit_key, or lifts that.
type Protection struct {
	Agent     string `json:"agent"`
	Protected bool   `json:"protected"`
}

// KeyAnswer holds an agent's new keys, which are shown only once.
type KeyAnswer struct {
	Agent       string `json:"agent"`
	EditKey     string `json:"edit_key"`
	RecoveryKey string `json:"recovery_key"`
}

// DebugRequest asks a server for its part of a bundle.
type DebugRequest struct {
	ID        string `json:"id,omitempty"`    // empty means the server that gets the request
	CPUMillis int64  `json:"cpuMs,omitempty"` // duration of the CPU profile
}

// DebugAnswer is a server's part of a bundle.
type DebugAnswer struct {
	ID    string      `json:"id"`
	Files []DebugFile `json:"files"`
}

// DebugFile is one file of a bundle, or the reason why it is missing.
type DebugFile struct {
	Name  string `json:"name"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"`
}

// LogLevel is the level of a server's log. In a request, an empty ID means the server that
// gets it, and an empty Level does not change the level.
type LogLevel struct {
	ID    string `json:"id,omitempty"`
	Level string `json:"level,omitempty"`
}

// Failure is the body of an answer that reports a failure.
type Failure struct {
	Error string `json:"error"`
}

var sizes = []string{"KiB", "MiB", "GiB", "TiB"}

const sizeStep = 1024

// BytesText shows a number of bytes with a binary prefix.
func BytesText(n uint64) string {
	v, unit := float64(n), "B"
	for i := 0; v >= sizeStep && i < len(sizes); i++ {
		v, unit = v/sizeStep, sizes[i]
	}
	if unit == "B" || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// ParseBytes reads a number of bytes up to most, with or without a binary prefix.
func ParseBytes(s string, most uint64) (uint64, error) {
	unit, number := uint64(1), s
	for i, size := range sizes {
		if cut, found := strings.CutSuffix(s, size); found {
			const step = 10
			number, unit = cut, 1<<(step*(i+1))
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n > most/unit {
		return 0, fmt.Errorf("not a number of bytes up to %s", BytesText(most))
	}
	return n * unit, nil
}
