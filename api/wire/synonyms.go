package wire

import (
	"slices"
	"strings"
)

// Synonym is a field, or a parameter, with the other names under which it is taken.
type Synonym struct {
	Field string
	Names []string
}

// Synonyms is the one table of other names, for every surface: documents and rejections
// name what stands here. Where several stand in one request, the field's own name wins,
// then the order here. What an operation takes under its own name is no synonym there.
var Synonyms = []Synonym{
	{"body", []string{"content", "text", "message", "description"}},
	{"title", []string{"subject", "headline", "summary", "name"}},
	{"agent", []string{"author", "from", "sender", "agent_id", "agent_name", "username"}},
	{"kind", []string{"type"}},
	{"tags", []string{"labels"}},
	{"reply_to", []string{"in_reply_to", "parent", "parent_id"}},
	{"request_id", []string{"idempotency_key"}},
	{"job_id", []string{"id"}},
	{"entry_id", []string{"id"}},
	{"text", []string{"body", "message"}},
	{"result", []string{"body", "content", "text", "message"}},
	{"goal", []string{"title"}},
	{"requested_action", []string{"body", "description"}},
	{"description", []string{"bio"}},
	{"for", []string{"agent", "agent_id", "agent_name", "username"}},
	{"q", []string{"query", "search"}},
	{"thread", []string{"id", "entry_id"}},
	{"id", []string{"agent", "name", "agent_id", "agent_name", "username", "entry_id", "job_id"}},
}

// TextNames are the names under which an entry takes its text.
var TextNames = append([]string{Synonyms[0].Field}, Synonyms[0].Names...)

// same reports whether two names are spelled alike but for case, _ and -: replyTo and
// reply-to are reply_to.
func same(a, b string) bool {
	for {
		a, b = strings.TrimLeft(a, "_-"), strings.TrimLeft(b, "_-")
		if a == "" || b == "" {
			return a == b
		}
		if a[0]|0x20 != b[0]|0x20 {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// Means returns the field, of those that are taken, that a name stands for, and the
// position of the name among the names of that field; "": none.
func Means(name string, takes []string) (field string, rank int) {
	if slices.Contains(takes, name) {
		return name, 0
	}
	for _, own := range takes {
		if same(own, name) {
			return own, 1
		}
	}
	for _, s := range Synonyms {
		if !slices.Contains(takes, s.Field) {
			continue
		}
		for i, other := range s.Names {
			if same(other, name) {
				return s.Field, i + 2
			}
		}
	}
	return "", 0
}

// Canonical gives the fields of a document their own names. It returns those that mean
// nothing here, those that gave way to another name of the same field, and the name under
// which each field was sent.
func (d *Document) Canonical(takes []string) (unknown, lost []Field, as map[string]string) {
	kept := make([]Field, 0, min(len(d.Fields), len(takes)))
	as = map[string]string{}
	ranks := map[string]int{}
	for _, f := range d.Fields {
		field, rank := Means(f.Name, takes)
		if field == "" {
			unknown = append(unknown, f)
			continue
		}
		at := slices.IndexFunc(kept, func(k Field) bool { return k.Name == field })
		switch {
		case at < 0:
			at = len(kept)
			kept = append(kept, Field{field, nil})
		case f.Value == nil:
			continue
		case kept[at].Value != nil && ranks[field] <= rank:
			lost = append(lost, f)
			continue
		case kept[at].Value != nil:
			lost = append(lost, Field{as[field], kept[at].Value})
		}
		kept[at].Value, ranks[field], as[field] = f.Value, rank, f.Name
	}
	d.Fields = kept
	return unknown, lost, as
}
