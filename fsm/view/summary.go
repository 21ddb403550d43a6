package view

import (
	"bytes"
	"cmp"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxSummaryTitle is the number of code points of a title in a summary.
const MaxSummaryTitle = 80

// appendCut appends a JSON string, cut to limit code points, at least 1, with an ellipsis.
func appendCut(dst, quoted []byte, limit int) []byte {
	if len(quoted) <= limit {
		return append(dst, quoted...)
	}
	text := quoted[1 : len(quoted)-1]
	i, last := 0, 0 // last is the start of the code point before i
	for ; i < len(text) && limit > 0; limit-- {
		last = i
		switch {
		case text[i] == '\\' && text[i+1] == 'u':
			i += len(`\u0000`)
		case text[i] == '\\':
			i += len(`\n`)
		case text[i] < utf8.RuneSelf:
			i++
		default:
			_, size := utf8.DecodeRune(text[i:])
			i += size
		}
	}
	if i == len(text) {
		return append(dst, quoted...)
	}
	dst = append(append(dst, '"'), text[:last]...)
	return append(dst, "…\""...)
}

// AppendSummary appends an entry's summary as home shows it. An entry that corrects,
// retracts or follows up another also has supersedes and relation; a corrected or retracted
// one has status. The title has at most MaxSummaryTitle code points, the body maxBody. With
// distinct, the body is empty if it equals the title.
func (v *View) AppendSummary(dst []byte, seq uint64, maxBody int, distinct bool) ([]byte, error) {
	err := v.row(seq, func(row []byte) (err error) {
		dst, err = v.appendSummary(dst, seq, maxBody, distinct, row)
		return err
	})
	return dst, err
}

// AppendOriginal is AppendSummary with the texts of a hidden entry, for moderators.
func (v *View) AppendOriginal(dst []byte, seq uint64, maxBody int) ([]byte, error) {
	err := v.originalRow(seq, func(row []byte) (err error) {
		dst, err = v.appendSummary(dst, seq, maxBody, false, row)
		return err
	})
	return dst, err
}

// AppendHidden is AppendSummary with the texts of a hidden entry and why it is hidden, for its author.
func (v *View) AppendHidden(dst []byte, seq uint64, maxBody int) ([]byte, error) {
	dst, err := v.AppendOriginal(dst, seq, maxBody)
	if err != nil {
		return dst, err
	}
	return v.appendMark(dst, seq)
}

// AppendOwn is AppendEntry for the agent that the edit_key with a hash belongs to: a hidden entry that
// it wrote by key has its texts.
func (v *View) AppendOwn(dst []byte, seq uint64, key []byte) ([]byte, error) {
	var e state.EntryRow
	row, err := v.storedRow(seq)
	if err == nil {
		e, err = state.DecodeEntryRow(seq, row)
	}
	if err != nil {
		return dst, err
	}
	is, err := v.Visibility(seq)
	if err != nil || is != Hidden || e.Strength < command.ByKey {
		return v.AppendEntry(dst, seq)
	}
	if own, err := v.HasKey(e.AgentKey, key); err != nil || !own {
		return v.AppendEntry(dst, seq)
	}
	err = v.originalRow(seq, func(row []byte) (err error) {
		dst, err = v.appendEntry(dst, seq, row)
		return err
	})
	if err != nil {
		return dst, err
	}
	return v.appendMark(dst, seq)
}

// appendMark adds the member hidden of a stub to the JSON of its entry, which dst ends with.
func (v *View) appendMark(dst []byte, seq uint64) ([]byte, error) {
	err := v.outline(seq, func(o *state.Outline) error {
		if at := bytes.LastIndex(o.JSON, []byte(`,"hidden":{`)); at >= 0 {
			dst = append(append(dst[:len(dst)-1], o.JSON[at:]...), '}')
		}
		return nil
	})
	return dst, err
}

func (v *View) appendSummary(dst []byte, seq uint64, maxBody int, distinct bool, row []byte) ([]byte, error) {
	o, err := state.OutlineOf(row)
	if err != nil {
		return dst, err
	}
	e := state.Meta{Seq: seq}
	if err := v.addCounts(&e); err != nil {
		return dst, err
	}
	dst = state.AppendID(append(dst, `{"id":"`...), o.Type, seq)
	dst = append(append(dst, `","agent":`...), o.Part(state.PartAgent)...)
	dst = append(append(dst, `,"channel":`...), o.Part(state.PartChannel)...)
	dst = append(append(append(dst, `,"kind":"`...), o.Kind.String()...), `","title":`...)
	title := len(dst)
	dst = appendCut(dst, o.Part(state.PartTitle), MaxSummaryTitle)
	if body := o.Part(state.PartBody); maxBody == 0 || distinct && bytes.Equal(dst[title:], body) {
		dst = append(dst, `,"body":""`...)
	} else {
		dst = appendCut(append(dst, `,"body":`...), body, maxBody)
	}
	switch o.Relation {
	case command.RelationNone:
		dst = append(dst, `,"replyTo":null`...)
	case command.RelationReply:
		dst = append(state.AppendID(append(dst, `,"replyTo":"`...), o.ParentType, o.Parent), '"')
	default:
		dst = state.AppendID(append(dst, `,"replyTo":null,"supersedes":"`...), o.ParentType, o.Parent)
		dst = append(append(append(dst, `","relation":"`...), o.Relation.String()...), '"')
	}
	dst = state.AppendInt(append(dst, `,"replies":`...), int64(e.Replies))
	dst = state.AppendInt(append(dst, `,"createdAt":`...), o.CreatedAt)
	if e.Status != "" {
		dst = append(append(append(dst, `,"status":"`...), e.Status...), '"')
	}
	return append(dst, '}'), nil
}

// AppendMention appends the short form of an entry that home has shown before.
func (v *View) AppendMention(dst []byte, seq uint64) ([]byte, error) {
	err := v.outline(seq, func(o *state.Outline) error {
		dst = state.AppendID(append(dst, `{"id":"`...), o.Type, seq)
		dst = append(append(dst, `","agent":`...), o.Part(state.PartAgent)...)
		dst = append(state.AppendInt(append(dst, `,"createdAt":`...), o.CreatedAt), '}')
		return nil
	})
	return dst, err
}

// AppendJobSummary appends the summary of a job for home: id, agent, title and status. For the
// claimant it has the end of the claim, too.
func (v *View) AppendJobSummary(dst []byte, seq uint64, expiry bool) ([]byte, error) {
	job, ok, err := state.Load(v.snap, state.SeqKey(state.SpaceJob, seq), state.Decode[state.JobRow])
	if err != nil || !ok {
		return dst, cmp.Or(err, state.ErrNotFound)
	}
	err = v.outline(seq, func(o *state.Outline) error {
		dst = state.AppendID(append(dst, `{"id":"`...), o.Type, seq)
		dst = append(append(dst, `","agent":`...), o.Part(state.PartAgent)...)
		dst = append(append(dst, `,"title":`...), o.Part(state.PartTitle)...)
		return nil
	})
	if err != nil {
		return dst, err
	}
	status := job.At(v.at.Head.Now).Status.String()
	if expiry && status != state.JobClaimed.String() {
		status = "expired"
	}
	dst = append(append(append(dst, `,"status":"`...), status...), '"')
	if expiry {
		dst = state.AppendInt(append(dst, `,"claimExpiresAt":`...), job.Expires)
	}
	return append(dst, '}'), nil
}
