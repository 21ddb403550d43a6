package consensus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/logstore"
)

// How Raft runs. Times that an operator may change are flags.
const (
	// commitTimeout is the pause after which an idle leader repeats the commit index.
	// Followers learn it at once from a notice (transport.go): this is for lost notices,
	// and for entries that the state machine does not see.
	commitTimeout = 250 * time.Millisecond
	// maxAppendEntries bounds a message between nodes: Raft counts entries, not
	// bytes, and an entry has up to fsm.MaxBatchBytes.
	maxAppendEntries = 64
	raftPool         = 3 // the number of idle connections kept per peer
	// raftIOTimeout bounds one message and its answer. After it a broken connection is
	// dialled again.
	raftIOTimeout = 2 * time.Second
	// neverSnapshot keeps Raft from taking snapshots by itself; see snapshots.go.
	neverSnapshot         = math.MaxUint64
	neverSnapshotInterval = 24 * time.Hour
	raftStopTimeout       = 10 * time.Second // bounds the wait for Raft's goroutines at the end
)

// Config configures Raft.
type Config struct {
	ServerID         string
	Heartbeat, Lease time.Duration
	// TrailingBytes of log are kept after a snapshot, for followers that lag a little.
	TrailingBytes int64
	SnapshotBytes int64 // how much log after a snapshot triggers the next one

	Machine raft.BatchingFSM
	// RestoreOnStart has Raft install its newest snapshot when it starts.
	RestoreOnStart bool
	Log            *logstore.Store
	Snapshots      *Snapshots
	Stream         raft.StreamLayer
	Hooks          Hooks
	Logger         *slog.Logger
	// Ending reports whether the node closes its connections.
	Ending func() bool
}

// Hooks are called by Raft's goroutines. All of them are required.
type Hooks struct {
	Around func(what string, do func() error) error // runs each write of the state
	Stored func(took time.Duration)                 // entries are on disk after a write of that duration
	Failed func(error)                              // a write of the log failed
	// Founded is called when the first configuration of a cluster is on disk. It reports
	// whether this node was in no cluster before.
	Founded  func(clusterID string) bool
	Restored func()        // a snapshot was installed
	Abandon  func(error)   // ends the node: Raft cannot continue without a write of the log that failed, or with ErrRejects
	Covered  func() uint64 // returns the index up to which the state is complete
}

// Raft is the running Raft of a node.
type Raft struct {
	*raft.Raft
	cfg       Config
	transport *transport
	reload    sync.Mutex // held while settings are changed
	// transferring is true while leadership is handed over.
	transferring atomic.Bool
}

// Start runs Raft over the log, the state machine and the private port.
func Start(cfg Config) (*Raft, error) {
	terms, err := loadTerms(cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("starting Raft: %w", err)
	}
	t := newTransport(cfg.Log, terms, cfg.Hooks.Covered, raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:                  NewLogger(cfg.Logger, cfg.Ending),
		Stream:                  cfg.Stream,
		MaxPool:                 raftPool,
		Timeout:                 raftIOTimeout,
		MsgpackUseNewTimeFormat: true,
	}))
	log := raftLog{cfg.Log, cfg.Hooks, terms, t.discard}
	inner, err := panicAsError(func() (*raft.Raft, error) {
		return raft.NewRaft(cfg.settings(), observedFSM{cfg.Machine, cfg.Hooks, t.notices, cfg.Log}, log, log, cfg.Snapshots, t)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting Raft: %w", err), t.Close())
	}
	t.raft.Store(inner)
	r := &Raft{Raft: inner, cfg: cfg, transport: t}
	go r.watchRejections()
	return r, nil
}

// panicAsError returns what start panics with, such as the error of a corrupt log: Raft
// panics when it reads the log for configurations, before it starts any goroutine.
func panicAsError(start func() (*raft.Raft, error)) (r *raft.Raft, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case error:
			err = cause
		default:
			err = fmt.Errorf("%v", cause)
		}
	}()
	return start()
}

