package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/fsm/command"
)

// Meta holds the metadata of an entry.
type Meta struct {
	Seq       uint64
	CreatedAt int64 // milliseconds since the epoch
	AgentKey  string
	Channel   string
	Kind      command.Kind
	Type      EntryType
	Relation  command.Relation
	House     bool
	Hidden    bool   // it is shown as a stub
	Parent    uint64 // the entry this one relates to, or 0
	Thread    uint64 // the first entry of the conversation; its own seq at a root
	Previous  uint64 // the entry of the conversation before this one; 0 at a root
	Replies   uint64 // entries that relate to this one with relation reply
	Status    string // set by its author's later entries: corrected, retracted or ""
}

// EntryRow is an entry as it is stored: a head for the state machine and the
// JSON that readers get.
//
//	version1 jsonOffset4 kind1 relation1 flags1 parentType1 places6*4 CreatedAt
//	parent thread previous agentKey channel inbox... json
//
// Numbers are uvarints, texts are preceded by their length. The JSON is the entry without its
// derived fields and without the closing brace, so that reading an entry is copying these bytes and
// adding what came later. The places locate some of its values.
type EntryRow struct {
	Meta
	Strength   command.Strength // of the proof of its author's name
	Question   bool             // a message that asks something, but no job and no request for help
	ParentType EntryType        // of the entry that this one relates to, or 0
	LooksLike  string           // the registered name that its author's looks like; set only while it is published
	Inbox      []string         // the agents whose inboxes have the entry
	Outline    Outline          // set only in a row that was read
}

// The version of an entry's row, and its flags.
const (
	entryRowVersion = 1

	flagHouse    = 1 << 0
	flagAddress  = 1 << 1 // the name is proven by address
	flagJob      = 1 << 2 // the entry is a job
	flagHelp     = 1 << 3 // the entry is a request for human help
	flagQuestion = 1 << 4 // the entry is a message that asks something
	flagKey      = 1 << 5 // the name is proven by key
	flagHidden   = 1 << 6 // the row is a stub

	entryRowPlaces = 1 + 4 + 4                        // offset of the places in a row
	entryRowFixed  = entryRowPlaces + 4*len(Places{}) // length of the fixed part of its head
)

// Part is a value in the JSON of an entry.
type Part int

// The parts, in their order.
const (
	PartChannel Part = iota
	PartAgent
	PartTitle
	PartBody
	PartTags
	parts
)

// partNames are the names of the parts in the JSON.
var partNames = [parts]string{`,"channel":`, `,"agent":`, `,"title":`, `,"body":`, `,"tags":`}

// Places are where the first part's name begins in the JSON of an entry, and where each part ends.
type Places [parts + 1]uint32

// Outline is the part of an entry that can be read without decoding its texts.
type Outline struct {
	Kind       command.Kind
	Relation   command.Relation
	Type       EntryType
	Parent     uint64    // the entry this one relates to, or 0
	ParentType EntryType // of that entry, or 0
	Hidden     bool
	CreatedAt  int64  // milliseconds since the epoch
	JSON       []byte // shares memory with the row
	flags      byte
	places     Places
	rest       []byte // of the head
}

var errEntryRow = fmt.Errorf("%w: entry row", ErrCorrupt)

// EntryJSON returns the JSON of a row, which shares memory with it.
func EntryJSON(row []byte) ([]byte, error) {
	if len(row) < entryRowFixed || row[0] != entryRowVersion {
		return nil, errEntryRow
	}
	offset := binary.LittleEndian.Uint32(row[1:])
	if offset < uint32(entryRowFixed) || uint64(offset) > uint64(len(row)) {
		return nil, errEntryRow
	}
	return row[offset:], nil
}

