package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The stream of a state to another node:
//
//	magic8 len(header)4 header crc4 { content crc4 }
//
// The header is JSON and lists the files that follow with their lengths, so that the
// total length is known before the first byte is sent. Every part is followed by its
// CRC32C. Integers are little endian.
const (
	streamMagic = "CMNSSNP1"

	streamPrefix = len(streamMagic) + 4
	crcBytes     = 4

	maxStreamHeader = 64 << 20
	maxStreamFiles  = 1 << 20
	// spaceReserve is the space that must stay free on a disk that receives a state.
	spaceReserve = 64 << 20
	copyBytes    = 256 << 10
)

// streamHeader describes a stream.
type streamHeader struct {
	Index uint64       `json:"index"` // the snapshot's position in the log
	Term  uint64       `json:"term"`
	Files []streamFile `json:"files"`
}

type streamFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// validFile matches the names of Pebble's files. There are no directories.
var validFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// check rejects a header with values that are not safe to use.
func (h *streamHeader) check() error {
	if len(h.Files) == 0 || len(h.Files) > maxStreamFiles {
		return fmt.Errorf("%w: stream of %d files", ErrCorrupt, len(h.Files))
	}
	seen := make(map[string]bool, len(h.Files))
	var total int64
	for _, f := range h.Files {
		if !validFile.MatchString(f.Name) || seen[f.Name] {
			return fmt.Errorf("%w: file name %q in stream", ErrCorrupt, f.Name)
		}
		seen[f.Name] = true
		if f.Size < 0 || total+f.Size < total {
			return fmt.Errorf("%w: file size %d in stream", ErrCorrupt, f.Size)
		}
		total += f.Size
	}
	return nil
}

// content is the length of all files together.
func (h *streamHeader) content() int64 {
	var n int64
	for _, f := range h.Files {
		n += f.Size
	}
	return n
}

// encode returns everything before the first file.
func (h *streamHeader) encode() ([]byte, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode stream header: %w", err)
	}
	out := append(make([]byte, 0, streamPrefix+len(body)+crcBytes), streamMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	out = append(out, body...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(body, castagnoli)), nil
}

// packer is a reader of the stream of a directory.
type packer struct {
	fs    vfs.FS
	dir   string
	files []streamFile
	part  io.Reader // the part that is being read
	file  vfs.File  // behind part, if it is a file
	size  int64
	sum   hash.Hash32
	left  int64 // of the file that is being read
}

// newPacker returns the stream of h's files in dir.
func newPacker(on vfs.FS, dir string, h *streamHeader) (*packer, error) {
	head, err := h.encode()
	if err != nil {
		return nil, err
	}
	size := int64(len(head)) + h.content() + int64(len(h.Files))*crcBytes
	return &packer{fs: on, dir: dir, files: h.Files, part: bytes.NewReader(head), size: size}, nil
}

func (p *packer) Read(buf []byte) (int, error) {
	for {
		n, err := p.part.Read(buf)
		if p.file != nil && n > 0 {
			p.sum.Write(buf[:n])
			p.left -= int64(n)
		}
		if n > 0 || (err != nil && !errors.Is(err, io.EOF)) {
			return n, err
		}
		if err == nil {
			continue
		}
		if err := p.next(); err != nil {
			return 0, err
		}
	}
}

// next goes from a file to its checksum and from there to the next file.
func (p *packer) next() error {
	if p.file != nil && p.left != 0 {
		return fmt.Errorf("%w: a file of the snapshot is %d bytes short", ErrCorrupt, p.left)
	}
	if p.file != nil {
		p.part = bytes.NewReader(binary.LittleEndian.AppendUint32(nil, p.sum.Sum32()))
		return p.closeFile()
	}
	if len(p.files) == 0 {
		return io.EOF
	}
	next := p.files[0]
	p.files = p.files[1:]
	f, err := p.fs.Open(filepath.Join(p.dir, next.Name))
	if err != nil {
		return fmt.Errorf("send snapshot: %w", err)
	}
	p.file, p.left, p.sum = f, next.Size, crc32.New(castagnoli)
	p.part = io.LimitReader(f, next.Size)
	return nil
}