func (cfg *Config) settings() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.ServerID)
	c.HeartbeatTimeout = cfg.Heartbeat
	c.ElectionTimeout = cfg.Heartbeat
	c.LeaderLeaseTimeout = cfg.Lease
	c.CommitTimeout = commitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.ShutdownOnRemove = false
	c.NoSnapshotRestoreOnStart = !cfg.RestoreOnStart
	c.SnapshotThreshold = neverSnapshot
	c.SnapshotInterval = neverSnapshotInterval
	c.TrailingLogs = cfg.Log.Trailing(cfg.TrailingBytes)
	c.NoLegacyTelemetry = true
	c.Logger = NewLogger(cfg.Logger, cfg.Ending)
	return c
}

// Reload changes settings of the running Raft.
func (r *Raft) Reload(change func(*raft.ReloadableConfig)) error {
	r.reload.Lock()
	defer r.reload.Unlock()
	c := r.ReloadableConfig()
	change(&c)
	return r.ReloadConfig(c)
}

// Interrupt ends the running attempts to reach other nodes and starts no new ones.
func (r *Raft) Interrupt() { r.transport.stop() }

// Stop ends Raft and waits for its goroutines: no entry is applied afterwards. The wait is
// bounded, because a hanging disk must not keep the process.
func (r *Raft) Stop() error {
	r.Interrupt()
	stopped := make(chan error, 1)
	go func() {
		stopped <- errors.Join(r.Shutdown().Error(), r.transport.Close())
	}()
	select {
	case err := <-stopped:
		return err
	case <-time.After(raftStopTimeout):
		return fmt.Errorf("stopping Raft: not ended within %v", raftStopTimeout)
	}
}

// Voters returns the ids of the servers with a vote.
func (r *Raft) Voters() []string {
	var ids []string
	for _, s := range r.Servers() {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// Servers returns Raft's latest configuration.
func (r *Raft) Servers() []raft.Server {
	future := r.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// CommitIndex returns the index of the newest entry that is known to be committed.
func (r *Raft) CommitIndex() uint64 { return written(r.cfg.Log, r.Raft.CommitIndex()) }

// Leads reports whether Raft considers this node the leader.
func (r *Raft) Leads() bool { return r.State() == raft.Leader }

// LeaderID returns the leader according to this node. It is empty if the leader is unknown.
func (r *Raft) LeaderID() string {
	_, id := r.LeaderWithID()
	return string(id)
}

// Contains reports whether a configuration includes a server.
func Contains(servers []raft.Server, id string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == id })
}

// Alone is the configuration of a cluster with one server.
func Alone(serverID string) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(serverID), Address: raft.ServerAddress(serverID)},
	}}
}

// stateWrite names a write of the state; logstore names its own.
const stateWrite = "a write of the state"

// watchedEntries is the number of log entries in one watched write. A replay applies many at once, and
// each may change hundreds of rows: together they would look like a hanging disk.
const watchedEntries = 8

// observedFSM is the state machine with its hooks, and the notices of applied entries.
// Commands in an installed snapshot are not observed one by one.
type observedFSM struct {
	raft.BatchingFSM
	hooks   Hooks
	notices *notices
	log     queue
}

func (f observedFSM) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

func (f observedFSM) ApplyBatch(entries []*raft.Log) (answers []any) {
	newest := entries[len(entries)-1]
	if f.log.WaitWritten(newest.Index) != nil {
		// The node ends. No answer would do: Raft would take the entries to be applied, tell
		// the clients so, and date the next snapshot accordingly.
		runtime.Goexit()
	}
	f.notices.committed(newest.Index, newest.Term)
	for part := range slices.Chunk(entries, watchedEntries) {
		_ = f.hooks.Around(stateWrite, func() error { // a log entry cannot be rejected
			answers = append(answers, f.BatchingFSM.ApplyBatch(part)...)
			return nil
		})
	}
	return answers
}

func (f observedFSM) Restore(r io.ReadCloser) error {
	if err := f.BatchingFSM.Restore(r); err != nil {
		return err
	}
	f.hooks.Restored()
	return nil
}

