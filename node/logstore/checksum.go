package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// The extension of a log entry: a version byte and the CRC32C (Castagnoli) over
// index, term, type and data, all integers big-endian.
const (
	extensionVersion = 1
	extensionBytes   = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is what every *CorruptError is.
var ErrCorrupt = errors.New("log is corrupt")

// CorruptError says that the log on disk, or an entry received for it, is not
// what was once written. Such a node must not go on: it could vote or answer on
// grounds of data that nobody agreed to.
type CorruptError struct {
	Path  string // the log's file
	Index uint64 // the entry; 0 when the damage is not in one entry
	Err   error  // what was found
}

func (e *CorruptError) Error() string {
	where := "log"
	if e.Index != 0 {
		where = fmt.Sprintf("log entry %d", e.Index)
	}
	return fmt.Sprintf("%s in %s is corrupt: %v; this node must resync: stop it, wipe its data directory and start it again, and the others bring it up to date",
		where, e.Path, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns what was found.
func (e *CorruptError) Unwrap() error { return e.Err }

// checksum returns the CRC32C of an entry.
func checksum(l *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Update(0, castagnoli, head[:]), castagnoli, l.Data)
}

// extension returns the extension that belongs to an entry.
func extension(l *raft.Log) []byte {
	return binary.BigEndian.AppendUint32([]byte{extensionVersion}, checksum(l))
}

// verify compares an entry with its extension.
func verify(l *raft.Log) error {
	if len(l.Extensions) != extensionBytes || l.Extensions[0] != extensionVersion {
		return fmt.Errorf("it carries no checksum of version %d", extensionVersion)
	}
	want, got := binary.BigEndian.Uint32(l.Extensions[1:]), checksum(l)
	if want != got {
		return fmt.Errorf("its checksum is %08x, its content has %08x", want, got)
	}
	return nil
}
