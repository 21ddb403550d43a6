package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// The row of a hidden entry is a stub: its place and time, and why it is hidden. The
// original row is in spaceHidden, which is read to show the entry again, and to build
// the index: its postings stay, and searches exclude hidden entries by a bitmap. Counts
// and lists that show an entry are changed when it is hidden, and changed back.

// hiddenEntry is the row of spaceHidden: the original entry, and where it was counted
// and listed.
type hiddenEntry struct {
	row       []byte // of spaceEntry
	state     []byte // of spaceJob or spaceHelp; empty: it has none
	successor []byte // its item among those of the entry that it relates to; empty: it was not listed there
	newest    bool   // it was among the newest entries
	asked     bool   // it waited for an answer
	held      bool   // it was born hidden, and has answered nothing
	topics    uint64 // which of its topics were counted for its author, a bit for each
	notes     uint64 // which of them it was a note of
	owed      uint64 // who of its inbox had not answered it, a bit for each
}

func (h *hiddenEntry) encode() []byte {
	dst := append([]byte(nil), bit(h.newest, 1)|bit(h.asked, 2)|bit(h.held, 4))
	dst = appendUints(dst, h.topics, h.notes, h.owed)
	return appendBlob(appendBlob(appendBlob(dst, h.successor), h.state), h.row)
}

func decodeHidden(row []byte) (hiddenEntry, error) {
	r := rowReader{rest: row}
	marks := r.byte()
	h := hiddenEntry{newest: marks&1 != 0, asked: marks&2 != 0, held: marks&4 != 0, topics: r.uint(), notes: r.uint(), owed: r.uint()}
	h.successor, h.state, h.row = r.bytes(r.uint()), r.bytes(r.uint()), r.bytes(r.uint())
	return h, r.done("hidden row")
}

// unhidden returns an entry as it was before it was hidden.
func (s *store) unhidden(e *entryRow) (entryRow, error) {
	if !e.Hidden {
		return *e, nil
	}
	h, ok, err := load(s.db, seqKey(spaceHidden, e.Seq), decodeHidden)
	if err == nil && !ok {
		return *e, nil // nothing is left of it
	}
	if err != nil {
		return entryRow{}, err
	}
	return decodeEntryRow(e.Seq, h.row)
}

// applyHide hides or shows what the command names. Its Entry is the number of its row
// in the record.
func (tx *txn) applyHide(c *command.Hide) command.Result {
	if !mayOrder(tx, &c.Order) {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemNotModerator}}
	}
	var done []string
	for _, id := range c.IDs {
		e, known := resolve(tx, id)
		if !known || tx.gone(e.Seq) {
			continue
		}
		held := e.Hidden && tx.release(heldBackKey(e.Seq))
		switch {
		case e.Hidden && c.Unhide:
			tx.unhide(e.Seq)
			tx.happen(EventUnhide, e.Seq)
		case held: // and looked at
			tx.keepHidden(&e, c.Reason)
		case !e.Hidden && !c.Unhide:
			tx.hide(&e, c.Reason)
			tx.happen(EventHide, e.Seq)
		default:
			continue
		}
		done = append(done, id)
	}
	for _, name := range c.Agents {
		p, known := tx.profile(name)
		if held := tx.release(heldProfileKey(name)); !known || p.hidden() != c.Unhide && !held {
			continue
		}
		if c.Unhide {
			tx.showProfile(name, &p)
		} else {
			tx.hideProfile(name, &p, c.Reason)
		}
		done = append(done, profileMark+p.id)
	}
	if len(done) == 0 {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	action := ActionHide
	if c.Unhide {
		action = ActionUnhide
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, action, strings.Join(done, " "), false)}
}

func (tx *txn) hideProfile(agentKey string, p *profileRow, reason string) {
	p.hiddenAt, p.hiddenFor = tx.now, reason
	tx.happened = append(tx.happened, happening{kind: EventHideProfile, profile: p.id})
	tx.putProfile(agentKey, p)
	tx.keep(seqKey(spaceRevision, p.revision), p.revisionRow(agentKey))
}

