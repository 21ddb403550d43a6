package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// Sizes of the journal.
const (
	// DefaultJournalBytes is the size that a file of the journal is made with. It is doubled whenever it
	// was full, up to journalGrowth times that: the larger it is, the fewer are its clearings.
	// A smaller file counts as damaged, so no release may raise this.
	DefaultJournalBytes = 1 << 20
	journalGrowth       = 64
	// zeroBytes are zeroed and synced at a time, so that appends need not wait for all of them.
	zeroBytes = 4 << 20
	// keptBuffer bounds the buffer that is kept for the next frame.
	keptBuffer = 4 << 20
)

// A frame of the journal is a head and its entries. The head has the first bytes of the log's
// random id, which no client knows, and, big-endian, the frame's sequence number, the length of
// the entries, and the CRC32C over the id and all of the frame but those first bytes and the
// sum itself. Frames have consecutive sequence numbers, over both files.
const (
	sequenceAt = 8
	lengthAt   = sequenceAt + 8
	sumAt      = lengthAt + 4
	frameHead  = sumAt + 4
)

// journal is the two preallocated files in front of bbolt
// (docs/decisions/0021-a-journal-before-bbolt.md). An append writes one frame into space
// that is zero and has its place on the disk, so that the sync behind it changes no metadata.
// A file that is full is used again once it was cleared. The file that is not active may be
// cleared and grown while frames are appended; nothing else is safe for concurrent use.
type journal struct {
	files  [2]*os.File
	dirty  [2]int64 // how many bytes of each file may differ from zero
	size   [2]int64 // of the files
	id     []byte   // of the log that it belongs to: frames of another log are none
	active int      // the file that is written
	end    int64    // of the frames in it
	last   uint64   // sequence number of the newest frame
	buffer []byte   // the next frame
}

// Files returns the paths of all files of the log at a path: that of bbolt, and those of the journal.
func Files(log string) []string { return []string{log, journalPath(log, 0), journalPath(log, 1)} }

// journalPath returns the path of one of the journal's files.
func journalPath(log string, i int) string { return fmt.Sprintf("%s.journal%d", log, i) }

// openJournal opens the files of a log's journal. With made they are made when they are missing.
func openJournal(log string, id []byte, made bool) (*journal, error) {
	j := &journal{id: id}
	flags := os.O_RDWR
	if made {
		flags |= os.O_CREATE
	}
	for i := range j.files {
		var err error
		if j.files[i], err = os.OpenFile(journalPath(log, i), flags, fileMode); err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	return j, nil
}

func (j *journal) close() error {
	var errs []error
	for _, f := range j.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// frame is one append, as it was found in a file.
type frame struct {
	sequence uint64
	whole    []byte // head and entries
	file     int
	end      int64 // of the frame in its file
}

// read returns the frames with sequence numbers above filed, in order, and has the next append
// follow them. A broken newest frame is left out: its append was not acknowledged. Errors: a frame
// is missing or broken while newer ones are there; a file cannot be read.
func (j *journal) read(filed uint64) (frames []frame, err error) {
	j.last = filed
	for i, f := range j.files {
		content, err := os.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		j.size[i], j.dirty[i] = int64(len(content)), int64(len(bytes.TrimRight(content, "\x00")))
		found := j.framesIn(i, content, filed)
		if len(found) > 0 && len(frames) > 0 && found[0].sequence < frames[0].sequence {
			found, frames = frames, found
		}
		frames = append(frames, found...)
	}
	for i, f := range frames {
		if want := filed + 1 + uint64(i); f.sequence != want {
			return nil, fmt.Errorf("%w: frame %d of the journal stands where frame %d was written", errDamaged, f.sequence, want)
		}
		j.last, j.active, j.end = f.sequence, f.file, f.end
	}
	return frames, nil
}

// framesIn returns the frames of a file with sequence numbers above filed. Older and broken ones may
// stand among them, and zeros, where clearing the file failed.
func (j *journal) framesIn(file int, content []byte, filed uint64) (frames []frame) {
	for at := 0; ; {
		next := bytes.Index(content[at:], j.id[:sequenceAt])
		if next < 0 {
			return frames
		}
		at += next
		f := j.frameAt(content[at:])
		if f.whole == nil {
			at++
			continue
		}
		at += len(f.whole)
		if f.file, f.end = file, int64(at); f.sequence > filed {
			frames = append(frames, f)
		}
	}
}

// frameAt returns the frame that content begins with; its whole is nil if there is none.
func (j *journal) frameAt(content []byte) frame {
	if len(content) < frameHead {
		return frame{}
	}
	size := frameHead + int(binary.BigEndian.Uint32(content[lengthAt:]))
	if size > len(content) || j.sum(content[:size]) != binary.BigEndian.Uint32(content[sumAt:]) {
		return frame{}
	}
	return frame{sequence: binary.BigEndian.Uint64(content[sequenceAt:]), whole: content[:size]}
}

// secure makes what was read durable: it may be in the kernel's memory alone. After a sync that
// failed the kernel does not write it any more, so the newest frame is written again.
func (j *journal) secure(newest frame) error {
	if newest.whole != nil {
		if _, err := j.files[newest.file].WriteAt(newest.whole, newest.end-int64(len(newest.whole))); err != nil {
			return err
		}
	}
	return errors.Join(datasync(j.files[0]), datasync(j.files[1]))
}

func (j *journal) sum(whole []byte) uint32 {
	sum := crc32.Update(crc32.Checksum(j.id, castagnoli), castagnoli, whole[sequenceAt:sumAt])
	return crc32.Update(sum, castagnoli, whole[frameHead:])
}

// encode makes the next frame in the buffer, with the entries that add appends to it.
func (j *journal) encode(add func([]byte) []byte) {
	b := j.buffer[:0]
	if cap(b) > keptBuffer {
		b = nil
	}
	b = append(b, j.id[:sequenceAt]...)
	b = binary.BigEndian.AppendUint64(b, j.last+1)
	b = add(append(b, make([]byte, frameHead-lengthAt)...))
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-frameHead)) //nolint:gosec // a frame fits into a file
	binary.BigEndian.PutUint32(b[sumAt:], j.sum(b))
	j.buffer = b
}

