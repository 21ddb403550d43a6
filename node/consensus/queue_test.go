package consensus

import (
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

	"github.com/commons-cluster/commons/node/logstore"
)

// testQueue has written nothing from an index on, until it is told what waiting ends with.
type testQueue struct {
	unwritten uint64
	ends      chan error
}

func (q *testQueue) Unwritten() uint64        { return q.unwritten }
func (q *testQueue) WaitWritten(uint64) error { return <-q.ends }

// TestApplyWaitsForTheLog: what this node's log has not written is neither applied nor
// told to others, and never is when it cannot be written.
func TestApplyWaitsForTheLog(t *testing.T) {
	for name, end := range map[string]error{"written": nil, "failed": errors.New("a test")} {
		t.Run(name, func(t *testing.T) {
			var machine testMachine
			n := &notices{term: 2}
			q := &testQueue{ends: make(chan error)}
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

// TestCommitIndexEndsAtTheQueue: a pipeline tells followers of no commit that this node's
// own log lacks.
func TestCommitIndexEndsAtTheQueue(t *testing.T) {
	for _, tt := range []struct{ unwritten, commit, want uint64 }{{0, 9, 9}, {10, 9, 9}, {9, 9, 8}, {5, 9, 4}, {5, 3, 3}} {
		n, end, kept := &notices{}, make(chan struct{}), &keptPipeline{}
		p := newPipeline(kept, end, time.Hour, link{&testQueue{unwritten: tt.unwritten}, n, "f", "f"})
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 20, LeaderCommitIndex: tt.commit}, nil); err != nil {
			t.Fatal(err)
		}
		if got := kept.sent[0].LeaderCommitIndex; got != tt.want || n.peers["f"].commit != tt.want {
			t.Errorf("unwritten from %d on, commit index %d: sent %d, noticed %d, want %d", tt.unwritten, tt.commit, got, n.peers["f"].commit, tt.want)
		}
		close(end)
	}
}

// TestRequestsEndAtTheQueue: the same without a pipeline.
func TestRequestsEndAtTheQueue(t *testing.T) {
	var inner [2]*raft.NetworkTransport
	for i := range inner {
		var err error
		if inner[i], err = raft.NewTCPTransport("127.0.0.1:0", nil, raftPool, raftIOTimeout, io.Discard); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inner[i].Close() })
	}
	got := make(chan uint64, 1)
	go func() {
		rpc := <-inner[1].Consumer()
		req, _ := rpc.Command.(*raft.AppendEntriesRequest)
		got <- req.LeaderCommitIndex
		rpc.Respond(&raft.AppendEntriesResponse{}, nil)
	}()
	from := newTransport(&testQueue{unwritten: 5}, inner[0])
	req := &raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 20, PrevLogTerm: 2, LeaderCommitIndex: 9}
	if err := from.AppendEntries("f", inner[1].LocalAddr(), req, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	if commit := <-got; commit != 4 {
		t.Errorf("sent was the commit index %d, want 4", commit)
	}
}

// wires connect nodes, but for those that are cut off.
type wires struct {
	mu    sync.Mutex
	cut   string
	conns map[net.Conn][2]string
}

// cutOff cuts a node off; "" none.
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

// textMachine is a state machine that keeps what it applied.
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

func (m *textMachine) all() map[uint64]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.texts)
}

// queueNode is a node with a log on disk, whose writes can be held up.
type queueNode struct {
	*Raft
	id      string
	machine *textMachine
	log     *logstore.Store
	held    atomic.Pointer[chan struct{}] // closed when writes go on; nil: they do
}

func (n *queueNode) hold() (release func()) {
	held := make(chan struct{})
	n.held.Store(&held)
	return sync.OnceFunc(func() { n.held.Store(nil); close(held) })
}

// last returns the index of the newest entry in the file of the log.
func (n *queueNode) last(t *testing.T) uint64 {
	t.Helper()
	last, err := n.log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// queueCluster is a cluster of three.
func queueCluster(t *testing.T) (*wires, []*queueNode) {
	t.Helper()
	w := &wires{conns: map[net.Conn][2]string{}}
	var servers []raft.Server
	nodes := make([]*queueNode, 3)
	for i := range nodes {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n := &queueNode{id: listener.Addr().String(), machine: &textMachine{texts: map[uint64]string{}}}
		nodes[i] = n
		n.log, err = logstore.Open(logstore.Options{
			Path: filepath.Join(t.TempDir(), "raft.db"), Fatal: func(err error) { t.Error(err) },
			Around: func(_ string, do func() error) error {
				if held := n.held.Load(); held != nil {
					<-*held
				}
				return do()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.Raft, err = Start(Config{
			ServerID: n.id, Heartbeat: time.Second, Election: time.Second, Lease: time.Second, TrailingBytes: 1 << 30, SnapshotBytes: 1 << 30,
			Machine: n.machine, Log: n.log, Snapshots: &Snapshots{SnapshotStore: raft.NewInmemSnapshotStore()}, Stream: wired{listener, w},
			Logger: slog.New(slog.DiscardHandler), Ending: func() bool { return false },
			Hooks: Hooks{
				Around: func(_ string, do func() error) error { return do() }, Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) },
				Founded: func(string) bool { return false }, Restored: func() {}, Abandon: func(err error) { t.Error(err) },
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(n.Stop(), n.log.Close()); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, raft.Server{ID: raft.ServerID(n.id), Address: raft.ServerAddress(n.id)})
	}
	if err := nodes[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		t.Fatal(err)
	}
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
	if err := future.Error(); err != nil {
		t.Fatal(err)
	}
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
// still writes. Nobody applies them, and nobody is answered, until it has written them.
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
		if err := <-a; err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	for _, n := range nodes {
		wait(t, "it is not applied everywhere", func() bool { return len(n.machine.all()) == 4 && n.CommitIndex() == before+3 })
	}
}

// TestReplacedLeaderWithAQueue: a leader whose write hangs is cut off, and its entry is
// replaced. It takes no new term before it has written what it queued, and then has what
// the others have.
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
	if stored, err := old.log.GetUint64(KeyCurrentTerm); err != nil || stored != term {
		t.Errorf("term %d is stored, %v, while entries of term %d are not", stored, err, term)
	}
	if all := old.machine.all(); len(all) != 1 {
		t.Errorf("the old leader has applied %v", all)
	}
	release()
	if err := <-lost; err == nil {
		t.Error("the client of the old leader is told that its command was applied")
	}
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
		log, err := logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Fatal: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
	log, leaders := openLog(), openLog()
	l := raftLog{log, Hooks{Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) }, Founded: func(string) bool { return false }}, func() {}}
	first := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(Alone("n1"))}
	if err := errors.Join(l.StoreLog(first), l.SetUint64(KeyLastVoteTerm, 2), leaders.StoreLogs(entries(3, 1, 2, 3, 4, 5, 6))); err != nil {
		t.Fatal(err)
	}
	var received raft.Log
	if err := leaders.GetLog(5, &received); err != nil {
		t.Fatal(err)
	}
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
		if err := l.StoreLog(tt.entry); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if last, err := log.LastIndex(); tt.want == nil && last != tt.entry.Index || err != nil {
			t.Errorf("%s is taken, and the file ends at %d, %v", tt.name, last, err)
		}
	}
}
