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

var errNotLeading = errors.New("this node does not lead") // the error of a node that cannot confirm an index

// reasonNoRead replaces errors that name servers, which clients must not see.
const reasonNoRead = "no leader confirmed the read in time"

// ReadIndex returns a log index for a linearizable read: a view at this index holds every
// write that was acknowledged, or shown by any node, before the call. It asks for the index
// until ReadIndexTimeout passes or ctx ends. Errors: *command.Unavailable with CodeNoLeader.
func (p *Pipeline) ReadIndex(ctx context.Context) (index uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.readIndex)
	defer cancel()
	err = p.retry(ctx, func() (err error) {
		switch p.leaderID() {
		case "":
			err = errors.New("no leader is known")
		case p.self:
			index, err = p.localReads.ask(ctx)
		default:
			index, err = p.remoteReads.ask(ctx)
		}
		return err
	})
	if err != nil {
		return 0, &command.Unavailable{Code: command.CodeNoLeader, Reason: reasonNoRead, Cause: err}
	}
	return index, nil
}

// readAsLeader returns the index for another node, and never asks a third. A new leader lets
// the other node wait until its first command of the term is applied.
func (p *Pipeline) readAsLeader(ctx context.Context) (index uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.leadWait)
	defer cancel()
	err = p.retry(ctx, func() (err error) {
		if p.leaderID() != p.self {
			cancel()
			return errNotLeading
		}
		index, err = p.localReads.ask(ctx)
		return err
	})
	return index, err
}

// readLocal runs one round on the leader. It first reads the index of the newest committed
// command, and then checks that no newer leader was elected. If the check succeeds, every
// write that was acknowledged, or applied by another node, was committed here when the index
// was read.
// The applied index of this node would be too low: another node may be ahead and have shown
// newer data.
//
// Raft's VerifyLeader is not sufficient. It counts any reply that arrives after the call,
// even to a request that was sent long before (the process may have been stopped between
// the two), and also replies of non-voters. So the voters are asked for their terms, too: a
// leader of a newer term needs the votes of a majority, whose terms then show it.
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

// newestCommand returns the index of the newest command in the log up to commit, and at least
// applied. Raft's own entries do not count: they reach no state machine, so a read that waits for
// them would time out.
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

// confirmTerm asks the voters for their terms. It returns nil once a majority has answered
// with no newer term.
func (p *Pipeline) confirmTerm(ctx context.Context, d *deps, term uint64) error {
	voters := d.raft.Voters()
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
			term, err := p.peers.get(ctx, id, pathTerm)
			answers <- answer{term, err}
		}()
	}
	failed := errors.New("there is no voter")
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

// readRemote runs one round on a follower. It waits no longer than a new leader needs to get
// its first command applied and its leadership confirmed, and ends at once when another
// server leads.
func (p *Pipeline) readRemote(ctx context.Context) (uint64, error) {
	target := p.leaderID()
	if target == "" || target == p.self {
		return 0, errors.New("the leader has just changed")
	}
	ctx, cancel := context.WithTimeout(ctx, p.timing.leadWait+p.timing.confirm)
	defer cancel()
	ctx, stop := p.UntilAnotherLeads(ctx, target)
	defer stop()
	return p.peers.get(ctx, target, pathReadIndex)
}

// rounds lets concurrent strong reads share one request for the index. A caller joins the
// round that starts next, never the running one, which may have read its index before the
// caller's last write. If a round takes longer than patience, the next one starts, because
// the request of the slow one may be lost.
type rounds struct {
	run      func(context.Context) (uint64, error)
	base     context.Context // ends with the Pipeline
	patience time.Duration

	mu      sync.Mutex
	next    *round // the round that callers join, or nil
	running bool
}

// round is one shared request. Its index and error are set before done is closed.
type round struct {
	done   chan struct{}
	askers int
	index  uint64
	err    error
}

// ask returns the index of a round that began after the call.
func (r *rounds) ask(ctx context.Context) (uint64, error) {
	joined := r.join()
	select {
	case <-joined.done:
		return joined.index, joined.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the leader: %w", ctx.Err())
	}
}

// join returns the round that starts next, and starts the loop if it does not run.
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

// loop starts one round after another while callers join them.
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