// ShownAsStored reports whether nothing of an entry stands in other rows: its row is no stub, which
// another explains, and no reply to a job, which may quote the job's title. A list asks this of
// each of its rows, so it reads no more than it needs.
func ShownAsStored(row []byte) bool {
	return len(row) >= entryRowFixed && row[7]&flagHidden == 0 &&
		(EntryType(row[8]) != TypeJob || command.Relation(row[6]) != command.RelationReply)
}

// OutlineOf reads the outline of a row.
func OutlineOf(row []byte) (o Outline, err error) {
	if o.JSON, err = EntryJSON(row); err != nil {
		return o, err
	}
	offset := len(row) - len(o.JSON)
	o.Kind, o.Relation, o.flags, o.ParentType = command.Kind(row[5]), command.Relation(row[6]), row[7], EntryType(row[8])
	o.Hidden, o.Type = o.flags&flagHidden != 0, TypeEntry
	switch {
	case o.flags&flagJob != 0:
		o.Type = TypeJob
	case o.flags&flagHelp != 0:
		o.Type = TypeHelp
	}
	for i := range o.places {
		o.places[i] = binary.LittleEndian.Uint32(row[entryRowPlaces+4*i:])
		if i > 0 && uint64(o.places[i]) < uint64(o.places[i-1])+uint64(len(partNames[i-1])) {
			return o, errEntryRow
		}
	}
	r := RowReader{Rest: row[entryRowFixed:offset]}
	o.CreatedAt, o.Parent = int64(r.Uint()), r.Uint()
	if o.rest = r.Rest; r.Bad || uint64(o.places[parts]) > uint64(len(o.JSON)) {
		return o, errEntryRow
	}
	return o, nil
}

// Part returns the JSON of a part.
func (o *Outline) Part(p Part) []byte {
	return o.JSON[int(o.places[p])+len(partNames[p]) : o.places[p+1]]
}

// Text returns the value of a part that is a text. Unquote knows all escapes that AppendString
// makes.
func (o *Outline) Text(p Part) (string, error) { return strconv.Unquote(string(o.Part(p))) }

// ReplacePart returns a copy of a row with another value of a part, encoded as JSON. The head, which
// has the name of the channel, too, stays as it is.
func ReplacePart(row []byte, p Part, value []byte) ([]byte, error) {
	o, err := OutlineOf(row)
	if err != nil {
		return nil, err
	}
	old := o.Part(p)
	end := len(row) - len(o.JSON) + int(o.places[p+1])
	row = slices.Concat(row[:end-len(old)], value, row[end:])
	for i := p + 1; i <= parts; i++ {
		binary.LittleEndian.PutUint32(row[entryRowPlaces+4*i:], o.places[i]+uint32(len(value))-uint32(len(old)))
	}
	return row, nil
}

// Append adds the row's bytes to dst, given the JSON's source.
func (e *EntryRow) Append(dst []byte, p *command.Publish) []byte {
	start := len(dst)
	return e.appendJSON(e.appendHead(dst), start, p)
}

// appendHead adds what is before the JSON.
func (e *EntryRow) appendHead(dst []byte) []byte {
	start := len(dst)
	flags := Bit(e.House, flagHouse) | Bit(e.Question, flagQuestion) | Bit(e.Hidden, flagHidden) |
		Bit(e.Strength == command.ByAddress, flagAddress) | Bit(e.Strength == command.ByKey, flagKey) |
		Bit(e.Type == TypeJob, flagJob) | Bit(e.Type == TypeHelp, flagHelp)
	dst = append(dst, entryRowVersion, 0, 0, 0, 0, byte(e.Kind), byte(e.Relation), flags, byte(e.ParentType))
	dst = append(dst, make([]byte, 4*len(Places{}))...)
	dst = AppendUints(dst, uint64(e.CreatedAt), e.Parent, e.Thread, e.Previous)
	dst = AppendBlob(AppendBlob(dst, e.AgentKey), e.Channel)
	dst = binary.AppendUvarint(dst, uint64(len(e.Inbox)))
	for _, key := range e.Inbox {
		dst = AppendBlob(dst, key)
	}
	binary.LittleEndian.PutUint32(dst[start+1:], uint32(len(dst)-start))
	return dst
}