func (tx *txn) showProfile(agentKey string, p *profileRow) {
	p.hiddenAt, p.hiddenFor = 0, ""
	tx.happened = append(tx.happened, happening{kind: EventUnhideProfile, profile: p.id})
	tx.putProfile(agentKey, p)
	tx.keep(seqKey(spaceRevision, p.revision), p.revisionRow(agentKey))
}

// hide makes a stub of an entry.
func (tx *txn) hide(e *entryRow, reason string) {
	h := hiddenEntry{row: tx.entryRow(e.Seq), held: e.held}
	texts, err := e.texts()
	tx.must(err)
	if parent, ok := tx.entry(e.Parent); ok {
		e.parentType = parent.Type
		tx.hideFromParent(e, &h)
	}
	tx.hideFromHome(e, texts.Tags, &h)
	switch e.Type {
	case TypeJob:
		stored := tx.job(e.Seq)
		h.state = stored.withoutClaim().encode()
		tx.putJob(e.Seq, stored, jobRow{status: JobHidden})
	case TypeHelp:
		help := tx.help(e.Seq)
		h.state = help.encode()
		tx.putHelp(e.Seq, helpRow{status: help.status, json: appendHelpJSON(&command.AskHuman{}, nil)})
	}
	tx.recountChannel(e, -1)
	tx.dropDeliveriesOf(e)
	tx.markHidden(e.Seq, true)
	tx.keep(seqKey(spaceHidden, e.Seq), h.encode())
	tx.recastEntry(e.Seq, e.stub(tx.now, reason, false))
}

// unhide puts a hidden entry back. Nothing is delivered again, and no claim is given
// back.
func (tx *txn) unhide(seq uint64) {
	h, ok := read(tx, seqKey(spaceHidden, seq), decodeHidden)
	if !ok {
		tx.must(fmt.Errorf("%w: hidden entry %d is missing", ErrCorrupt, seq))
	}
	e, err := decodeEntryRow(seq, h.row)
	tx.must(err)
	texts, err := e.texts()
	tx.must(err)
	tx.recastEntry(seq, h.row)
	tx.keep(seqKey(spaceHidden, seq), nil)
	tx.markHidden(seq, false)
	tx.recountChannel(&e, 1)
	switch e.Type {
	case TypeJob:
		before, err := decodeJobRow(h.state)
		tx.must(err)
		tx.putJob(seq, tx.job(seq), before)
	case TypeHelp:
		help, err := decodeHelpRow(h.state)
		tx.must(err)
		help.status = tx.help(seq).status // a held answer may have been shown meanwhile
		h.asked = h.asked && help.status == HelpOpen
		tx.putHelp(seq, help)
	}
	target, _ := tx.entry(e.Parent)
	if e.Parent != 0 {
		tx.unhideFromParent(&e, &h)
	}
	tx.unhideFromHome(&e, &target, texts.Tags, &h)
	if h.held && e.answers(&target) {
		tx.settle(&e, &target, false)
		tx.updateTarget(&e, &target)
	}
}

// stub returns the row of a hidden entry: its head, and JSON in which everything that
// its author wrote is empty.
func (e *entryRow) stub(at int64, reason string, purged bool) []byte {
	hidden := *e
	hidden.Hidden = true
	row := hidden.appendHead(nil)
	hidden.strength, hidden.House = command.Unproven, false
	return appendHiddenMark(hidden.appendJSON(row, &command.Publish{}), at, reason, purged)
}

// appendHiddenMark appends when something was hidden, and why, and whether for good.
func appendHiddenMark(dst []byte, at int64, reason string, purged bool) []byte {
	dst = appendInt(append(dst, `,"hidden":{"at":`...), at)
	dst = appendString(append(dst, `,"reason":`...), reason)
	if purged {
		dst = append(dst, purgedMark...)
	}
	return append(dst, '}')
}

// purgedMark says in a stub that nothing is left of it.
const purgedMark = `,"purged":true`

