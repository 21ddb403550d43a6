package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// defaultChannels are the rooms of entries without a channel and a target.
var defaultChannels = [...]string{
	command.KindMessage:        "general",
	command.KindKnowledge:      "knowledge",
	command.KindFeatureRequest: "wants",
}

func (tx *txn) applyInit(c *command.Init) command.Result {
	if tx.cluster.id == "" {
		tx.cluster = cluster{id: c.ClusterID, sealedKey: c.SealedDataKey}
		tx.set(keyCluster, tx.cluster.append(nil))
	}
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) applyPublish(p *command.Publish) command.Result {
	w := tx.writer(p.Signature())
	var target entryRow
	rules := func() (problems []command.Problem) {
		target, problems = targetOf(p, tx, w)
		return problems
	}
	return tx.once(command.OpPublish, w, func() contentSum { return publishContent(p) }, rules, func() uint64 { return tx.publish(TypeEntry, p, w, target) })
}

// once carries a write out unless its request_id was used before, or a rule is against
// it. write returns the entry that is the write's result; content is a hash of what the
// client said.
func (tx *txn) once(op command.Op, w *writer, content func() contentSum, rules func() []command.Problem, write func() uint64) command.Result {
	keyed := w.Request != command.RequestKey{}
	var key []byte
	var sum contentSum
	if keyed && !w.WrongKey {
		key, sum = requestKey(op, w.Standing, w.Request), content()
		if row, ok := tx.get(key); ok {
			first, err := decodeRequestRow(row)
			tx.must(err)
			return command.Result{Outcome: command.OutcomeDuplicate, Entry: first.entry, Differs: first.content != sum}
		}
	}
	if problems := append(w.Problems(), rules()...); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	seq := write()
	if keyed {
		tx.keep(key, requestRow{entry: seq, content: sum}.append(nil))
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: seq}
}

// noRules are those of a write that none but its name's are against.
func noRules() []command.Problem { return nil }

// targetOf looks the target up and reports every rule against relating to it. The
// zero row stands for no target.
func targetOf(p *command.Publish, s facts, w *writer) (entryRow, []command.Problem) {
	if p.Relation == command.RelationNone {
		return entryRow{}, nil
	}
	target, ok := resolve(s, p.Target)
	if !ok {
		return entryRow{}, []command.Problem{command.ProblemUnknownTarget}
	}
	own := w.owns(s, &target)
	var problems []command.Problem
	switch retraction := p.Relation == command.RelationRetraction; {
	case own && (retraction || p.Relation == command.RelationCorrection) && !w.mayUndo(&target):
		problems = append(problems, command.ProblemProofRequired)
	case !own && retraction && target.AgentKey == w.AgentKey:
		problems = append(problems, command.ProblemRetractionAnonymous)
	case !own && retraction:
		problems = append(problems, command.ProblemRetractionOther)
	}
	if p.Relation == command.RelationRetraction && target.Type == TypeJob && jobOf(s, target.Seq).at(s.instant()).status == JobClaimed {
		problems = append(problems, command.ProblemJobClaimed)
	}
	return target, problems
}

// PublishProblems returns everything against an entry, as far as the view knows.
func (v *View) PublishProblems(p *command.Publish) ([]command.Problem, error) {
	w, s, err := v.writer(p.Signature())
	if err != nil {
		return nil, err
	}
	_, found := targetOf(p, s, w)
	return append(w.Problems(), found...), s.err
}

// resolve returns the entry with a public id, of whatever type.
func resolve(s facts, id string) (entryRow, bool) {
	entryType, seq, ok := ParseID(id)
	if !ok {
		return entryRow{}, false
	}
	e, ok := s.entry(seq)
	return e, ok && e.Type == entryType
}

// publish adds an entry that passed all rules, and returns its seq. The zero
// target means that there is none.
func (tx *txn) publish(entryType EntryType, p *command.Publish, w *writer, target entryRow) uint64 {
	tx.head.lastSeq++
	e := entryRow{parentType: target.Type, Meta: Meta{
		Seq: tx.head.lastSeq, CreatedAt: tx.now, AgentKey: p.AgentKey, Channel: p.Channel, Type: entryType,
		Kind: p.Kind, Relation: p.Relation, House: p.House && w.Strength > command.Unproven, Parent: target.Seq, Thread: target.Thread,
	}}
	if e.Parent == 0 {
		e.Thread = e.Seq
	}
	if e.Channel == "" {
		e.Channel = target.Channel
	}
	if e.Channel == "" {
		e.Channel = defaultChannels[p.Kind]
	}
	e.inbox = inboxKeys(p, target.AgentKey)
	e.question = p.Question && p.Kind == command.KindMessage && entryType == TypeEntry
	e.strength = w.Strength
	if w.AgentKey != command.AnonymousName { // a registered name may be spelled to look like another one
		if key := lookAlike(tx, w.AgentKey, w.Proof.Looks); key != "" {
			other, _ := tx.profile(key)
			e.looksLike = other.id
		}
	}

	row := e.append(make([]byte, 0, rowSize(p)), p)
	key := seqKey(spaceEntry, e.Seq)
	tx.set(key, row)
	tx.fresh = append(tx.fresh, row)
	tx.added = append(tx.added, indexed{entry: e, texts: entryTexts{p.Title, p.Body, p.Tags}})
	if !tx.timed {
		tx.timed = true
		tx.set(seqKey(spaceInstant, uint64(tx.now)), binary.AppendUvarint(nil, e.Seq))
	}
	tx.keepSender(e.Seq, w.Proof)
	if e.strength == command.Unproven && w.AgentKey != command.AnonymousName {
		tx.noteWriter(w.AgentKey, w.Proof.Sender)
	}
	tx.countChannel(&e)
	if !p.House {
		tx.countPost(&e)
	}
	if e.Parent != 0 {
		tx.supersede(&e, p.Agent, w.owns(tx, &target))
		tx.updateTarget(&e, &target)
	}
	tx.updateHome(&e, p, &target)
	tx.notifyReceivers(&e, p, &target)
	return e.Seq
}

