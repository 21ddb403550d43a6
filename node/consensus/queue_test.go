package consensus

import (
	"encoding/gob"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// testQueue has not written the entries from an index on. The test sends the results of
// waiting for one of them.
type testQueue struct {
	unwritten uint64
	ends      chan error
}

func (q *testQueue) FirstIndex() (uint64, error) { return 0, nil }
func (q *testQueue) Unwritten() uint64           { return q.unwritten }

func (q *testQueue) WaitWritten(index uint64) error {
	if index < q.unwritten {
		return nil
	}
	return <-q.ends
}

// TestApplyWaitsForTheLog: a batch of which this node's log has not written the newest entry
// is neither applied nor told to others, and never is when that entry cannot be written.
func TestApplyWaitsForTheLog(t *testing.T) {
	for name, end := range map[string]error{"written": nil, "failed": errors.New("a test")} {
		t.Run(name, func(t *testing.T) {
			var machine testMachine
			n := &notices{term: 2}
			q := &testQueue{unwritten: 5, ends: make(chan error)}
			answered, ended := make(chan int, 1), make(chan struct{})
			go func() {
				defer close(ended)
				answered <- len(observedFSM{&machine, quietHooks(), n, q}.ApplyBatch(entries(2, 4, 5)))
			}()
			select {
			case q.ends <- end:
			case <-ended:
				t.Fatal("applied at once")
			}
			<-ended
			if got := len(answered) == 1; got != (end == nil) || machine.has(5) != (end == nil) || (n.applied == 5) != (end == nil) {
				t.Errorf("answered %v, applied %v, noticed %d", got, machine.applied, n.applied)
			}
		})
	}
}

// TestReplayIsWatchedInParts: many log entries at once are not one write for the watchdog.
func TestReplayIsWatchedInParts(t *testing.T) {
	var machine testMachine
	hooks, writes := quietHooks(), 0
	hooks.Around = func(_ string, do func() error) error { writes++; return do() }
	many := entries(2, 1)
	for index := uint64(2); index <= 64; index++ {
		many = append(many, entries(2, index)...)
	}
	answers := observedFSM{&machine, hooks, &notices{term: 2}, &testQueue{unwritten: 100}}.ApplyBatch(many)
	check.Equal(t, len(answers), 64, "answers")
	check.Equal(t, writes, 8, "writes")
	check.Equal(t, machine.has(1) && machine.has(64), true, "all are applied")
}

// keptPipeline keeps the requests that it is given.
type keptPipeline struct {
	raft.AppendPipeline
	sent []raft.AppendEntriesRequest
}

func (p *keptPipeline) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.sent = append(p.sent, *req)
	return nil, nil
}
func (p *keptPipeline) Consumer() <-chan raft.AppendFuture { return nil }
func (p *keptPipeline) Close() error                       { return nil }

// TestCommitIndexEndsEarly: the commit index in a pipeline is neither of an entry that this
// node's own log lacks, nor behind the end of the request: there, a follower's log may still
// have entries of another leader.
func TestCommitIndexEndsEarly(t *testing.T) {
	for _, tt := range []struct {
		name                          string
		unwritten, prev, commit, want uint64
		entries                       []*raft.Log
	}{
		{"nothing queued", 0, 20, 9, 9, nil},
		{"queued behind it", 10, 20, 9, 9, nil},
		{"the last is queued", 9, 20, 9, 8, nil},
		{"more is queued", 5, 20, 9, 4, nil},
		{"older than the queue", 5, 20, 3, 3, nil},
		{"the request ends before it", 0, 7, 9, 7, nil},
		{"its entries end before it", 0, 6, 9, 8, entries(2, 7, 8)},
		{"its entries end at it", 0, 6, 8, 8, entries(2, 7, 8)},
		{"a request without a position", 0, 0, 9, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, end, kept := &notices{}, make(chan struct{}), &keptPipeline{}
			defer close(end)
			p := newPipeline(kept, end, time.Hour, link{&testQueue{unwritten: tt.unwritten}, electedIn(2), n, "f", "f"})
			must.Get(p.AppendEntries(&raft.AppendEntriesRequest{Term: 2, PrevLogEntry: tt.prev, Entries: tt.entries, LeaderCommitIndex: tt.commit}, nil))(t)
			check.Equal(t, kept.sent[0].LeaderCommitIndex, tt.want, "sent is the commit index")
			check.Equal(t, n.peers["f"].commit, tt.want, "noticed is the commit index")
		})
	}
}

