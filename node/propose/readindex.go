package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
)

// errNotLeading is the answer of a node that cannot confirm an index.
var errNotLeading = errors.New("this node does not lead")

// reasonNoRead is the public reason in place of errors that name servers.
const reasonNoRead = "no leader confirmed the read in time"

// ReadIndex returns a log index for a linearizable read: a view at this index holds
// everything that was acknowledged, or shown by any node, before the call. It tries to
// get the index from a leader until ReadIndexTimeout or ctx ends. Errors:
// *command.Unavailable with CodeNoLeader.
func (p *Pipeline) ReadIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.readIndex)
	defer cancel()
	for failures := 1; ; failures++ {
		changed := p.changed.wait()
		index, err := p.readOnce(ctx)
		if err == nil {
			return index, nil
		}
		if !p.pause(ctx, changed, failures) {
			return 0, &command.Unavailable{Code: command.CodeNoLeader, Reason: reasonNoRead, Cause: err}
		}
	}
}

// readOnce asks the present leader.
func (p *Pipeline) readOnce(ctx context.Context) (uint64, error) {
	switch p.leaderID() {
	case "":
		return 0, errors.New("no leader is known")
	case p.self:
		return p.localReads.ask(ctx)
	}
	return p.remoteReads.ask(ctx)
}

// readAsLeader answers other nodes and never forwards. A new leader lets them wait
// until its first command of the term is applied.
func (p *Pipeline) readAsLeader(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.leadWait)
	defer cancel()
	for failures := 1; ; failures++ {
		changed := p.changed.wait()
		if p.leaderID() != p.self {
			return 0, errNotLeading
		}
		index, err := p.localReads.ask(ctx)
		if err == nil {
			return index, nil
		}
		if !p.pause(ctx, changed, failures) {
			return 0, err
		}
	}
}

// readLocal is one round on the leader. First it captures the index of the newest
// committed command, and then it checks that no newer leader was elected. If none was,
// everything acknowledged and everything that another node had applied was committed
// here when the index was captured. The applied index of this node would not be enough:
// another node may be ahead and have shown newer data.
//
// Raft's VerifyLeader is not sufficient. It counts any reply that arrives after the
// call, even to a request that was sent long before it (the process may have been
// stopped meanwhile), and also replies of non-voters. So the voters are asked for their
// terms, too: a leader of a newer term needs the votes of a majority, which then knows
// that term.
func (p *Pipeline) readLocal(ctx context.Context) (uint64, error) {
	d := p.deps.Load()
	term := p.leader.leadingTerm()
	if term == 0 {
		return 0, errNotLeading
	}
	index, err := newestCommand(d.log, d.state.Applied(), d.raft.CommitIndex())
	if err != nil {
		return 0, err
	}
	verify := d.raft.VerifyLeader()
	if err := p.confirmTerm(ctx, d, term); err != nil {
		return 0, err
	}
	if err := verify.Error(); err != nil {
		return 0, fmt.Errorf("verify leadership: %w", err)
	}
	if p.leader.leadingTerm() != term {
		return 0, errNotLeading
	}
	return index, nil
}

// newestCommand returns the index of the newest command in the log up to commit, or
// applied if none is newer. Raft's own entries do not count: they reach no state
// machine, so nobody can wait for them.
func newestCommand(log Log, applied, commit uint64) (uint64, error) {
	for i := commit; i > applied; i-- {
		var entry raft.Log
		if err := log.GetLog(i, &entry); err != nil {
			return 0, fmt.Errorf("read log entry %d: %w", i, err)
		}
		if entry.Type == raft.LogCommand {
			return i, nil
		}
	}
	return applied, nil
}

// confirmTerm returns nil once a majority of the voters has answered, after this call,
// that it knows no newer term.
func (p *Pipeline) confirmTerm(ctx context.Context, d *deps, term uint64) error {
	voters, err := d.voters()
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	need := len(voters)/2 + 1
	ctx, cancel := context.WithTimeout(ctx, p.timing.confirm)
	defer cancel()
	type answer struct {
		term uint64
		err  error
	}
	answers := make(chan answer, len(voters))
	for _, id := range voters {
		if id == p.self {
			answers <- answer{term: d.raft.CurrentTerm()}
			continue
		}
		go func() {
			t, err := p.peers.term(ctx, id)
			answers <- answer{term: t, err: err}
		}()
	}
	var failed error
	for range voters {
		a := <-answers
		switch {
		case a.err != nil:
			failed = a.err
		case a.term > term:
			return fmt.Errorf("%w: term %d has begun", errNotLeading, a.term)
		default:
			need--
		}
		if need == 0 {
			return nil
		}
	}
	return fmt.Errorf("no majority confirmed the leader: %w", failed)
}

// readRemote is one round on a follower. It takes no longer than a new leader needs
// to have its first command applied and its leadership confirmed, and ends at once
// when another leader is known.
func (p *Pipeline) readRemote(ctx context.Context) (uint64, error) {
	target := p.leaderID()
	if target == "" || target == p.self {
		return 0, errors.New("the leader has just changed")
	}
	ctx, cancel := context.WithTimeout(ctx, p.timing.leadWait+p.timing.confirm)
	defer cancel()
	ctx, stop := p.UntilAnotherLeads(ctx, target)
	defer stop()
	index, err := p.peers.readIndex(ctx, target)
	if err != nil {
		return 0, fmt.Errorf("ask the leader: %w", err)
	}
	return index, nil
}

// rounds lets concurrent callers share one answer. A caller joins the round that starts
// next, never the running one, which may have captured its index before the caller's
// last write. If a round takes longer than patience, the next one starts: the request
// of the slow one may be lost.
type rounds struct {
	run      func(context.Context) (uint64, error)
	base     context.Context // ends with the Pipeline
	patience time.Duration

	mu      sync.Mutex
	next    *round // joined by askers; nil when nobody asked
	running bool
}

type round struct {
	done   chan struct{}
	askers int
	index  uint64
	err    error
}

// ask returns the answer of a round that began after the call.
func (r *rounds) ask(ctx context.Context) (uint64, error) {
	joined := r.join()
	select {
	case <-joined.done:
		return joined.index, joined.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the leader: %w", ctx.Err())
	}
}

func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	r.next.askers++
	if !r.running {
		r.running = true
		go r.loop()
	}
	return r.next
}

// loop starts one round after the other while there are callers.
func (r *rounds) loop() {
	for {
		r.mu.Lock()
		current := r.next
		r.next = nil
		r.running = current != nil
		r.mu.Unlock()
		if current == nil {
			return
		}
		go func() {
			current.index, current.err = r.run(r.base)
			close(current.done)
		}()
		select {
		case <-current.done:
		case <-time.After(r.patience):
		}
	}
}
