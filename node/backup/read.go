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

	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/fsm/snapshot"
)

// ErrDamaged is returned for a file that is no backup, or not a whole one.
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

// Close releases what reading takes.
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

// line reads one line with its end.
func (b *Reader) line() ([]byte, error) {
	line, err := b.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return append([]byte(nil), line...), nil
}

// State is the state's stream.
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

// Report is what Inspect finds.
type Report struct {
	Info
	ContentBytes int64  `json:"contentBytes"` // of the state's files
	Rows         string `json:"rows"`         // digest of the state's rows, hexadecimal
}

// Inspect reads a whole backup and checks all of it.
func Inspect(r io.Reader) (Report, error) {
	b, err := NewReader(r)
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
	return Report{Info: b.Info, ContentBytes: content, Rows: rows}, err
}