// appendJSON writes the fields that never change, in the interface's order, and the places of the
// parts into the head of the row that begins at start.
func (e *EntryRow) appendJSON(dst []byte, start int, p *command.Publish) []byte {
	text := len(dst)
	dst = AppendID(append(dst, `{"id":"`...), e.Type, e.Seq)
	dst = AppendString(append(dst, `","kind":`...), e.Kind.String())
	binary.LittleEndian.PutUint32(dst[start+entryRowPlaces:], uint32(len(dst)-text))
	for part, name := range partNames {
		dst = append(dst, name...)
		if part := Part(part); part == PartTags {
			dst = appendStrings(dst, p.Tags)
		} else {
			dst = AppendString(dst, [...]string{e.Channel, p.Agent, p.Title, p.Body}[part])
		}
		binary.LittleEndian.PutUint32(dst[start+entryRowPlaces+4*(part+1):], uint32(len(dst)-text))
	}
	dst = AppendInt(append(dst, `,"createdAt":`...), e.CreatedAt)
	if e.Relation == command.RelationNone {
		dst = append(dst, `,"supersedes":null,"relation":null`...)
	} else {
		dst = AppendID(append(dst, `,"supersedes":"`...), e.ParentType, e.Parent)
		dst = AppendString(append(dst, `","relation":`...), e.Relation.String())
	}
	dst = strconv.AppendBool(append(dst, `,"nameVerified":`...), e.Verified())
	dst = strconv.AppendBool(append(dst, `,"house":`...), e.House)
	if e.LooksLike != "" {
		dst = AppendString(append(dst, `,"looksLike":`...), e.LooksLike)
	}
	return dst
}

// DecodeEntryRow reads a row. The result shares memory with it in its outline only.
func DecodeEntryRow(seq uint64, row []byte) (EntryRow, error) {
	o, err := OutlineOf(row)
	if err != nil {
		return EntryRow{}, err
	}
	e := EntryRow{ParentType: o.ParentType, Question: o.flags&flagQuestion != 0, Outline: o, Meta: Meta{
		Seq: seq, CreatedAt: o.CreatedAt, Kind: o.Kind, Type: o.Type, Relation: o.Relation, Parent: o.Parent,
		House: o.flags&flagHouse != 0, Hidden: o.Hidden,
	}}
	switch {
	case o.flags&flagKey != 0:
		e.Strength = command.ByKey
	case o.flags&flagAddress != 0:
		e.Strength = command.ByAddress
	}
	r := RowReader{Rest: o.rest}
	e.Thread, e.Previous, e.AgentKey, e.Channel = r.Uint(), r.Uint(), r.Text(), r.Text()
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		e.Inbox = append(e.Inbox, r.Text())
	}
	if err := r.Done("entry row"); err != nil {
		return EntryRow{}, err
	}
	return e, nil
}

// Verified reports whether the author's name is proven.
func (e *EntryRow) Verified() bool { return e.Strength > command.Unproven }

// Waits reports whether the entry waits for an answer until it gets one, see LaterCounts.StillWaits.
func (e *EntryRow) Waits() bool { return e.Question || e.Type == TypeHelp }

// Asks reports whether the entry asks for replies. Its author need not answer these.
func (e *EntryRow) Asks() bool { return e.Waits() || e.Type == TypeJob }

// Answers reports whether the entry answers the one that it relates to: it is a reply
// by another author.
func (e *EntryRow) Answers(target *EntryRow) bool {
	return e.Relation == command.RelationReply && e.AgentKey != target.AgentKey
}

// EntryTexts are the texts of an entry that are searched, and the name of its author.
type EntryTexts struct {
	Agent, Title, Body string
	Tags               []string
}

