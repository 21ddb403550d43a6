package fsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// maxSessions and maxAnswers bound what sessions can hold. There are far fewer
// nodes, and a node has far fewer commands in flight.
const (
	maxSessions = 1024
	maxAnswers  = 1 << 15
)

// sessions has the results of commands, by boot. It mirrors the rows of spaceSession
// and spaceAnswer and belongs to the apply goroutine.
type sessions map[command.BootID]*session

type session struct {
	window
	lastUse int64 // instant of the newest group: orders sessions by use
	answers map[uint64]command.Result
}

// append encodes the row of spaceSession: the floor, the last use, and the open
// numbers up to the row's end.
func (s *session) append(dst []byte) []byte {
	return appendUints(appendUints(dst, s.floor, uint64(s.lastUse)), s.open...)
}

// open returns the session of a group's boot, narrowed to the group's window.
func (ss sessions) open(tx *txn, g *command.Group) *session {
	s := ss[g.Boot]
	if s == nil {
		ss.prune(tx)
		s = &session{answers: make(map[uint64]command.Result)}
		ss[g.Boot] = s
	}
	s.narrow(tx, g.Boot, window{floor: g.Floor, open: g.Open})
	s.lastUse = tx.now
	tx.set(sessionKey(g.Boot), s.append(nil))
	return s
}

// narrow intersects the window with w, and drops the results of all other commands.
func (s *session) narrow(tx *txn, boot command.BootID, w window) {
	next := s.meet(w)
	if next.equal(s.window) {
		return
	}
	s.window = next
	for _, seq := range s.seqs() {
		if seq >= s.floor {
			break
		}
		if !s.holds(seq) {
			delete(s.answers, seq)
			tx.del(answerKey(boot, seq))
		}
	}
}

// seqs returns the seqs of the kept results in order.
func (s *session) seqs() []uint64 {
	seqs := make([]uint64, 0, len(s.answers))
	for seq := range s.answers {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// keep stores a result. A session that holds too many loses the lowest half, but
// for the open ones.
func (s *session) keep(tx *txn, boot command.BootID, seq uint64, r command.Result) {
	s.answers[seq] = r
	tx.set(answerKey(boot, seq), appendResult(nil, r))
	if len(s.answers) > maxAnswers {
		s.narrow(tx, boot, window{floor: s.seqs()[maxAnswers/2], open: s.open})
		tx.set(sessionKey(boot), s.append(nil))
	}
}

// prune makes room for one more session: while there are too many, it drops the least
// recently used one. Age does not matter: log time may jump by days during a retry, and
// the retry must find its answer.
func (ss sessions) prune(tx *txn) {
	for len(ss) >= maxSessions {
		boot := slices.MinFunc(slices.Collect(maps.Keys(ss)), func(a, b command.BootID) int {
			return cmp.Or(cmp.Compare(ss[a].lastUse, ss[b].lastUse), bytes.Compare(a[:], b[:]))
		})
		for _, seq := range ss[boot].seqs() {
			tx.del(answerKey(boot, seq))
		}
		tx.del(sessionKey(boot))
		delete(ss, boot)
	}
}

// loadSessions reads the sessions back.
func loadSessions(r pebble.Reader) (sessions, error) {
	ss := make(sessions)
	lower, upper := spaceBounds(spaceSession)
	err := scanSpace(r, lower, upper, func(key, value []byte) error {
		rr := rowReader{rest: value}
		s := &session{window: window{floor: rr.uint()}, lastUse: int64(rr.uint()), answers: make(map[uint64]command.Result)}
		for len(rr.rest) > 0 {
			s.open = append(s.open, rr.uint())
		}
		var boot command.BootID
		if copy(boot[:], key[1:]) != len(boot) {
			return fmt.Errorf("%w: session key", ErrCorrupt)
		}
		ss[boot] = s
		return rr.done("session row")
	})
	if err != nil {
		return nil, err
	}
	lower, upper = spaceBounds(spaceAnswer)
	err = scanSpace(r, lower, upper, func(key, value []byte) error {
		var boot command.BootID
		if len(key) != 1+len(boot)+8 {
			return fmt.Errorf("%w: answer key", ErrCorrupt)
		}
		copy(boot[:], key[1:])
		s := ss[boot]
		if s == nil {
			return fmt.Errorf("%w: answer without a session", ErrCorrupt)
		}
		res, err := decodeResult(value)
		s.answers[binary.BigEndian.Uint64(key[1+len(boot):])] = res
		return err
	})
	return ss, err
}

// The flags of a result's row.
const (
	flagDiffers   = 1 << 0
	flagKeyIssued = 1 << 1
)

// appendResult encodes a result for its row and for the digest.
func appendResult(dst []byte, r command.Result) []byte {
	dst = append(dst, byte(r.Outcome), bit(r.Differs, flagDiffers)|bit(r.KeyIssued, flagKeyIssued))
	dst = appendUints(dst, r.Entry, uint64(len(r.Problems)))
	for _, p := range r.Problems {
		dst = append(dst, byte(p))
	}
	return dst
}

func decodeResult(row []byte) (command.Result, error) {
	r := rowReader{rest: row}
	res := command.Result{Outcome: command.Outcome(r.byte())}
	flags := r.byte()
	res.Entry, res.Differs, res.KeyIssued = r.uint(), flags&flagDiffers != 0, flags&flagKeyIssued != 0
	for _, p := range r.bytes(r.uint()) {
		res.Problems = append(res.Problems, command.Problem(p))
	}
	return res, r.done("answer row")
}

// window says which commands of a boot may still come: those from floor on, and
// the open ones below it. All others have been answered.
type window struct {
	floor uint64
	open  []uint64 // rising, below floor, at most MaxOpen
}

// holds reports whether the command of that number may still come.
func (w window) holds(seq uint64) bool {
	if seq >= w.floor {
		return true
	}
	_, open := slices.BinarySearch(w.open, seq)
	return open
}

// meet returns the intersection of both windows. Groups of one boot reach the log in
// any order, so either window may be the newer one.
func (w window) meet(o window) window {
	if o.floor > w.floor {
		w, o = o, w
	}
	// What is below the higher floor may come only if it is open there.
	both := window{floor: w.floor}
	for _, seq := range w.open {
		if o.holds(seq) {
			both.open = append(both.open, seq)
		}
	}
	return both
}

func (w window) equal(o window) bool {
	return w.floor == o.floor && slices.Equal(w.open, o.open)
}
