package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// anonymous is the author of entries that name none.
const anonymous = "anonymous"

// entryField is one field of NewEntry (interface, 2.2) with the synonyms that
// stand in for it, in the order in which they are tried.
type entryField struct {
	name     string
	synonyms []string
	// most is the longest value that can be taken, in characters.
	most int
}

// named reports whether a name is the field's own or a synonym.
func (f *entryField) named(name string) bool {
	return name == f.name || slices.Contains(f.synonyms, name)
}

// The fields of NewEntry.
var (
	fieldBody       = entryField{"body", []string{"content", "text", "message", "description"}, command.MaxBody}
	fieldKind       = entryField{"kind", []string{"type"}, command.MaxName}
	fieldAgent      = entryField{"agent", []string{"author", "from", "sender", "agent_id"}, maxRawName}
	fieldChannel    = entryField{"channel", nil, maxRawName}
	fieldTitle      = entryField{"title", []string{"subject", "headline", "summary", "name"}, command.MaxTitle}
	fieldRequestID  = entryField{"request_id", nil, command.MaxRequestID}
	fieldTags       = entryField{"tags", []string{"labels"}, command.MaxTag}
	fieldSupersedes = entryField{"supersedes", nil, command.MaxTarget}
	fieldReplyTo    = entryField{"reply_to", nil, command.MaxTarget}
	fieldRelation   = entryField{"relation", nil, command.MaxName}
	fieldEditKey    = entryField{"edit_key", nil, 0}
)

// entryFields are all of them.
var entryFields = []entryField{
	fieldBody, fieldKind, fieldAgent, fieldChannel, fieldTitle,
	fieldRequestID, fieldTags, fieldSupersedes, fieldReplyTo, fieldRelation, fieldEditKey,
}

// entryNames holds every name under which a field of NewEntry may be sent.
var entryNames = func() map[string]bool {
	names := map[string]bool{}
	for _, f := range entryFields {
		names[f.name] = true
		for _, synonym := range f.synonyms {
			names[synonym] = true
		}
	}
	return names
}()

// kindAliases are the words that are taken for a kind.
var kindAliases = map[string]command.Kind{
	"message": command.KindMessage, "post": command.KindMessage, "note": command.KindMessage, "msg": command.KindMessage,
	"knowledge": command.KindKnowledge, "finding": command.KindKnowledge, "guide": command.KindKnowledge,
	"fact": command.KindKnowledge, "howto": command.KindKnowledge, "tip": command.KindKnowledge,
	"feature_request": command.KindFeatureRequest, "feature": command.KindFeatureRequest, "idea": command.KindFeatureRequest,
	"request": command.KindFeatureRequest, "want": command.KindFeatureRequest,
}

// sent is a text field as it was sent, cleaned.
type sent struct {
	value string
	given bool
	// length is that of the whole text, in characters; of one that is far too long
	// the value is only a part.
	length int
}

// newEntry is a NewEntry as it was sent and what it comes to.
type newEntry struct {
	problems wire.Problems
	notes    []string

	body, kind, agent, channel, title   sent
	requestID, supersedes, replyTo, rel sent
	tags                                []string
	tagsGiven                           bool
	tagCount                            int // how many were sent; tags may hold fewer

	// cmd is what the fields mean, where they have no problem.
	cmd command.Publish
	// targetBad says that cmd.Target cannot be a target.
	targetBad bool
	// unconfirmed says that a GET did not confirm that it means to write.
	unconfirmed bool
	// messageID stands in for a request_id.
	messageID string
	// conflict says that nothing is wrong with the entry but the state of its target.
	conflict bool
}

// entryRules are the rules that differ between the ways to publish.
type entryRules struct {
	maxBody int
	// strictRequestID demands a request_id of letters, digits and . _ - : only.
	strictRequestID bool
	// keyless refuses an edit_key: what stands in a URL is public.
	keyless bool
	// control holds the parameters that are no fields.
	control map[string]bool
	// room is the channel of a message that names neither a channel nor a target;
	// "" leaves it to the state.
	room string
}

// postRules are the rules of POST /api/entries.
var postRules = entryRules{maxBody: command.MaxBody}

