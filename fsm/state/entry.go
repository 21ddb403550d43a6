package state

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/fsm/command"
)

// Meta holds the metadata of an entry.
type Meta struct {
	Seq        uint64
	CreatedAt  int64 // milliseconds since the epoch
	AgentKey   string
	Channel    string
	Kind       command.Kind
	Type       EntryType
	Relation   command.Relation
	House      bool
	Hidden     bool   // it is shown as a stub
	Parent     uint64 // the entry this one relates to, or 0
	Thread     uint64 // the first entry of the conversation; its own seq at a root
	Previous   uint64 // the entry of the conversation before this one; 0 at a root
	Successors uint64 // entries that relate to this one
	Replies    uint64 // those of them with relation reply
	Status     string // set by its author's later entries: corrected, retracted or ""
}

// EntryRow is an entry as it is stored: a head for the state machine and the
// JSON that readers get.
//
//	version1 jsonOffset4 kind1 relation1 flags1 CreatedAt parent thread
//	previous agentKey channel inbox... json
//
// Numbers are uvarints, texts are preceded by their length. The JSON is the
// entry without its derived fields and without the closing brace, so that
// reading an entry is copying these bytes and adding what came later.
type EntryRow struct {
	Meta
	Strength   command.Strength // of the proof of its author's name
	Question   bool             // a message that asks something, but no job and no request for help
	ParentType EntryType        // of the entry that this one relates to; else known of a job alone
	LooksLike  string           // the registered name that its author's looks like; set while it is filed
	Inbox      []string         // whose inbox the entry is in
	JSON       []byte
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
	FlagHidden   = 1 << 6 // the row is a stub
	FlagOnJob    = 1 << 7 // the entry relates to a job

	EntryRowFixed    = 1 + 4 + 3         // length of the fixed part of a row's head
	EntryRowFlags    = EntryRowFixed - 1 // place of the flags
	EntryRowRelation = EntryRowFlags - 1 // place of the relation
)

// Append adds the row's bytes to dst, given the JSON's source.
func (e *EntryRow) Append(dst []byte, p *command.Publish) []byte {
	return e.appendJSON(e.appendHead(dst), p)
}

// appendHead adds what is before the JSON.
func (e *EntryRow) appendHead(dst []byte) []byte {
	start := len(dst)
	flags := Bit(e.House, flagHouse) | Bit(e.Question, flagQuestion) | Bit(e.Hidden, FlagHidden) |
		Bit(e.Strength == command.ByAddress, flagAddress) | Bit(e.Strength == command.ByKey, flagKey) |
		Bit(e.Type == TypeJob, flagJob) | Bit(e.Type == TypeHelp, flagHelp) | Bit(e.ParentType == TypeJob, FlagOnJob)
	dst = append(dst, entryRowVersion, 0, 0, 0, 0, byte(e.Kind), byte(e.Relation), flags)
	dst = AppendUints(dst, uint64(e.CreatedAt), e.Parent, e.Thread, e.Previous)
	dst = AppendBlob(AppendBlob(dst, e.AgentKey), e.Channel)
	dst = binary.AppendUvarint(dst, uint64(len(e.Inbox)))
	for _, key := range e.Inbox {
		dst = AppendBlob(dst, key)
	}
	binary.LittleEndian.PutUint32(dst[start+1:], uint32(len(dst)-start))
	return dst
}

