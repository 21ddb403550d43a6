package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// MaxBookEntries bounds the servers in a Book.
	MaxBookEntries = 256

	bookVersion = 1
)

// Book keeps the last known addresses of servers on disk, so that a restarted node can
// dial the others before gossip has their addresses. A node works without it.
type Book struct {
	path string

	mu      sync.Mutex
	entries map[string]bookEntry
}

type bookEntry struct {
	Cluster string    `json:"cluster"` // host:port of the private port
	Gossip  string    `json:"gossip"`  // IP:port
	Seen    time.Time `json:"seen"`    // when the addresses last changed
}

type bookFile struct {
	Version int                  `json:"version"`
	Servers map[string]bookEntry `json:"servers"`
}

// OpenBook reads the book at path. A missing book is empty; a book that cannot be
// read is logged and treated as empty.
func OpenBook(path string, logger *slog.Logger) *Book {
	entries, err := readBook(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("the address book cannot be read and starts empty", "path", path, "error", err)
	}
	return &Book{path: path, entries: entries}
}

// readBook returns an empty map with an error.
func readBook(path string) (entries map[string]bookEntry, err error) {
	entries = make(map[string]bookEntry)
	data, err := os.ReadFile(path)
	if err != nil {
		return entries, err
	}
	var file bookFile
	if err := json.Unmarshal(data, &file); err != nil {
		return entries, err
	}
	if file.Version != bookVersion {
		return entries, fmt.Errorf("it has version %d, this program knows %d", file.Version, bookVersion)
	}
	for id, e := range file.Servers {
		if validServerID(id) && checkHostPort("cluster", e.Cluster) == nil && len(entries) < MaxBookEntries {
			entries[id] = e
		}
	}
	return entries, nil
}

// Resolve returns the last known host:port of a server's private port.
func (b *Book) Resolve(serverID string) (addr string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[serverID]
	return e.Cluster, ok
}

// GossipAddrs returns the last known gossip addresses, IP:port.
func (b *Book) GossipAddrs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	addrs := make([]string, 0, len(b.entries))
	for _, e := range b.entries {
		addrs = append(addrs, e.Gossip)
	}
	return addrs
}

// Update stores the addresses of live members, and writes the book if one has changed. After
// an error the book in memory is up to date, and the next change writes the file again.
func (b *Book) Update(members []Member) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := false
	for _, m := range members {
		e := b.entries[m.ServerID]
		if e.Cluster == m.ClusterAddr && e.Gossip == m.GossipAddr {
			continue
		}
		if _, known := b.entries[m.ServerID]; !known && len(b.entries) >= MaxBookEntries {
			dropOldest(b.entries, func(e bookEntry) int64 { return e.Seen.UnixNano() })
		}
		b.entries[m.ServerID] = bookEntry{Cluster: m.ClusterAddr, Gossip: m.GossipAddr, Seen: time.Now().UTC()}
		changed = true
	}
	if !changed {
		return nil
	}
	return b.write()
}

// Forget drops a server that was removed from the cluster.
func (b *Book) Forget(serverID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.entries[serverID]; !ok {
		return nil
	}
	delete(b.entries, serverID)
	return b.write()
}

func dropOldest[Entry any](entries map[string]Entry, at func(Entry) int64) {
	delete(entries, slices.MinFunc(slices.Collect(maps.Keys(entries)), func(a, b string) int { return cmp.Compare(at(entries[a]), at(entries[b])) }))
}

func (b *Book) write() error {
	data, err := json.MarshalIndent(bookFile{Version: bookVersion, Servers: b.entries}, "", "  ")
	if err == nil {
		err = WriteFileAtomic(b.path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	return nil
}