// Texts returns the searched texts.
func (o *Outline) Texts() (t EntryTexts, err error) {
	var errs [4]error
	t.Agent, errs[0] = o.Text(PartAgent)
	t.Title, errs[1] = o.Text(PartTitle)
	t.Body, errs[2] = o.Text(PartBody)
	t.Tags, errs[3] = o.Tags()
	if err := errors.Join(errs[:]...); err != nil {
		return EntryTexts{}, fmt.Errorf("%w: texts of an entry: %w", ErrCorrupt, err)
	}
	return t, nil
}

// Tags returns the tags.
func (o *Outline) Tags() (tags []string, err error) {
	for rest := string(o.Part(PartTags)); rest != "[]" && rest != "]"; {
		quoted, err := strconv.QuotedPrefix(rest[min(1, len(rest)):]) // behind a bracket or a comma
		if err != nil {
			return nil, err
		}
		tag, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		tags, rest = append(tags, tag), rest[1+len(quoted):]
	}
	return tags, nil
}

// Stub returns the row of a hidden entry: its head, and JSON without the author's texts.
func (e *EntryRow) Stub(at int64, reason string, purged bool) []byte {
	hidden := *e
	hidden.Hidden = true
	row := hidden.appendHead(nil)
	hidden.Strength, hidden.House = command.Unproven, false
	return appendHiddenMark(hidden.appendJSON(row, 0, &command.Publish{}), at, reason, purged)
}

// appendHiddenMark appends the member hidden: the time, the reason, and whether the text is erased.
func appendHiddenMark(dst []byte, at int64, reason string, purged bool) []byte {
	dst = AppendInt(append(dst, `,"hidden":{"at":`...), at)
	dst = AppendString(append(dst, `,"reason":`...), reason)
	if purged {
		dst = append(dst, PurgedMark...)
	}
	return append(dst, '}')
}

// PurgedMark is the part of a stub's JSON that marks an erased entry.
const PurgedMark = `,"purged":true`

// LaterCounts is the row of SpaceCounts.
type LaterCounts struct {
	Total   uint64 // entries that relate to this one and are not hidden
	Replies uint64 // those of them with relation reply
	Listed  uint64 // those of them in the row of SpaceLater
	// Answers counts the replies by other authors that are shown, or that expired while they were shown.
	Answers uint64
	// The seqs of the author's first retraction and newest correction, or 0.
	Retracted, Corrected uint64
}

// Status returns the status that the author gave the entry (decisions, Identity).
func (c LaterCounts) Status() string {
	switch {
	case c.Retracted != 0:
		return "retracted"
	case c.Corrected != 0:
		return "corrected"
	}
	return ""
}

// Fields implements Row.
func (c *LaterCounts) Fields(x *Codec) {
	x.Fields(&c.Total, &c.Replies, &c.Answers, &c.Listed, &c.Retracted, &c.Corrected)
}

// Successors are the items of supersededBy: the row of SpaceLater.
type Successors []Successor

// Successor is an item of supersededBy as JSON.
type Successor struct {
	Seq  uint64 // of its entry
	JSON []byte
}

// Fields implements Row.
func (list *Successors) Fields(c *Codec) {
	List(c, (*[]Successor)(list), func(s *Successor) { c.Fields(&s.Seq, &s.JSON) })
}

// Find returns the index of an item, or the index at which it would be inserted.
func (list Successors) Find(seq uint64) (i int, listed bool) {
	return slices.BinarySearchFunc(list, seq, func(s Successor, seq uint64) int { return cmp.Compare(s.Seq, seq) })
}

// WithoutLast removes the last item that is not in keep.
func (list Successors) WithoutLast(keep ...uint64) Successors {
	for i, one := range slices.Backward(list) {
		if !slices.Contains(keep, one.Seq) {
			return slices.Delete(list, i, i+1)
		}
	}
	return list
}

