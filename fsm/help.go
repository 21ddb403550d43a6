package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

const (
	// helpChannel and helpTag are where requests for human help are filed.
	helpChannel = "human-help"
	helpTag     = "human-help"
	// helpTitle is put before the goal in the title.
	helpTitle = "Human help: "
)

func (tx *txn) applyAskHuman(c *command.AskHuman) command.Result {
	content := func() contentSum {
		return hashContent([]string{c.Agent, c.Goal, c.Action, c.Context, c.Bounds}, c.Tags)
	}
	w := tx.writer(c.Signature())
	return tx.once(command.OpAskHuman, w, content, noRules, func() uint64 {
		tags := []string{helpTag}
		for _, tag := range c.Tags {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
		title := cutText(helpTitle+oneLine.Replace(c.Goal), command.MaxTitle)
		seq := tx.publish(TypeHelp, entryBy(&c.Author, helpChannel, title, helpBody(c), tags...), w, entryRow{})
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
	case e.Relation == command.RelationReply && e.AgentKey != request.AgentKey && h.status == HelpOpen:
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

// helpRow is the row of spaceHelp: the status and the ready JSON of the fields
// that the entry does not have.
type helpRow struct {
	status HelpStatus
	json   []byte
}

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
	tx.keep(seqKey(spaceHelp, seq), append([]byte{byte(h.status)}, h.json...))
}

// HelpStatus returns the state of the request for human help with the given seq;
// false when the entry is none.
func (v *View) HelpStatus(seq uint64) (HelpStatus, bool, error) {
	h, ok, err := load(v.snap, seqKey(spaceHelp, seq), decodeHelpRow)
	return h.status, ok, err
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
	AgentKey string // by this agent (text.Fold)
	Q        string // holding all of these words, the last one as a prefix
	Limit    int    // at most this many; 0: DefaultList; at most MaxList
	Before   uint64 // seq < Before; 0: from the newest
	Work     *int   // grows by the steps that the search takes; nil: nobody counts
}

// ListHelp returns the seqs of the requests that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) ListHelp(q HelpQuery) (seqs []uint64, next uint64, err error) {
	search := index.Query{All: []string{termType + string(rune(TypeHelp))}, Min: 1, Before: q.Before, Limit: pageLimit(q.Limit), Work: q.Work}
	if q.AgentKey != "" {
		search.All = append(search.All, termAgent+q.AgentKey)
	}
	if !addWords(q.Q, &search) {
		return nil, 0, nil
	}
	if seqs, next, err = v.search(search); err != nil {
		return nil, 0, fmt.Errorf("list requests for help: %w", err)
	}
	return seqs, next, nil
}
