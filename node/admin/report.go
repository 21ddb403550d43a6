package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// The parts that a server can have in the configuration.
const (
	Voter    = "voter"
	NonVoter = "non-voter"
	Outside  = "outside" // known to gossip, not in the configuration
)

// SavedBackup is a backup that was saved: its file is whole and on the disk.
type SavedBackup struct {
	CreatedAt int64 `json:"createdAt"` // when it was begun, as its header says; milliseconds since the epoch
}

// SettingsChange is what of the replicated settings is to change; what is missing
// stays as it is.
type SettingsChange struct {
	DailyBytes  *uint64 `json:"dailyBytes,omitempty"`
	SenderBytes *uint64 `json:"senderBytes,omitempty"`
	ProvenOnly  *bool   `json:"provenOnly,omitempty"`
	AlikeHourly *uint64 `json:"alikeHourly,omitempty"`
	Retention   *string `json:"retention,omitempty"` // see command.ParseRetention
	SenderDays  *uint64 `json:"senderDays,omitempty"`
	// DryRun changes nothing, and says how many entries the retention is about.
	DryRun bool `json:"dryRun,omitempty"`
}

// MaxOlder is up to how many entries are counted that a retention is about.
const MaxOlder = 1_000_000

// SettingsReport are the replicated settings, and what is used of the budget today.
type SettingsReport struct {
	command.Settings
	SmallShareBytes uint64 `json:"smallShareBytes"` // that a sender may always write in a day
	UsedBytes       uint64 `json:"usedBytes"`       // today, in UTC
	Senders         uint64 `json:"senders"`         // that wrote them
	DayMillis       int64  `json:"dayMs"`           // how much of today has passed
	Swept           uint64 `json:"swept"`           // entries that became stubs because of the retention
	// SweepWaiting is how many entries are old enough and were not looked at yet.
	SweepWaiting uint64 `json:"sweepWaiting"`
	// Older is, after a dry run, how many entries are older than the retention that was
	// asked for, counted up to MaxOlder.
	Older uint64 `json:"older,omitempty"`
}

// MaxEvents bounds how many events a node returns at once.
const MaxEvents = 1000

// EventsRequest asks who did what.
type EventsRequest struct {
	Since int64 `json:"since,omitempty"` // milliseconds since the epoch
	Limit int   `json:"limit,omitempty"` // at most so many, the newest; 0 and more than MaxEvents: MaxEvents
}

// Events are the newest actions of operators, moderators and leaders, the oldest first.
type Events struct {
	Events []Event `json:"events"`
	More   bool    `json:"more"` // there are older ones since the instant
}

// Event is what somebody did.
type Event struct {
	At     int64  `json:"at"`     // milliseconds since the epoch
	By     string `json:"by"`     // operator, a moderator's name, leader, or a server id
	Action string `json:"action"` // such as hide, set_settings, remove_server
	What   string `json:"what"`   // it was done to
	Reason string `json:"reason,omitempty"`
}