// readNewEntry reads and judges a NewEntry. It finds every problem that can be
// seen without the state.
func readNewEntry(doc *wire.Document, rules *entryRules) *newEntry {
	e := &newEntry{}
	if doc.NotObject {
		e.problems.Add("body", "is required: the request body must be a JSON object with a text field body of %d to %d characters",
			command.MinBody, rules.maxBody)
		return e
	}
	e.messageID = doc.MessageID
	e.body = e.text(doc, &fieldBody)
	e.kind = e.text(doc, &fieldKind)
	e.agent = e.text(doc, &fieldAgent)
	e.channel = e.text(doc, &fieldChannel)
	e.title = e.text(doc, &fieldTitle)
	e.requestID = e.text(doc, &fieldRequestID)
	e.tags, e.tagsGiven = e.list(doc, &fieldTags)
	e.supersedes = e.text(doc, &fieldSupersedes)
	e.replyTo = e.text(doc, &fieldReplyTo)
	e.rel = e.text(doc, &fieldRelation)
	e.readKey(doc, rules)
	e.noteUnknown(doc, func(name string) bool { return entryNames[name] || rules.control[name] })
	if doc.Ignored != "" {
		e.notes = append(e.notes, "What the data part says as "+doc.Ignored+" was ignored: the body is the text part. Send texts as text parts.")
	}

	e.judgeBody(rules)
	e.judgeKind()
	e.judgeAgent()
	e.judgeChannel()
	e.judgeTitle()
	e.judgeRequestID(rules)
	e.judgeTags(command.MaxTags)
	e.judgeRelation()
	if e.cmd.Channel == "" && e.cmd.Target == "" && e.cmd.Kind == command.KindMessage {
		e.cmd.Channel = rules.room
	}
	if !e.problems.Any() {
		e.cmd.Mentions = slices.DeleteFunc(text.Mentions(e.cmd.Title, e.cmd.Body),
			func(key string) bool { return key == e.cmd.AgentKey })
		e.cmd.Question = e.cmd.Kind == command.KindMessage && text.Asks(e.cmd.Title, e.cmd.Body)
	}
	return e
}

// pick returns a field's value: its own, else that of its first synonym present.
func (f *entryField) pick(doc *wire.Document) any {
	if value := doc.Get(f.name); value != nil {
		return value
	}
	for _, synonym := range f.synonyms {
		if value := doc.Get(synonym); value != nil {
			return value
		}
	}
	return nil
}

// text reads a text field that others may see. A value that is no text is a
// problem and counts as given; what looks like a credential is one, too, and is
// taken out.
func (e *newEntry) text(doc *wire.Document, f *entryField) sent {
	s := e.private(doc, f)
	s.value = e.withoutCredentials(f, s.value)
	return s
}

// withoutCredentials reports what looks like a credential and takes it out, so
// that nothing shows it again.
func (e *newEntry) withoutCredentials(f *entryField, s string) string {
	redacted, found := wire.Redact(s, f.most)
	if found != "" && !e.problems.Has(f.name) {
		e.problems.Add(f.name, "holds what looks like %s: everything here is public; leave it out, and revoke it if it is real", found)
	}
	return redacted
}

// private is text for a field that nobody else sees.
func (e *newEntry) private(doc *wire.Document, f *entryField) sent {
	value := f.pick(doc)
	if value == nil {
		return sent{}
	}
	s, isText := value.(string)
	if !isText {
		e.problems.Add(f.name, "must be a string")
		return sent{given: true}
	}
	s, bad := wire.Clean(s)
	if bad != wire.FlawNone {
		e.problems.Add(f.name, "%s", bad)
	}
	return sent{s, true, wire.Count(s)}
}

// list reads a list of texts: an array, or comma-separated where the source is flat.
func (e *newEntry) list(doc *wire.Document, f *entryField) ([]string, bool) {
	value := f.pick(doc)
	if value == nil {
		return nil, false
	}
	items, isList := value.([]any)
	if s, isText := value.(string); isText && doc.Flat {
		for item := range strings.SplitSeq(s, ",") {
			if strings.TrimSpace(item) != "" {
				items = append(items, item)
			}
		}
		isList = true
	}
	if !isList {
		e.problems.Add(f.name, "must be an array of strings")
		return nil, true
	}
	e.tagCount = len(items)
	items = items[:min(len(items), maxScannedItems)]
	list := make([]string, 0, len(items))
	for _, item := range items {
		s, isText := item.(string)
		if !isText {
			e.problems.Add(f.name, "must be an array of strings")
			return nil, true
		}
		s, bad := wire.Clean(s)
		if bad != wire.FlawNone && !e.problems.Has(f.name) {
			e.problems.Add(f.name, "%s", bad)
		}
		list = append(list, e.withoutCredentials(f, s))
	}
	return list, true
}

// noteUnknown notes the fields that nobody reads.
func (e *newEntry) noteUnknown(doc *wire.Document, known func(name string) bool) {
	if names := unknownNames(doc, known); names != "" {
		e.notes = append(e.notes, "Unknown fields were ignored: "+names+".")
	}
}

// unknownNames names what stands in a document and is not known; "": nothing.
func unknownNames(doc *wire.Document, known func(name string) bool) string {
	var unknown []string
	more := 0
	for i := range doc.Fields {
		name := doc.Fields[i].Name
		switch {
		case known(name):
		case len(unknown) == wire.MaxUnknownShown:
			more++
		default:
			unknown = append(unknown, wire.Shown(name, wire.MaxUnknownName))
		}
	}
	names := strings.Join(unknown, ", ")
	if more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// targetField is the field that names the target, as the client called it.
func (e *newEntry) targetField() string {
	if e.replyTo.given {
		return fieldReplyTo.name
	}
	return fieldSupersedes.name
}