// TestRequestsEndAtTheQueue: the same without a pipeline.
func TestRequestsEndAtTheQueue(t *testing.T) {
	var inner [2]*raft.NetworkTransport
	for i := range inner {
		inner[i] = tcpTransport(t)
	}
	got := make(chan uint64, 1)
	go func() {
		rpc := <-inner[1].Consumer()
		req, _ := rpc.Command.(*raft.AppendEntriesRequest)
		got <- req.LeaderCommitIndex
		rpc.Respond(&raft.AppendEntriesResponse{}, nil)
	}()
	from := newTransport(&testQueue{unwritten: 5}, electedIn(2), nothingCovered, inner[0])
	req := &raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 20, PrevLogTerm: 2, LeaderCommitIndex: 9}
	must.Do(t, from.AppendEntries("f", inner[1].LocalAddr(), req, &raft.AppendEntriesResponse{}))
	check.Equal(t, <-got, 4, "sent was the commit index")
	from.stop()
}

// wires connect nodes, but for those that are cut off.
type wires struct {
	mu    sync.Mutex
	cut   string
	conns map[net.Conn][2]string
}

// cutOff cuts one node off, and joins the former one. Empty means that all are joined.
func (w *wires) cutOff(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = node
	for conn, ends := range w.conns {
		if ends[0] == node || ends[1] == node {
			_ = conn.Close()
			delete(w.conns, conn)
		}
	}
}

// wired is a node's end of the wires.
type wired struct {
	net.Listener
	wires *wires
}

func (l wired) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	w, from := l.wires, l.Addr().String()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == from || w.cut == string(to) {
		return nil, errors.New("cut off")
	}
	conn, err := (&net.Dialer{Timeout: timeout}).Dial("tcp", string(to))
	if err == nil {
		w.conns[conn] = [2]string{from, string(to)}
	}
	return conn, err
}

// textMachine is a state machine that records the applied texts.
type textMachine struct {
	raft.BatchingFSM
	mu    sync.Mutex
	texts map[uint64]string
}

func (m *textMachine) ApplyBatch(entries []*raft.Log) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if e.Type == raft.LogCommand {
			m.texts[e.Index] = string(e.Data)
		}
	}
	return make([]any, len(entries))
}

func (m *textMachine) Snapshot() (raft.FSMSnapshot, error) { return texts(m.all()), nil }

func (m *textMachine) Restore(r io.ReadCloser) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.texts)
	return errors.Join(gob.NewDecoder(r).Decode(&m.texts), r.Close())
}

// texts is a snapshot of a textMachine.
type texts map[uint64]string

func (s texts) Persist(to raft.SnapshotSink) error {
	return errors.Join(gob.NewEncoder(to).Encode(s), to.Close())
}

func (texts) Release() {}

func (m *textMachine) all() map[uint64]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.texts)
}

// countedSnapshots counts how often a snapshot is opened.
type countedSnapshots struct {
	raft.SnapshotStore
	opened atomic.Int64
	ending atomic.Pointer[func()] // is called before the next snapshot ends; nil means that nothing is
}

// endingSink is a snapshot that calls ending before it ends.
type endingSink struct {
	raft.SnapshotSink
	ending func()
}

func (s endingSink) Close() error {
	s.ending()
	return s.SnapshotSink.Close()
}

func (s *countedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if ending := s.ending.Swap(nil); ending != nil && err == nil {
		return endingSink{sink, *ending}, nil
	}
	return sink, err
}

func (s *countedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.opened.Add(1)
	return s.SnapshotStore.Open(id)
}

// queueNode is a node with a log on disk, whose writes can be held up.
type queueNode struct {
	*Raft
	id        string
	machine   *textMachine
	log       *logstore.Store
	stored    countedSnapshots
	snapshots *Snapshots // stored
	covered   atomic.Uint64
	held      atomic.Pointer[chan struct{}] // closed when writes go on; nil means that they are not held up
	abandoned chan error                    // reasons for an end of the node; nil means that an end fails the test
}

func (n *queueNode) hold() (release func()) {
	held := make(chan struct{})
	n.held.Store(&held)
	return sync.OnceFunc(func() { n.held.Store(nil); close(held) })
}

// last returns the index of the newest entry in the file of the log.
func (n *queueNode) last(t *testing.T) uint64 {
	t.Helper()
	return must.Get(n.log.LastIndex())(t)
}

