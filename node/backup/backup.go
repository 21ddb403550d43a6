// Package backup is the file that a backup of the whole state is kept in.
//
// A file is one zstd frame, which holds
//
//	"commons backup\n"
//	the Info as one line of JSON
//	the state as fsm streams it: files, each with its checksum
//	the Trailer as one line of JSON
//
// A SHA-256 protects the whole file, and the digest of its rows the restored state.
package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
)

// Version of the format.
const Version = 1

const (
	magic     = "commons backup\n"
	maxLine   = 64 << 10 // bounds the Info and the Trailer
	maxWindow = 64 << 20 // bounds the memory that a file may ask for when it is read
)

// Info describes the contents of a backup.
type Info struct {
	Version   int    `json:"version"`   // of the format
	CreatedAt int64  `json:"createdAt"` // milliseconds since the epoch; everything acknowledged before is in the backup
	ClusterID string `json:"clusterId"`
	Node      string `json:"node"`    // server id of the node that made it
	Program   string `json:"program"` // its version
	Index     uint64 `json:"index"`   // of the last log entry that the state includes
	Term      uint64 `json:"term"`
	Time      int64  `json:"time"`    // of the log there, milliseconds since the epoch
	Entries   uint64 `json:"entries"` // published so far
	Format    int    `json:"format"`  // replicated format number
	Digest    string `json:"digest"`  // running digest, hexadecimal
	// SealedDataKey is the cluster's data key, sealed under the cluster's secret;
	// SealedUnder is the public name of that secret.
	SealedDataKey []byte `json:"sealedDataKey"`
	SealedUnder   string `json:"sealedUnder"`
	StateBytes    int64  `json:"stateBytes"` // length of the state's stream
}

// Trailer closes a backup.
type Trailer struct {
	Rows   string `json:"rows"`   // digest of the state's rows, hexadecimal
	SHA256 string `json:"sha256"` // of everything before the trailer, hexadecimal
}