func (p *packer) closeFile() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// unpack writes the files of a stream to disk, into the empty dir, unless admit rejects it.
func unpack(r io.Reader, on vfs.FS, dir string, admit func(*streamHeader) error) (*streamHeader, error) {
	h, err := readStreamHeader(r)
	if err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	if err := admit(h); err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	err = readFiles(r, h, func(name string, size int64, buf []byte) (err error) {
		f, err := on.Create(filepath.Join(dir, name), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := copyPart(f, r, size, buf); err != nil {
			return err
		}
		return f.Sync()
	})
	if err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	return h, syncDir(on, dir)
}

// readFiles calls read for each file of a stream. The stream must end after the last one.
func readFiles(r io.Reader, h *streamHeader, read func(name string, size int64, buf []byte) error) error {
	buf := make([]byte, copyBytes)
	for _, f := range h.Files {
		if err := read(f.Name, f.Size, buf); err != nil {
			return fmt.Errorf("file %s: %w", f.Name, err)
		}
	}
	var next [1]byte
	if n, err := io.ReadFull(r, next[:]); n != 0 || !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: bytes after the end", ErrCorrupt), err)
	}
	return nil
}

func readStreamHeader(r io.Reader) (*streamHeader, error) {
	var prefix [streamPrefix]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if string(prefix[:len(streamMagic)]) != streamMagic {
		return nil, fmt.Errorf("%w: not a snapshot stream", ErrCorrupt)
	}
	size := binary.LittleEndian.Uint32(prefix[len(streamMagic):])
	if size > maxStreamHeader {
		return nil, fmt.Errorf("%w: header of %d bytes", ErrCorrupt, size)
	}
	// The length is not trusted before the bytes are there.
	body, err := io.ReadAll(io.LimitReader(r, int64(size)+crcBytes))
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if len(body) != int(size)+crcBytes {
		return nil, fmt.Errorf("header: %w", io.ErrUnexpectedEOF)
	}
	if crc32.Checksum(body[:size], castagnoli) != binary.LittleEndian.Uint32(body[size:]) {
		return nil, fmt.Errorf("%w: header checksum", ErrCorrupt)
	}
	h := new(streamHeader)
	if err := json.Unmarshal(body[:size], h); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	return h, nil
}

// copyPart copies the next file of a stream and checks it. The checksum comes first: a write to a
// vfs.File may change the bytes that it is given.
func copyPart(w io.Writer, r io.Reader, size int64, buf []byte) error {
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(sum, w)}, io.LimitReader(r, size), buf)
	if err != nil {
		return err
	}
	if n != size {
		return io.ErrUnexpectedEOF
	}
	var want [crcBytes]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if sum.Sum32() != binary.LittleEndian.Uint32(want[:]) {
		return fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	return nil
}

// CheckStream checks every part of a stream. It returns the position and the bytes of
// files.
func CheckStream(r io.Reader) (at Position, content int64, err error) {
	h, err := readStreamHeader(r)
	if err == nil {
		err = readFiles(r, h, func(_ string, size int64, buf []byte) error { return copyPart(io.Discard, r, size, buf) })
	}
	if err != nil {
		return Position{}, 0, fmt.Errorf("check the state's stream: %w", err)
	}
	return Position{h.Index, h.Term}, h.content(), nil
}

const (
	// MaxStreams bounds how many states are sent at the same time: each one holds
	// files on the disk that Pebble may have deleted already.
	MaxStreams = 4
	// maxExports bounds the exports in the same way.
	maxExports = 1

	// tokenMagic begins what Raft reads of a received snapshot that is about to be
	// restored: only its name, because the state is on this disk already.
	tokenMagic    = "commons received snapshot "
	maxTokenBytes = 256
)

