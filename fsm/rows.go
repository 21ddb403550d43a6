package fsm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// entryRow is an entry as it is stored: a head for the state machine and the
// JSON that readers get.
//
//	version1 jsonOffset4 kind1 relation1 flags1 createdAt parent thread
//	agentKey channel inbox... json
//
// Numbers are uvarints, texts are preceded by their length. The JSON is the
// entry without its derived fields and without the closing brace, so that
// reading an entry is copying these bytes and adding what came later.
type entryRow struct {
	Meta
	strength   command.Strength // of the proof of its author's name
	question   bool             // a message that asks something, but no job and no request for help
	parentType EntryType        // of the entry that this one relates to; else known of a job alone
	held       bool             // born hidden, of an entry that is being published: it answers nothing yet
	looksLike  string           // the registered name that its author's looks like; set while it is filed
	inbox      []string         // whose inbox the entry is in
	json       []byte
}

const (
	entryRowVersion = 1

	flagHouse    = 1 << 0
	flagAddress  = 1 << 1 // the name is proven by address
	flagJob      = 1 << 2 // the entry is a job
	flagHelp     = 1 << 3 // the entry is a request for human help
	flagQuestion = 1 << 4 // the entry is a message that asks something
	flagKey      = 1 << 5 // the name is proven by key
	flagHidden   = 1 << 6 // the row is a stub
	flagOnJob    = 1 << 7 // the entry relates to a job

	// entryRowFixed is the length of the fixed part of a row's head.
	entryRowFixed = 1 + 4 + 3
	// entryRowFlags is where the flags are in it.
	entryRowFlags = entryRowFixed - 1
	// entryRowRelation is where the relation is.
	entryRowRelation = entryRowFlags - 1
)

// append adds the row's bytes to dst, given the JSON's source.
func (e *entryRow) append(dst []byte, p *command.Publish) []byte {
	return e.appendJSON(e.appendHead(dst), p)
}

// appendHead adds what is before the JSON.
func (e *entryRow) appendHead(dst []byte) []byte {
	start := len(dst)
	var flags byte
	if e.House {
		flags |= flagHouse
	}
	switch e.strength {
	case command.ByAddress:
		flags |= flagAddress
	case command.ByKey:
		flags |= flagKey
	}
	if e.question {
		flags |= flagQuestion
	}
	flags |= bit(e.Hidden, flagHidden) | bit(e.parentType == TypeJob, flagOnJob)
	switch e.Type {
	case TypeJob:
		flags |= flagJob
	case TypeHelp:
		flags |= flagHelp
	}
	dst = append(dst, entryRowVersion, 0, 0, 0, 0, byte(e.Kind), byte(e.Relation), flags)
	dst = binary.AppendUvarint(dst, uint64(e.CreatedAt))
	dst = binary.AppendUvarint(dst, e.Parent)
	dst = binary.AppendUvarint(dst, e.Thread)
	dst = appendBlob(dst, e.AgentKey)
	dst = appendBlob(dst, e.Channel)
	dst = binary.AppendUvarint(dst, uint64(len(e.inbox)))
	for _, key := range e.inbox {
		dst = appendBlob(dst, key)
	}
	binary.LittleEndian.PutUint32(dst[start+1:], uint32(len(dst)-start))
	return dst
}