// NewLogger returns an hclog.Logger that passes Raft's messages on to the given logger.
// While ending reports true, connections that this node closed itself are no errors; a
// nil ending is always false.
func NewLogger(to *slog.Logger, ending func() bool) hclog.Logger {
	sink := &slogSink{to: to.With("part", "raft"), ending: ending}
	lowest := hclog.Trace
	for lowest < hclog.Error && !sink.to.Enabled(context.Background(), slogLevels[lowest]) {
		lowest++
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "raft", Level: lowest, Output: io.Discard,
		Exclude: func(hclog.Level, string, ...any) bool { return true }, // the sink writes
	})
	l.RegisterSink(sink)
	return l
}

type slogSink struct {
	to     *slog.Logger
	ending func() bool
}

// slogLevels are the levels of slog by those of hclog. Trace is below debug.
var slogLevels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelInfo,
	hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError,
}

// Accept implements hclog.SinkAdapter. The name is not written.
func (s *slogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level > hclog.Debug && s.ending != nil && slices.ContainsFunc(args, isClosed) && s.ending() {
		level = hclog.Debug
	}
	if level == hclog.Warn && isFirstStart(msg, args) {
		level = hclog.Info
	}
	for _, expected := range []error{raft.ErrNothingNewToSnapshot, errOvertaken, errCovered, errTakesOwn, errSentRecently} {
		if slices.Contains(args, any(expected)) {
			level = min(level, hclog.Debug)
		}
	}
	at, ok := slogLevels[level]
	if !ok || !s.to.Enabled(context.Background(), at) {
		return
	}
	s.to.Log(context.Background(), at, msg, plain(args)...) //nolint:sloglint // the message is the library's
}

// firstStarts are the warnings that Raft logs whenever a cluster is formed, each with
// its argument in that case.
var firstStarts = map[string]struct{ name, value string }{
	"no known peers, aborting election":            {},
	"heartbeat timeout reached, starting election": {"last-leader-id", ""},
	"failed to get previous log":                   {"last-index", "0"},
	"appendEntries rejected, sending older logs":   {"next", "1"},
}

// isFirstStart reports whether a warning is normal at a first start.
func isFirstStart(msg string, args []any) bool {
	of, known := firstStarts[msg]
	for i := 0; known && i+1 < len(args); i += 2 {
		if args[i] == of.name {
			return fmt.Sprint(args[i+1]) == of.value
		}
	}
	return known && of.name == ""
}

// isClosed reports whether an argument is the error of a connection closed on this side.
func isClosed(arg any) bool {
	err, ok := arg.(error)
	return ok && (errors.Is(err, raft.ErrTransportShutdown) || errors.Is(err, net.ErrClosed))
}

// plain converts values that only hclog can format, and Raft itself, to strings.
func plain(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case hclog.Format:
			out[i] = fmt.Sprintf(fmt.Sprint(a[0]), a[1:]...)
		case fmt.Stringer:
			out[i] = a.String()
		default:
			out[i] = a
		}
		if i%2 == 0 && a == "node" {
			out[i] = "raft" // every line says which node it is of
		}
	}
	return out
}

