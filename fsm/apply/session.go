package apply

import (
	"bytes"
	"cmp"
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
	state.SessionRow
	Answers map[uint64]command.Result
	rows    map[uint64][]uint64 // the kept answers of each row, by the first one it was made with
}

func newSession() *Session {
	return &Session{Answers: make(map[uint64]command.Result), rows: make(map[uint64][]uint64)}
}

// open returns the session of a group's boot, narrowed to the group's window.
func (ss Sessions) open(tx *Txn, g *command.Group) *Session {
	s := ss[g.Boot]
	if s == nil {
		ss.prune(tx)
		s = newSession()
		ss[g.Boot] = s
	}
	s.narrow(tx, g.Boot, state.Window{Floor: g.Floor, Open: g.Open})
	s.LastUse, tx.answersAt = tx.now, 0
	tx.set(state.SessionKey(g.Boot), state.Encode(&s.SessionRow))
	return s
}

// narrow intersects the window with w, and drops the results of all other commands.
func (s *Session) narrow(tx *Txn, boot command.BootID, w state.Window) {
	next := s.Meet(w)
	if next.Floor == s.Floor && slices.Equal(next.Open, s.Open) {
		return
	}
	s.Window = next
	for first, seqs := range s.rows {
		kept := slices.DeleteFunc(seqs, func(seq uint64) bool {
			if !s.Holds(seq) {
				delete(s.Answers, seq)
				return true
			}
			return false
		})
		if s.rows[first] = kept; len(kept) == 0 {
			delete(s.rows, first)
			tx.del(state.AnswerKey(boot, first))
		}
	}
}

// hold adds a result that is stored in the row with that first number.
func (s *Session) hold(first, seq uint64, r command.Result) {
	s.Answers[seq] = r
	s.rows[first] = append(s.rows[first], seq)
}

// store stores a result in the row of its group. A full session loses the lowest half, except
// open ones.
func (s *Session) store(tx *Txn, boot command.BootID, seq uint64, r command.Result) {
	tx.answersAt = cmp.Or(tx.answersAt, seq)
	s.hold(tx.answersAt, seq, r)
	tx.extend(state.AnswerKey(boot, tx.answersAt), state.Encode(&state.Answers{{Seq: seq, Result: r}}))
	if len(s.Answers) > MaxAnswers {
		s.narrow(tx, boot, state.Window{Floor: slices.Sorted(maps.Keys(s.Answers))[MaxAnswers/2], Open: s.Open})
		tx.set(state.SessionKey(boot), state.Encode(&s.SessionRow))
	}
}

// prune drops the least recently used sessions while there are too many. Age does not
// matter: log time may jump by days during a retry, and the retry must find its answer.
func (ss Sessions) prune(tx *Txn) {
	for len(ss) >= MaxSessions {
		boot := slices.MinFunc(slices.Collect(maps.Keys(ss)), func(a, b command.BootID) int {
			return cmp.Or(cmp.Compare(ss[a].LastUse, ss[b].LastUse), bytes.Compare(a[:], b[:]))
		})
		for first := range ss[boot].rows {
			tx.del(state.AnswerKey(boot, first))
		}
		tx.del(state.SessionKey(boot))
		delete(ss, boot)
	}
}

// loadSessions reads the sessions back.
func loadSessions(r pebble.Reader) (Sessions, error) {
	ss := make(Sessions)
	err := state.ScanAll(r, state.SpaceSession, func(key, value []byte) error {
		s := newSession()
		var boot command.BootID
		if copy(boot[:], key[1:]) != len(boot) {
			return fmt.Errorf("%w: session key", state.ErrCorrupt)
		}
		ss[boot] = s
		return state.DecodeInto(&s.SessionRow, value)
	})
	if err != nil {
		return nil, err
	}
	err = state.LoadAnswers(r, nil, func(boot command.BootID, first uint64, row state.Answers) error {
		s := ss[boot]
		if s == nil {
			return fmt.Errorf("%w: answers without a session", state.ErrCorrupt)
		}
		for _, a := range row {
			if s.Holds(a.Seq) {
				s.hold(first, a.Seq, a.Result)
			}
		}
		return nil
	})
	return ss, err
}