// newNode returns a node that does not run yet, with an empty log at the address of a
// listener.
func newNode(t *testing.T) (*queueNode, net.Listener) {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	return newNodeAt(t, listener), listener
}

// newNodeAt is newNode with a listener.
func newNodeAt(t *testing.T, listener net.Listener) *queueNode {
	t.Helper()
	n := &queueNode{id: listener.Addr().String(), machine: &textMachine{texts: map[uint64]string{}}}
	n.log = must.Get(logstore.Open(logstore.Options{
		Path: filepath.Join(t.TempDir(), "raft.db"), Fatal: func(err error) { t.Error(err) },
		Snapshot: func() uint64 { return LastSnapshot(n.snapshots) },
		Around: func(_ string, do func() error) error {
			if held := n.held.Load(); held != nil {
				<-*held
			}
			return do()
		},
	}))(t)
	n.stored.SnapshotStore = raft.NewInmemSnapshotStore()
	n.snapshots = &Snapshots{SnapshotStore: &n.stored}
	return n
}

// start runs a node until the test ends.
func (n *queueNode) start(t *testing.T, stream raft.StreamLayer, election time.Duration) {
	t.Helper()
	n.Raft = must.Get(Start(Config{
		ServerID: n.id, Heartbeat: election, Lease: election, TrailingBytes: 1 << 30, SnapshotBytes: 1 << 30,
		Machine: n.machine, Log: n.log, Snapshots: n.snapshots, Stream: stream,
		Logger: slog.New(slog.DiscardHandler), Ending: func() bool { return false },
		Hooks: Hooks{
			Around: func(_ string, do func() error) error { return do() }, Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) },
			Founded: func(string) bool { return false }, Restored: func() {}, Covered: n.covered.Load,
			Abandon: func(err error) {
				if n.abandoned == nil {
					t.Error(err)
					return
				}
				n.abandoned <- err
			},
		},
	}))(t)
	t.Cleanup(func() {
		check.Err(t, errors.Join(n.Stop(), n.log.Close()), nil, "error")
	})
}

// queueCluster is a cluster of three.
func queueCluster(t *testing.T) (*wires, []*queueNode) {
	t.Helper()
	w := &wires{conns: map[net.Conn][2]string{}}
	var servers []raft.Server
	nodes := make([]*queueNode, 3)
	for i := range nodes {
		n, listener := newNode(t)
		n.start(t, wired{listener, w}, 2*time.Second)
		nodes[i] = n
		servers = append(servers, raft.Server{ID: raft.ServerID(n.id), Address: raft.ServerAddress(n.id)})
	}
	must.Do(t, nodes[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error())
	return w, nodes
}

// leads waits for a leader among nodes, and returns it and the others.
func leads(t *testing.T, nodes ...*queueNode) (leader *queueNode, others []*queueNode) {
	t.Helper()
	wait(t, "nobody leads", func() bool {
		leader, others = nil, nil
		for _, n := range nodes {
			if n.Leads() && leader == nil {
				leader = n
			} else {
				others = append(others, n)
			}
		}
		return leader != nil
	})
	return leader, others
}

// mustApply applies a command, and waits until the nodes have applied it.
func mustApply(t *testing.T, leader *queueNode, text string, at ...*queueNode) uint64 {
	t.Helper()
	future := leader.Apply([]byte(text), testPatience)
	must.Do(t, future.Error())
	for _, n := range at {
		wait(t, "it is not applied everywhere", func() bool { return n.machine.all()[future.Index()] == text })
	}
	return future.Index()
}

// answer returns what a future ends with.
func answer(future raft.ApplyFuture) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- future.Error() }()
	return ended
}

// TestNothingIsCommittedBeforeTheLeaderHasIt: both followers have entries that the leader
// still writes. No node applies them, and no client is answered, until it has written them.
func TestNothingIsCommittedBeforeTheLeaderHasIt(t *testing.T) {
	_, nodes := queueCluster(t)
	leader, followers := leads(t, nodes...)
	before := mustApply(t, leader, "before", nodes...)
	release := leader.hold()
	defer release()
	var answers []<-chan error
	// Requests with the later entries tell followers of the commit of the first.
	for i := range uint64(3) {
		answers = append(answers, answer(leader.Apply([]byte("during"), testPatience)))
		for _, f := range followers {
			wait(t, "a follower does not get it", func() bool { return f.last(t) > before+i })
		}
		wait(t, "Raft does not count it", func() bool { return leader.Raft.Raft.CommitIndex() > before+i })
	}
	for _, n := range nodes {
		if commit := n.CommitIndex(); commit > before {
			t.Errorf("a node (leader: %v) takes %d to be committed, the leader has written %d", n == leader, commit, before)
		}
		if all := n.machine.all(); len(all) > 1 {
			t.Errorf("a node (leader: %v) has applied %v", n == leader, all)
		}
	}
	if leader.last(t) != before || leader.log.Unwritten() != before+1 {
		t.Errorf("the leader has written %d: the test shows nothing", leader.last(t))
	}
	for _, a := range answers {
		if len(a) > 0 {
			t.Errorf("a client was answered: %v", <-a)
		}
	}
	release()
	for i, a := range answers {
		check.Err(t, <-a, nil, "answer %d", i)
	}
	for _, n := range nodes {
		wait(t, "it is not applied everywhere", func() bool { return len(n.machine.all()) == 4 && n.CommitIndex() == before+3 })
	}
}

