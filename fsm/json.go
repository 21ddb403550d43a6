package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// AppendSummary appends an entry's summary as home shows it, with at most maxBody
// code points of the body: id, agent, channel, kind, title, body, replyTo,
// replies and createdAt; of one that relates to another in another way, supersedes and
// relation; of one that its author has taken back or corrected, status. A title that
// the body begins with is empty. With no code points of the body both are.
func (v *View) AppendSummary(dst []byte, seq uint64, maxBody int) ([]byte, error) {
	row, err := v.rowKept(seq)
	if err != nil {
		return dst, err
	}
	return v.appendSummary(dst, seq, maxBody, row)
}

// AppendOriginal is AppendSummary for moderators: of a hidden entry it shows what its
// author wrote.
func (v *View) AppendOriginal(dst []byte, seq uint64, maxBody int) ([]byte, error) {
	err := v.originalRow(seq, func(row []byte) (err error) {
		dst, err = v.appendSummary(dst, seq, maxBody, row)
		return err
	})
	return dst, err
}

func (v *View) appendSummary(dst []byte, seq uint64, maxBody int, row []byte) ([]byte, error) {
	s, err := summaryOf(row)
	if err != nil {
		return dst, err
	}
	e := Meta{Seq: seq, Relation: command.Relation(row[entryRowRelation])}
	if e.CreatedAt, err = createdAtOf(row); err != nil {
		return dst, err
	}
	if err := v.addCounts(&e); err != nil {
		return dst, err
	}
	dst = append(append(dst, `{"id":`...), s.id...)
	dst = append(append(dst, `,"agent":`...), s.agent...)
	dst = append(append(dst, `,"channel":`...), s.channel...)
	dst = append(append(dst, `,"kind":`...), s.kind...)
	dst = append(dst, `,"title":`...)
	switch said := bytes.HasPrefix(s.body, s.title[:len(s.title)-1]); {
	case maxBody == 0:
		dst = append(dst, `"","body":""`...)
	case said:
		dst = appendCut(append(dst, `"","body":`...), s.body, maxBody)
	default:
		dst = appendCut(append(append(dst, s.title...), `,"body":`...), s.body, maxBody)
	}
	switch e.Relation {
	case command.RelationNone:
		dst = append(dst, `,"replyTo":null`...)
	case command.RelationReply:
		dst = append(append(dst, `,"replyTo":`...), s.supersedes...)
	default:
		dst = append(append(dst, `,"replyTo":null,"supersedes":`...), s.supersedes...)
		dst = append(append(append(dst, `,"relation":"`...), e.Relation.String()...), '"')
	}
	dst = appendInt(append(dst, `,"replies":`...), int64(e.Replies))
	dst = appendInt(append(dst, `,"createdAt":`...), e.CreatedAt)
	if e.Status != "" {
		dst = append(append(append(dst, `,"status":"`...), e.Status...), '"')
	}
	return append(dst, '}'), nil
}

