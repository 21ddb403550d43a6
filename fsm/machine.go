package fsm

import (
	"context"
	"log/slog"
)

// Options configure a Machine.
type Options struct {
	// Dir is the directory that the state lives in. It is made when missing.
	Dir string
	// Logger receives what an operator should know. Nil discards.
	Logger *slog.Logger
	// Observer is told of every applied command. Nil is allowed.
	Observer Observer
	// CacheBytes is the size of Pebble's block cache; zero is DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is the size of one of Pebble's memtables; zero is
	// DefaultMemTableBytes.
	MemTableBytes int64
	// Fatal is called when the storage below the state fails in the background.
	// The state must not be used afterwards. Nil panics.
	Fatal func(error)
}

// Observer is told of every command that was applied.
type Observer interface {
	// Applied is called on the apply goroutine, after the view that holds the
	// log entry with this index is published, once per command and in order.
	Applied(boot BootID, seq uint64, r Result, index uint64)
}

// Machine is the replicated state machine over a Pebble database.
type Machine struct{}

// Open opens the state in opts.Dir, or makes an empty one.
func Open(opts Options) (*Machine, error) { panic("unimplemented") }

// View returns the newest view. The caller releases it.
func (m *Machine) View() *View { panic("unimplemented") }

// Applied returns the index of the newest log entry that the newest view holds.
// It counts commands and configurations, the only entries that reach a state machine.
func (m *Machine) Applied() uint64 { panic("unimplemented") }

// Wait waits until Applied() >= index. It returns ctx's error when that ends
// first, and ErrClosed when the machine is closed.
func (m *Machine) Wait(ctx context.Context, index uint64) error { panic("unimplemented") }

// Digest returns the running hash over everything applied up to index. Equal
// logs give equal digests at equal indexes.
func (m *Machine) Digest() (index uint64, rolling [32]byte) { panic("unimplemented") }

// RestoreOnStart reports whether Raft must restore the newest snapshot when it
// starts: the opposite of raft.Config.NoSnapshotRestoreOnStart.
func (m *Machine) RestoreOnStart() bool { panic("unimplemented") }

// Close flushes the state to disk and releases it.
func (m *Machine) Close() error { panic("unimplemented") }