// Stream returns a snapshot's metadata and a stream, both of the current state.
func (s *Store) Stream(id string) (Meta, io.ReadCloser, error) {
	s.mu.Lock()
	if s.pending != nil && s.pending.ID == id {
		defer s.mu.Unlock()
		token := tokenMagic + id
		meta := *s.pending
		meta.Size = int64(len(token))
		return meta, io.NopCloser(strings.NewReader(token)), nil
	}
	known := slices.IndexFunc(s.metas, func(m Meta) bool { return m.ID == id })
	if known < 0 {
		s.mu.Unlock()
		return Meta{}, nil, fmt.Errorf("open snapshot %s: %w", id, fs.ErrNotExist)
	}
	if s.streams >= MaxStreams {
		s.mu.Unlock()
		return Meta{}, nil, fmt.Errorf("open snapshot: %d streams are open already", MaxStreams)
	}
	out := s.outgoing(&s.streams)
	meta := s.metas[known]
	s.mu.Unlock()
	if err := out.start(); err != nil {
		return Meta{}, nil, fmt.Errorf("open snapshot: %w", errors.Join(err, out.Close()))
	}
	meta.Index, meta.Term, meta.Size = out.contents.Index, out.contents.Term, out.Size()
	meta.Configuration, meta.ConfigurationIndex = out.contents.Configuration, out.contents.ConfigurationIndex
	return meta, out, nil
}

// Export begins a copy of the live state. Errors: ErrExporting, or those of the disk.
func (s *Store) Export() (*Outgoing, error) {
	s.mu.Lock()
	if s.exports >= maxExports {
		s.mu.Unlock()
		return nil, ErrExporting
	}
	out := s.outgoing(&s.exports)
	s.mu.Unlock()
	if err := out.start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// Outgoing is a consistent copy of the live state that is being sent: a checkpoint, and
// its stream, which Read reads. It is not safe for concurrent use, and must be closed.
type Outgoing struct {
	s        *Store
	count    *int // of those that are open, under s.mu
	dir      string
	contents Contents
	pack     *packer
	closed   bool
}

// outgoing counts and names a new copy. The caller holds mu.
func (s *Store) outgoing(count *int) *Outgoing {
	*count++
	return &Outgoing{s: s, count: count, dir: s.path(numbered(outgoingPrefix, s.number()))}
}

// start begins the stream of a checkpoint. It flushes first: checkpoints include no
// memtables.
func (o *Outgoing) start() error {
	live, release := o.s.machine.LiveState()
	err := live.Flush()
	if err == nil {
		err = live.Checkpoint(o.dir)
	}
	release()
	if err != nil {
		return err
	}
	if o.contents, err = o.s.machine.ReadCheckpoint(o.dir); err != nil {
		return err
	}
	if o.contents.ConfigurationIndex == 0 {
		return errors.New("the state holds no configuration yet")
	}
	names, err := o.s.FS.List(o.dir)
	if err != nil {
		return err
	}
	h := &streamHeader{Index: o.contents.Index, Term: o.contents.Term}
	slices.Sort(names)
	for _, name := range names {
		info, err := o.s.FS.Stat(filepath.Join(o.dir, name))
		if err != nil {
			return err
		}
		if name != "LOCK" {
			h.Files = append(h.Files, streamFile{Name: name, Size: info.Size()})
		}
	}
	if err := h.check(); err != nil {
		return err
	}
	o.pack, err = newPacker(o.s.FS, o.dir, h)
	return err
}

// Dir is the directory of the checkpoint. It must not be changed.
func (o *Outgoing) Dir() string { return o.dir }

// Size is the length of the stream in bytes.
func (o *Outgoing) Size() int64 { return o.pack.size }

// Read reads the stream.
func (o *Outgoing) Read(p []byte) (int, error) { return o.pack.Read(p) }

// Close ends the stream and removes the checkpoint.
func (o *Outgoing) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	o.s.mu.Lock()
	*o.count--
	o.s.mu.Unlock()
	var err error
	if o.pack != nil {
		err = o.pack.closeFile()
	}
	return errors.Join(err, o.s.FS.RemoveAll(o.dir))
}