// Write writes a backup of an export. It fills in the fields of info that follow from the
// export.
func Write(w io.Writer, e *fsm.Export, info Info) (err error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := errors.Join(writeParts(z, e, info), z.Close()); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func writeParts(w io.Writer, e *fsm.Export, info Info) error {
	info.Version, info.StateBytes = Version, e.Size()
	info.ClusterID, info.SealedDataKey = e.ClusterID, e.SealedDataKey
	info.Index, info.Term, info.Time = e.Index, e.Term, e.Time
	info.Entries, info.Format, info.Digest = e.Entries, e.Format, hex.EncodeToString(e.Rolling[:])
	sum := sha256.New()
	body := io.MultiWriter(w, sum)
	if _, err := io.WriteString(body, magic); err != nil {
		return err
	}
	if err := writeLine(body, info); err != nil {
		return err
	}
	n, err := io.Copy(body, e)
	if err != nil {
		return err
	}
	if n != info.StateBytes {
		return fmt.Errorf("the state has %d bytes, announced were %d", n, info.StateBytes)
	}
	rows, err := e.RowDigest()
	if err != nil {
		return err
	}
	return writeLine(w, Trailer{Rows: hex.EncodeToString(rows[:]), SHA256: hex.EncodeToString(sum.Sum(nil))})
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ErrDamaged is the error of a file that is no backup, or not a whole one.
var ErrDamaged = errors.New("not a whole backup")

// Reader reads a backup: first the Info, then the state, then Finish.
type Reader struct {
	Info  Info
	zstd  *zstd.Decoder
	in    *bufio.Reader
	sum   hash.Hash
	state io.LimitedReader
}

// NewReader reads the beginning of a backup. The caller closes it.
func NewReader(r io.Reader) (*Reader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	b := &Reader{zstd: z, in: bufio.NewReaderSize(z, maxLine), sum: sha256.New()}
	if err := b.begin(); err != nil {
		z.Close()
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return b, nil
}

// Close releases the resources of the reader.
func (b *Reader) Close() { b.zstd.Close() }

func (b *Reader) begin() error {
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(b.in, start); err != nil || string(start) != magic {
		return errors.Join(ErrDamaged, err)
	}
	b.sum.Write(start)
	line, err := b.line()
	if err != nil {
		return err
	}
	b.sum.Write(line)
	if err := json.Unmarshal(line, &b.Info); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if b.Info.Version != Version {
		return fmt.Errorf("the backup has version %d, this program knows %d", b.Info.Version, Version)
	}
	b.state = io.LimitedReader{R: io.TeeReader(b.in, b.sum), N: b.Info.StateBytes}
	return nil
}

func (b *Reader) line() ([]byte, error) {
	line, err := b.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return append([]byte(nil), line...), nil
}

// State returns the state's stream.
func (b *Reader) State() io.Reader { return &b.state }

// Finish reads what follows the state, which must be read, and checks the whole
// file. It returns the digest of the state's rows.
func (b *Reader) Finish() (rows string, err error) {
	if b.state.N != 0 {
		return "", fmt.Errorf("read backup: %w: the state is cut off", ErrDamaged)
	}
	var t Trailer
	line, err := b.line()
	if err == nil {
		err = json.Unmarshal(line, &t)
	}
	if err != nil {
		return "", fmt.Errorf("read backup: %w", errors.Join(ErrDamaged, err))
	}
	if t.SHA256 != hex.EncodeToString(b.sum.Sum(nil)) {
		return "", fmt.Errorf("read backup: %w: its checksum differs", ErrDamaged)
	}
	if _, err := b.in.ReadByte(); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read backup: %w: something follows the end", errors.Join(ErrDamaged, err))
	}
	return t.Rows, nil
}

// Report describes a backup that was read.
type Report struct {
	Info
	ContentBytes int64  `json:"contentBytes"` // of the state's files
	Rows         string `json:"rows"`         // digest of the state's rows, hexadecimal
	FileBytes    int64  `json:"fileBytes,omitempty"`
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// Inspect reads a whole backup and checks all of it.
func Inspect(r io.Reader) (Report, error) {
	file := &counter{Reader: r}
	b, err := NewReader(file)
	if err != nil {
		return Report{}, err
	}
	defer b.Close()
	at, content, err := snapshot.CheckStream(b.State())
	if err != nil {
		return Report{}, fmt.Errorf("read backup: %w: %w", ErrDamaged, err)
	}
	if at.Index != b.Info.Index || at.Term != b.Info.Term {
		return Report{}, fmt.Errorf("read backup: %w: the state is at index %d, not %d", ErrDamaged, at.Index, b.Info.Index)
	}
	rows, err := b.Finish()
	return Report{Info: b.Info, ContentBytes: content, Rows: rows, FileBytes: file.n}, err
}

// PurgeListSuffix ends the file name of a backup's purge list.
const PurgeListSuffix = ".purged.json"

const purgeListMode = 0o644 // the mode of purge lists: their contents are public

// PurgeList is a list of all entries that a cluster has purged. An older backup still has the
// texts, so a list is kept beside backups, and a restore repeats the purges of the newest list.
type PurgeList struct {
	ClusterID string `json:"clusterId"` // that the list is of
	CreatedAt int64  `json:"createdAt"` // milliseconds since the epoch
	// Index is that of the newest log entry whose purges the list has.
	Index  uint64        `json:"index"`
	Purged []PurgedEntry `json:"purged"`
}

// PurgedEntry is an entry that was purged. It has the same id and time in every backup of
// that cluster, and of clusters that began with its state.
type PurgedEntry struct {
	ClusterID string `json:"clusterId"` // that purged it
	ID        string `json:"id"`
	CreatedAt int64  `json:"createdAt"` // of the entry
}

// Write writes the list to a file.
func (l *PurgeList) Write(path string) error {
	data, err := json.Marshal(l)
	if err == nil {
		err = cluster.WriteFileAtomic(path, append(data, '\n'))
	}
	if err == nil {
		err = os.Chmod(path, purgeListMode)
	}
	if err != nil {
		return fmt.Errorf("write the purge list: %w", err)
	}
	return nil
}

// Check returns an error if the list is of no cluster, no time or no log entry.
func (l *PurgeList) Check() error {
	if l.ClusterID == "" || l.CreatedAt == 0 || l.Index == 0 {
		return errors.New("it names no cluster, no time or no log entry")
	}
	return nil
}

// ReadPurgeList reads a list.
func ReadPurgeList(path string) (l PurgeList, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return l, fmt.Errorf("read the purge list: %w", err)
	}
	if err = json.Unmarshal(data, &l); err == nil {
		err = l.Check()
	}
	if err != nil {
		return l, fmt.Errorf("purge list %s is not whole: %w", path, err)
	}
	return l, nil
}

// After reports whether the list has later purges than another one. The log of their cluster
// decides: a clock may have been wrong. Without the same log, or at the same index, times do.
func (l *PurgeList) After(other *PurgeList) bool {
	if l.ClusterID == other.ClusterID && l.Index != other.Index {
		return l.Index > other.Index
	}
	return l.CreatedAt > other.CreatedAt
}

// Covers reports whether the list has the purges of a cluster: it belongs to the cluster, or to one
// that was restored from it.
func (l *PurgeList) Covers(clusterID string) bool {
	return l.ClusterID == clusterID || slices.ContainsFunc(l.Purged, func(p PurgedEntry) bool { return p.ClusterID == clusterID })
}

// Purges returns the purges of the list.
func (l *PurgeList) Purges() []state.Purge {
	purges := make([]state.Purge, len(l.Purged))
	for i, p := range l.Purged {
		purges[i] = state.Purge{Cluster: p.ClusterID, ID: p.ID, CreatedAt: p.CreatedAt}
	}
	return purges
}
