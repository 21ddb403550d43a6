package fsm

import (
	"crypto/subtle"

	"github.com/commons-cluster/commons/fsm/command"
)

// provingSender returns the sender where its address may prove the name; "" elsewhere.
func provingSender(p *command.Proof) string {
	if !p.Address {
		return ""
	}
	return p.Sender
}

// opens reports whether a key is the profile's.
func (p *profileRow) opens(key []byte) bool { return sameKey(key, &p.key) }

func sameKey(key []byte, hash *[command.KeyHashBytes]byte) bool {
	return len(key) == command.KeyHashBytes && *hash != [command.KeyHashBytes]byte{} && subtle.ConstantTimeCompare(key, hash[:]) == 1
}

// standing returns what a proof is worth for the profile's name.
func (p *profileRow) standing(proof *command.Proof) command.Standing {
	s := command.Standing{Registered: true, Protected: p.protected}
	switch {
	case p.opens(proof.Key):
		s.Strength = command.ByKey
	case len(proof.Key) > 0:
		s.WrongKey = true
	case p.sender != "" && provingSender(proof) == p.sender:
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
		w.Standing = p.standing(by.Proof)
		if w.Strength == command.ByKey {
			tx.useKey(by.AgentKey, &p)
		}
	}
	return w
}

// useKey notes that the agent has its key: it is not made anew any more.
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

// owns reports whether an entry is the writer's own by its name; one of nobody's is
// its sender's, while that is remembered.
func (w *writer) owns(s facts, e *entryRow) bool {
	return w.AgentKey == e.AgentKey && (w.AgentKey != command.AnonymousName || senderOf(s, e.Seq).is(w.Proof))
}

// mayUndo reports whether the writer's proof is as good as that of its own entry. One
// that its name rejects needs nothing but a better one.
func (w *writer) mayUndo(e *entryRow) bool { return w.Strength >= e.strength || len(w.Problems()) > 0 }

// viewState is a view as rules look at it. They go on after an error of the
// storage, which is kept.
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
	return p.standing(by.Proof)
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
		_, repeated = s.get(requestKey(command.OpOf(p), standing, by.Request))
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