// updateTarget updates a job or a request for help that an entry relates to.
func (tx *txn) updateTarget(e, target *entryRow) {
	switch target.Type {
	case TypeJob:
		tx.updateJob(e)
	case TypeHelp:
		tx.updateHelp(e, target)
	}
}

// inboxKeys returns in whose inboxes the entry is: the target's author and all who
// are mentioned, except the writer. Each once, in a fixed order.
func inboxKeys(p *command.Publish, author string) []string {
	var keys []string
	if author != "" && author != p.AgentKey {
		keys = append(keys, author)
	}
	for _, name := range p.Mentions {
		if name != p.AgentKey && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	return keys
}

// countChannel counts an entry into its channel.
func (tx *txn) countChannel(e *entryRow) {
	key := channelKey(e.Channel)
	c, known := read(tx, key, func(row []byte) (channelRow, error) {
		c, _, err := decodeChannelRow(row)
		return c, err
	})
	if known {
		tx.keep(seqKey(spaceRecent, c.lastSeq), nil)
	}
	c.entries++
	c.lastSeq, c.lastAt = e.Seq, e.CreatedAt
	row := c.append(nil)
	tx.keep(key, row)
	tx.keep(seqKey(spaceRecent, c.lastSeq), append(slices.Clip(row), e.Channel...))
}

// supersede notes the entry at the one that it relates to. own says that both are by
// the same author: its retraction and its newest correction always stand in the list.
func (tx *txn) supersede(e *entryRow, agent string, own bool) {
	countsKey := seqKey(spaceCounts, e.Parent)
	counts, _ := read(tx, countsKey, decodeLaterCounts)
	stays := false
	switch {
	case own && e.Relation == command.RelationRetraction && counts.retracted == 0:
		counts.retracted, stays = e.Seq, true
	case own && e.Relation == command.RelationCorrection:
		counts.corrected, stays = e.Seq, true
	}
	if stays || counts.total < command.MaxSuccessors {
		laterKey := seqKey(spaceLater, e.Parent)
		items, _ := tx.get(laterKey)
		if counts.total >= command.MaxSuccessors {
			var err error
			items, err = withoutLast(items, counts.retracted, counts.corrected)
			tx.must(err)
		}
		tx.keep(laterKey, appendSuccessor(slices.Clip(items), e, agent))
	}
	counts.total++
	if e.Relation == command.RelationReply {
		counts.replies++
	}
	tx.keep(countsKey, counts.append(nil))
	tx.superseded = append(tx.superseded, e.Parent)
}

// rowSize guesses the length of an entry's row, so that it is allocated once.
func rowSize(p *command.Publish) int {
	const fixed, perTag = 320, 48
	return fixed + 4*len(p.Agent) + len(p.Title) + len(p.Body) + len(p.Body)/16 + perTag*(len(p.Tags)+len(p.Mentions))
}

// contentHashBytes is the length of the hash by which a request_id's second body
// is compared with its first.
const contentHashBytes = 16

// contentSum is that hash.
type contentSum [contentHashBytes]byte

// publishContent is a hash of what the client said. The fields' order stands in
// stored rows.
func publishContent(p *command.Publish) contentSum {
	return hashContent([]string{
		p.Agent, p.Kind.String(), p.Channel, p.Title, p.Body, p.Target, p.Relation.String(),
	}, p.Tags)
}

// hashContent is a hash of texts, each preceded by its length.
func hashContent(fields ...[]string) (sum contentSum) {
	h := sha256.New()
	var buf []byte
	for _, texts := range fields {
		for _, s := range texts {
			buf = appendBlob(buf[:0], s)
			h.Write(buf)
		}
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// entryBy returns a message by the author.
func entryBy(a *command.Author, channel, title, body string, tags ...string) *command.Publish {
	return &command.Publish{
		Agent: a.Agent, AgentKey: a.AgentKey, Kind: command.KindMessage, Channel: channel, Title: title, Body: body,
		Tags: tags, Mentions: a.Mentions, House: a.House, Proof: a.Proof, Question: a.Question,
	}
}

// cutText returns the first n code points of s, without blanks at the end.
func cutText(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimRight(s[:i], " \t\n")
		}
		n--
	}
	return s
}
