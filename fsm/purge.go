package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// A purged entry is hidden and its contents are deleted: its row is the stub, without
// mentions, and spaceHidden has no row of it. That is what apply does. The bytes remain
// in files of the state and of the log until the node has rewritten these; see erase.go
// and package node/purge.

// profileMark leads the name of a profile where ids of entries may stand, too.
const profileMark = "@"

// Purge is one entry or profile that was purged, or the key of an epoch that was destroyed.
type Purge struct {
	Number  uint64 // from 1
	Index   uint64 // of the log entry that purged it: what stands before it may hold the text
	At      int64  // milliseconds since the epoch
	Cluster string // that purged it
	ID      string // of an entry, or @ and the folded name of a profile; "": the key
	// CreatedAt is when the entry was published, or when the profile was changed last.
	CreatedAt int64
	// Servers are the cluster's servers at that time: each has the text on its disk.
	Servers []string
}

func (p *Purge) append(dst []byte) []byte {
	dst = appendBlob(appendBlob(appendUints(dst, p.Index, uint64(p.At), uint64(p.CreatedAt)), p.Cluster), p.ID)
	for _, id := range p.Servers {
		dst = appendBlob(dst, id)
	}
	return dst
}

func decodePurge(row []byte) (Purge, error) {
	r := rowReader{rest: row}
	p := Purge{Index: r.uint(), At: int64(r.uint()), CreatedAt: int64(r.uint()), Cluster: r.text(), ID: r.text()}
	for len(r.rest) > 0 && !r.bad {
		p.Servers = append(p.Servers, r.text())
	}
	return p, r.done("purge row")
}

// applyPurge purges what the command names. Its Entry is the number of its row in the
// record.
func (tx *txn) applyPurge(c *command.Purge) command.Result {
	if !mayOrder(tx, &c.Order) {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemNotModerator}}
	}
	var done []string
	for _, id := range c.IDs {
		e, known := resolve(tx, id)
		if !known || tx.purged(e.Seq) {
			continue
		}
		if !e.Hidden {
			tx.hide(&e, c.Reason)
			tx.happen(EventHide, e.Seq)
		}
		tx.purge(e.Seq, c.Reason)
		tx.listPurge(&Purge{Cluster: tx.cluster.id, ID: id, CreatedAt: e.CreatedAt, Servers: c.Servers})
		done = append(done, id)
	}
	for _, name := range c.Agents {
		p, known := tx.profile(name)
		if !known || p.purged {
			continue
		}
		if !p.hidden() {
			tx.happened = append(tx.happened, happening{kind: EventHideProfile, profile: p.id})
		}
		tx.listPurge(&Purge{Cluster: tx.cluster.id, ID: profileMark + name, CreatedAt: p.updatedAt, Servers: c.Servers})
		tx.purgeProfile(name, &p, c.Reason)
		done = append(done, profileMark+p.id)
	}
	if len(done) == 0 {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, ActionPurge, strings.Join(done, " "), false)}
}

// purgeProfile erases what a profile's owner has written. The name, its key and its
// protection stay its owner's: nobody else may take the name. Words are found by the
// profile's revision, so that it gets another one.
func (tx *txn) purgeProfile(agentKey string, p *profileRow, reason string) {
	old := p.profileFields
	p.profileFields, p.purged = profileFields{protected: old.protected}, true
	p.hiddenAt, p.hiddenFor = tx.now, reason
	tx.release(heldProfileKey(agentKey))
	tx.followHook(agentKey, &old, &p.profileFields)
	tx.revise(agentKey, p)
}

// purgeListed purges what a list from elsewhere names, if it is here as it was then.
func (tx *txn) purgeListed(p *Purge, reason string) (is bool) {
	if name, profile := strings.CutPrefix(p.ID, profileMark); profile {
		row, known := tx.profile(name)
		if !known || row.updatedAt > p.CreatedAt || row.purged {
			return false
		}
		tx.listPurge(p)
		tx.purgeProfile(name, &row, reason)
		return true
	}
	e, known := resolve(tx, p.ID)
	if !known || e.CreatedAt != p.CreatedAt || tx.purged(e.Seq) {
		return false
	}
	if !e.Hidden {
		tx.hide(&e, reason)
	}
	tx.purge(e.Seq, reason)
	tx.listPurge(p)
	return true
}

// listPurge adds the row of a purge.
func (tx *txn) listPurge(p *Purge) {
	p.Number, p.Index, p.At = tx.number(keyPurged)+1, tx.head.applied, tx.now
	tx.keep(keyPurged, binary.AppendUvarint(nil, p.Number))
	tx.keep(seqKey(spacePurge, p.Number), p.append(nil))
}