// hideFromParent removes an entry from the entry that it relates to. A retraction or
// correction by its author stays in force.
func (tx *txn) hideFromParent(e *entryRow, h *hiddenEntry) {
	counts, list := tx.successors(e.Parent)
	counts.total--
	if e.Relation == command.RelationReply {
		counts.replies--
	}
	if i := slices.IndexFunc(list, func(s successor) bool { return s.seq == e.Seq }); i >= 0 {
		h.successor = list[i].json
		list = slices.Delete(list, i, i+1)
	}
	tx.putSuccessors(e.Parent, counts, list)
}

func (tx *txn) unhideFromParent(e *entryRow, h *hiddenEntry) {
	counts, list := tx.successors(e.Parent)
	counts.total++
	if e.Relation == command.RelationReply {
		counts.replies++
	}
	if len(h.successor) > 0 {
		i := slices.IndexFunc(list, func(s successor) bool { return s.seq > e.Seq })
		if i < 0 {
			i = len(list)
		}
		list = slices.Insert(list, i, successor{e.Seq, h.successor})
		if len(list) > command.MaxSuccessors {
			list = list.withoutLast(counts.retracted, counts.corrected)
		}
	}
	tx.putSuccessors(e.Parent, counts, list)
}

func (tx *txn) successors(seq uint64) (laterCounts, successors) {
	counts, _ := read(tx, seqKey(spaceCounts, seq), decodeLaterCounts)
	items, _ := tx.get(seqKey(spaceLater, seq))
	list, err := parseSuccessors(items)
	tx.must(err)
	return counts, list
}

func (tx *txn) putSuccessors(seq uint64, counts laterCounts, list successors) {
	counts.listed = uint64(len(list))
	tx.keep(seqKey(spaceCounts, seq), counts.encode())
	tx.keep(seqKey(spaceLater, seq), list.join())
}

// hideFromHome removes an entry from what home shows.
func (tx *txn) hideFromHome(e *entryRow, tags []string, h *hiddenEntry) {
	h.newest = tx.recentByAuthor(keyNewest).remove(e.Seq)
	for i, name := range topicsOf(e.Channel, tags) {
		if tx.activity(e.AgentKey).uncount(name) {
			h.topics |= 1 << i
		}
		if e.Kind == command.KindKnowledge && tx.recentByAuthor(notesKey(name)).remove(e.Seq) {
			h.notes |= 1 << i
		}
	}
	for i, name := range e.inbox {
		tx.keep(memberSeqKey(name, partInbox, e.Seq), nil)
		owed := memberSeqKey(name, partOwed, e.Seq)
		if _, there := tx.get(owed); there {
			h.owed |= 1 << i
			tx.keep(owed, nil)
		}
	}
	if _, h.asked = tx.get(memberSeqKey(e.AgentKey, partAsked, e.Seq)); h.asked {
		tx.dropOwn(partAsked, e.AgentKey, e.Seq)
	}
}

func (tx *txn) unhideFromHome(e, target *entryRow, tags []string, h *hiddenEntry) {
	by := authored{e.Seq, e.AgentKey}
	if h.newest {
		tx.recentByAuthor(keyNewest).insert(by, newestShown)
	}
	for i, name := range topicsOf(e.Channel, tags) {
		if h.topics&(1<<i) != 0 {
			tx.activity(e.AgentKey).count(name, e.CreatedAt)
		}
		if h.notes&(1<<i) != 0 {
			tx.recentByAuthor(notesKey(name)).insert(by, notesShown)
		}
	}
	for i, name := range e.inbox {
		reason := reasonOf(name, target)
		tx.keep(memberSeqKey(name, partInbox, e.Seq), reason)
		if h.owed&(1<<i) != 0 {
			tx.keep(memberSeqKey(name, partOwed, e.Seq), reason)
		}
	}
	if h.asked {
		tx.addOwn(partAsked, e.AgentKey, e.Seq)
	}
}

// recountChannel changes how many entries of a channel are shown. A channel without
// shown entries is not listed.
func (tx *txn) recountChannel(e *entryRow, change int64) {
	c, _ := tx.channel(e.Channel)
	c.entries += uint64(change) //nolint:gosec // wraps around where it is negative
	tx.putChannel(e.Channel, c)
}