// AppendMention appends what home shows of an entry whose text it has shown before: id,
// agent and createdAt.
func (v *View) AppendMention(dst []byte, seq uint64) ([]byte, error) {
	start := len(dst)
	err := v.row(seq, func(row []byte) error {
		s, err := summaryOf(row)
		if err != nil {
			return err
		}
		e, err := decodeEntryRow(seq, row)
		dst = append(append(dst, `{"id":`...), s.id...)
		dst = append(append(dst, `,"agent":`...), s.agent...)
		dst = append(appendInt(append(dst, `,"createdAt":`...), e.CreatedAt), '}')
		return err
	})
	if err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// AppendJobSummary appends what home shows of a job: id, agent, title and status; to
// who claimed it, when the claim expires, and that it has.
func (v *View) AppendJobSummary(dst []byte, seq uint64, expiry bool) ([]byte, error) {
	job, ok, err := load(v.snap, seqKey(spaceJob, seq), decodeJobRow)
	if err != nil {
		return dst, err
	}
	if !ok {
		return dst, ErrNotFound
	}
	start := len(dst)
	err = v.row(seq, func(row []byte) error {
		s, err := summaryOf(row)
		if err != nil {
			return err
		}
		dst = append(append(dst, `{"id":`...), s.id...)
		dst = append(append(dst, `,"agent":`...), s.agent...)
		dst = append(append(dst, `,"title":`...), s.title...)
		return nil
	})
	if err != nil {
		return dst[:start], err
	}
	status := job.at(v.head.now).status.String()
	if expiry && status != JobClaimed.String() {
		status = "expired"
	}
	dst = append(append(append(dst, `,"status":"`...), status...), '"')
	if expiry {
		dst = appendInt(append(dst, `,"claimExpiresAt":`...), job.expires)
	}
	return append(dst, '}'), nil
}

// agentOf returns the author of an entry as it is spelled there.
func (v *View) agentOf(seq uint64) (name string, err error) {
	err = v.row(seq, func(row []byte) error {
		s, err := summaryOf(row)
		if err != nil {
			return err
		}
		return json.Unmarshal(s.agent, &name)
	})
	return name, err
}

// summary holds fields of an entry's JSON, encoded as they are there.
type summary struct {
	id, kind, channel, agent, title, body []byte
	supersedes                            []byte // the id of what it relates to; nil: nothing
}

// summaryOf takes fields out of an entry's row, without looking at the rest.
func summaryOf(row []byte) (s summary, err error) {
	rest, err := entryJSON(row)
	if err != nil {
		return s, err
	}
	whole := rest
	fields := [...]*[]byte{&s.id, &s.kind, &s.channel, &s.agent, &s.title, &s.body}
	for i, name := range [...]string{`{"id":`, `,"kind":`, `,"channel":`, `,"agent":`, `,"title":`, `,"body":`} {
		var found bool
		if rest, found = bytes.CutPrefix(rest, []byte(name)); !found {
			return s, fmt.Errorf("%w: entry without %s", ErrCorrupt, name)
		}
		end := stringEnd(rest)
		if end < 0 {
			return s, fmt.Errorf("%w: entry with an open %s", ErrCorrupt, name)
		}
		*fields[i], rest = rest[:end], rest[end:]
	}
	if command.Relation(row[entryRowRelation]) != command.RelationNone {
		// A text cannot hold this: its quotation marks are escaped.
		const target = `,"supersedes":`
		at := bytes.LastIndex(whole, []byte(target))
		if at < 0 {
			return s, fmt.Errorf("%w: relation without a target", ErrCorrupt)
		}
		rest = whole[at+len(target):]
		end := stringEnd(rest)
		if end < 0 {
			return s, fmt.Errorf("%w: relation without a target", ErrCorrupt)
		}
		s.supersedes = rest[:end]
	}
	return s, nil
}

// stringEnd returns the length of the JSON string that b begins with; -1 when
// there is none.
func stringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for end := 1; ; end++ {
		quote := bytes.IndexByte(b[end:], '"')
		if quote < 0 {
			return -1
		}
		end += quote
		escapes := end - len(bytes.TrimRight(b[:end], `\`))
		if escapes%2 == 0 {
			return end + 1
		}
	}
}

// appendCut appends a JSON string, of its text at most limit code points.
func appendCut(dst, quoted []byte, limit int) []byte {
	if len(quoted) <= limit {
		return append(dst, quoted...)
	}
	text := quoted[1 : len(quoted)-1]
	i := 0
	for ; i < len(text) && limit > 0; limit-- {
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
	dst = append(append(dst, '"'), text[:i]...)
	if i < len(text) {
		dst = append(dst, "…"...)
	}
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, the way encoding/json does without
// HTML escaping.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscaped(dst, b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

// appendEscaped appends an ASCII character that must be escaped in a JSON string.
func appendEscaped(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }
