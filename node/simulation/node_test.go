package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
)

// node is one server of a cluster, with the Raft that runs there and its file.
type node struct {
	c         *cluster
	id        string // of the server and of its host; a replaced disk is another server
	starts    int
	rng       *rand.Rand
	snapshots *snapshots

	// These change at each start, under the cluster's lock.
	raft    *consensus.Raft // nil while the node is down
	log     *logstore.Store
	disk    *disk
	machine *machine
	end     context.CancelFunc

	stored durable
}

// durable is the state of Raft that a disk must not lose.
type durable struct {
	term  uint64
	votes map[uint64]string // candidates by term
}

// streams is the stream layer of a host. Addresses are server ids.
type streams struct {
	net.Listener

	host simnet.Host
}

func (s streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.host.DialContext(ctx, "tcp", string(to))
}

func (n *node) path() string {
	return filepath.Join(n.c.dir, fmt.Sprintf("%s-%d.db", n.id, n.starts))
}

// journalBytes is the size of a file of the log's journal that little fills.
const journalBytes = 8 << 10

// start starts the node over its files.
func (n *node) start() error {
	c := n.c
	d := newDisk(rand.New(rand.NewPCG(c.seed, n.rng.Uint64())), &c.mix, func() *simnet.Net { return c.net }, n.id)
	path := n.path()
	log, err := logstore.Open(logstore.Options{
		Path:     path,
		Snapshot: func() uint64 { return consensus.LastSnapshot(snapshotsOn{n.snapshots, d}) },
		Around:   func(what string, do func() error) error { return d.around(what, path, do, func() { n.checkStored(d) }) },
		Free:     d.free, JournalBytes: journalBytes,
		Fatal: func(err error) { n.abandon(d, err) },
	})
	if err != nil {
		return err
	}
	n.disk, n.log = d, log
	n.checkStored(d)
	if list, _ := n.snapshots.List(); len(list) > 0 {
		if err := log.Align(list[0].Index, list[0].Term); err != nil {
			return err
		}
	}
	host := c.net.Host(n.id)
	listener, err := host.Listen(context.Background(), "tcp", n.id)
	if err != nil {
		return err
	}
	m := &machine{report: func(at position, entry *raft.Log) { c.checkApplied(n, at, entry) }}
	logger := slog.New(slog.DiscardHandler)
	if *verbose {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("server", n.id)
	}
	r, err := consensus.Start(consensus.Config{
		ServerID: n.id, Heartbeat: beat, Lease: beat,
		TrailingBytes: c.mix.logBytes, SnapshotBytes: c.mix.logBytes, RestoreOnStart: true,
		Machine: m, Log: log, Snapshots: &consensus.Snapshots{SnapshotStore: snapshotsOn{n.snapshots, d}},
		Stream: streams{listener, host}, Logger: logger, Ending: func() bool { return d.off.Load() },
		Hooks: consensus.Hooks{
			Around: func(_ string, do func() error) error { d.whilePaused(); return do() },
			Stored: func(time.Duration) {}, Failed: func(error) {}, Founded: func(string) bool { return false }, Restored: func() {},
			Abandon: func(err error) { n.abandon(d, err) },
			Covered: func() uint64 { return m.position().Index },
		},
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	c.ends.Go(func() { r.TakeSnapshots(ctx, func() uint64 { return 0 }) })
	c.state.Lock()
	defer c.state.Unlock()
	n.machine, n.end, n.raft = m, end, r
	return nil
}

// abandon records that the node ended by itself. Damage of its log is a bug: the disk
// never loses synced bytes.
func (n *node) abandon(d *disk, err error) {
	if d.off.Load() {
		return
	}
	if errors.Is(err, logstore.ErrCorrupt) {
		n.c.problem("%s: %v", n.id, err)
	}
	n.c.event("%s ends: %v", n.id, err)
	n.c.ended.Store(n, true)
}

// crash ends a node at once. Its next start sees only what its disk had synced.
func (n *node) crash() error {
	data, err := n.disk.powerOff(n.path())
	if err != nil {
		return err
	}
	old := n.path()
	n.starts++
	n.stop(old)
	return data.write(n.path())
}

// stop ends the goroutines of a node whose disk is off, and removes its file.
func (n *node) stop(file string) {
	n.c.net.Reset(n.id, "")
	n.end()
	r, log := n.raft, n.log
	n.raft, n.log = nil, nil
	n.c.ended.Delete(n)
	n.c.ends.Go(func() {
		_ = r.Stop()    // may not end in time
		_ = log.Close() // the disk is off
		for _, name := range logstore.Files(file) {
			_ = os.Remove(name)
		}
	})
}

// replace makes the node that is down a new server with an empty disk.
func (n *node) replace() {
	n.id += "x"
	n.starts = 0
	n.snapshots = &snapshots{}
	n.c.former = append(n.c.former, n.stored)
	n.stored = durable{votes: map[uint64]string{}}
}

// onDisk returns a copy of the term and the votes on the disk.
func (n *node) onDisk() durable {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return durable{term: n.stored.term, votes: maps.Clone(n.stored.votes)}
}

// checkStored checks the terms and votes on a disk after a transaction: a term never goes
// back, and a node votes once in a term.
func (n *node) checkStored(d *disk) {
	if n.log == nil || n.disk != d {
		return
	}
	read := func(key string) uint64 {
		value, err := n.log.GetUint64([]byte(key))
		if err != nil && !errors.Is(err, logstore.ErrNotFound) {
			n.c.problem("%s: reading %s: %v", n.id, key, err)
		}
		return value
	}
	term, voted := read("CurrentTerm"), read("LastVoteTerm")
	if term < n.stored.term {
		n.c.problem("%s: the term on its disk goes back from %d to %d", n.id, n.stored.term, term)
	}
	n.stored.term = term
	candidate, err := n.log.Get([]byte("LastVoteCand"))
	if err != nil || len(candidate) == 0 {
		return
	}
	if before := n.stored.votes[voted]; cmp.Or(before, string(candidate)) != string(candidate) {
		n.c.problem("%s: votes twice in term %d: for %s and %s", n.id, voted, before, candidate)
	}
	n.stored.votes[voted] = string(candidate)
}

// event is a line of a run's log.
type event struct {
	at   time.Duration
	text string
}

// journal is the log of a run, and the problems that were found.
type journal struct {
	mu       sync.Mutex
	began    time.Time
	events   []event
	problems []string
}

func (j *journal) event(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event{time.Since(j.began), fmt.Sprintf(format, args...)})
}

// String returns the problems and the events.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var log strings.Builder
	for _, e := range j.events {
		fmt.Fprintf(&log, "%14v %s\n", e.at, e.text)
	}
	return strings.Join(j.problems[:min(len(j.problems), maxProblems)], "\n") + "\n" + log.String()
}

// maxProblems bounds the problems of a run that are kept. The first one causes most of the
// others.
const maxProblems = 8

func (j *journal) problem(format string, args ...any) {
	if j.found() < maxProblems {
		j.event("PROBLEM "+format, args...)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

// found returns the number of problems.
func (j *journal) found() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.problems)
}
