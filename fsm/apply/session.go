package apply

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxSessions and MaxAnswers bound what sessions can hold. There are far fewer
// nodes, and a node has far fewer commands in flight.
const (
	MaxSessions = 1024
	MaxAnswers  = 1 << 15
)

// Sessions has the results of commands, by boot, as in SpaceSession and SpaceAnswer.
type Sessions map[command.BootID]*Session

// Session has the results of the commands of one boot.
type Session struct {
	Window
	lastUse int64 // instant of the newest group: orders sessions by use
	Answers map[uint64]command.Result
}

// Fields implements state.Row.
func (s *Session) Fields(c *state.Codec) {
	c.Fields(&s.Floor, &s.lastUse)
	state.ListRest(c, &s.Open, func(seq *uint64) { c.Fields(seq) })
}

// open returns the session of a group's boot, narrowed to the group's window.
func (ss Sessions) open(tx *Txn, g *command.Group) *Session {
	s := ss[g.Boot]
	if s == nil {
		ss.prune(tx)
		s = &Session{Answers: make(map[uint64]command.Result)}
		ss[g.Boot] = s
	}
	s.narrow(tx, g.Boot, Window{Floor: g.Floor, Open: g.Open})
	s.lastUse = tx.now
	tx.set(sessionKey(g.Boot), state.Encode(s))
	return s
}

// narrow intersects the window with w, and drops the results of all other commands.
func (s *Session) narrow(tx *Txn, boot command.BootID, w Window) {
	next := s.Meet(w)
	if next.Floor == s.Floor && slices.Equal(next.Open, s.Open) {
		return
	}
	s.Window = next
	for _, seq := range s.seqs() {
		if !s.Holds(seq) {
			delete(s.Answers, seq)
			tx.del(state.AnswerKey(boot, seq))
		}
	}
}

// seqs returns the seqs of the kept results in order.
func (s *Session) seqs() []uint64 { return slices.Sorted(maps.Keys(s.Answers)) }

// keep stores a result. A full session loses the lowest half, except open ones.
func (s *Session) keep(tx *Txn, boot command.BootID, seq uint64, r command.Result) {
	s.Answers[seq] = r
	tx.set(state.AnswerKey(boot, seq), state.Encode((*state.ResultRow)(&r)))
	if len(s.Answers) > MaxAnswers {
		s.narrow(tx, boot, Window{Floor: s.seqs()[MaxAnswers/2], Open: s.Open})
		tx.set(sessionKey(boot), state.Encode(s))
	}
}

// prune drops the least recently used sessions while there are too many. Age does not
// matter: log time may jump by days during a retry, and the retry must find its answer.
func (ss Sessions) prune(tx *Txn) {
	for len(ss) >= MaxSessions {
		boot := slices.MinFunc(slices.Collect(maps.Keys(ss)), func(a, b command.BootID) int {
			return cmp.Or(cmp.Compare(ss[a].lastUse, ss[b].lastUse), bytes.Compare(a[:], b[:]))
		})
		for _, seq := range ss[boot].seqs() {
			tx.del(state.AnswerKey(boot, seq))
		}
		tx.del(sessionKey(boot))
		delete(ss, boot)
	}
}

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

// loadSessions reads the sessions back.
func loadSessions(r pebble.Reader) (Sessions, error) {
	ss := make(Sessions)
	lower, upper := state.SpaceBounds(state.SpaceSession)
	err := state.ScanSpace(r, lower, upper, func(key, value []byte) error {
		s := &Session{Answers: make(map[uint64]command.Result)}
		var boot command.BootID
		if copy(boot[:], key[1:]) != len(boot) {
			return fmt.Errorf("%w: session key", state.ErrCorrupt)
		}
		ss[boot] = s
		return state.DecodeInto(s, value)
	})
	if err != nil {
		return nil, err
	}
	lower, upper = state.SpaceBounds(state.SpaceAnswer)
	err = state.ScanSpace(r, lower, upper, func(key, value []byte) error {
		var boot command.BootID
		if len(key) != 1+len(boot)+8 {
			return fmt.Errorf("%w: answer key", state.ErrCorrupt)
		}
		copy(boot[:], key[1:])
		s := ss[boot]
		if s == nil {
			return fmt.Errorf("%w: answer without a session", state.ErrCorrupt)
		}
		res, err := state.Decode[state.ResultRow](value)
		s.Answers[binary.BigEndian.Uint64(key[1+len(boot):])] = command.Result(res)
		return err
	})
	return ss, err
}

func sessionKey(boot command.BootID) []byte { return append([]byte{state.SpaceSession}, boot[:]...) }