// Moderation is a call of the public interface that only moderators and operators make.
type Moderation struct {
	Operation string          `json:"operation"` // operationId
	Query     string          `json:"query,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
}

// Status is what a node says of its part in the cluster.
type Status struct {
	Node         string   `json:"node"`   // server id
	Role         string   `json:"role"`   // leader, follower or candidate
	Leader       *string  `json:"leader"` // server id of the leader, null when unknown
	Term         uint64   `json:"term"`
	AppliedIndex uint64   `json:"appliedIndex"`
	CommitIndex  uint64   `json:"commitIndex"`
	Voters       []string `json:"voters"` // server ids
	Version      string   `json:"version"`
	UptimeMillis int64    `json:"uptimeMs"`
	Format       int      `json:"format"`     // replicated format number
	Membership   string   `json:"membership"` // voter, non-voter, removed or none
	// Disk is nil when it is not watched.
	Disk *DiskStatus `json:"disk"`
	// LogFailure says why the node's log cannot be written; nil while it can.
	LogFailure *string `json:"logFailure"`
}

// DiskStatus is the disk that the node keeps its data on.
type DiskStatus struct {
	FreeBytes    uint64 `json:"freeBytes"`
	ReserveBytes uint64 `json:"reserveBytes"` // is to stay free
	Low          bool   `json:"low"`          // less is free; the node does not lead
}

// NodeReport is what a node says about itself.
type NodeReport struct {
	ID        string `json:"id"` // server id
	Name      string `json:"name"`
	Version   string `json:"version"`
	ClusterID string `json:"clusterId"`
	HTTP      string `json:"http"`    // host:port that others get
	Private   string `json:"private"` // the same of the private port
	Gossip    string `json:"gossip"`

	Role     string   `json:"role"`   // leader, follower or candidate
	Leader   string   `json:"leader"` // server id as this node knows it, "" for none
	Term     uint64   `json:"term"`
	Applied  uint64   `json:"applied"` // index of the newest log entry that the state machine has applied
	Commit   uint64   `json:"commit"`  // index of the newest log entry known to be committed
	LastLog  uint64   `json:"lastLog"` // index of the newest log entry on this node's disk
	Format   int      `json:"format"`  // replicated format number
	Ready    bool     `json:"ready"`
	Problems []string `json:"problems"` // conditions of readiness that do not hold, and that writes are rejected
	Warnings []string `json:"warnings"` // what else is not well
	Condition

	UptimeMillis int64  `json:"uptimeMs"`
	StaleMillis  int64  `json:"staleMs"`  // since the last contact with the leader, or since it lacks what the leader had applied; 0 on the leader
	Requests     uint64 `json:"requests"` // public HTTP requests answered since the start
	Commands     uint64 `json:"commands"` // commands applied since the start
	Open         int    `json:"open"`     // commands taken in and not answered
	QueueBytes   int    `json:"queueBytes"`
	Entries      uint64 `json:"entries"`  // entries published so far
	LogBytes     int64  `json:"logBytes"` // of log since the newest snapshot
	DiskFree     uint64 `json:"diskFree"` // bytes for the data directory
	DiskSize     uint64 `json:"diskSize"`
	MemoryBytes  uint64 `json:"memoryBytes"` // held by the process, as the runtime counts

	Settings SettingsReport `json:"settings"`
	Purges   Purges         `json:"purges"`

	Secrets     []string `json:"secrets"`     // public names of the secrets it accepts, the one in use first
	SealedUnder string   `json:"sealedUnder"` // public name of the secret that the data key is sealed under
}

// Purges says how far what was purged has left a node's disk. Purges are numbered from 1.
type Purges struct {
	Known uint64 `json:"known"` // the newest that the node knows of
	State uint64 `json:"state"` // the newest that, with all before it, has left the files of the state
	Log   uint64 `json:"log"`   // the same of the log
}

// Done is the newest purge that, with all before it, has left the disk.
func (p Purges) Done() uint64 { return min(p.State, p.Log) }

// PurgeReport says which disks still hold what was purged.
type PurgeReport struct {
	Purged  uint64        `json:"purged"` // the number of the newest purge
	Servers []PurgeServer `json:"servers"`
}

// PurgeServer is one disk.
type PurgeServer struct {
	ID      string `json:"id"`
	Part    string `json:"part"`              // as Server's, or Removed, or Destroyed
	Purged  uint64 `json:"purged"`            // purges that its disk has had the texts of, as far as is known: Done and Pending
	Done    uint64 `json:"done"`              // up to this purge nothing is left on it, as far as is known
	Pending uint64 `json:"pending"`           // purges that are not done
	Problem string `json:"problem,omitempty"` // why nothing more is known
}

// Parts of servers that are not in the cluster any more.
const (
	Removed   = "removed"
	Destroyed = "destroyed" // so is its disk, an operator says
)

// Condition is what a node has measured of itself. Times are in milliseconds.
type Condition struct {
	Rejects          string     `json:"refuses"`      // why it takes no writes now, "" while it does
	Rejected         []Rejected `json:"refused"`      // writes that it did not take in the last minute
	ClockAheadMillis float64    `json:"clockAheadMs"` // of the voters' median
	Clocks           int        `json:"clocks"`       // that the median is of, its own included
	ApplyLag         uint64     `json:"applyLag"`     // log entries known to be committed and not applied
	ApplyLagMillis   float64    `json:"applyLagMs"`   // for which it has lacked what the leader has applied
	Sync             Timing     `json:"sync"`         // writes of its log, through to the disk
	Write            Timing     `json:"write"`        // writes of clients that it answered
	Read             Timing     `json:"read"`         // reads of clients that it answered at once
	Stall            Timing     `json:"stall"`        // by how much it was late when it wanted to run
	Slow             bool       `json:"slow"`         // its disk or its processor is too slow to lead
}

// Timing is what something took in the last minute.
type Timing struct {
	Count      uint64  `json:"count"`
	MeanMillis float64 `json:"meanMs"`
	MostMillis float64 `json:"mostMs"`
}

// Rejected is the writes that a node did not take for one reason.
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
	Report *NodeReport `json:"report,omitempty"` // nil when it did not answer
	Error  string      `json:"error,omitempty"`  // why not
}

// ClusterReport is the whole cluster as one node sees it.
type ClusterReport struct {
	ClusterID string   `json:"clusterId"`
	AskedNode string   `json:"askedNode"` // server id of the node that gathered this
	Leader    string   `json:"leader"`    // as that node knows it, "" for none
	Servers   []Server `json:"servers"`   // by id
}

// Find returns the server that an operator means: by id, or by a node name that
// only one has.
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

// Voters returns the servers with a vote.
func (r *ClusterReport) Voters() []Server {
	return slices.DeleteFunc(slices.Clone(r.Servers), func(s Server) bool { return s.Part != Voter })
}

// Newest is the highest applied index of any server.
func (r *ClusterReport) Newest() uint64 {
	var newest uint64
	for _, s := range r.Servers {
		if s.Report != nil {
			newest = max(newest, s.Report.Applied)
		}
	}
	return newest
}

// ServerRef names a server; "" leaves the choice to the leader where there is
// one.
type ServerRef struct {
	ID string `json:"id"`
}

// Removal names a server that is to go. Leaving says that the server itself asks.
type Removal struct {
	ID      string `json:"id"`
	Leaving bool   `json:"leaving,omitempty"`
}

// DigestRequest asks for the digest at an index; 0 is the newest.
type DigestRequest struct {
	Index uint64 `json:"index"`
	Rows  bool   `json:"rows,omitempty"` // hash the rows, too; not at an index that is passed
}

// CompareRequest asks for a comparison of all servers.
type CompareRequest struct {
	PatienceMillis int64 `json:"patienceMs,omitempty"` // how long they may take; 0 is the node's choice
}

// Digest is what a server holds at an index, as hashes in hexadecimal.
type Digest struct {
	ID     string `json:"id"` // server id
	Index  uint64 `json:"index"`
	Digest string `json:"digest,omitempty"` // over all log entries and their results
	Rows   string `json:"rows,omitempty"`   // over the rows of the state
	Error  string `json:"error,omitempty"`  // why there is none
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

// Protection says whether a name takes writes without its edit_key.
type Protection struct {
	Agent     string `json:"agent"`
	Protected bool   `json:"protected"`
}

// KeyAnswer holds an agent's new edit_key: it is shown this once.
type KeyAnswer struct {
	Agent   string `json:"agent"`
	EditKey string `json:"edit_key"`
}

// DebugRequest asks a server for its part of a bundle; "" is the one that is asked.
type DebugRequest struct {
	ID        string `json:"id,omitempty"`
	CPUMillis int64  `json:"cpuMs,omitempty"` // how long to watch the processor
}

// DebugAnswer is what a server gives to a bundle.
type DebugAnswer struct {
	ID    string      `json:"id"`
	Files []DebugFile `json:"files"`
}

// DebugFile is one file of a bundle, or why there is none.
type DebugFile struct {
	Name  string `json:"name"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"`
}

