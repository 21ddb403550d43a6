package fsm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// maxExports bounds the exports at the same time: each holds files on the disk
// that Pebble may have done away with.
const maxExports = 1

// ErrExporting is returned by Export while another export is open.
var ErrExporting = errors.New("another export is under way")

// Summary says what a state holds and how far it has come.
type Summary struct {
	ClusterID     string
	SealedDataKey []byte
	Index, Term   uint64   // of the newest log entry that was applied
	Time          int64    // of the log, milliseconds since the epoch
	Entries       uint64   // published so far
	Format        int      // replicated format number
	Rolling       [32]byte // the running digest
}

// Export is a consistent copy of the state as a stream, taken while the machine
// goes on. One goroutine uses it, and closes it.
type Export struct {
	out  *outgoing
	db   *pebble.DB // of the checkpoint, read only
	head head
	size int64
	Summary
}

// Export begins an export of everything applied so far. Errors: ErrExporting, or
// what the disk says.
func (m *Machine) Export() (*Export, error) {
	s := &m.snaps
	s.mu.Lock()
	if s.exports >= maxExports {
		s.mu.Unlock()
		return nil, ErrExporting
	}
	s.exports++
	e := &Export{out: &outgoing{s: s, dir: s.path(fmt.Sprintf("%s%010d", outgoingPrefix, s.number())), count: &s.exports}}
	s.mu.Unlock()
	if err := e.start(); err != nil {
		return nil, fmt.Errorf("export the state: %w", errors.Join(err, e.Close()))
	}
	return e, nil
}

func (e *Export) start() error {
	var meta snapshotMeta
	if err := e.out.start(&meta); err != nil {
		return err
	}
	e.size = meta.Size
	db, err := e.out.open()
	if err != nil {
		return err
	}
	e.db = db
	e.head, e.Summary, err = summarize(db)
	return err
}

// summarize reads what a database says of itself.
func summarize(db pebble.Reader) (h head, sum Summary, err error) {
	if h, err = loadHead(db); err != nil {
		return h, sum, err
	}
	c, err := loadCluster(db)
	if err != nil {
		return h, sum, err
	}
	p, err := covers(db)
	if err != nil {
		return h, sum, err
	}
	format, err := loadFormat(db)
	return h, Summary{
		ClusterID: c.id, SealedDataKey: c.sealedKey, Index: p.index, Term: p.term,
		Time: h.now, Entries: h.lastSeq, Format: format, Rolling: h.rolling,
	}, err
}

// Size is the length of the stream in bytes.
func (e *Export) Size() int64 { return e.size }

// Read reads the stream.
func (e *Export) Read(p []byte) (int, error) { return e.out.Read(p) }

// RowDigest returns the hash over the logical rows of what is exported; see
// View.RowDigest. It reads everything and takes as long.
func (e *Export) RowDigest() ([32]byte, error) {
	return digestRows(context.Background(), e.db, &e.head)
}

// Close ends the export and removes the copy.
func (e *Export) Close() error {
	var err error
	if e.db != nil {
		err = e.db.Close()
		e.db = nil
	}
	return errors.Join(err, e.out.Close())
}

// CheckStream reads a stream of a state to its end and checks every part of it.
// It returns the position of the state and how many bytes of files it has.
func CheckStream(r io.Reader) (index, term uint64, content int64, err error) {
	h, err := readStreamHeader(r)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("check the state's stream: %w", err)
	}
	buf := make([]byte, copyBytes)
	for _, f := range h.Files {
		if err := copyPart(io.Discard, r, f.Size, buf); err != nil {
			return 0, 0, 0, fmt.Errorf("check the state's stream: file %s: %w", f.Name, err)
		}
	}
	if err := expectEnd(r); err != nil {
		return 0, 0, 0, fmt.Errorf("check the state's stream: %w", err)
	}
	return h.Index, h.Term, h.content(), nil
}