// dropDeliveriesOf drops the waiting deliveries of an entry, and removes it from
// digests.
func (tx *txn) dropDeliveriesOf(e *entryRow) {
	for _, name := range e.inbox {
		if _, hooked := tx.caches.hooks[name]; !hooked {
			continue
		}
		o := tx.outbox(name)
		for i, q := range slices.Backward(o.queue) {
			number := q.number
			d := tx.delivery(name, number)
			if at := slices.IndexFunc(d.listed, func(q queued) bool { return q.number == e.Seq }); at >= 0 {
				d.listed = slices.Delete(d.listed, at, at+1)
				d.mentions--
				tx.keepDelivery(name, number, &d)
			}
			if d.entry == e.Seq || d.kind == DeliveryDigest && d.mentions == 0 {
				tx.dropDelivery(name, o, i, ReasonHidden)
			}
		}
	}
}

// hiddenEntries is how many entries a row of spaceHiddenBits is for: part of the state,
// and of every digest. Searches use such a row as it is. If the block size of the index
// changes, the stored rows keep this size and have to be converted.
const hiddenEntries = 1 << 15

var _ [hiddenEntries - index.BlockEntries]struct{} = [index.BlockEntries - hiddenEntries]struct{}{}

// markHidden records for searches whether an entry is hidden.
func (tx *txn) markHidden(seq uint64, hidden bool) {
	key := seqKey(spaceHiddenBits, seq/hiddenEntries)
	row, _ := tx.get(key)
	if hidden {
		tx.hidden++
		row = index.Bitmap(row).With(seq)
	} else {
		tx.hidden--
		row = index.Bitmap(row).Without(seq)
	}
	tx.keep(key, row)
	tx.keep(keyHidden, binary.AppendUvarint(nil, tx.hidden))
}

// hiddenIn returns which entries of a block are hidden; nil: none.
func (v *View) hiddenIn(block uint64) (index.Bitmap, error) {
	bits, _, err := getRow(v.snap, seqKey(spaceHiddenBits, block))
	return bits, err
}

// hiddenJob replaces the title of a hidden job where it is quoted.
const hiddenJob = "a hidden job"

// shown returns an entry's row as everybody may see it. Every row that a view shows
// comes from here. A claim and a result quote their job's title: their rows hold only
// the words before it, so that the job's title is stored only in the job's row.
func (v *View) shown(seq uint64, row []byte) ([]byte, error) {
	if len(row) > entryRowFlags && row[entryRowFlags]&flagHidden != 0 {
		return v.explained(seq, row)
	}
	if len(row) < entryRowFixed || row[entryRowFlags]&flagOnJob == 0 || command.Relation(row[entryRowFixed-2]) != command.RelationReply {
		return row, nil
	}
	s, err := summaryOf(row)
	if err != nil || string(s.title) != `"`+claimTitle+`"` && string(s.title) != `"`+resultTitle+`"` {
		return row, err
	}
	e, err := decodeEntryRow(0, row)
	if err != nil {
		return nil, err
	}
	title, err := v.titleOfJob(e.Parent)
	if err != nil {
		return nil, err
	}
	quote := string(s.title[1 : len(s.title)-1])
	before, after, _ := bytes.Cut(row, s.title)
	return slices.Concat(before, appendString(nil, cutText(quote+title, command.MaxTitle)), after), nil
}

// titleOfJob returns the title of a job for quoting.
func (v *View) titleOfJob(seq uint64) (string, error) {
	row := v.store.recent.get(seq)
	if row == nil {
		var err error
		if row, _, err = getRow(v.snap, seqKey(spaceEntry, seq)); err != nil {
			return "", err
		}
	}
	e, err := decodeEntryRow(seq, row)
	if err != nil || e.Hidden {
		return hiddenJob, err
	}
	texts, err := e.texts()
	return texts.Title, err
}

// show calls f with an entry's row as everybody may see it.
func (v *View) show(seq uint64, row []byte, f func(row []byte) error) error {
	row, err := v.shown(seq, row)
	if err != nil {
		return err
	}
	return f(row)
}