// The keys of Raft's current term, and of the term and the candidate of its newest vote.
var (
	KeyCurrentTerm  = []byte("CurrentTerm")
	KeyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// raftLog is the log as Raft writes it. It calls the hooks, and handles failed writes
// where Raft does not.
type raftLog struct {
	*logstore.Store
	hooks   Hooks
	terms   *terms
	discard func() // rejects the messages that wait to be taken in
}

func (l raftLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries. Those that this node appends as the leader come without a
// checksum; its commands are written while the followers get them
// (docs/decisions/0016-the-leader-writes-while-it-sends.md).
//
// Raft ignores the error for a configuration of its own, and would use a configuration
// that no log holds. So the node is ended first, and Raft's goroutine with it.
func (l raftLog) StoreLogs(entries []*raft.Log) error {
	if isSnapshotEnd(entries[0]) {
		return l.failed(l.endAt(entries[0]))
	}
	own := !slices.ContainsFunc(entries, func(e *raft.Log) bool { return len(e.Extensions) > 0 })
	err := l.store(entries, own)
	if err != nil && own && entries[0].Type == raft.LogConfiguration && entries[0].Index > 1 {
		l.hooks.Abandon(fmt.Errorf("the log cannot take a change of the cluster's servers, which Raft would use without it: %w", err))
		runtime.Goexit()
	}
	return err
}

// store is StoreLogs without the end of the node. own says that this node made the
// entries.
func (l raftLog) store(entries []*raft.Log, own bool) error {
	// A leader leads only in a term in which it has voted. An entry of another term would
	// stand for that term's leader's entry with the same index. The first entry of a log is
	// the founder's, which precedes any election.
	if own && entries[0].Index > 1 {
		if err := l.terms.elected(entries[0].Term); err != nil {
			return err
		}
	}
	if own && !slices.ContainsFunc(entries, func(e *raft.Log) bool { return e.Type != raft.LogCommand }) {
		if queued, err := l.Queue(entries, l.hooks.Stored); queued || err != nil {
			return l.failed(err)
		}
	}
	begun := time.Now()
	err := l.Store.StoreLogs(entries)
	if err == nil {
		l.hooks.Stored(time.Since(begun))
		// This happens before the write is acknowledged. This goroutine also receives messages:
		// those that wait now may be from the founder of another cluster.
		if id := foundedAs(entries[0]); id != "" && l.hooks.Founded(id) {
			l.discard()
		}
	}
	return l.failed(err)
}

func (l raftLog) Set(key, value []byte) error {
	return l.failed(l.Store.Set(key, value))
}

func (l raftLog) SetUint64(key []byte, value uint64) error {
	switch {
	case bytes.Equal(key, KeyCurrentTerm):
		return l.setTerm(value)
	case bytes.Equal(key, KeyLastVoteTerm):
		// Raft stores the candidate that it votes for after the term. If the node stopped in
		// between, the candidate of an older term would count as its vote in the new term,
		// without a check of that candidate's log.
		if err := l.Set(keyLastVoteCand, nil); err != nil {
			return err
		}
		if err := l.failed(l.Store.SetUint64(key, value)); err != nil {
			return err
		}
		l.terms.voted.Store(value)
		return nil
	}
	return l.failed(l.Store.SetUint64(key, value))
}

// setTerm stores the current term. It never stores a lower one. Raft takes the term into
// its memory as soon as this returns, and panics on an error. So when the term is not
// stored the node is ended, and Raft's goroutine with it. At its start Raft stores the
// term that it has just read: that write is skipped.
func (l raftLog) setTerm(term uint64) error {
	err := l.terms.raise(term, func() error { return l.failed(l.Store.SetUint64(KeyCurrentTerm, term)) })
	if err != nil {
		l.hooks.Abandon(fmt.Errorf("the log cannot take the new term %d, and without it this node must not go on: %w", term, err))
		runtime.Goexit()
	}
	return nil
}

// failed passes an error of a write on. Raft tries again by itself.
func (l raftLog) failed(err error) error {
	if err != nil {
		l.hooks.Failed(err)
	}
	return err
}

// The id of a cluster follows from its first configuration, the first entry of its log:
// the random parts of the server ids make it unique. So every node with that entry, the
// founder first of all, can recognise a second cluster, formed by nodes that did not
// see a founder whose start was interrupted. Raft cannot: both logs begin with entry 1
// of term 1.

// foundedAs returns the id of the cluster that a log entry founds, or "".
func foundedAs(entry *raft.Log) string {
	if entry.Index != 1 || entry.Type != raft.LogConfiguration {
		return ""
	}
	sum := sha256.Sum256(entry.Data)
	return hex.EncodeToString(sum[:cluster.ClusterIDBytes])
}

// FoundedBy returns the id of the cluster that a log begins with, or "".
func FoundedBy(log *logstore.Store) (string, error) {
	first, _ := log.Bounds()
	if first != 1 {
		return "", nil
	}
	var entry raft.Log
	if err := log.GetLog(first, &entry); err != nil {
		return "", err
	}
	return foundedAs(&entry), nil
}