// AppendJSON appends the items, with commas between them.
func (list Successors) AppendJSON(dst []byte) []byte {
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, list[i].JSON...)
	}
	return dst
}

// SuccessorOf returns the item of an entry by an agent.
func SuccessorOf(e *EntryRow, agent string) Successor {
	dst := AppendID([]byte(`{"id":"`), TypeEntry, e.Seq)
	dst = AppendString(append(dst, `","agent":`...), agent)
	dst = AppendString(append(dst, `,"relation":`...), e.Relation.String())
	dst = AppendInt(append(dst, `,"createdAt":`...), e.CreatedAt)
	dst = strconv.AppendBool(append(dst, `,"nameVerified":`...), e.Verified())
	return Successor{e.Seq, append(dst, '}')}
}

// The classes of index terms. A term is its class followed by a value.
const (
	TermChannel = "channel:"
	TermAgent   = "agent:"
	TermKind    = "kind:"
	TermTag     = "tag:"
	TermParent  = "parent:"    // id of the entry that this one replies to
	TermThread  = "thread:"    // id of the first entry of the conversation, not on that one itself
	TermInbox   = "inbox:"     // agent key of an agent that the entry concerns
	TermType    = "entryType:" // the letter of the id; a plain entry has no such term
	TermWord    = "w:"
)

// Resolve returns the entry with a public id, of any type.
func Resolve(s Reader, id string) (EntryRow, bool) {
	entryType, seq, ok := ParseID(id)
	if !ok {
		return EntryRow{}, false
	}
	e, ok := s.Entry(seq)
	return e, ok && e.Type == entryType
}

// TargetOf returns the target of an entry, and every problem of relating to it. The row is zero
// without a target.
func TargetOf(p *command.Publish, s Reader, w *Writer) (EntryRow, []command.Problem) {
	if p.Relation == command.RelationNone {
		return EntryRow{}, nil
	}
	target, ok := Resolve(s, p.Target)
	if !ok {
		return EntryRow{}, []command.Problem{command.ProblemUnknownTarget}
	}
	if target.Hidden {
		return target, []command.Problem{command.ProblemHidden}
	}
	own := w.Owns(s, &target)
	var problems []command.Problem
	switch retraction := p.Relation == command.RelationRetraction; {
	case own && (retraction || p.Relation == command.RelationCorrection) && !w.mayUndo(&target):
		problems = append(problems, command.ProblemProofRequired)
	case !own && retraction && target.AgentKey == w.AgentKey:
		problems = append(problems, command.ProblemRetractionAnonymous)
	case !own && retraction:
		problems = append(problems, command.ProblemRetractionOther)
	}
	if p.Relation == command.RelationRetraction && target.Type == TypeJob {
		if JobOf(s, target.Seq).At(s.Instant()).Status == JobClaimed {
			problems = append(problems, command.ProblemJobClaimed)
		}
	}
	if p.Erase && own {
		problems = append(problems, w.eraseProblems(s, &target)...)
	}
	return target, problems
}

// eraseProblems returns every problem of a writer that erases an entry of its own.
func (w *Writer) eraseProblems(s Reader, e *EntryRow) (problems []command.Problem) {
	switch {
	case !w.mayUndo(e): // the retraction is rejected already
		return nil
	case w.Strength < command.ByKey:
		return []command.Problem{command.ProblemEraseNoKey}
	case e.Strength < command.ByKey:
		problems = append(problems, command.ProblemEraseUnproven)
	}
	if s.ReportQueue().Open.About(ReportSubject{Entry: e.Seq}) >= 0 {
		problems = append(problems, command.ProblemEraseReported)
	}
	if e.ParentType == TypeJob && e.Relation == command.RelationReply {
		if job := JobOf(s, e.Parent).At(s.Instant()); job.isHeldBy(e.Seq) {
			problems = append(problems, command.ProblemJobClaimed)
		}
	}
	return problems
}
