package state

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// MaxBudgetSenders bounds the individual counts of a day. Later ones share rows by their
// hash.
const (
	MaxBudgetSenders = 1 << 16
	overflowRows     = 1 << 16
)

// BudgetOf returns the used part of a day's budget.
func BudgetOf(s Facts, day command.Day) Budget {
	if b, _ := Read(s, KeyBudget, Decode[Budget]); b.Day == day {
		return b
	}
	return Budget{Day: day}
}

// Counted is the use of a share on a day, and its row.
type Counted struct {
	command.Use
	Key   []byte
	Known bool
}

// An unfinished claim keeps others from a job, so the claims of a name, a sender and a
// network are bounded. The job's row has the keys of the rows that count its claim, because
// the age of the key may change before the claim ends.

// ClaimsKeyBytes is the length of a ClaimsKey without its space.
const ClaimsKeyBytes = 8

// ClaimsKey is the key of the count of the claims of a name, sender or network.
func ClaimsKey(of string) []byte {
	return binary.BigEndian.AppendUint64([]byte{SpaceClaims}, uint64(hashSender(of)))
}

// Claimants returns the shares of a writer's claims, with the maximum of each as its times.
func Claimants(w *Writer) (shares []Share) {
	if w.Strength == command.ByKey {
		shares = []Share{{Of: "key " + w.AgentKey, times: command.MaxKeyClaims}}
	}
	if w.Proof.Sender == "" || w.Established {
		return shares
	}
	if w.Strength < command.ByKey {
		shares = SharesOf(w.Proof, "name "+w.AgentKey+" ", command.MaxNameClaims)[:1] // not of its network
	}
	return append(shares, SharesOf(w.Proof, "", command.MaxSenderClaims)...)
}

// HaveRoom reports whether all shares of a writer have room for another claim.
func HaveRoom(s Facts, shares []Share, proof *command.Proof) bool {
	return unlimited(s, proof) || !slices.ContainsFunc(shares, func(sh Share) bool {
		return sh.counted(s, ClaimsKey) >= sh.times
	})
}

// unlimited reports whether neither a write's node nor the settings limit it.
func unlimited(s Facts, proof *command.Proof) bool {
	set := SettingsOf(s)
	if set.WriteRate != command.NotSet || set.WriteBurst != command.NotSet {
		return set.WriteRate == 0 || set.WriteBurst == 0
	}
	return proof.Unlimited
}

// Budget is the used part of a day's budget: the row of SpaceBudget.
type Budget struct {
	Day     command.Day // in UTC
	Bytes   uint64      // of commands
	Senders uint64      // networks and names that made them; from MaxBudgetSenders on, they are not counted
}

// Fields implements Row.
func (b *Budget) Fields(c *Codec) { c.Fields(&b.Day, &b.Bytes, &b.Senders) }

// SenderKey returns the row that counts a sender's bytes, which others may share.
func (b Budget) SenderKey(s Facts, sender string) (key []byte, known bool) {
	hash := binary.BigEndian.AppendUint64(nil, uint64(hashSender(sender)))
	key = append(DayKey(SpaceBudget, b.Day), hash...)
	if _, known = s.Get(key); known || b.Senders < MaxBudgetSenders {
		return key, known
	}
	shared := binary.BigEndian.Uint64(hash) % overflowRows
	return binary.BigEndian.AppendUint16(DayKey(SpaceBudget, b.Day), uint16(shared)), true
}

// Share is a sender, network or name, and its limit as a multiple of a sender's.
type Share struct {
	Of    string
	times uint64
}

// counted returns the count of a share.
func (sh Share) counted(s Facts, key func(of string) []byte) uint64 {
	n, _ := Read(s, key(sh.Of), DecodeNumber)
	return n
}

// budgeted returns the shares that a signed command counts against. Established names are
// counted separately from other writes of an address.
func budgeted(w *Writer) (shares []Share) {
	if w.Proof == nil {
		return nil
	}
	prefix, times := "", uint64(1)
	if w.Established {
		prefix, times = "established ", command.EstablishedShare
		shares = append(shares, Share{Of: "name " + w.AgentKey, times: times})
	}
	return append(shares, SharesOf(w.Proof, prefix, times)...)
}

// SharesOf returns the shares of a write's sender and of its network.
func SharesOf(proof *command.Proof, prefix string, times uint64) (shares []Share) {
	shares = append(shares, Share{Of: prefix + proof.Sender, times: times})
	if network := command.NetworkOf(proof.Sender); network != "" {
		shares = append(shares, Share{Of: prefix + "network " + network, times: times * command.NetworkShare})
	}
	return shares
}

// Fits returns the use of a command's shares, and whether the command fits the budget.
func (b Budget) Fits(s Facts, j *Admission, bytes int) (uses []Counted, fits bool) {
	shares := budgeted(&j.Writer)
	used := make([]command.Use, len(shares))
	for i, sh := range shares {
		key, known := b.SenderKey(s, sh.Of)
		n, _ := Read(s, key, DecodeNumber)
		uses = append(uses, Counted{command.Use{Bytes: n, Times: sh.times}, key, known})
		used[i] = uses[i].Use
	}
	return uses, len(uses) == 0 || j.Settings.Fits(uint64(bytes), b.Bytes, j.Established, used...)
}