// PurgeListed purges what a list from elsewhere names, as far as the state has such
// entries, those with the id and the time, and such profiles, unless they were changed
// since. It is no command: nothing else may use the
// state, which becomes the first one of a new cluster. It returns how many it purged.
func (m *Machine) PurgeListed(list []Purge, reason string) (purged int, err error) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	defer func() {
		if failed, is := recover().(*applyError); is {
			err = failed
		}
	}()
	tx := m.begin()
	tx.now = tx.head.now
	for i := range list {
		if p := list[i]; tx.purgeListed(&p, reason) {
			purged++
		}
	}
	if purged > 0 {
		tx.record(&command.Order{By: command.Operator, Reason: reason}, ActionPurge, fmt.Sprintf("a purge list (%d of it)", purged), false)
	}
	m.commit(tx)
	m.publish()
	return purged, m.store.Flush()
}

// purge erases what a hidden entry was.
func (tx *txn) purge(seq uint64, reason string) { tx.erase(seq, spacePurgedBits, reason) }

// erase erases what a hidden entry was, and notes that in a space of bits.
func (tx *txn) erase(seq uint64, bits byte, reason string) {
	was, _ := tx.entry(seq) // a stub already where it was swept before it is purged
	if h, kept := read(tx, seqKey(spaceHidden, seq), decodeHidden); kept {
		var err error
		was, err = decodeEntryRow(seq, h.row)
		tx.must(err)
		texts, err := was.texts()
		tx.must(err)
		a := tx.activity(was.AgentKey)
		for _, name := range topicsOf(was.Channel, texts.Tags) {
			a.forget(name)
		}
	}
	key := seqKey(bits, seq/hiddenEntries)
	row, _ := tx.get(key)
	tx.keep(key, index.Bitmap(row).With(seq))
	tx.keep(seqKey(spaceHidden, seq), nil)
	tx.release(heldBackKey(seq))
	tx.release(keptKey(seq))
	tx.eraseReportsOf(seq)
	if parent, ok := tx.entry(was.Parent); ok {
		was.parentType = parent.Type
	}
	was.inbox = nil
	tx.recastEntry(seq, was.stub(tx.now, reason, true))
}

// forget removes a topic without counted entries.
func (a *activity) forget(name string) {
	i := slices.IndexFunc(a.topics, func(t topic) bool { return t.name == name && t.entries == 0 })
	if i >= 0 {
		a.topics = slices.Delete(a.topics, i, i+1)
		a.dropped = append(a.dropped, name)
	}
}

// purged reports whether an entry is purged.
func (tx *txn) purged(seq uint64) bool {
	bits, _ := tx.get(seqKey(spacePurgedBits, seq/hiddenEntries))
	return index.Bitmap(bits).Has(seq)
}

func (tx *txn) applyDestroyDisk(c *command.DestroyDisk) command.Result {
	key := destroyedKey(c.Server)
	if _, known := tx.get(key); known {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.keep(key, []byte{})
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, ActionDestroyDisk, c.Server, true)}
}

// DiskDestroyed reports whether an operator said that the disk of a former server was
// destroyed.
func (v *View) DiskDestroyed(server string) (is bool, err error) {
	_, is, err = getRow(v.snap, destroyedKey(server))
	return is, err
}

// Purged is the number of the newest purge; 0: nothing was purged.
func (v *View) Purged() (number uint64, err error) {
	number, _, err = load(v.snap, keyPurged, decodeNumber)
	return number, err
}

// Purges calls f for what was purged after the purge with a number, in their order,
// until f returns an error.
func (v *View) Purges(after uint64, f func(Purge) error) error {
	_, upper := spaceBounds(spacePurge)
	return scanSpace(v.snap, seqKey(spacePurge, after+1), upper, func(key, row []byte) error {
		p, err := decodePurge(row)
		if err != nil {
			return err
		}
		p.Number = seqOfKey(key)
		return f(p)
	})
}

// Erased is the newest purge whose texts, and those of all earlier ones, are erased
// from all files of the state; 0: none.
func (v *View) Erased() (number uint64, err error) {
	number, _, err = load(v.snap, keyErased, decodeNumber)
	return number, err
}

// PurgedUpTo is the number of the newest purge by a log entry up to an index; 0: none.
func (v *View) PurgedUpTo(index uint64) (number uint64, err error) {
	lower, upper := spaceBounds(spacePurge)
	err = scanBack(v.snap, lower, upper, func(key, row []byte) error {
		p, err := decodePurge(row)
		if err == nil && p.Index <= index {
			number, err = seqOfKey(key), errEnough
		}
		return err
	})
	return number, err
}
