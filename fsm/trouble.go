package fsm

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
)

const (
	// fullPause is how long Pebble's writes wait when one has found the disk full.
	// Pebble tries again by itself, without a pause of its own.
	fullPause = time.Second
	// troubleEvery is of how many failures in a row one is logged: one a minute or
	// so on a full disk.
	troubleEvery = 60
)

// trouble is what goes wrong with Pebble's flushes and compactions. Pebble tells
// of it under its lock: nothing here waits.
type trouble struct {
	mu     sync.Mutex
	newest error
	next   chan struct{} // closed at the next one; nil when nobody waits
	row    int           // failures since the last flush that went well
}

// wait returns a channel that the next failure closes.
func (t *trouble) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = make(chan struct{})
	}
	return t.next
}

// last returns the newest failure.
func (t *trouble) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest
}

// add notes a failure, and logs the first of a row and some of the others.
func (t *trouble) add(log *slog.Logger, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = err
	if t.next != nil {
		close(t.next)
		t.next = nil
	}
	if t.row%troubleEvery == 0 {
		log.Warn("writing the state failed, trying again", "error", err, "failures", t.row+1)
	}
	t.row++
}

// over notes a flush that went well.
func (t *trouble) over(log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.row > 0 {
		log.Info("the state is written again", "failures", t.row)
	}
	t.row = 0
}

// backgroundError judges an error of a flush or a compaction. Pebble tries
// again by itself, which helps when a disk is full and never when bytes are wrong.
func (s *store) backgroundError(log *slog.Logger, err error) {
	s.trouble.add(log, err)
	if pebble.IsCorruptionError(err) || oserror.IsNotExist(err) {
		s.fatal(fmt.Errorf("state on disk: %w", err))
	}
}
