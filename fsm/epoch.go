package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/commons-cluster/commons/fsm/command"
)

// Senders are known by pseudonyms, and each epoch has a key of its own for them
// (decision 15). Commands carry the pseudonyms of this epoch and of the last one, so
// that rows with one of the last epoch are still found, and get that of this epoch when
// their sender writes. Older pseudonyms belong to nobody any more: their key is
// destroyed.

// SenderEpoch has the keys of the senders' pseudonyms: the row of spaceEpoch.
type SenderEpoch struct {
	Number uint64 // from 1; 0: there is none yet
	Since  int64  // when it began, milliseconds since the epoch of Unix
	Key    []byte // sealed under the data key
	Last   []byte // that of the epoch before; empty: there was none
}

func (e SenderEpoch) append(dst []byte) []byte {
	return appendBlob(appendBlob(appendUints(dst, e.Number, uint64(e.Since)), e.Key), e.Last)
}

func decodeEpoch(row []byte) (SenderEpoch, error) {
	r := rowReader{rest: row}
	e := SenderEpoch{Number: r.uint(), Since: int64(r.uint())}
	e.Key, e.Last = slices.Clone(r.bytes(r.uint())), slices.Clone(r.bytes(r.uint()))
	return e, r.done("epoch row")
}

func senderEpoch(s facts) SenderEpoch {
	e, _ := read(s, keyEpoch, decodeEpoch)
	return e
}

// Ends returns when the epoch is to end, in milliseconds since the epoch of Unix. An
// epoch lasts as long as senders are remembered, so all remembered senders wrote in
// this epoch or in the last one.
func (e SenderEpoch) Ends(set command.Settings) int64 { return e.Since + senderMemory(set) }

func senderMemory(set command.Settings) int64 { return int64(set.SenderDays) * command.DayMillis } //nolint:gosec // bounded by its check

// applyNextEpoch begins an epoch. The key before the last one is destroyed; each node
// erases it like purged texts.
func (tx *txn) applyNextEpoch(c *command.NextEpoch) command.Result {
	e := senderEpoch(tx)
	if c.Number != e.Number+1 {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.followRules()
	tx.keep(keyEpoch, SenderEpoch{Number: c.Number, Since: tx.now, Key: c.SealedKey, Last: e.Key}.append(nil))
	tx.dropRange(spaceBounds(spaceFormerly))
	if len(e.Last) > 0 {
		tx.listPurge(&Purge{Cluster: tx.cluster.id, Servers: c.Servers})
	}
	return command.Result{Outcome: command.OutcomeDone}
}

// oldPseudonym reports whether a command was made in an epoch that is over.
func oldPseudonym(s facts, proof *command.Proof) bool {
	return proof.Sender != "" && command.EpochOf(proof.Sender) != senderEpoch(s).Number
}

// keepFormerly stores a sender's pseudonym of the last epoch, for as long as that key
// exists. It links the sender's entries of both epochs.
func (tx *txn) keepFormerly(proof *command.Proof) {
	if proof.Former == "" {
		return
	}
	key := formerlyKey(proof.Sender)
	if _, known := tx.get(key); !known {
		tx.keep(key, []byte(proof.Former))
	}
}

// formerly returns the pseudonym of a sender in the last epoch; the same one if that is
// not known.
func (v *View) formerly(pseudonym string) (string, error) {
	row, known, err := getRow(v.snap, formerlyKey(pseudonym))
	if known {
		pseudonym = string(row)
	}
	return pseudonym, err
}

// followSender replaces a name's pseudonyms of the last epoch by those of this epoch,
// when their sender writes under the name.
func (tx *txn) followSender(agentKey string, p *profileRow, proof *command.Proof) {
	if p.follow(proof) {
		tx.putProfile(agentKey, p)
	}
}

// follow is followSender, and reports whether that changed anything.
func (p *profileRow) follow(proof *command.Proof) (changed bool) {
	for _, pseudonym := range [...]*string{&p.sender, &p.issuer} {
		if *pseudonym != "" && *pseudonym == proof.Former {
			*pseudonym, changed = proof.Sender, true
		}
	}
	return changed
}

// followRule moves a rule from a sender's former pseudonym to the present one. If both
// have a rule, the one that ends later stays.
func (tx *txn) followRule(sender, former string) {
	rule := tx.policy.ofSender(former)
	if rule == nil {
		return
	}
	tx.changePolicy(rule.subject(), nil, 0)
	if later := tx.policy.ofSender(sender); later == nil || rule.outlasts(later) {
		next := *rule
		next.sender = sender
		tx.changePolicy(next.subject(), &next, 0)
	}
}

// followRules is followRule for all senders that wrote in the ending epoch: a rule may
// have been set after a sender's last write, because of an entry in the epoch before.
func (tx *txn) followRules() {
	if tx.policy.count(command.RuleSender) == 0 {
		return
	}
	keys := tx.keysOf(spaceFormerly)
	slices.SortFunc(keys, bytes.Compare)
	for _, key := range keys {
		if former, known := tx.get(key); known {
			tx.followRule(string(key[1:]), string(former))
		}
	}
}

// forgetBatch is for how many entries senders are forgotten at once.
const forgetBatch = 10_000

// forgettable returns the next range of entries, [from, to), whose senders are to be
// forgotten at an instant.
func forgettable(s facts, now int64) (from, to uint64) {
	from, _ = read(s, keyForgotten, decodeNumber)
	before := now - senderMemory(settings(s))
	n := sort.Search(forgetBatch, func(i int) bool {
		e, known := s.entry(from + uint64(i) + 1) //nolint:gosec // not negative
		return !known || e.CreatedAt > before
	})
	return from, from + uint64(n) //nolint:gosec // not negative
}

func (tx *txn) applyForgetSenders() command.Result {
	from, to := forgettable(tx, tx.now)
	if from == to {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.dropRange(seqKey(spaceSender, from+1), seqKey(spaceSender, to+1))
	tx.keep(keyForgotten, appendUints(nil, to))
	return command.Result{Outcome: command.OutcomeDone}
}

// SenderEpoch returns the keys of the senders' pseudonyms.
func (v *View) SenderEpoch() (SenderEpoch, error) {
	s := &viewState{v: v}
	e := senderEpoch(s)
	return e, s.err
}

// SendersToForget reports whether there are entries whose senders are to be forgotten
// at an instant, in milliseconds since the epoch.
func (v *View) SendersToForget(now int64) (bool, error) {
	s := &viewState{v: v}
	from, to := forgettable(s, now)
	if s.err != nil {
		return false, fmt.Errorf("look for senders to forget: %w", s.err)
	}
	return to > from, nil
}
