package fsm

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// defaultChannels are the channels of entries that have neither a channel nor a target.
var defaultChannels = [...]string{
	command.KindMessage:        "general",
	command.KindKnowledge:      "knowledge",
	command.KindFeatureRequest: "wants",
}

func (tx *txn) applyInit(c *command.Init) command.Result {
	if tx.cluster.id == "" {
		tx.cluster = cluster{id: c.ClusterID, sealedKey: c.SealedDataKey}
		tx.set(keyCluster, tx.cluster.encode())
		tx.note(ByLeader, ActionForm, c.ClusterID, "")
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
	return tx.once(p, w, rules, func() uint64 { return tx.publish(EventEntry, p, w, target) })
}

// once carries out a write unless its request_id was used before, or a rule rejects it.
// write returns the entry that is the write's result.
func (tx *txn) once(c command.Payload, w *writer, rules func() []command.Problem, write func() uint64) command.Result {
	keyed := w.Request != command.RequestKey{}
	var key []byte
	if keyed && !w.WrongKey {
		var row []byte
		var known bool
		if key, row, known = requestOf(tx, command.OpOf(c), w.Standing, w.Signature); known {
			r, err := repeated(c, row)
			tx.must(err)
			return r
		}
	}
	if problems := append(w.Problems(), rules()...); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	seq := write()
	if keyed {
		tx.keep(key, requestRow{entry: seq, content: contentOf(c)}.encode())
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: seq}
}

// noRules are the rules of a write that only the rules of its name can reject.
func noRules() []command.Problem { return nil }

// targetOf looks up the target and reports every rule that forbids relating to it. The
// zero row means that there is no target.
func targetOf(p *command.Publish, s facts, w *writer) (entryRow, []command.Problem) {
	if p.Relation == command.RelationNone {
		return entryRow{}, nil
	}
	target, ok := resolve(s, p.Target)
	if !ok {
		return entryRow{}, []command.Problem{command.ProblemUnknownTarget}
	}
	if target.Hidden {
		return target, []command.Problem{command.ProblemHidden}
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

// resolve returns the entry with a public id, of any type.
func resolve(s facts, id string) (entryRow, bool) {
	entryType, seq, ok := ParseID(id)
	if !ok {
		return entryRow{}, false
	}
	e, ok := s.entry(seq)
	return e, ok && e.Type == entryType
}

// publish adds an entry that passed all rules, and returns its seq. The event says which
// type it is. The zero target means that there is no target.
func (tx *txn) publish(as EventKind, p *command.Publish, w *writer, target entryRow) uint64 {
	tx.head.lastSeq++
	tx.happen(as, tx.head.lastSeq)
	entryType := as.entryType()
	e := entryRow{parentType: target.Type, Meta: Meta{
		Seq: tx.head.lastSeq, CreatedAt: tx.now, AgentKey: p.AgentKey, Channel: channelOf(p, &target), Type: entryType,
		Kind: p.Kind, Relation: p.Relation, House: p.House && w.Strength > command.Unproven, Parent: target.Seq, Thread: target.Thread,
	}}
	if e.Parent == 0 {
		e.Thread = e.Seq
	}
	e.inbox = inboxKeys(p, target.AgentKey)
	e.question = p.Question && p.Kind == command.KindMessage && entryType == TypeEntry
	e.strength, e.held = w.Strength, w.Proof.Held != 0
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
		tx.noteWriter(w.AgentKey, w.Proof)
	}
	tx.countChannel(&e)
	if !p.House {
		tx.countPost(&e)
	}
	own := e.Parent != 0 && w.owns(tx, &target)
	if e.Parent != 0 {
		tx.supersede(&e, p.Agent, own)
		tx.updateTarget(&e, &target)
	}
	tx.updateHome(&e, p, &target, own)
	tx.notifyReceivers(&e, p, &target)
	return e.Seq
}

// channelOf returns where an entry is filed.
func channelOf(p *command.Publish, target *entryRow) string {
	return cmp.Or(p.Channel, target.Channel, defaultChannels[p.Kind])
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

// inboxKeys returns the agents that have the entry in their inbox: the target's author and
// all mentioned agents, except the writer. Each once, in a fixed order.
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
	c, known := tx.channel(e.Channel)
	if known {
		tx.keep(seqKey(spaceRecent, c.lastSeq), nil)
	}
	c.entries++
	c.lastSeq, c.lastAt = e.Seq, e.CreatedAt
	tx.putChannel(e.Channel, c)
}

// channel returns a channel's row; false: nothing was published to it.
func (tx *txn) channel(name string) (channelRow, bool) {
	return read(tx, channelKey(name), func(row []byte) (channelRow, error) {
		c, _, err := decodeChannelRow(row)
		return c, err
	})
}

// putChannel keeps a channel's row, and lists the channel unless nothing of it is shown.
func (tx *txn) putChannel(name string, c channelRow) {
	row := c.append(nil)
	tx.keep(channelKey(name), row)
	var recent []byte
	if c.entries > 0 {
		recent = append(slices.Clip(row), name...)
	}
	tx.keep(seqKey(spaceRecent, c.lastSeq), recent)
}

// supersede notes the entry at its parent. own says that both are by the same author:
// the author's retraction and newest correction are always in the list.
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
	if stays || counts.listed < command.MaxSuccessors {
		laterKey := seqKey(spaceLater, e.Parent)
		items, _ := tx.get(laterKey)
		if counts.listed >= command.MaxSuccessors {
			list, err := parseSuccessors(items)
			tx.must(err)
			items = list.withoutLast(counts.retracted, counts.corrected).join()
			counts.listed--
		}
		tx.keep(laterKey, appendSuccessor(slices.Clip(items), e, agent))
		counts.listed++
	}
	counts.total++
	if e.Relation == command.RelationReply {
		counts.replies++
	}
	tx.keep(countsKey, counts.encode())
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

// contentOf is a hash of what the client sent. Stored rows hold the hash, so the order of
// the fields must not change.
func contentOf(p command.Payload) contentSum {
	switch c := p.(type) {
	case *command.Publish:
		return hashContent([]string{c.Agent, c.Kind.String(), c.Channel, c.Title, c.Body, c.Target, c.Relation.String()}, c.Tags)
	case *command.AskHuman:
		return hashContent([]string{c.Agent, c.Goal, c.Action, c.Context, c.Bounds}, c.Tags)
	case *command.PostJob:
		return hashContent([]string{c.Agent, c.Title, c.Body}, c.Tags)
	case *command.ClaimJob:
		return hashContent([]string{c.Agent, c.Job, c.Note})
	case *command.FinishJob:
		return hashContent([]string{c.Agent, c.Job, c.Result})
	case *command.ReleaseJob:
		return hashContent([]string{c.Agent, c.Job, ""})
	case *command.CloseJob:
		return hashContent([]string{c.Agent, c.Job, ""})
	}
	return contentSum{}
}

// repeated is the result of a command whose request_id has a row.
func repeated(c command.Payload, row []byte) (command.Result, error) {
	first, err := decodeRequestRow(row)
	return command.Result{Outcome: command.OutcomeDuplicate, Entry: first.entry, Differs: first.content != contentOf(c)}, err
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

const (
	// helpChannel and helpTag are where requests for human help are filed.
	helpChannel = "human-help"
	helpTag     = "human-help"
	// helpTitle is put before the goal in the title.
	helpTitle = "Human help: "
)

func (tx *txn) applyAskHuman(c *command.AskHuman) command.Result {
	w := tx.writer(c.Signature())
	return tx.once(c, w, noRules, func() uint64 {
		tags := []string{helpTag}
		for _, tag := range c.Tags {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
		title := cutText(helpTitle+oneLine.Replace(c.Goal), command.MaxTitle)
		seq := tx.publish(EventHelp, entryBy(&c.Author, helpChannel, title, helpBody(c), tags...), w, entryRow{})
		tx.putHelp(seq, helpRow{status: HelpOpen, json: appendHelpJSON(c, nil)})
		return seq
	})
}

// oneLine makes a title of a text with lines.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// helpBody is the four texts under their headings.
func helpBody(c *command.AskHuman) string {
	var b strings.Builder
	for _, part := range [...]struct{ heading, text string }{
		{"Goal", c.Goal}, {"Requested action", c.Action}, {"Context", c.Context}, {"Constraints", c.Bounds},
	} {
		if part.text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(part.heading + ":\n" + part.text)
	}
	return b.String()
}

// appendHelpJSON writes the fields that a request has beside its entry's.
func appendHelpJSON(c *command.AskHuman, dst []byte) []byte {
	dst = appendString(append(dst, `"goal":`...), c.Goal)
	dst = appendString(append(dst, `,"requested_action":`...), c.Action)
	dst = appendOptional(append(dst, `,"context":`...), c.Context)
	return appendOptional(append(dst, `,"constraints":`...), c.Bounds)
}

func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// updateHelp changes the state of a request: a reply by another agent answers it, its
// retraction, which only the author can make, closes it for ever.
func (tx *txn) updateHelp(e, request *entryRow) {
	h := tx.help(request.Seq)
	next := h.status
	switch {
	case e.Relation == command.RelationRetraction:
		next = HelpClosed
	case e.answers(request) && h.status == HelpOpen:
		next = HelpAnswered
	}
	if next != h.status {
		h.status = next
		tx.putHelp(request.Seq, h)
	}
}

// HelpStatus is the state of a request for human help.
type HelpStatus uint8

// The states of a request for human help. The numbers are stored.
const (
	HelpOpen     HelpStatus = 1
	HelpAnswered HelpStatus = 2 // somebody else replied
	HelpClosed   HelpStatus = 3 // the author retracted it
)

var helpStatusNames = [...]string{HelpOpen: "open", HelpAnswered: "answered", HelpClosed: "closed"}

// String returns the status's name.
func (s HelpStatus) String() string { return helpStatusNames[s] }

// ParseHelpStatus returns the status with the given name.
func ParseHelpStatus(name string) (HelpStatus, bool) {
	i := slices.Index(helpStatusNames[:], name)
	return HelpStatus(max(i, 0)), i > 0
}

// helpRow is the row of spaceHelp: the status and the ready JSON of the fields
// that the entry does not have.
type helpRow struct {
	status HelpStatus
	json   []byte
}

func (h helpRow) encode() []byte { return append([]byte{byte(h.status)}, h.json...) }

func decodeHelpRow(row []byte) (helpRow, error) {
	if len(row) < 1 || row[0] < byte(HelpOpen) || row[0] > byte(HelpClosed) {
		return helpRow{}, fmt.Errorf("%w: help row", ErrCorrupt)
	}
	return helpRow{status: HelpStatus(row[0]), json: row[1:]}, nil
}

func (tx *txn) help(seq uint64) helpRow {
	h, ok := read(tx, seqKey(spaceHelp, seq), decodeHelpRow)
	if !ok {
		tx.must(fmt.Errorf("%w: request for help %d is missing", ErrCorrupt, seq))
	}
	return h
}

func (tx *txn) putHelp(seq uint64, h helpRow) {
	tx.keep(seqKey(spaceHelp, seq), h.encode())
}

// AppendHelp appends the request's JSON to dst: the entry, its own four texts and
// its state. It returns ErrNotFound when the entry is no request for human help.
func (v *View) AppendHelp(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendHelps(dst, []uint64{seq})
}

func (v *View) appendHelp(dst []byte, seq uint64, entry, state []byte) ([]byte, error) {
	if state == nil {
		return dst, ErrNotFound
	}
	h, err := decodeHelpRow(state)
	if err != nil {
		return dst, err
	}
	dst, _, err = v.appendOpenEntry(dst, seq, entry)
	if err != nil {
		return dst, err
	}
	dst = append(dst, ',')
	dst = append(dst, h.json...)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, h.status.String()...)
	return append(dst, `"}`...), nil
}

// HelpQuery selects requests for human help. Zero values select everything.
type HelpQuery struct {
	Status   HelpStatus
	AgentKey string // by this agent (text.Fold)
	Q        string // holding all of these words, the last one as a prefix
	Limit    int    // at most this many; 0: DefaultList; at most MaxList
	Before   uint64 // seq < Before; 0: from the newest
	Work     *int   // grows by the steps that the search takes; nil: not counted
}

// ListHelp returns the seqs of the requests that match q, newest first, and the
// Before of the next page; 0 on the last page. A page of requests of one status may be
// short, or even empty, and yet not be the last page.
func (v *View) ListHelp(q HelpQuery) (seqs []uint64, next uint64, err error) {
	search, some := searchOf(TypeHelp, q.AgentKey, q.Q)
	if !some {
		return nil, 0, nil
	}
	search.Before, search.Limit, search.Work = q.Before, pageLimit(q.Limit), q.Work
	if q.Status == 0 {
		seqs, next, err = v.search(search)
	} else {
		seqs, next, err = v.filter(search, spaceHelp, nil, func(row []byte) (bool, error) {
			h, err := decodeHelpRow(row)
			return h.status == q.Status, err
		})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list requests for help: %w", err)
	}
	return seqs, next, nil
}
