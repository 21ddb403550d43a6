package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// entrySender is the row of spaceSender: from where an entry came. It is shown to
// nobody.
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
	return s.fingerprint != "" && s.fingerprint == proof.Sender && (proof.Address || !s.address)
}

// keepSender stores from where an entry came.
func (tx *txn) keepSender(seq uint64, proof *command.Proof) {
	if proof.Sender != "" {
		tx.keep(seqKey(spaceSender, seq), entrySender{fingerprint: proof.Sender, address: proof.Address}.append(nil))
	}
}

// senderOf returns from where an entry came.
func senderOf(s facts, seq uint64) entrySender {
	sender, _ := read(s, seqKey(spaceSender, seq), decodeEntrySender)
	return sender
}

const (
	// protectAfter is for how long nobody else may have written under a name before it
	// can be protected, in milliseconds of log time.
	protectAfter = 30 * command.DayMillis
	// writersKept is how many senders are remembered under a name. Two of them may be
	// who wants it protected: the one that registered it, and the one that asks.
	writersKept = 3
	// writersStep is how old the newest time of a sender gets before it is kept anew.
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
func (tx *txn) noteWriter(agentKey, sender string) {
	ws := writersOf(tx, agentKey)
	from := unprovenSender(sender)
	if len(ws) > 0 && ws[0].from == from && tx.now < ws[0].at+writersStep {
		return
	}
	ws = slices.DeleteFunc(ws, func(w nameWriter) bool { return w.from == from })
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