// fits reports whether the encoded frame fits behind the frames in the active file.
func (j *journal) fits() bool { return j.end+int64(len(j.buffer)) <= j.size[j.active] }

// fitsOther reports whether the encoded frame fits into the other file, which is clear.
func (j *journal) fitsOther() bool { return int64(len(j.buffer)) <= j.size[1-j.active] }

// turn makes the other file, which is clear, the active one.
func (j *journal) turn() { j.active, j.end = 1-j.active, 0 }

// errUnsynced is the error of append when nobody knows whether the frame is on the disk.
var errUnsynced = errors.New("the sync of the journal failed")

// append writes the encoded frame, and syncs it. After another error than errUnsynced
// nothing is appended, and the next frame takes its place.
func (j *journal) append() error {
	f := j.files[j.active]
	j.dirty[j.active] = max(j.dirty[j.active], j.end+int64(len(j.buffer)))
	if _, err := f.WriteAt(j.buffer, j.end); err != nil {
		return err
	}
	if err := datasync(f); err != nil {
		return fmt.Errorf("%w: %w", errUnsynced, err)
	}
	j.end += int64(len(j.buffer))
	j.last++
	return nil
}

// clear zeroes a file, step by step: size bytes of it, or all that may differ from zero if that is
// more. around runs each step, which ends with a sync.
func (j *journal) clear(i int, size int64, around func(func() error) error) error {
	if err := j.zero(i, 0, max(size, j.dirty[i]), around); err != nil {
		return err
	}
	j.dirty[i] = 0
	return nil
}

// grow makes a clear file of a size at least, as clear does.
func (j *journal) grow(i int, size int64, around func(func() error) error) error {
	if j.size[i] >= size {
		return nil
	}
	err := j.zero(i, j.size[i], size, around)
	if err == nil {
		err = around(j.files[i].Sync)
	}
	if err != nil { // on a full disk others need the space
		return errors.Join(err, j.files[i].Truncate(j.size[i]))
	}
	j.size[i] = size
	return nil
}

func (j *journal) zero(i int, from, to int64, around func(func() error) error) error {
	for at := from; at < to; at += zeroBytes {
		err := around(func() error {
			if _, err := j.files[i].WriteAt(make([]byte, min(zeroBytes, to-at)), at); err != nil {
				return err
			}
			return datasync(j.files[i])
		})
		if err != nil {
			return err
		}
	}
	return nil
}
