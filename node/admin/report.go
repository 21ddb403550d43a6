package admin

import (
	"slices"
	"strings"

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
}

// SettingsReport are the replicated settings, and what is used of the budget today.
type SettingsReport struct {
	command.Settings
	SmallShareBytes uint64 `json:"smallShareBytes"` // that a sender may always write in a day
	UsedBytes       uint64 `json:"usedBytes"`       // today, in UTC, without a key
	Senders         uint64 `json:"senders"`         // that wrote them
	DayMillis       int64  `json:"dayMs"`           // how much of today has passed
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
	Problems []string `json:"problems"` // conditions of readiness that do not hold, and that writes are refused
	Warnings []string `json:"warnings"` // what else is not well
	Condition

	UptimeMillis int64  `json:"uptimeMs"`
	StaleMillis  int64  `json:"staleMs"`  // since it heard from the leader, or has lacked what that had applied; 0 on the leader
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

	Secrets     []string `json:"secrets"`     // public names of the secrets it accepts, the one in use first
	SealedUnder string   `json:"sealedUnder"` // public name of the secret that the data key is sealed under
}

// Condition is what a node has measured of itself. Times are in milliseconds.
type Condition struct {
	Refuses          string    `json:"refuses"`      // why it takes no writes now, "" while it does
	Refused          []Refused `json:"refused"`      // writes that it did not take in the last minute
	ClockAheadMillis float64   `json:"clockAheadMs"` // of the voters' median
	Clocks           int       `json:"clocks"`       // that the median is of, its own included
	ApplyLag         uint64    `json:"applyLag"`     // log entries known to be committed and not applied
	ApplyLagMillis   float64   `json:"applyLagMs"`   // for which it has lacked what the leader has applied
	Sync             Timing    `json:"sync"`         // writes of its log, through to the disk
	Write            Timing    `json:"write"`        // writes of clients that it answered
	Stall            Timing    `json:"stall"`        // by how much it was late when it wanted to run
}

// Timing is what something took in the last minute.
type Timing struct {
	Count      uint64  `json:"count"`
	MeanMillis float64 `json:"meanMs"`
	MostMillis float64 `json:"mostMs"`
}

// Refused is the writes that a node did not take for one reason.
type Refused struct {
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

// Failure is the body of an answer that is no success.
type Failure struct {
	Error string `json:"error"`
}