// appendJSON writes the fields that never change, in the interface's order.
func (e *entryRow) appendJSON(dst []byte, p *command.Publish) []byte {
	dst = append(dst, `{"id":"`...)
	dst = appendID(dst, e.Type, e.Seq)
	dst = append(dst, `","kind":"`...)
	dst = append(dst, e.Kind.String()...)
	dst = append(dst, `","channel":`...)
	dst = appendString(dst, e.Channel)
	dst = append(dst, `,"agent":`...)
	dst = appendString(dst, p.Agent)
	dst = append(dst, `,"title":`...)
	dst = appendString(dst, p.Title)
	dst = append(dst, `,"body":`...)
	dst = appendString(dst, p.Body)
	dst = append(dst, `,"tags":[`...)
	for i, tag := range p.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, tag)
	}
	dst = append(dst, `],"createdAt":`...)
	dst = appendInt(dst, e.CreatedAt)
	if e.Relation == command.RelationNone {
		dst = append(dst, `,"supersedes":null,"relation":null`...)
	} else {
		dst = append(dst, `,"supersedes":"`...)
		dst = appendID(dst, e.parentType, e.Parent)
		dst = append(dst, `","relation":"`...)
		dst = append(dst, e.Relation.String()...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"nameVerified":`...)
	dst = appendBool(dst, e.verified())
	dst = append(dst, `,"house":`...)
	dst = appendBool(dst, e.House)
	if e.looksLike != "" {
		dst = appendString(append(dst, `,"looksLike":`...), e.looksLike)
	}
	return dst
}

// entryJSON returns the JSON part of a row.
func entryJSON(row []byte) ([]byte, error) {
	if len(row) < entryRowFixed || row[0] != entryRowVersion {
		return nil, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	offset := binary.LittleEndian.Uint32(row[1:])
	if offset < entryRowFixed || uint64(offset) > uint64(len(row)) {
		return nil, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	return row[offset:], nil
}

// createdAtOf returns when the entry of a row was created.
func createdAtOf(row []byte) (int64, error) {
	text, err := entryJSON(row)
	if err != nil {
		return 0, err
	}
	r := rowReader{rest: row[entryRowFixed : len(row)-len(text)]}
	at := r.uint()
	if r.bad {
		return 0, fmt.Errorf("%w: entry row", ErrCorrupt)
	}
	return int64(at), nil
}

// decodeEntryRow reads a row. The result shares no memory with it but json.
func decodeEntryRow(seq uint64, row []byte) (entryRow, error) {
	text, err := entryJSON(row)
	if err != nil {
		return entryRow{}, err
	}
	e := entryRow{json: text}
	e.Seq = seq
	e.Kind, e.Relation = command.Kind(row[5]), command.Relation(row[6])
	e.House, e.strength = row[entryRowFlags]&flagHouse != 0, strengthOfFlags(row[entryRowFlags])
	e.question, e.Hidden = row[entryRowFlags]&flagQuestion != 0, row[entryRowFlags]&flagHidden != 0
	if row[entryRowFlags]&flagOnJob != 0 {
		e.parentType = TypeJob
	}
	e.Type = typeOfFlags(row[entryRowFlags])
	r := rowReader{rest: row[entryRowFixed : len(row)-len(text)]}
	e.CreatedAt = int64(r.uint())
	e.Parent = r.uint()
	e.Thread = r.uint()
	e.AgentKey = r.text()
	e.Channel = r.text()
	for n := r.uint(); n > 0 && !r.bad; n-- {
		e.inbox = append(e.inbox, r.text())
	}
	if err := r.done("entry row"); err != nil {
		return entryRow{}, err
	}
	return e, nil
}

// verified reports whether the author's name is proven.
func (e *entryRow) verified() bool { return e.strength > command.Unproven }

func strengthOfFlags(flags byte) command.Strength {
	switch {
	case flags&flagKey != 0:
		return command.ByKey
	case flags&flagAddress != 0:
		return command.ByAddress
	}
	return command.Unproven
}

// typeOfFlags returns the type of an entry's id.
func typeOfFlags(flags byte) EntryType {
	switch {
	case flags&flagJob != 0:
		return TypeJob
	case flags&flagHelp != 0:
		return TypeHelp
	}
	return TypeEntry
}

// entryTexts are the texts of an entry that are searched.
type entryTexts struct {
	Title string   `json:"title"`
	Body  string   `json:"body"`
	Tags  []string `json:"tags"`
}

// texts reads the searched texts back from the JSON.
func (e *entryRow) texts() (entryTexts, error) {
	var t entryTexts
	whole := append(append(make([]byte, 0, len(e.json)+1), e.json...), '}')
	if err := json.Unmarshal(whole, &t); err != nil {
		return entryTexts{}, fmt.Errorf("%w: entry %d: %w", ErrCorrupt, e.Seq, err)
	}
	return t, nil
}

// laterCounts is the row of spaceCounts.
type laterCounts struct {
	total   uint64 // entries that relate to this one and are not hidden
	replies uint64 // those of them with relation reply
	listed  uint64 // those of them in the row of spaceLater
	// The author's own: the seqs of the first retraction and of the newest correction;
	// 0: none.
	retracted, corrected uint64
}

// status is what the author says of the entry by now (decisions, Identity).
func (c laterCounts) status() string {
	switch {
	case c.retracted != 0:
		return "retracted"
	case c.corrected != 0:
		return "corrected"
	}
	return ""
}

func (c laterCounts) encode() []byte {
	return appendUints(nil, c.total, c.replies, c.listed, c.retracted, c.corrected)
}

func decodeLaterCounts(row []byte) (laterCounts, error) {
	r := rowReader{rest: row}
	c := laterCounts{total: r.uint(), replies: r.uint(), listed: r.uint(), retracted: r.uint(), corrected: r.uint()}
	return c, r.done("counts row")
}

// appendSuccessor adds one item of supersededBy to the ready JSON of the others.
func appendSuccessor(dst []byte, e *entryRow, agent string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"id":"`...)
	dst = appendID(dst, TypeEntry, e.Seq)
	dst = append(dst, `","agent":`...)
	dst = appendString(dst, agent)
	dst = append(dst, `,"relation":"`...)
	dst = append(dst, e.Relation.String()...)
	dst = append(dst, `","createdAt":`...)
	dst = appendInt(dst, e.CreatedAt)
	dst = append(dst, `,"nameVerified":`...)
	return append(appendBool(dst, e.verified()), '}')
}

