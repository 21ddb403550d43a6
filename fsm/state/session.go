package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// SessionRow is the row of SpaceSession.
type SessionRow struct {
	Window
	LastUse int64 // instant of the newest group: orders sessions by use
}

// Fields implements Row.
func (s *SessionRow) Fields(c *Codec) {
	c.Fields(&s.Floor, &s.LastUse)
	List(c, &s.Open, func(seq *uint64) { c.Fields(seq) })
}

// SessionKey is the key of the session of a boot.
func SessionKey(boot command.BootID) []byte { return append([]byte{SpaceSession}, boot[:]...) }

// Window has the commands of a boot that may still come: those from Floor on, and the
// open ones below it. All others have been answered.
type Window struct {
	Floor uint64
	Open  []uint64 // rising, below floor, at most MaxOpen
}

// Holds reports whether the command of that number may still come.
func (w Window) Holds(seq uint64) bool {
	if seq >= w.Floor {
		return true
	}
	_, open := slices.BinarySearch(w.Open, seq)
	return open
}

// Meet returns the intersection of both windows. Groups of one boot reach the log in
// any order, so either window may be the newer one.
func (w Window) Meet(o Window) Window {
	if o.Floor > w.Floor {
		w, o = o, w
	}
	// A number below the higher floor may come only if it is open there.
	both := Window{Floor: w.Floor}
	for _, seq := range w.Open {
		if o.Holds(seq) {
			both.Open = append(both.Open, seq)
		}
	}
	return both
}

// ResultRow is the form of a result in SpaceAnswer and in the digest.
type ResultRow command.Result

// Fields implements Row.
func (r *ResultRow) Fields(c *Codec) {
	c.Fields((*byte)(&r.Outcome), Flags{&r.Differs, &r.KeyIssued, &r.RecoveryIssued}, &r.Entry)
	List(c, &r.Problems, func(p *command.Problem) { c.Fields((*byte)(p)) })
}

// Answer is the result of the command of a number.
type Answer struct {
	Seq    uint64
	Result command.Result
}

// Answers is the row of SpaceAnswer: the results of the commands of a group in one log entry. A
// result that is no longer needed is deleted with the last one of its row.
type Answers []Answer

// Fields implements Row.
func (list *Answers) Fields(c *Codec) {
	Joined(c, (*[]Answer)(list), func(a *Answer) {
		c.Fields(&a.Seq)
		(*ResultRow)(&a.Result).Fields(c)
	})
}

// AnswerKey is the key of a row of Answers. first is the number of the first command in it.
func AnswerKey(boot command.BootID, first uint64) []byte {
	key := append(make([]byte, 0, 1+len(boot)+8), SpaceAnswer)
	return binary.BigEndian.AppendUint64(append(key, boot[:]...), first)
}

// LoadAnswers calls f with each row of SpaceAnswer of a boot, or of all boots.
func LoadAnswers(r pebble.Reader, boot *command.BootID, f func(boot command.BootID, first uint64, row Answers) error) error {
	lower, upper := SpaceBounds(SpaceAnswer)
	if boot != nil {
		lower, upper = AnswerKey(*boot, 0), append(AnswerKey(*boot, math.MaxUint64), 0)
	}
	return ScanSpace(r, lower, upper, func(key, value []byte) error {
		var of command.BootID
		if len(key) != 1+len(of)+8 {
			return fmt.Errorf("%w: key of answers", ErrCorrupt)
		}
		copy(of[:], key[1:])
		row, err := Decode[Answers](value)
		if err != nil {
			return err
		}
		return f(of, binary.BigEndian.Uint64(key[1+len(of):]), row)
	})
}
