package fsm

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What Pebble gets. The defaults are made for another load: they stall writes
// that come in batches of 128 KiB.
const (
	// DefaultMaxOpenFiles is how many files of a state are open at once.
	DefaultMaxOpenFiles = 1000
	// DefaultCacheBytes is the size of the block cache when all memtables are full.
	DefaultCacheBytes = 64 << 20
	// DefaultMemTableBytes is the size of one memtable. What is in memtables is
	// read again from the Raft log after a crash.
	DefaultMemTableBytes = 32 << 20

	// formatMajorVersion is Pebble's format on disk. A newer one must wait until
	// every node can read it, because snapshots carry these files.
	formatMajorVersion = pebble.FormatTableFormatV6

	memTablesBeforeStop   = 4
	l0CompactionThreshold = 4
	l0StopWrites          = 24
	bloomBitsPerKey       = 10
	// Small blocks and the fastest compression: reading one old entry costs 20 µs,
	// with twice the block and zstd 70 µs, for a quarter less of disk.
	dataBlockBytes  = 4 << 10
	indexBlockBytes = 32 << 10
	baseLevelBytes  = 128 << 20
	tableBytes      = 8 << 20
	flushSplitBytes = 2 << 20
)

// newCache returns the block cache. Pebble takes the memtables' memory out of it,
// so it is made larger by as much; what the memtables leave is cache.
func newCache(opts *Options) *pebble.Cache {
	return pebble.NewCache(opts.CacheBytes + memTablesBeforeStop*opts.MemTableBytes)
}

// pebbleOptions returns the options for a state. The cache is shared between a
// state and its successor. fatal is told of bytes that are not what was written.
func pebbleOptions(opts *Options, cache *pebble.Cache, fatal func(error)) *pebble.Options {
	o := &pebble.Options{
		FS:                          vfs.OnDiskFull(opts.fs, func() { time.Sleep(fullPause) }),
		Cache:                       cache,
		DisableWAL:                  true, // the Raft log is the write-ahead log
		FormatMajorVersion:          formatMajorVersion,
		MemTableSize:                uint64(opts.MemTableBytes),
		MemTableStopWritesThreshold: memTablesBeforeStop,
		L0CompactionThreshold:       l0CompactionThreshold,
		L0StopWritesThreshold:       l0StopWrites,
		LBaseMaxBytes:               baseLevelBytes,
		FlushSplitBytes:             flushSplitBytes,
		MaxOpenFiles:                opts.MaxOpenFiles,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleLogger{log: opts.Logger, fatal: fatal},
		EventListener: &pebble.EventListener{
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				fatal(fmt.Errorf("state on disk: %w: %s", ErrCorrupt, info))
			},
		},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = dataBlockBytes
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
		o.TargetFileSizes[i] = tableBytes << min(i, 3)
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	return o
}

// pebbleLogger passes on what matters of Pebble's log.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble reports an error", "error", fmt.Sprintf(format, args...))
}

// Fatalf must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	l.fatal(err)
	panic(err)
}
