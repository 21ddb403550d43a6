package view

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// readerAt reads the state as it is at a later instant, at which more claims have expired.
type readerAt struct {
	state.Reader
	now int64
}

func (r readerAt) Instant() int64 { return r.now }

// HiddenJob replaces the title of a hidden job where it is quoted.
const HiddenJob = "a hidden job"

// complete returns an entry's row with the texts that are stored elsewhere: a claim and a result
// quote their job's title, which is stored only in the job's row.
func (v *View) complete(seq uint64, row []byte) ([]byte, error) {
	if state.ShownAsStored(row) {
		return row, nil
	}
	o, err := state.OutlineOf(row)
	if err != nil {
		return nil, err
	}
	if o.Hidden {
		return v.explained(seq, row, &o)
	}
	title := string(o.Part(state.PartTitle))
	if title != `"`+state.ClaimTitle+`"` && title != `"`+state.ResultTitle+`"` {
		return row, nil
	}
	of, err := v.titleOfJob(o.Parent)
	if err != nil {
		return nil, err
	}
	return state.ReplacePart(row, state.PartTitle, state.AppendString(nil, state.CutText(title[1:len(title)-1]+of, command.MaxTitle)))
}

// titleOfJob returns the title of a job for quoting.
func (v *View) titleOfJob(seq uint64) (string, error) {
	row, err := v.storedRow(seq)
	if err != nil {
		return "", err
	}
	o, err := state.OutlineOf(row)
	if err != nil || o.Hidden {
		return HiddenJob, err
	}
	return o.Text(state.PartTitle)
}

// show calls f with an entry's row as everybody may see it.
func (v *View) show(seq uint64, row []byte, f func(row []byte) error) error {
	row, err := v.complete(seq, row)
	if err == nil {
		err = f(row)
	}
	return err
}

// row calls f with an entry's row, which is valid during the call only.
func (v *View) row(seq uint64, f func(row []byte) error) error {
	if seq == 0 || seq > v.at.Head.LastSeq {
		return state.ErrNotFound
	}
	if row := v.rows.Recent.Get(seq); row != nil {
		return v.show(seq, row, f)
	}
	row, closer, err := v.snap.Get(state.SeqKey(state.SpaceEntry, seq))
	if err == nil {
		err = errors.Join(v.show(seq, row, f), closer.Close())
	}
	if err != nil {
		return fmt.Errorf("read entry %d: %w", seq, err)
	}
	return nil
}

// outline calls f with the outline of an entry's row, as row does.
func (v *View) outline(seq uint64, f func(o *state.Outline) error) error {
	return v.row(seq, func(row []byte) error {
		o, err := state.OutlineOf(row)
		if err == nil {
			err = f(&o)
		}
		return err
	})
}

// storedRow returns an entry's row as it is stored, which must not be changed.
func (v *View) storedRow(seq uint64) ([]byte, error) {
	if row := v.rows.Recent.Get(seq); row != nil {
		return row, nil
	}
	row, _, err := state.GetRow(v.snap, state.SeqKey(state.SpaceEntry, seq))
	return row, err
}

// originalRow is row for moderators: that of a hidden entry is as its author wrote it, and the name
// of its channel is shown.
func (v *View) originalRow(seq uint64, f func(row []byte) error) error {
	h, hidden, err := state.Load(v.snap, state.SeqKey(state.SpaceHidden, seq), state.Decode[state.HiddenEntry])
	row := h.Row
	if err == nil && !hidden {
		row, err = v.storedRow(seq)
	}
	if err == nil && len(row) == 0 {
		err = state.ErrNotFound
	}
	if err == nil {
		row, err = v.complete(seq, row)
	}
	if err != nil {
		return fmt.Errorf("read entry %d: %w", seq, err)
	}
	return f(row)
}

// newestRows returns the numbers of at most limit rows of a keyspace that are wanted, highest first and
// below before, unless that is 0. next is the before of the next page, or 0 after the last one. A page
// may be short: newestRows reads at most look rows.
func (v *View) newestRows(space byte, before uint64, limit, look int, wanted func(row []byte) (bool, error)) (numbers []uint64, next uint64, err error) {
	lower, upper := state.SpaceBounds(space)
	if before > 0 {
		upper = state.SeqKey(space, before)
	}
	err = state.ScanBack(v.snap, lower, upper, func(key, row []byte) error {
		if len(numbers) == limit || look == 0 {
			next = state.SeqOfKey(key) + 1
			return state.ErrEnough
		}
		look--
		is, err := wanted(row)
		if is {
			numbers = append(numbers, state.SeqOfKey(key))
		}
		return err
	})
	return numbers, next, err
}

// viewState is the Reader of a view. It keeps the first error of the storage.
type viewState struct {
	v   *View
	err error
}

func (s *viewState) Must(err error) {
	s.err = cmp.Or(s.err, err)
}

func (s *viewState) Get(key []byte) ([]byte, bool) {
	if row, kept := s.v.rows.Hot.Get(key, s.v.at.Head.Applied); kept {
		return row, row != nil
	}
	row, ok, err := state.GetRow(s.v.snap, key)
	s.Must(err)
	return row, ok
}

func (s *viewState) Instant() int64 { return s.v.at.Head.Now }

func (s *viewState) ReportQueue() *state.ReportQueue { return s.v.at.Reports }

func (s *viewState) Entry(seq uint64) (e state.EntryRow, ok bool) {
	if seq == 0 || seq > s.v.at.Head.LastSeq {
		return e, false
	}
	s.Must(s.v.row(seq, func(row []byte) (err error) {
		e, err = state.DecodeEntryRow(seq, row)
		e.Outline = state.Outline{} // valid in here only
		return err
	}))
	return e, true
}

// writer returns the signer of a write, and a reader of the view for its rules.
func (v *View) writer(by command.Signature) (*state.Writer, *viewState) {
	s := &viewState{v: v}
	w := state.WriterOf(s, by)
	return &w.Writer, s
}
