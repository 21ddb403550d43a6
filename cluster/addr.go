package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// MaxAddrsPerName bounds how many addresses of one host name are tried.
	MaxAddrsPerName = 16
	// lookupTimeout bounds one host name lookup.
	lookupTimeout = 5 * time.Second
	maxHostLen    = 253 // DNS name
)

// lookupFunc resolves a host name to addresses, as net.Resolver.LookupHost.
type lookupFunc func(ctx context.Context, host string) ([]string, error)

// CheckLoopback returns an error unless addr (host:port, the host a name or an
// address) resolves to loopback addresses only. Nodes without a secret file may
// use no others.
func CheckLoopback(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	return checkLoopback(ctx, net.DefaultResolver.LookupHost, addr)
}

func checkLoopback(ctx context.Context, lookup lookupFunc, addr string) error {
	const remedy = "without a secret file only loopback addresses are allowed; set --secret-file or use 127.0.0.1"
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if host == "" {
		return fmt.Errorf("address %q stands for all interfaces: %s", addr, remedy)
	}
	ips, err := lookupIPs(ctx, lookup, host)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return fmt.Errorf("address %q is not a loopback address (%s): %s", addr, ip, remedy)
		}
	}
	return nil
}

// lookupIPs returns at least one and at most MaxAddrsPerName addresses.
func lookupIPs(ctx context.Context, lookup lookupFunc, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	names, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", host, err)
	}
	ips := make([]netip.Addr, 0, len(names))
	for _, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil && len(ips) < MaxAddrsPerName {
			ips = append(ips, ip.Unmap())
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("look up %q: no addresses", host)
	}
	return ips, nil
}

// splitAddr takes host:port or a host alone apart; port is 0 when not given.
func splitAddr(addr string) (host string, port uint16, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		var malformed *net.AddrError
		if errors.As(err, &malformed) && malformed.Err == "missing port in address" {
			return addr, 0, nil
		}
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", addr, portText)
	}
	return host, uint16(n), nil
}

func joinAddr(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// AdvertiseAddr returns the host:port that others are to dial for a listener.
// What advertise leaves out (all of it, or a port of 0) is taken from the bound
// address. If that means all interfaces, the first address of this machine that
// is not a loopback address is taken, preferably a private one.
func AdvertiseAddr(advertise string, bound net.Addr) (string, error) {
	boundAddr, err := netip.ParseAddrPort(bound.String())
	if err != nil {
		return "", fmt.Errorf("bound address %q: %w", bound, err)
	}
	host, port := "", uint16(0)
	if advertise != "" {
		if host, port, err = splitAddr(advertise); err != nil {
			return "", fmt.Errorf("advertise %w", err)
		}
	}
	if port == 0 {
		port = boundAddr.Port()
	}
	if host != "" && !isUnspecified(host) {
		return joinAddr(host, port), nil
	}
	ip := boundAddr.Addr().Unmap()
	if ip.IsUnspecified() {
		if ip, err = machineAddr(); err != nil {
			return "", err
		}
	}
	return joinAddr(ip.String(), port), nil
}

// isUnspecified reports whether host is the address of all interfaces.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

func machineAddr() (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("this machine's addresses: %w", err)
	}
	var best netip.Addr
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		ip := prefix.Addr().Unmap()
		if !ip.IsGlobalUnicast() || best.IsPrivate() {
			continue
		}
		if !best.IsValid() || ip.IsPrivate() {
			best = ip
		}
	}
	if !best.IsValid() {
		return netip.Addr{}, errors.New("bound to all interfaces but this machine has only loopback addresses: say what to advertise")
	}
	return best, nil
}

const (
	// MaxBookEntries bounds the servers whose addresses are kept.
	MaxBookEntries = 256

	bookVersion  = 1
	maxBookBytes = 1 << 20
)

// Book keeps the last known addresses of servers on disk, so that a restarted
// node finds the others before gossip says where they are. It is a hint:
// losing it loses nothing.
type Book struct {
	path   string
	logger *slog.Logger

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
	b := &Book{path: path, logger: logger, entries: make(map[string]bookEntry)}
	entries, err := readBook(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		logger.Warn("the address book cannot be read and starts empty", "path", path, "error", err)
	default:
		b.entries = entries
	}
	return b
}

func readBook(path string) (map[string]bookEntry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBookBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", info.Size(), maxBookBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file bookFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if file.Version != bookVersion {
		return nil, fmt.Errorf("it has version %d, this program knows %d", file.Version, bookVersion)
	}
	entries := make(map[string]bookEntry, len(file.Servers))
	for id, e := range file.Servers {
		if ValidServerID(id) && checkHostPort("cluster", e.Cluster) == nil && len(entries) < MaxBookEntries {
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

// Update takes over the addresses of live members and writes the book if any of them
// changed. The error is about the file; the book in memory is updated in any case,
// and the next change writes it again.
func (b *Book) Update(members []Member) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := false
	for _, m := range members {
		e := b.entries[m.ServerID]
		if e.Cluster == m.ClusterAddr && e.Gossip == m.GossipAddr {
			continue
		}
		b.makeRoom(m.ServerID)
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

// makeRoom drops the entry that has not changed for the longest time when a new
// server does not fit.
func (b *Book) makeRoom(serverID string) {
	if _, known := b.entries[serverID]; known || len(b.entries) < MaxBookEntries {
		return
	}
	oldest := ""
	for id, e := range b.entries {
		if oldest == "" || e.Seen.Before(b.entries[oldest].Seen) {
			oldest = id
		}
	}
	delete(b.entries, oldest)
}

func (b *Book) write() error {
	data, err := json.MarshalIndent(bookFile{Version: bookVersion, Servers: b.entries}, "", "  ")
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	if err := WriteFileAtomic(b.path, append(data, '\n')); err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	return nil
}