// LogLevel is the level of a server's log. In a request, "" is the server that is
// asked, and "" leaves the level as it is.
type LogLevel struct {
	ID    string `json:"id,omitempty"`
	Level string `json:"level,omitempty"`
}

// Failure is the body of an answer that reports a failure.
type Failure struct {
	Error string `json:"error"`
}

// Health is how the leader sees the servers in Raft's configuration.
type Health struct {
	Healthy          bool           `json:"healthy"`          // every server is
	FailureTolerance int            `json:"failureTolerance"` // voters that may be lost while a quorum stays
	Servers          []ServerHealth `json:"servers"`          // ordered by id
}

// ServerHealth is how the leader sees one server.
type ServerHealth struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	Leader        bool    `json:"leader"`
	Voter         bool    `json:"voter"`
	Alive         bool    `json:"alive"` // gossip knows it
	Healthy       bool    `json:"healthy"`
	StableSince   Instant `json:"stableSince"`   // when Healthy last changed, or this leader began to look
	LastContactMs int64   `json:"lastContactMs"` // since it heard from the leader; -1 when it does not answer
	LastTerm      uint64  `json:"lastTerm"`      // of its newest log entry
	LastIndex     uint64  `json:"lastIndex"`     // up to which it has logged and applied
	Version       string  `json:"version,omitempty"`
}

// Instant is a time.Time that is milliseconds since the epoch in JSON. Within the
// process it keeps the monotonic clock, so that a step of the other one makes no
// server stable.
type Instant struct{ time.Time }

// MarshalJSON returns a number.
func (i Instant) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, i.UnixMilli(), 10), nil
}

// UnmarshalJSON reads what MarshalJSON returns.
func (i *Instant) UnmarshalJSON(data []byte) error {
	millis, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("an instant is milliseconds since the epoch: %w", err)
	}
	i.Time = time.UnixMilli(millis)
	return nil
}

// Stable reports whether the server has been healthy for a time.
func (s ServerHealth) Stable(now time.Time, since time.Duration) bool {
	return s.Healthy && now.Sub(s.StableSince.Time) >= since
}

// Server returns the health of one server.
func (h Health) Server(id string) (ServerHealth, bool) {
	i, found := slices.BinarySearchFunc(h.Servers, id, func(s ServerHealth, id string) int { return strings.Compare(s.ID, id) })
	if !found {
		return ServerHealth{}, false
	}
	return h.Servers[i], true
}

// HealthReport is the servers' health as the leader sees it, and what they say of
// themselves.
type HealthReport struct {
	Health
	Reports []Server `json:"reports"` // by id
}

// sizes are the binary prefixes of numbers of bytes.
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

// ParseBytes reads a number of bytes up to most, with a binary prefix or none.
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
