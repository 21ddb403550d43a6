package propose

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Config configures a Pipeline.
type Config struct {
	ServerID string        // this node's own id in Raft's configuration
	Client   *http.Client  // of the other nodes: https://<server id>/path
	Patience time.Duration // for writes and strong reads, if longer than ProposeTimeout and ReadIndexTimeout
	Clock    Clock         // this node's own
	Limiter  Limiter
	Assess   Assess
	Logger   *slog.Logger
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

// New returns a Pipeline with a new boot id. The Pipeline accepts commands at once and sends
// them after Start.
func New(cfg Config) *Pipeline {
	var boot command.BootID
	_, _ = rand.Read(boot[:]) // never fails
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pipeline{
		self:    cfg.ServerID,
		logger:  cfg.Logger,
		session: newSession(boot, cfg.Logger),
		sync:    NewClockSync(cfg.Clock, cfg.Logger),
		peers:   peers{client: cfg.Client},
		timing:  timingFor(cfg.Patience),
		ctx:     ctx, cancel: cancel,
	}
	p.leader = newLeader(p.stamp, admission{cfg.Limiter, cfg.Assess})
	p.localReads = rounds{base: ctx, run: p.readLocal, patience: ReadIndexTimeout}
	p.remoteReads = rounds{base: ctx, run: p.readRemote, patience: RoundPatience}
	return p
}

// Start connects the Pipeline to a running Raft, its log and its state machine, once.
func (p *Pipeline) Start(r Raft, log Log, s State) {
	p.leader.start(r, s)
	p.deps.Store(&deps{raft: r, log: log, state: s})
	for range MaxInFlight {
		p.workers.Go(p.send)
	}
	p.workers.Go(p.compareClocks)
	p.changed.fire()
}

// Close answers all waiting callers and rejects later commands. Entries that Raft already
// has may still be applied.
func (p *Pipeline) Close() {
	p.cancel()
	p.leader.close()
	p.session.close()
	p.changed.fire()
	p.workers.Wait()
}

// Boot returns the id of this run of the node.
func (p *Pipeline) Boot() command.BootID { return p.session.boot }

// LeaderChanged wakes all callers that wait for a leader. Extra calls do no harm.
func (p *Pipeline) LeaderChanged() { p.changed.fire() }

// StartLeading lets this node lead in a term. Before, the node must have applied its own
// first command of that term (see ProposeAsLeader), and so all of the log before it, whose
// time may show that a clock is wrong.
func (p *Pipeline) StartLeading(ctx context.Context, term uint64) {
	_ = p.knowClocks(ctx) // known since that command; on failure, the stamped time goes on
	p.leader.lead(term)
	p.changed.fire()
}

// StopLeading rejects all groups that wait for this node as the leader.
func (p *Pipeline) StopLeading() {
	p.leader.lead(0)
	p.changed.fire()
}

// Applied implements fsm.Observer.
func (p *Pipeline) Applied(boot command.BootID, seq uint64, r command.Result, index uint64) {
	p.session.Applied(boot, seq, r, index)
}

// Recheck looks up every unanswered command in a view. Call it after a snapshot was
// installed, because the Observer does not see the results in it.
func (p *Pipeline) Recheck(v View) { p.session.recheck(v) }

// Clocks returns the comparison of this node's clock with the voters' clocks.
func (p *Pipeline) Clocks() *ClockSync { return p.sync }

// Stats is the Pipeline's state for metrics.
type Stats struct {
	Open        int // unanswered commands
	OpenBytes   int // memory of the unanswered commands
	Waiting     int // unanswered commands without a running attempt
	LeaderQueue int // bytes of the groups that wait at this node as the leader
	Leading     bool
}

// Stats returns the current state.
func (p *Pipeline) Stats() Stats {
	p.session.mu.Lock()
	s := Stats{Open: len(p.session.calls), OpenBytes: p.session.bytes, Waiting: p.session.waiting.Len()}
	p.session.mu.Unlock()
	p.leader.mu.Lock()
	defer p.leader.mu.Unlock()
	s.LeaderQueue, s.Leading = p.leader.queuedBytes, p.leader.term != 0
	return s
}

// leaderID returns the id of the leader, empty if it is unknown.
func (p *Pipeline) leaderID() string {
	d := p.deps.Load()
	if d == nil {
		return ""
	}
	_, id := d.raft.LeaderWithID()
	return string(id)
}

// UntilAnotherLeads returns a context that ends with ctx, or when another server than the
// given leader leads: an old leader may never answer, and a retry costs little. The context
// goes on while the leader is unknown, because a retry would have no target.
func (p *Pipeline) UntilAnotherLeads(ctx context.Context, leader string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for {
			changed := p.changed.wait()
			if id := p.leaderID(); id != "" && id != leader {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// retry calls try until it succeeds, with pauses, or until ctx ends. Then it returns the last error.
func (p *Pipeline) retry(ctx context.Context, try func() error) error {
	for failures := 1; ; failures++ {
		changed := p.changed.wait()
		if err := try(); err == nil || !p.pause(ctx, changed, failures) {
			return err
		}
	}
}

// pause waits for the channel changed, or for the backoff after a number of consecutive
// failures. It reports false if ctx has ended.
func (p *Pipeline) pause(ctx context.Context, changed <-chan struct{}, failures int) bool {
	const mostDoublings = 16
	backoff := p.timing.minBackoff << min(failures-1, mostDoublings)
	t := time.NewTimer(min(backoff, p.timing.maxBackoff))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// signal wakes all goroutines that wait for a change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next call of fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// fire closes the channels that wait has returned.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
