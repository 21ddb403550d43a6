// Package usage counts the calls that a node answers and folds the counts into the log.
//
// It receives a function that replicates a command, and a clock. Its memory is bounded for
// any calls, and a fold that is repeated counts once. It does not depend on the cluster or on
// HTTP.
package usage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// maxCountedRows bounds the rows of calls that a node holds. Further ones are counted as
	// command.OtherCalls.
	maxCountedRows = command.MaxUsageRows
	// foldPatience is the time for which a fold is repeated. The state remembers its number
	// for days; later it would count twice.
	foldPatience    = 24 * time.Hour
	lastFoldTimeout = 2 * time.Second // bounds the folds of a node that shuts down
	// rejectedPause is the pause between two checks of a node that shuts down and knows no
	// leader: it may just have transferred the leadership.
	rejectedPause = 20 * time.Millisecond
)

// Config is the configuration of a Counter.
type Config struct {
	Boot     command.BootID
	Interval time.Duration // between folds
	Logger   *slog.Logger
	Now      func() time.Time // of folds
	Rejected func() bool      // whether the node rejects writes: counting goes on, folding waits
	Propose  func(context.Context, command.Payload) error
}

// Counter is the HTTP service's op.Counter.
type Counter struct {
	cfg Config

	mu      sync.Mutex
	calls   map[command.UsageRow]uint64 // by row without its Count
	senders map[sendersOf]*sketch

	folding chan struct{}     // holds one token: folds follow each other
	number  uint64            // of the newest fold
	pending *command.AddUsage // the fold with an unknown outcome, or nil
	since   time.Time         // when it was made
}

type sendersOf struct {
	day     command.Day
	surface command.Surface
}

// sketch holds the senders of a day, and the registers that went into folds.
type sketch struct {
	senders *stats.Senders
	folded  []byte
}

// New returns a Counter.
func New(cfg Config) *Counter {
	return &Counter{
		cfg: cfg, calls: make(map[command.UsageRow]uint64), senders: make(map[sendersOf]*sketch),
		folding: make(chan struct{}, 1),
	}
}

// Count implements op.Counter.
func (u *Counter) Count(c op.Counted) {
	row := command.UsageRow{Day: command.DayOf(c.At.UnixMilli()), Surface: c.Surface, Action: c.Action, Client: c.Client}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.calls[row]; !known && len(u.calls) >= maxCountedRows {
		row.Action, row.Client = command.OtherCalls, command.OtherCalls
	}
	u.calls[row]++
	if c.Sender == "" {
		return
	}
	of := sendersOf{row.Day, row.Surface}
	s, known := u.senders[of]
	if !known {
		if len(u.senders) >= command.MaxSenderRows {
			return
		}
		s = &sketch{senders: stats.NewSenders(), folded: make([]byte, command.SketchRegisters)}
		u.senders[of] = s
	}
	s.senders.Insert(c.Sender)
}

// fold writes one fold of the counts to the log, unless there are no counts. A fold without an
// answer is repeated by the next call, under its old number, so that it counts once. It
// reports whether a fold was written.
func (u *Counter) fold(ctx context.Context, now time.Time, replicate func(context.Context, command.Payload) error) (bool, error) {
	select {
	case u.folding <- struct{}{}:
		defer func() { <-u.folding }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if u.pending != nil && now.Sub(u.since) > foldPatience {
		u.pending = nil
	}
	if u.pending == nil {
		if u.pending = u.take(command.DayOf(now.UnixMilli())); u.pending == nil {
			return false, nil
		}
		u.since = now
	}
	err := replicate(ctx, u.pending)
	if _, later := errors.AsType[*command.Unavailable](err); later {
		return false, err
	}
	u.pending = nil
	return err == nil, err
}

// take makes the next fold of the counts. It returns nil without counts.
func (u *Counter) take(today command.Day) *command.AddUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := &command.AddUsage{Boot: u.cfg.Boot, Number: u.number + 1}
	for row, count := range u.calls {
		if len(f.Rows) == command.MaxUsageRows {
			break
		}
		delete(u.calls, row)
		row.Count = count
		f.Rows = append(f.Rows, row)
	}
	left := command.MaxSenderRegisters
	for of, s := range u.senders {
		registers := s.take(left)
		left -= len(registers) / command.RegisterBytes
		if len(registers) > 0 {
			f.Senders = append(f.Senders, command.SenderRow{Day: of.day, Surface: of.surface, Registers: registers})
		} else if of.day < today && left > 0 {
			delete(u.senders, of)
		}
	}
	if len(f.Rows)+len(f.Senders) == 0 {
		return nil
	}
	u.number++
	return f
}

// take returns at most n of the registers that no fold has covered.
func (s *sketch) take(n int) (registers []byte) {
	for i, rank := range s.senders.Registers() {
		if n == 0 {
			break
		}
		if rank > s.folded[i] {
			registers = command.AppendRegister(registers, i, rank)
			s.folded[i] = rank
			n--
		}
	}
	return registers
}

// Run folds the counts into the log in intervals, until ctx ends.
func (u *Counter) Run(ctx context.Context) {
	loop.Every(ctx, u.cfg.Interval, func(ctx context.Context) { u.foldOnce(ctx) })
}

// Finish folds the rest after the last call, as far as time allows.
func (u *Counter) Finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFoldTimeout)
	defer cancel()
	for u.cfg.Rejected() && loop.Pause(ctx, rejectedPause) {
	}
	for u.foldOnce(ctx) {
	}
}

// foldOnce folds once, and reports whether a fold was written.
func (u *Counter) foldOnce(ctx context.Context) bool {
	if u.cfg.Rejected() {
		return false
	}
	folded, err := u.fold(ctx, u.cfg.Now(), u.cfg.Propose)
	if err != nil && ctx.Err() == nil {
		u.cfg.Logger.DebugContext(ctx, "calls were not folded into the log", "error", err)
	}
	return folded
}
