package propose

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// Raft has the methods of *raft.Raft that the write path and the read path need.
type Raft interface {
	// Apply appends a log entry on the leader.
	Apply(cmd []byte, timeout time.Duration) raft.ApplyFuture
	// VerifyLeader asks the followers whether this node still leads.
	VerifyLeader() raft.Future
	// LeaderWithID returns the leader as far as this node knows; "" when it
	// knows none.
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
	// CurrentTerm returns the newest term this node has taken part in.
	CurrentTerm() uint64
	// CommitIndex returns the index of the newest entry known to be committed.
	CommitIndex() uint64
	// GetConfiguration returns the latest configuration, committed or not.
	GetConfiguration() raft.ConfigurationFuture
}

// Log is Raft's log.
type Log interface {
	// GetLog reads an entry.
	GetLog(index uint64, log *raft.Log) error
}

// Limiter holds the rate limits. Only the leader uses it.
type Limiter interface {
	// Admit takes one write from the allowances of the sender and of the name, which depend
	// on the standing of its proof. If one is used up it takes nothing and returns the time
	// until the next try.
	Admit(from command.Sender, standing command.Standing) (ok bool, retryAfter time.Duration)
}

// Assess returns the standing of a command's proof, and whether the state has its
// request_id already, so that repeating it is free.
type Assess func(p command.Payload) (standing command.Standing, repeated bool)

// Fits reports whether the daily byte budget has room for a command of this size and
// standing.
type Fits func(p command.Payload, standing command.Standing, bytes int) bool

// Config configures a Pipeline.
type Config struct {
	// ServerID is this node's own id in Raft's configuration.
	ServerID string
	// Client speaks to the other nodes: https://<server id>/path.
	Client *http.Client
	// Clock is this node's own clock. Nil is WallClock(0).
	Clock Clock
	// Limiter holds the rate limits. Nil: no limits.
	Limiter Limiter
	// Assess returns the standing of commands for the Limiter. Nil: no standing.
	Assess Assess
	// Fits keeps commands over the daily byte budget out of the log: apply would reject
	// them. Nil: no check.
	Fits Fits
	// Logger receives what an operator should know. Nil discards.
	Logger *slog.Logger
}

