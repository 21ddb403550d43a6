package fsm

import (
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// entrySender is the row of spaceSender: from where an entry came. It is never shown.
//
//	address1 fingerprint
type entrySender struct {
	fingerprint string // "": not known, or forgotten
	address     bool   // Proof.Address of the write
}

func (s entrySender) append(dst []byte) []byte {
	address := byte(0)
	if s.address {
		address = 1
	}
	return append(append(dst, address), s.fingerprint...)
}

// decodeEntrySender reads the row; nothing is known of an entry without one.
func decodeEntrySender(row []byte) (entrySender, error) {
	if len(row) == 0 {
		return entrySender{}, nil
	}
	if row[0] > 1 {
		return entrySender{}, fmt.Errorf("%w: sender row", ErrCorrupt)
	}
	return entrySender{fingerprint: string(row[1:]), address: row[0] == 1}, nil
}

// is reports whether a write comes from where the entry came from. A link or a page
// in a browser does not act for what came in another way.
func (s entrySender) is(proof *command.Proof) bool {
	return proof.From(s.fingerprint) && (proof.Address || !s.address)
}

// keepSender stores from where an entry came.
func (tx *txn) keepSender(seq uint64, proof *command.Proof) {
	if proof.Sender != "" {
		tx.keep(seqKey(spaceSender, seq), entrySender{fingerprint: proof.Sender, address: proof.Address}.append(nil))
		tx.keepFormerly(proof)
	}
}

// senderOf returns from where an entry came.
func senderOf(s facts, seq uint64) entrySender {
	sender, _ := read(s, seqKey(spaceSender, seq), decodeEntrySender)
	return sender
}

const (
	// protectAfter is how long a name must have had no other writers before it can be
	// protected, in milliseconds of log time.
	protectAfter = 30 * command.DayMillis
	// writersKept is how many senders are remembered under a name. Two of them may be the
	// owner who wants it protected: the sender that registered the name, and the sender
	// of this request.
	writersKept = 3
	// writersStep is how old a sender's stored time gets before it is updated.
	writersStep = hourMillis
)

// nameWriter is a sender that has written under a name without proof.
type nameWriter struct {
	at   int64 // newest write, give or take writersStep; milliseconds since the epoch
	from senderGroup
}

// nameWriters is the row of spaceWriters, the newest first: (at from8)...
type nameWriters []nameWriter

func (ws nameWriters) append(dst []byte) []byte {
	for _, w := range ws {
		dst = binary.LittleEndian.AppendUint64(binary.AppendUvarint(dst, uint64(w.at)), uint64(w.from))
	}
	return dst
}

func decodeNameWriters(row []byte) (ws nameWriters, err error) {
	r := rowReader{rest: row}
	for len(r.rest) > 0 && !r.bad {
		w := nameWriter{at: int64(r.uint())}
		if from := r.bytes(8); from != nil {
			w.from = senderGroup(binary.LittleEndian.Uint64(from))
		}
		ws = append(ws, w)
	}
	return ws, r.done("writers row")
}

// writersOf returns who wrote under a name without proof.
func writersOf(s facts, agentKey string) nameWriters {
	ws, _ := read(s, writersKey(agentKey), decodeNameWriters)
	return ws
}

// noteWriter remembers who wrote under a name without proof.
func (tx *txn) noteWriter(agentKey string, proof *command.Proof) {
	ws := writersOf(tx, agentKey)
	from, was := unprovenSender(proof.Sender), unprovenSender(proof.Former)
	if len(ws) > 0 && ws[0].from == from && tx.now < ws[0].at+writersStep {
		return
	}
	ws = slices.DeleteFunc(ws, func(w nameWriter) bool { return w.from == from || proof.Former != "" && w.from == was })
	ws = slices.Insert(ws, 0, nameWriter{tx.now, from})
	tx.keep(writersKey(agentKey), ws[:min(len(ws), writersKept)].append(nil))
}

// others reports whether anybody but these senders has written lately.
func (ws nameWriters) others(now int64, senders ...string) bool {
	return slices.ContainsFunc(ws, func(w nameWriter) bool {
		return w.at > now-protectAfter && !slices.ContainsFunc(senders, func(s string) bool { return unprovenSender(s) == w.from })
	})
}

func lookKey(look []byte) []byte { return append([]byte{spaceLook}, look...) }

// lookAlike returns the key of another registered name that a name looks like; "": none.
func lookAlike(s facts, agentKey string, looks []byte) string {
	for look := range slices.Chunk(looks, command.LookBytes) {
		if other, _ := s.get(lookKey(look)); len(other) > 0 && string(other) != agentKey {
			return string(other)
		}
	}
	return ""
}

// LookAlike returns the registered name that another name with these Looks looks like,
// as it is spelled there; "": none.
func (v *View) LookAlike(by command.Signature) (string, error) {
	s := &viewState{v: v}
	key := lookAlike(s, by.AgentKey, by.Proof.Looks)
	if key == "" || s.err != nil {
		return "", s.err
	}
	p, _, err := v.profile(key)
	return p.id, err
}

// provingSender returns the sender where its address may prove the name; "" elsewhere.
func provingSender(p *command.Proof) string {
	if !p.Address {
		return ""
	}
	return p.Sender
}

// proves reports whether the address of a write proves what a pseudonym of its sender holds.
func proves(p *command.Proof, pseudonym string) bool { return p.Address && p.From(pseudonym) }

// opens reports whether a key is the profile's.
func (p *profileRow) opens(key []byte) bool { return sameKey(key, &p.key) }

func sameKey(key []byte, hash *[command.KeyHashBytes]byte) bool {
	return len(key) == command.KeyHashBytes && *hash != [command.KeyHashBytes]byte{} && subtle.ConstantTimeCompare(key, hash[:]) == 1
}

// establishedAfter is how long ago a name must have been registered for its holder to have
// a separate budget, in milliseconds of log time. To have many such names, a sender has to
// register them long before.
const establishedAfter = 7 * command.DayMillis

// standing returns what a proof is worth for the profile's name at an instant.
func (p *profileRow) standing(proof *command.Proof, now int64) command.Standing {
	s := command.Standing{Registered: true, Protected: p.protected}
	switch {
	case p.opens(proof.Key):
		s.Strength, s.Established = command.ByKey, p.createdAt <= now-establishedAfter
	case len(proof.Key) > 0:
		s.WrongKey = true
	case proves(proof, p.sender):
		s.Strength = command.ByAddress
	}
	return s
}

// writer is who makes a write, and what that is worth.
type writer struct {
	command.Signature
	command.Standing
}

// writer returns who makes a write. A key counts as used from then on.
func (tx *txn) writer(by command.Signature) *writer {
	w := &writer{Signature: by}
	if by.AgentKey == command.AnonymousName {
		return w
	}
	if p, known := tx.profile(by.AgentKey); known {
		w.Standing = p.standing(by.Proof, tx.now)
		if w.Strength == command.ByKey {
			tx.useKey(by.AgentKey, &p)
		}
		tx.followSender(by.AgentKey, &p, by.Proof)
	}
	return w
}

// useKey notes that the agent has its key: from then on it is not renewed.
func (tx *txn) useKey(agentKey string, p *profileRow) {
	if !p.used {
		p.used = true
		tx.putProfile(agentKey, p)
	}
}

// facts are what rules look at: the transaction that applies a command, or a view.
type facts interface {
	get(key []byte) ([]byte, bool)
	entry(seq uint64) (entryRow, bool)
	instant() int64
	must(err error)
}

// owns reports whether an entry is the writer's own by its name. An anonymous entry belongs
// to its sender, while that is remembered.
func (w *writer) owns(s facts, e *entryRow) bool {
	return w.AgentKey == e.AgentKey && (w.AgentKey != command.AnonymousName || senderOf(s, e.Seq).is(w.Proof))
}

// mayUndo reports whether the writer's proof is at least as strong as the proof of its own
// entry. It is also true when the name rejects the writer (Problems): then a better proof
// is all that the writer needs.
func (w *writer) mayUndo(e *entryRow) bool { return w.Strength >= e.strength || len(w.Problems()) > 0 }

// viewState is a view as rules look at it. Rules continue after an error of the
// storage; the error is kept.
type viewState struct {
	v   *View
	err error
}

// writer returns who makes a write, as far as the view knows, and what its rules look
// at.
func (v *View) writer(by command.Signature) (*writer, *viewState, error) {
	standing, err := v.Standing(by)
	return &writer{by, standing}, &viewState{v: v}, err
}

func (s *viewState) must(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *viewState) get(key []byte) ([]byte, bool) {
	if row, kept := s.v.store.hot.get(key, s.v.head.applied); kept {
		return row, row != nil
	}
	row, ok, err := getRow(s.v.snap, key)
	s.must(err)
	return row, ok
}

func (s *viewState) instant() int64 { return s.v.head.now }

func (s *viewState) entry(seq uint64) (e entryRow, ok bool) {
	if seq == 0 || seq > s.v.head.lastSeq {
		return e, false
	}
	s.must(s.v.row(seq, func(row []byte) (err error) {
		e, err = decodeEntryRow(seq, row)
		e.json = nil // valid in here only
		return err
	}))
	return e, true
}

// standingOf returns what a proof is worth under a name.
func standingOf(s facts, by command.Signature) command.Standing {
	if by.AgentKey == command.AnonymousName {
		return command.Standing{}
	}
	p, known := read(s, profileKey(by.AgentKey), decodeProfileRow)
	if !known {
		return command.Standing{}
	}
	return p.standing(by.Proof, s.instant())
}

// requestOf returns the row of a request_id, from this epoch or the previous one. When
// there is no row yet, key is where to store it.
func requestOf(s facts, op command.Op, standing command.Standing, by command.Signature) (key, row []byte, known bool) {
	key = requestKey(op, standing, by.Request, by.Proof.Sender)
	if row, known = s.get(key); known || by.Proof.Former == "" || by.AgentKey != command.AnonymousName {
		return key, row, known
	}
	row, known = s.get(requestKey(op, standing, by.Request, by.Proof.Former))
	return key, row, known
}

// assess returns what a command's proof is worth, and whether its request_id was used
// before. Commands of no name have the zero Standing.
func assess(s facts, p command.Payload) (standing command.Standing, repeated bool) {
	by, signed := command.SignatureOf(p)
	if !signed {
		return standing, false
	}
	standing = standingOf(s, by)
	if by.Request != (command.RequestKey{}) && !standing.WrongKey {
		_, _, repeated = requestOf(s, command.OpOf(p), standing, by)
	}
	return standing, repeated
}

// Standing returns what a proof is worth under a name, as far as the view knows.
func (v *View) Standing(by command.Signature) (command.Standing, error) {
	s := &viewState{v: v}
	standing := standingOf(s, by)
	return standing, s.err
}

// Assess returns what a command's proof is worth, and whether its request_id was used
// before, as far as the view knows. Commands of no name have the zero Standing.
func (v *View) Assess(p command.Payload) (standing command.Standing, repeated bool, err error) {
	s := &viewState{v: v}
	standing, repeated = assess(s, p)
	return standing, repeated, s.err
}