// appendJSON writes the fields that never change, in the interface's order.
func (e *EntryRow) appendJSON(dst []byte, p *command.Publish) []byte {
	dst = AppendID(append(dst, `{"id":"`...), e.Type, e.Seq)
	dst = AppendString(append(dst, `","kind":`...), e.Kind.String())
	dst = AppendString(append(dst, `,"channel":`...), e.Channel)
	dst = AppendString(append(dst, `,"agent":`...), p.Agent)
	dst = AppendString(append(dst, `,"title":`...), p.Title)
	dst = AppendString(append(dst, `,"body":`...), p.Body)
	dst = appendStrings(append(dst, `,"tags":`...), p.Tags)
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

// EntryJSON returns the JSON part of a row.
func EntryJSON(row []byte) ([]byte, error) {
	if len(row) < EntryRowFixed || row[0] != entryRowVersion {
		return nil, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	offset := binary.LittleEndian.Uint32(row[1:])
	if offset < EntryRowFixed || uint64(offset) > uint64(len(row)) {
		return nil, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	return row[offset:], nil
}

// DecodeEntryRow reads a row. The result shares no memory with it but json.
func DecodeEntryRow(seq uint64, row []byte) (EntryRow, error) {
	text, err := EntryJSON(row)
	if err != nil {
		return EntryRow{}, err
	}
	e := EntryRow{JSON: text}
	e.Seq = seq
	e.Kind, e.Relation = command.Kind(row[5]), command.Relation(row[6])
	flags := row[EntryRowFlags]
	e.Type, e.House, e.Question, e.Hidden = TypeOfFlags(flags), flags&flagHouse != 0, flags&flagQuestion != 0, flags&FlagHidden != 0
	switch {
	case flags&flagKey != 0:
		e.Strength = command.ByKey
	case flags&flagAddress != 0:
		e.Strength = command.ByAddress
	}
	if flags&FlagOnJob != 0 {
		e.ParentType = TypeJob
	}
	r := RowReader{Rest: row[EntryRowFixed : len(row)-len(text)]}
	e.CreatedAt, e.Parent, e.Thread, e.Previous = int64(r.Uint()), r.Uint(), r.Uint(), r.Uint()
	e.AgentKey, e.Channel = r.Text(), r.Text()
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		e.Inbox = append(e.Inbox, r.Text())
	}
	if err := r.Done("entry row"); err != nil {
		return EntryRow{}, err
	}
	return e, nil
}

// CreatedAtOf returns when the entry of a row was created.
func CreatedAtOf(row []byte) (int64, error) {
	text, err := EntryJSON(row)
	if err != nil {
		return 0, err
	}
	r := RowReader{Rest: row[EntryRowFixed : len(row)-len(text)]}
	at := r.Uint()
	if r.Bad {
		return 0, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	return int64(at), nil
}

// Verified reports whether the author's name is proven.
func (e *EntryRow) Verified() bool { return e.Strength > command.Unproven }

// TypeOfFlags returns the type of an entry's id.
func TypeOfFlags(flags byte) EntryType {
	switch {
	case flags&flagJob != 0:
		return TypeJob
	case flags&flagHelp != 0:
		return TypeHelp
	}
	return TypeEntry
}

// Waits reports whether the entry waits for an answer until it gets one.
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
	Agent string   `json:"agent"`
	Title string   `json:"title"`
	Body  string   `json:"body"`
	Tags  []string `json:"tags"`
}

// Texts reads the searched texts back from the JSON.
func (e *EntryRow) Texts() (EntryTexts, error) {
	var t EntryTexts
	whole := append(append(make([]byte, 0, len(e.JSON)+1), e.JSON...), '}')
	if err := json.Unmarshal(whole, &t); err != nil {
		return EntryTexts{}, fmt.Errorf("%w: entry %d: %w", ErrCorrupt, e.Seq, err)
	}
	return t, nil
}

// Stub returns the row of a hidden entry: its head, and JSON without the author's texts.
func (e *EntryRow) Stub(at int64, reason string, purged bool) []byte {
	hidden := *e
	hidden.Hidden = true
	row := hidden.appendHead(nil)
	hidden.Strength, hidden.House = command.Unproven, false
	return appendHiddenMark(hidden.appendJSON(row, &command.Publish{}), at, reason, purged)
}

// appendHiddenMark appends when something was hidden, and why, and whether for good.
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
	x.Fields(&c.Total, &c.Replies, &c.Listed, &c.Retracted, &c.Corrected)
}

// Successors are the items of supersededBy: the row of SpaceLater. Rows can be joined.
type Successors []Successor

// Successor is one of them as ready JSON.
type Successor struct {
	Seq  uint64 // of its entry
	JSON []byte
}

// Fields implements Row.
func (list *Successors) Fields(c *Codec) {
	ListRest(c, (*[]Successor)(list), func(s *Successor) { c.Fields(&s.Seq, &s.JSON) })
}

// Find returns the place of an item, or the place for it.
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
	TermType    = "entryType:" // the letter of the id, on what is no plain entry
	TermWord    = "w:"
)
