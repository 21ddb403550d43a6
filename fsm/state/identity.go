package state

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// Writer is the signer of a write, and its standing.
type Writer struct {
	command.Signature
	command.Standing
}

// Owns reports whether an entry is the writer's own by its name. An anonymous entry belongs
// to its sender, while that is remembered, and unless several clients may have its address.
func (w *Writer) Owns(s Reader, e *EntryRow) bool {
	return w.AgentKey == e.AgentKey &&
		(w.AgentKey != command.AnonymousName || SenderOf(s, e).is(w.Proof) && !shared(s, w.Proof))
}

// mayUndo reports whether the writer's proof is at least as strong as the proof of its own entry.
// It is true for a writer with Problems, who is told to bring a better proof.
func (w *Writer) mayUndo(e *EntryRow) bool { return w.Strength >= e.Strength || len(w.Problems()) > 0 }

// standing returns the standing that a proof gives under the profile's name.
func (p *ProfileRow) standing(s Reader, proof *command.Proof) command.Standing {
	standing := command.Standing{Registered: true, Protected: p.Protected}
	switch {
	case p.Opens(proof.Key):
		standing.Strength, standing.Established = command.ByKey, p.established(s)
	case len(proof.Key) > 0:
		standing.WrongKey = true
	case !fromAddress(proof, p.Sender):
	case shared(s, proof):
		standing.Shared = true
	case NamesOf(s, p.Sender).Has(p):
		standing.Strength = command.ByAddress
	}
	return standing
}

// EntrySender is the origin of an entry. It is never shown.
type EntrySender struct {
	Seq         uint64
	Fingerprint string // empty if unknown or forgotten
	Address     bool   // Proof.Address of the write
}

// EntrySenders is the row of SpaceSender: the origins of the entries of one log entry.
type EntrySenders []EntrySender

// Fields implements Row.
func (list *EntrySenders) Fields(c *Codec) {
	Joined(c, (*[]EntrySender)(list), func(s *EntrySender) { c.Fields(&s.Seq, &s.Fingerprint, &s.Address) })
}

// SendersKey is the key of the senders of the entries of an instant.
func SendersKey(createdAt int64) []byte { return SeqKey(SpaceSender, uint64(createdAt)) }

// is reports whether a write comes from the sender of the entry. A link or a page in a browser does
// not act for an entry that came in another way.
func (s EntrySender) is(proof *command.Proof) bool {
	return proof.From(s.Fingerprint) && (proof.Address || !s.Address)
}

// SenderOf returns the origin of an entry.
func SenderOf(s Reader, e *EntryRow) EntrySender {
	all, _ := Read(s, SendersKey(e.CreatedAt), Decode[EntrySenders])
	for _, sender := range all {
		if sender.Seq == e.Seq {
			return sender
		}
	}
	return EntrySender{}
}

// ProtectAfter is how long a name must have had no other writers before it can be
// protected, in milliseconds of log time.
const ProtectAfter = 30 * command.DayMillis

// NameWriter is a sender that has written under a name, by its address or before the name
// was registered.
type NameWriter struct {
	At   int64 // newest write, give or take writersStep; milliseconds since the epoch
	From SenderGroup
}

// NameWriters is the row of SpaceWriters, the newest first.
type NameWriters []NameWriter

// Fields implements Row.
func (ws *NameWriters) Fields(c *Codec) {
	List(c, (*[]NameWriter)(ws), func(w *NameWriter) { c.Fields(&w.At, &w.From) })
}

// After returns the writers whose newest write is later than an instant.
func (ws NameWriters) After(at int64) NameWriters {
	return slices.DeleteFunc(ws, func(w NameWriter) bool { return w.At <= at })
}

// WritersOf returns the senders that prevent the protection of a name.
func WritersOf(s Reader, agentKey string) NameWriters {
	ws, _ := Read(s, WritersKey(agentKey), Decode[NameWriters])
	return ws
}

// others reports whether anybody but these senders has written lately.
func (ws NameWriters) others(now int64, senders ...string) bool {
	return slices.ContainsFunc(ws, func(w NameWriter) bool {
		return w.At > now-ProtectAfter && !slices.ContainsFunc(senders, func(s string) bool { return UnprovenSender(s) == w.From })
	})
}

// LookKey is the key of the registered name with a look.
func LookKey(look []byte) []byte { return append([]byte{spaceLook}, look...) }

// LookAlike returns the key of another registered name that a name looks like, or "".
func LookAlike(s Reader, agentKey string, looks []byte) string {
	for look := range slices.Chunk(looks, command.LookBytes) {
		if other, _ := s.Get(LookKey(look)); len(other) > 0 && string(other) != agentKey {
			return string(other)
		}
	}
	return ""
}

// fromAddress reports whether a write comes from the address that a pseudonym stands for.
func fromAddress(p *command.Proof, pseudonym string) bool { return p.Address && p.From(pseudonym) }

// shared reports whether several clients may have the sender's address.
func shared(s Reader, p *command.Proof) bool {
	return p.Shared || NamesOf(s, p.Sender).Count > command.MaxAddressNames
}

// Names is the row of SpaceNamed: how many names were registered from an address. It is deleted
// when the address has not written for as long as senders are remembered. From then on the
// address proves none of these names.
type Names struct {
	Count uint64
	Since int64 // when the first of them was registered, milliseconds since the epoch
	Used  int64 // when the address last registered a name or wrote, give or take namesStep; the same
}

// Fields implements Row.
func (n *Names) Fields(c *Codec) { c.Fields(&n.Count, &n.Since, &n.Used) }

// NamesOf returns the names that were registered under a pseudonym.
func NamesOf(s Reader, pseudonym string) (n Names) {
	if pseudonym != "" {
		n, _ = Read(s, NamedKey(pseudonym), Decode[Names])
	}
	return n
}

// Has reports whether a profile, which the address registered, counts among the names.
func (n Names) Has(p *ProfileRow) bool { return n.Count > 0 && p.CreatedAt >= n.Since }

// Rows that name a sender are deleted when the senders of that time are forgotten: the rows of
// SpaceSender by their keys, and other rows by SpaceForget, which lists their keys by time. A
// profile keeps the pseudonym of the address that registered it, and a rule that of its sender.

// ForgetKey is the key of a row that names a sender since an instant.
func ForgetKey(at int64, row []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{SpaceForget}, uint64(at)), row...)
}

// ForgottenRow returns the key of the row in a ForgetKey.
func ForgottenRow(key []byte) []byte { return key[1+8:] }

// ForgetsBefore returns the instant up to which senders are forgotten.
func ForgetsBefore(s Reader, now int64) int64 {
	return now - int64(SettingsOf(s).SenderDays)*command.DayMillis //nolint:gosec // bounded by its check
}

// ForgetBatch bounds the rows of SpaceForget that one command deletes.
const ForgetBatch = 10_000

// Share is a sender, network or name, and its limit as a multiple of a sender's.
type Share struct {
	Of    string
	times uint64
}

// counted returns the count of a share.
func (sh Share) counted(s Reader, key func(of string) []byte) uint64 {
	n, _ := Read(s, key(sh.Of), DecodeNumber)
	return n
}

// SharesOf returns the shares of a write's sender and of its network.
func SharesOf(proof *command.Proof, prefix string, times uint64) (shares []Share) {
	shares = append(shares, Share{Of: prefix + proof.Sender, times: times})
	if network := command.NetworkOf(proof.Sender); network != "" {
		shares = append(shares, Share{Of: prefix + "network " + network, times: times * command.NetworkShare})
	}
	return shares
}