// Pipeline brings commands into the log, on the leader or through it, and answers
// strong reads. It is the state machine's fsm.Observer. Its methods are safe for
// concurrent use.
type Pipeline struct {
	self    string
	logger  *slog.Logger
	session *session
	leader  *leader
	sync    *ClockSync
	peers   peers
	timing  timing
	deps    atomic.Pointer[deps]
	changed signal

	localReads, remoteReads rounds

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// deps are the dependencies that exist only once Raft runs.
type deps struct {
	raft  Raft
	log   Log
	state State
}

// New returns a Pipeline with a new boot id. It accepts commands at once and sends them
// after Start.
func New(cfg Config) *Pipeline {
	if cfg.Clock == nil {
		cfg.Clock = WallClock(0)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var boot command.BootID
	_, _ = rand.Read(boot[:]) // never fails
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pipeline{
		self:    cfg.ServerID,
		logger:  cfg.Logger,
		session: newSession(boot, cfg.Logger),
		sync:    NewClockSync(cfg.Clock, cfg.Logger),
		peers:   peers{client: cfg.Client},
		timing:  defaultTiming(),
		ctx:     ctx, cancel: cancel,
	}
	p.leader = newLeader(p.stamp, cfg.Limiter, cfg.Assess, cfg.Fits)
	p.localReads = rounds{base: ctx, run: p.readLocal, patience: ReadIndexTimeout}
	p.remoteReads = rounds{base: ctx, run: p.readRemote, patience: RoundPatience}
	return p
}

// Start connects the Pipeline with a running Raft, its log and its state machine. It
// is called once.
func (p *Pipeline) Start(r Raft, log Log, s State) {
	p.leader.start(r, s)
	p.deps.Store(&deps{raft: r, log: log, state: s})
	for range MaxInFlight {
		p.workers.Go(p.send)
	}
	p.workers.Go(p.compareClocks)
	p.changed.fire()
}

// Close ends the Pipeline: it answers all waiting callers and accepts nothing more.
// Entries that Raft already has are left to it.
func (p *Pipeline) Close() {
	p.cancel()
	p.leader.close()
	p.session.close()
	p.changed.fire()
	p.workers.Wait()
}

// Boot returns the id of this run of the node.
func (p *Pipeline) Boot() command.BootID { return p.session.boot }

// LeaderChanged must be called whenever Raft may know another leader, or none. It wakes
// all that wait for a leader; extra calls do no harm.
func (p *Pipeline) LeaderChanged() { p.changed.fire() }

// StartLeading lets this node lead in the given term: it must have applied its
// own first command of that term (see ProposeAsLeader).
func (p *Pipeline) StartLeading(term uint64) {
	p.leader.lead(term)
	p.changed.fire()
}

// StopLeading rejects everything that waits for this node as the leader.
func (p *Pipeline) StopLeading() {
	p.leader.lead(0)
	p.changed.fire()
}

// Applied notifies the Pipeline of a command that the local state machine has
// applied. It makes the Pipeline an fsm.Observer.
func (p *Pipeline) Applied(boot command.BootID, seq uint64, r command.Result, index uint64) {
	p.session.Applied(boot, seq, r, index)
}

// Recheck looks up every unanswered command in a view. Call it after a snapshot was
// installed: the Observer does not see its results.
func (p *Pipeline) Recheck(v Results) {
	for _, c := range p.session.unapplied() {
		p.session.recheck(c, v)
	}
}

// Clocks returns the comparison of this node's clock with those of the voters.
func (p *Pipeline) Clocks() *ClockSync { return p.sync }

// Stats is the Pipeline's state for metrics.
type Stats struct {
	Open        int // commands taken in and not answered
	OpenBytes   int // what they hold in memory
	Waiting     int // those of them that no attempt is under way for
	LeaderQueue int // bytes that wait at this node as the leader
	Leading     bool
}

// Stats returns the present numbers.
func (p *Pipeline) Stats() Stats {
	p.session.mu.Lock()
	s := Stats{Open: len(p.session.calls), OpenBytes: p.session.bytes, Waiting: p.session.waiting.Len()}
	p.session.mu.Unlock()
	p.leader.mu.Lock()
	defer p.leader.mu.Unlock()
	s.LeaderQueue, s.Leading = p.leader.queuedBytes, p.leader.term != 0
	return s
}

// leaderID returns the id of the leader, "" when none is known.
func (p *Pipeline) leaderID() string {
	d := p.deps.Load()
	if d == nil {
		return ""
	}
	_, id := d.raft.LeaderWithID()
	return string(id)
}

// voters returns the ids of the servers that vote.
func (d *deps) voters() ([]string, error) {
	f := d.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids, nil
}

// backoff returns the pause after the given number of failures in a row.
func (p *Pipeline) backoff(failures int) time.Duration {
	d := p.timing.minBackoff
	for range failures - 1 {
		if d *= 2; d >= p.timing.maxBackoff {
			return p.timing.maxBackoff
		}
	}
	return d
}

// pause waits until something may have changed, or for the backoff; false when
// ctx ended.
func (p *Pipeline) pause(ctx context.Context, changed <-chan struct{}, failures int) bool {
	t := time.NewTimer(p.backoff(failures))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// signal wakes everyone who waits for something to change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// Results are the results that a view of the state keeps. *fsm.View is one.
type Results interface {
	// Index is the log index of the newest entry that the view holds.
	Index() uint64
	// Result returns the result of a command, while its session keeps it.
	Result(boot command.BootID, seq uint64) (command.Result, bool)
}

// View is the state at one index. It must be released after use.
type View interface {
	Results
	// Time is the instant of the newest log entry in milliseconds since the epoch;
	// 0 before the first.
	Time() int64
	Release()
}

// State is the local state machine as the write path and the read path see it.
type State interface {
	// Applied returns the index of the newest log entry in the newest view.
	Applied() uint64
	// Format returns the replicated format number.
	Format() int
	// View returns the newest view. The caller releases it.
	View() View
}

// FromMachine returns m as a State.
func FromMachine(m *fsm.Machine) State { return machineState{m} }

type machineState struct{ *fsm.Machine }

func (s machineState) View() View { return s.Machine.View() }
