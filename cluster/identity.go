package cluster

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// MaxNodeNameLen is the longest node name, in bytes.
	MaxNodeNameLen = 63
	// MaxServerIDLen is the longest server id: name, hyphen, suffix.
	MaxServerIDLen = MaxNodeNameLen + 1 + suffixChars

	suffixBytes = 5
	suffixChars = 8 // base 32 of suffixBytes

	identityFile    = "server-id.json"
	identityVersion = 1
	dataDirMode     = 0o700
)

// suffixEncoding avoids letters that are easily mistaken for digits.
var suffixEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Identity is who a node is for as long as its data directory lives. A node
// with a wiped directory is another server under the same name.
type Identity struct {
	NodeName string // given by the operator
	ServerID string // node name, hyphen, random suffix
	LogID    string // of the Raft log that belongs to it; "" while it has none
}

type identityRecord struct {
	Version  int    `json:"version"`
	NodeName string `json:"nodeName"`
	ServerID string `json:"serverId"`
	LogID    string `json:"logId,omitempty"`
}

// CheckNodeName returns an error unless the name is 1 to MaxNodeNameLen ASCII
// letters, digits, dots, underscores and hyphens.
func CheckNodeName(name string) error {
	if name == "" || len(name) > MaxNodeNameLen {
		return fmt.Errorf("node name %q has %d characters, 1 to %d are allowed", name, len(name), MaxNodeNameLen)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !isNameRune(r) }); i >= 0 {
		return fmt.Errorf("node name %q: only letters, digits, '.', '_' and '-' are allowed", name)
	}
	return nil
}

// ValidServerID reports whether id has the form of a server id.
func ValidServerID(id string) bool {
	return id != "" && len(id) <= MaxServerIDLen && strings.IndexFunc(id, func(r rune) bool { return !isNameRune(r) }) < 0
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// LoadIdentity returns the identity kept in the data directory, or makes one
// there. An empty nodeName means the kept name, else the host name. A name that
// contradicts the kept one, and a damaged file, are errors: neither may quietly
// turn one server into another.
func LoadIdentity(dir, nodeName string) (Identity, error) {
	if nodeName != "" {
		if err := CheckNodeName(nodeName); err != nil {
			return Identity{}, err
		}
	}
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeIdentity(dir, nodeName)
	case err != nil:
		return Identity{}, fmt.Errorf("read the server id: %w", err)
	}
	var kept identityRecord
	if err := json.Unmarshal(data, &kept); err != nil || kept.Version != identityVersion ||
		CheckNodeName(kept.NodeName) != nil || !ValidServerID(kept.ServerID) {
		return Identity{}, fmt.Errorf("%s is damaged or from a newer version; restore it, or empty the whole data directory so that the node joins as a new server", path)
	}
	if nodeName != "" && nodeName != kept.NodeName {
		return Identity{}, fmt.Errorf("this node is to be %q but its data directory %s belongs to %q (server id %s); use that name, or another data directory",
			nodeName, dir, kept.NodeName, kept.ServerID)
	}
	return Identity{NodeName: kept.NodeName, ServerID: kept.ServerID, LogID: kept.LogID}, nil
}

func makeIdentity(dir, nodeName string) (Identity, error) {
	if nodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return Identity{}, fmt.Errorf("no node name given and the host name is unknown: %w", err)
		}
		nodeName = hostNodeName(host)
	}
	suffix := make([]byte, suffixBytes)
	if _, err := rand.Read(suffix); err != nil {
		return Identity{}, fmt.Errorf("make a server id: %w", err)
	}
	id := Identity{NodeName: nodeName, ServerID: nodeName + "-" + suffixEncoding.EncodeToString(suffix)}
	if err := id.Keep(dir); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// Keep writes the identity to the data directory, through to the disk.
func (id *Identity) Keep(dir string) error {
	data, err := json.Marshal(identityRecord{Version: identityVersion, NodeName: id.NodeName, ServerID: id.ServerID, LogID: id.LogID})
	if err == nil {
		err = WriteFileAtomic(filepath.Join(dir, identityFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the server id: %w", err)
	}
	return nil
}

// hostNodeName turns a host name into a valid node name.
func hostNodeName(host string) string {
	name := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '-'
	}, host)
	if name == "" {
		name = "node"
	}
	return name[:min(len(name), MaxNodeNameLen)]
}

// LockFile is the name of the file in a data directory that a process locks.
const LockFile = "lock"

// DirLock is the exclusive hold of one process on a data directory.
type DirLock struct{ f *os.File }

// LockDir makes the directory where it is missing and locks it. The lock goes
// with the process, however that ends. The error names the directory and, where
// known, the process that holds it.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, dataDirMode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := lockHolder(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another process%s; stop it or use another directory", dir, holder)
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	// The process id is for the message above alone; the lock holds without it.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &DirLock{f: f}, nil
}

// Release gives the directory up. It is safe to call more than once.
func (l *DirLock) Release() error {
	err := l.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

const maxPIDLen = 20

func lockHolder(f *os.File) string {
	buf := make([]byte, maxPIDLen)
	n, _ := f.ReadAt(buf, 0) // an empty file has no process id to show
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return " (process " + pid + ")"
}

const fileMode = 0o600

// WriteFileAtomic replaces a file as a whole: after a crash it holds the former
// or the new content, never a part. It returns once the content is on disk. One
// writer at a time: the data directory is locked.
func WriteFileAtomic(path string, data []byte) error {
	temp := path + ".tmp"
	err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync error says more
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return d.Close()
}
