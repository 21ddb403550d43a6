package wire

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// Synonym is a field, or a parameter, with the other names under which it is taken.
type Synonym struct {
	Field string
	Names []string
}

// Synonyms is the table of other names, for every surface. Documents and rejections use the field's
// own name. If several names of a field are in one request, its own name wins, then the order here.
// An operation's own field is not a synonym there.
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

// longestName is more than the longest name of a field, in any spelling, in bytes.
const longestName = 64

// Means returns the field, among those that are taken, that a name stands for, and the rank of the
// name among that field's names. It returns "" for an unknown name.
func Means(name string, takes []string) (field string, rank int) {
	if slices.Contains(takes, name) {
		return name, 0
	}
	if len(name) > longestName {
		return "", 0
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

// Near suggests the field, among those that are taken, that an unknown name stands for: the one with
// the nearest name or synonym. It returns "" if no name is near.
func Near(name string, takes []string) string {
	names, fields := slices.Clone(takes), slices.Clone(takes)
	for _, s := range Synonyms {
		if slices.Contains(takes, s.Field) {
			for _, other := range s.Names {
				names, fields = append(names, other), append(fields, s.Field)
			}
		}
	}
	at := slices.Index(names, text.Nearest(name, names))
	if at < 0 {
		return ""
	}
	return fields[at]
}

// Canonical renames the fields of a document to their own names. It returns the unknown fields, and
// those that lost to another name of the same field.
func (d *Document) Canonical(takes []string) (unknown, lost []Field) {
	kept := make([]Field, 0, min(len(d.Fields), len(takes)))
	as := map[string]string{}
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
	d.Fields, d.SentAs = kept, as
	return unknown, lost
}

// Word returns a value that is one of a few words in the form in which these are written:
// in small letters, with underscores. It is empty if the value is no text.
func Word(value any) string {
	s, _ := value.(string)
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", "_")
}

// kindQuestion is a kind that means a message: the text itself shows that it asks.
const kindQuestion = "question"

const questionNote = "kind question was read as message: a message with a sentence that ends in ? counts as a question."

// kinds are the kinds of entries by their synonyms.
var kinds = map[string]command.Kind{
	"message": command.KindMessage, "post": command.KindMessage, "note": command.KindMessage, "msg": command.KindMessage,
	kindQuestion: command.KindMessage,
	"knowledge":  command.KindKnowledge, "finding": command.KindKnowledge, "guide": command.KindKnowledge,
	"fact": command.KindKnowledge, "howto": command.KindKnowledge, "tip": command.KindKnowledge,
	"feature_request": command.KindFeatureRequest, "feature": command.KindFeatureRequest, "idea": command.KindFeatureRequest,
	"request": command.KindFeatureRequest, "want": command.KindFeatureRequest,
}

// ParseKind reads the kind of an entry. An unknown kind is a problem, and KindMessage. The
// note is empty if the name of the kind needs no explanation.
func ParseKind(s string) (kind command.Kind, note, problem string) {
	s = Word(s)
	kind, known := kinds[s]
	switch {
	case known && s == kindQuestion:
		note = questionNote
	case !known:
		kind, problem = command.KindMessage, "must be message, knowledge or feature_request"
	}
	return kind, note, problem
}