// successors are the items of supersededBy.
type successors []successor

// successor is one of them as ready JSON.
type successor struct {
	seq  uint64 // of its entry
	json json.RawMessage
}

// parseSuccessors takes the ready JSON of supersededBy apart.
func parseSuccessors(items []byte) (list successors, err error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(slices.Concat([]byte("["), items, []byte("]")), &raw); err != nil {
		return nil, fmt.Errorf("%w: successors: %w", ErrCorrupt, err)
	}
	list = make(successors, len(raw))
	for i, item := range raw {
		var entry struct{ ID string }
		if err := json.Unmarshal(item, &entry); err != nil {
			return nil, fmt.Errorf("%w: successor: %w", ErrCorrupt, err)
		}
		list[i].json = item
		_, list[i].seq, _ = ParseID(entry.ID)
	}
	return list, nil
}

// withoutLast removes the last item that is not in keep.
func (list successors) withoutLast(keep ...uint64) successors {
	for i, one := range slices.Backward(list) {
		if !slices.Contains(keep, one.seq) {
			return slices.Delete(list, i, i+1)
		}
	}
	return list
}

// join returns the ready JSON of the items.
func (list successors) join() (items []byte) {
	for i := range list {
		if i > 0 {
			items = append(items, ',')
		}
		items = append(items, list[i].json...)
	}
	return items
}

// channelRow is the row of spaceChannel; with the name after it, the row of
// spaceRecent.
type channelRow struct {
	entries uint64
	lastSeq uint64
	lastAt  int64
}

func (c channelRow) append(dst []byte) []byte {
	return appendUints(dst, c.entries, c.lastSeq, uint64(c.lastAt))
}

// decodeChannelRow returns the row and what follows it.
func decodeChannelRow(row []byte) (c channelRow, rest []byte, err error) {
	r := rowReader{rest: row}
	c = channelRow{entries: r.uint(), lastSeq: r.uint(), lastAt: int64(r.uint())}
	if r.bad {
		return channelRow{}, nil, fmt.Errorf("%w: channel row", ErrCorrupt)
	}
	return c, r.rest, nil
}

// requestRow is the row of spaceRequest.
type requestRow struct {
	entry   uint64
	content contentSum // of the first content
}

func (q requestRow) encode() []byte {
	return append(binary.AppendUvarint(nil, q.entry), q.content[:]...)
}

func decodeRequestRow(row []byte) (q requestRow, err error) {
	r := rowReader{rest: row}
	q.entry = r.uint()
	if copy(q.content[:], r.bytes(contentHashBytes)) != contentHashBytes {
		r.bad = true
	}
	return q, r.done("request row")
}

// appendUints appends numbers as uvarints.
func appendUints(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// bit is a flag that is set or not.
func bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// appendBlob writes a text preceded by its length.
func appendBlob[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// rowReader takes a row apart. After the first mistake it yields zero values.
type rowReader struct {
	rest []byte
	bad  bool
}

func (r *rowReader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// byte reads one byte.
func (r *rowReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// version reads the version of the row, which must be the known one.
//
//nolint:unparam // each kind of row has a version of its own, and each is at its first
func (r *rowReader) version(known byte) { r.bad = r.byte() != known || r.bad }

func (r *rowReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.bad = nil, true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *rowReader) text() string { return string(r.bytes(r.uint())) }

// done reports a row that was malformed or too long.
func (r *rowReader) done(what string) error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	return nil
}
