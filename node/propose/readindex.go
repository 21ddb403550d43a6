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

// errNotLeading is the answer of a node that cannot vouch for an index.
var errNotLeading = errors.New("this node does not lead")

// reasonNoRead is what strangers are told where errors name servers.
const reasonNoRead = "no leader confirmed the read in time"

// ReadIndex returns a log index such that a view that has applied it holds
// everything that was acknowledged before the call, and everything that any node
// showed before it. It looks for a leader that can say for up to ReadIndexTimeout,
// ctx permitting. Errors:
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

// readOnce asks whoever leads now.
func (p *Pipeline) readOnce(ctx context.Context) (uint64, error) {
	switch p.leaderID() {
	case "":
		return 0, errors.New("no leader is known")
	case p.self:
		return p.localReads.ask(ctx)
	}
	return p.remoteReads.ask(ctx)
}

// readAsLeader answers other nodes: it never asks a third one. An elected leader
// lets them wait until its first command of the term is applied.
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

// readLocal is one round on the leader. The index is captured first: that of the
// newest command that is committed. Everything acknowledged before, and everything
// that another node has applied, was committed here by then, if no newer leader has
// been elected, which is asked afterwards. What this node itself has applied would not
// do: another one may be ahead of it, and have shown what is newer.
//
// Raft's VerifyLeader is not proof enough. It counts any reply that comes in
// after the call, also to what was sent long before it (the process may have
// been stopped meanwhile), and the replies of servers without a vote. So the
// voters are asked for their terms too: a leader of a newer term would need the
// votes of a majority, which would know that term.
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

// newestCommand returns the index of the newest command of the log up to commit. It is
// applied where none is newer than that: entries of Raft's own reach no state machine,
// so nobody can wait for them.
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

// confirmTerm returns nil once a majority of the voters has said, after this
// call, that it knows no term newer than the given one.
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

// rounds lets concurrent askers share one answer. An asker joins the round that
// begins next, never the one that runs: that one may have looked before the
// asker's own last write. A round that takes longer than patience keeps the next one
// waiting no longer: what it asked may be lost, and its successor be answered.
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

// loop begins one round after the other for as long as somebody asks.
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