// TestReplacedLeaderWithAQueue: a leader whose write hangs is cut off, and its entry is
// replaced. It takes no new term before it has written its queue, and then has the log of
// the others.
func TestReplacedLeaderWithAQueue(t *testing.T) {
	w, nodes := queueCluster(t)
	old, others := leads(t, nodes...)
	before := mustApply(t, old, "before", nodes...)
	term := old.CurrentTerm()
	release := old.hold()
	defer release()
	w.cutOff(old.id)
	lost := answer(old.Apply([]byte("of the old leader"), testPatience))
	wait(t, "the old leader queues nothing", func() bool { return old.log.Unwritten() > before })
	next, _ := leads(t, others...)
	mustApply(t, next, "of the next leader", others...)
	w.cutOff("")
	wait(t, "the old leader does not wait with the term", func() bool { return runs("setTerm", "WaitWritten") || old.CurrentTerm() > term })
	check.Equal(t, must.Get(old.log.GetUint64(KeyCurrentTerm))(t), term, "stored term")
	check.Equal(t, len(old.machine.all()), 1, "the old leader has applied")
	release()
	check.Fails(<-lost)(t, "the client of the old leader is told that its command was applied")
	mustApply(t, next, "after", nodes...)
	for _, n := range nodes {
		wait(t, "the nodes differ", func() bool { return maps.Equal(n.machine.all(), next.machine.all()) })
	}
}

// runs reports whether a goroutine has all of these functions on its stack.
func runs(functions ...string) bool {
	buf := make([]byte, 1<<21)
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		found := 0
		for _, f := range functions {
			if strings.Contains(one, "."+f+"(") {
				found++
			}
		}
		if found == len(functions) {
			return true
		}
	}
	return false
}

// TestWhatIsQueued: only commands that this node makes as the leader. One that it makes in a
// term in which it has not voted is not stored, and that does not count as a failed write.
func TestWhatIsQueued(t *testing.T) {
	openLog := func() *logstore.Store {
		log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Fatal: func(err error) { t.Error(err) }}))(t)
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
	log, leaders := openLog(), openLog()
	l := raftLog{log, Hooks{Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) }, Founded: func(string) bool { return false }}, &terms{}, func() {}}
	first := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(Alone("n1"))}
	must.Do(t, errors.Join(l.StoreLog(first), l.SetUint64(KeyLastVoteTerm, 2), leaders.StoreLogs(entries(3, 1, 2, 3, 4, 5, 6))))
	var received raft.Log
	must.Do(t, leaders.GetLog(5, &received))
	for _, tt := range []struct {
		name  string
		entry *raft.Log
		want  error
	}{
		{"a no-op of another's term", &raft.Log{Index: 2, Term: 3, Type: raft.LogNoop}, errOvertaken},
		{"a command of another's term", &raft.Log{Index: 2, Term: 3, Type: raft.LogCommand}, errOvertaken},
		{"a no-op", &raft.Log{Index: 2, Term: 2, Type: raft.LogNoop}, nil},
		{"a configuration", &raft.Log{Index: 3, Term: 2, Type: raft.LogConfiguration}, nil},
		{"a barrier", &raft.Log{Index: 4, Term: 2, Type: raft.LogBarrier}, nil},
		{"a received command", &received, nil},
	} {
		check.Err(t, l.StoreLog(tt.entry), tt.want, "%s", tt.name)
		if last, err := log.LastIndex(); tt.want == nil && last != tt.entry.Index || err != nil {
			t.Errorf("%s is taken, and the file ends at %d, %v", tt.name, last, err)
		}
	}
}
