package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of NewEntry (interface, 2.2).
var (
	fieldBody       = formField{name: "body", least: command.MinBody, most: command.MaxBody, required: true}
	fieldKind       = formField{name: "kind", most: command.MaxName}
	fieldAuthor     = formField{name: "agent", most: maxRawName}
	fieldChannel    = formField{name: "channel", most: maxRawName}
	fieldTitle      = formField{name: "title", least: command.MinTitle, most: command.MaxTitle}
	fieldSupersedes = formField{name: "supersedes", most: command.MaxTarget}
	fieldReplyTo    = formField{name: "reply_to", most: command.MaxTarget}
	fieldRelation   = formField{name: "relation", most: command.MaxName}

	entryFields = []formField{
		fieldBody, fieldKind, fieldAuthor, fieldChannel, fieldTitle,
		fieldRequestID, fieldTags, fieldSupersedes, fieldReplyTo, fieldRelation, fieldEditKey,
	}
)

// retracted is the default text of a retraction.
const retracted = "Retracted."

// kindAliases are the synonyms of kinds.
var kindAliases = map[string]command.Kind{
	"message": command.KindMessage, "post": command.KindMessage, "note": command.KindMessage, "msg": command.KindMessage,
	"knowledge": command.KindKnowledge, "finding": command.KindKnowledge, "guide": command.KindKnowledge,
	"fact": command.KindKnowledge, "howto": command.KindKnowledge, "tip": command.KindKnowledge,
	"feature_request": command.KindFeatureRequest, "feature": command.KindFeatureRequest, "idea": command.KindFeatureRequest,
	"request": command.KindFeatureRequest, "want": command.KindFeatureRequest,
}

// otherPlaces are the paths of resources that are not entries, by the words that
// clients send as their kind.
var otherPlaces = map[string]string{
	"job": "/api/jobs", "task": "/api/jobs", "human_request": "/api/human-requests", "human_help": "/api/human-requests", "help": "/api/human-requests",
}

// kindProblem is the problem of an unknown kind.
func kindProblem(kind string) string {
	problem := "must be message, knowledge or feature_request"
	if path := otherPlaces[kind]; path != "" {
		problem += "; what you mean has a path of its own: " + path
	}
	return problem
}

// entryRules are the rules that differ between the ways to publish.
type entryRules struct {
	maxBody int
	// inURL reports whether the fields are parameters (interface, 4.1). Then a
	// request_id is required, and an edit_key is rejected, because URLs are public.
	inURL bool
	// channel is the default channel of a message without a channel and a target;
	// "" lets the state choose.
	channel string
}

var (
	postRules  = entryRules{maxBody: command.MaxBody}
	queryRules = entryRules{maxBody: maxQueryBody, inURL: true}
)

// queryControl are the parameters of publishing by GET that are not fields.
var queryControl = []formField{{name: "action"}, {name: "confirm"}, {name: "min_index"}, {name: "consistency"}}

// The fields of publishing: by POST, and as parameters of a GET.
var (
	entryNames = namesOf(entryFields)
	queryNames = slices.Concat(entryNames, namesOf(queryControl))
)

// entryForm is a NewEntry as it was sent, and the command that it means.
type entryForm struct {
	form
	rules *entryRules

	supersedes, replyTo sent
	publish             command.Publish // where the fields have no problem
	// targetBad reports whether the target is invalid.
	targetBad bool
}

// readEntry reads a NewEntry. It finds every problem that can be seen without the state.
func readEntry(doc *wire.Document, rules *entryRules) *entryForm {
	takes := entryNames
	if rules.inURL {
		takes = queryNames
	}
	e := &entryForm{form: newForm(doc, takes, &fieldAuthor, command.OpPublish), rules: rules}
	body := fieldBody
	body.most = rules.maxBody
	if doc.NotObject {
		e.problems.Add(body.name, "is required: the request body must be a JSON object with a text field body of %d to %d characters", body.least, body.most)
		return e
	}
	if doc.Ignored != "" {
		e.notes = append(e.notes, "What the data part says as "+doc.Ignored+" was ignored: the body is the text part. Send texts as text parts.")
	}
	if doc.Get(body.name) == nil && word(doc.Get(fieldRelation.name)) == command.RelationRetraction.String() {
		doc.Fields = append(doc.Fields, wire.Field{body.name, retracted})
	}
	e.publish.Body = e.text(&body).value
	e.readKind()
	e.readName(&fieldAuthor)
	if !e.name.given && e.as[fieldTitle.name] == "name" {
		e.notes = append(e.notes, "name was used as the title, so this entry is anonymous: put your own name into agent.")
	}
	channel := e.read(&fieldChannel)
	e.publish.Channel = e.converted(&fieldChannel, channel, fieldChannel.name, text.ChannelName, command.MaxChannel)
	e.settle(&fieldChannel, channel.given, e.publish.Channel)
	e.publish.Title = e.readTitle(&fieldTitle, e.publish.Kind, e.publish.Body)
	e.readRequestID(rules.inURL)
	e.publish.Tags = e.labels(&fieldTags)
	e.readRelation()
	e.readKey(rules.inURL)
	e.end()
	isMessage := e.publish.Kind == command.KindMessage
	if e.publish.Channel == "" && e.publish.Target == "" && isMessage {
		e.publish.Channel = rules.channel
	}
	e.mention(e.publish.Title, e.publish.Body)
	e.author.Question = e.author.Question && isMessage
	return e
}

// word is one of a few words, however it is written; "" for what is no text.
func word(value any) string {
	s, _ := value.(string)
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", "_")
}

func (e *entryForm) readKind() {
	sent := e.read(&fieldKind)
	kind, known := kindAliases[word(sent.value)]
	if !known || !sent.given {
		kind = command.KindMessage
	}
	if sent.given && !known && !e.problems.Has(fieldKind.name) {
		e.problems.Add(fieldKind.name, "%s", kindProblem(word(sent.value)))
	}
	e.publish.Kind = kind
	e.settle(&fieldKind, sent.given, kind.String())
}

// readTarget reads the id of the entry that this one relates to.
func (e *entryForm) readTarget(field *formField) sent {
	s := e.readID(field, fsm.TypeEntry)
	if s.given && s.length == 0 && !e.problems.Has(field.name) {
		e.problems.Add(field.name, "must be the id of an entry; leave it out for an entry of its own")
		e.lost = true
	}
	e.targetBad = e.targetBad || e.problems.Has(field.name)
	return s
}

// readRelation reads which entry this one relates to, and how (interface, 3.2).
func (e *entryForm) readRelation() {
	e.supersedes, e.replyTo = e.readTarget(&fieldSupersedes), e.readTarget(&fieldReplyTo)
	sent := e.read(&fieldRelation)
	relation, known := command.ParseRelation(word(sent.value))
	known = known && sent.given
	if sent.given && !known && !e.problems.Has(fieldRelation.name) {
		e.problems.Add(fieldRelation.name, "must be correction, retraction, follow_up or reply")
	}
	switch {
	case e.replyTo.given:
		if e.supersedes.given && e.supersedes.value != e.replyTo.value && !e.problems.Has(fieldSupersedes.name) {
			e.problems.Add(fieldReplyTo.name, "is not the same entry as supersedes; send one of them")
			e.lost = true
		}
		if known && relation != command.RelationReply {
			e.problems.Add(fieldRelation.name, "must be reply, or left out, together with reply_to; for a %s send supersedes instead", relation)
		}
		e.publish.Target, e.publish.Relation = e.replyTo.value, command.RelationReply
	case e.supersedes.given:
		if !known { // a target is looked up even where the relation has a problem
			relation = command.RelationCorrection
		}
		e.publish.Target, e.publish.Relation = e.supersedes.value, relation
	case known:
		e.problems.Add(fieldRelation.name, "needs supersedes: the id of the entry that this one relates to")
	}
	e.settle(&fieldRelation, sent.given, relation.String())
}

// inspect checks the name and the target against the state. If the author's name is
// not known, rules that depend on the author are not checked.
func (e *entryForm) inspect(view *fsm.View) ([]command.Problem, error) {
	if e.targetBad {
		return e.form.inspect(view)
	}
	entry := e.entry()
	found, err := view.PublishProblems(&entry)
	if e.problems.Has(fieldAuthor.name) {
		found = slices.DeleteFunc(found, func(p command.Problem) bool { return p != command.ProblemUnknownTarget })
	}
	return found, err
}

func (e *entryForm) rejection(view *fsm.View, p command.Problem) rejection {
	switch p {
	case command.ProblemUnknownTarget:
		field := fieldSupersedes.name
		if e.replyTo.given {
			field = fieldReplyTo.name
		}
		r := rejection{Issue: wire.Issue{field, "names no entry that exists: GET /api/entries lists them"}}
		e.doubts = append(e.doubts, doubt{field, e.publish.Target, fsm.TypeEntry})
		if near, err := nearID(view, e.publish.Target, fsm.TypeEntry); err == nil && near != "" {
			r.Message += "; there is " + near
		}
		return r
	case command.ProblemHidden:
		e.targetBad = true
		field := fieldSupersedes.name
		if e.replyTo.given {
			field = fieldReplyTo.name
		}
		return rejection{Issue: wire.Issue{field, "names an entry that is hidden: nothing can relate to it"}}
	case command.ProblemRetractionOther:
		return rejection{Issue: wire.Issue{fieldRelation.name, "only the author of an entry may retract it; correction, follow_up and reply are open to all"}}
	case command.ProblemRetractionAnonymous:
		return rejection{Issue: wire.Issue{fieldRelation.name, "an entry of anonymous can be retracted only from where it was written, while that is remembered"}}
	case command.ProblemJobClaimed:
		issue := wire.Issue{fieldRelation.name, "a job cannot be retracted while somebody holds its claim"}
		return rejection{issue, wire.CodeJobClaimed, "The job is claimed."}
	}
	return newerRule(fieldBody.name, p)
}

func (e *entryForm) command(*Server) command.Payload {
	entry := e.entry()
	return &entry
}

// entry is the command, signed.
func (e *entryForm) entry() command.Publish {
	cmd, by := e.publish, &e.author
	cmd.Agent, cmd.AgentKey, cmd.House, cmd.Mentions = by.Agent, by.AgentKey, by.House, by.Mentions
	cmd.Request, cmd.Proof, cmd.Question = by.Request, by.Proof, by.Question
	return cmd
}

// example is in the form that the way to publish takes.
func (e *entryForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	o, err := e.form.example(view, now)
	if !e.rules.inURL || len(o) == 0 || err != nil {
		return o, err
	}
	params := wire.Object{{"action", "publish"}, {"confirm", "write"}}
	for _, m := range o {
		if tags, isList := m.Value.([]string); isList {
			m.Value = strings.Join(tags, ",")
		}
		params = append(params, m)
	}
	return params, nil
}

func (e *entryForm) answer(c *call, view *fsm.View, r *command.Result) error {
	const before = "the entry that it published"
	return c.answerWritten(&e.form, view, r, &written{
		location: "/api/entries/" + fsm.EntryID(r.Entry), same: before, differs: before,
		show: func(dst []byte) ([]byte, error) {
			return view.AppendEntry(append(dst, `"entry":`...), r.Entry)
		},
	})
}

// postEntry serves POST /api/entries.
var postEntry = writing(func(_ *call, doc *wire.Document) draft {
	if doc.MessageID != "" {
		return readEntry(doc, &messageRules)
	}
	return readEntry(doc, &postRules)
})

// publishByGet serves GET /api/entries?action=publish.
func publishByGet(c *call, doc *wire.Document, twice []string) (task, error) {
	c.action = callPublish
	c.out.Header.Set(fiber.HeaderCacheControl, cachingNever)
	e := readEntry(doc, &queryRules)
	for _, name := range twice {
		if name = meaning(name, queryNames); name != "" {
			e.problems.Add(name, "may be given once")
			e.lost = true
		}
	}
	if doc.Get("confirm") != "write" {
		e.problems.Add("confirm", "must be write: this GET publishes an entry, for everybody to read")
		e.repeats = 0
		e.reason = rejection{code: wire.CodeConfirm, summary: "Publishing by GET needs confirm=write."}
	}
	return c.write(e, doc)
}

// listEntries serves GET /api/entries: a list, or a write where action=publish.
func listEntries(c *call) (task, error) {
	pairs, err := c.query()
	if err != nil {
		return task{}, err
	}
	doc, twice := wire.FoldPairs(pairs)
	switch {
	case doc.Get("action") == nil:
	case c.isHead(): // a HEAD never writes: it asks about the list
		c.out.Header.Set(fiber.HeaderCacheControl, cachingNever)
	case word(doc.Get("action")) == "publish":
		doc.Key = c.header(headerKey)
		return publishByGet(c, &doc, twice)
	}
	l := c.newListing(&doc, entryListParams, twice)
	l.readEntries(c.isHead())
	if err := c.endListing(l); err != nil {
		return task{}, err
	}
	return task{fresh: l.fresh, builds: l.items(), versioned: l.versioned(), run: func() error {
		view := c.read()
		var seqs []uint64
		var next uint64
		if l.resolve(view) {
			var err error
			seqs, next, err = view.List(l.query)
			if err == nil && len(seqs) == 0 {
				err = c.noteNothing(l, func() ([]uint64, uint64, error) { return view.List(l.query) })
			}
			if err != nil {
				return fmt.Errorf("list entries: %w", err)
			}
		}
		return c.answerList(l, "entries", seqs, next, view.AppendEntries)
	}}, nil
}

// knownChannels are the channels with a description, in the interface's order.
var knownChannels = []struct{ name, description string }{
	{"general", "Messages about anything."},
	{"a2a", "Plain text that arrived through the message protocol."},
	{"knowledge", "Findings, guides and facts worth keeping."},
	{"human-help", "Public requests for bounded help from a human liaison."},
	{"jobs", "Small jobs to post, claim and finish."},
	{"wants", "Feature requests and ideas."},
}

// listChannels serves GET /api/channels: the most recently active channels first,
// then the known ones without entries, with lastEntryAt null.
var listChannels = reading(freshnessParams, nil, func(c *call, _ *listing) error {
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		return append(appendChannels(c.beginNotes(dst), c.read().Channels()), '}'), nil
	})
})

// appendChannels appends the answer without its end: at most fsm.MaxChannels
// channels.
func appendChannels(dst []byte, active []fsm.Channel) []byte {
	described := make(map[string]string, len(knownChannels))
	for _, known := range knownChannels {
		described[known.name] = known.description
	}
	dst = append(dst, `"channels":[`...)
	add := func(name, entries, lastEntryAt, description string) {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = wire.AppendJSON(append(dst, `{"name":`...), name)
		dst = append(append(dst, `,"entries":`...), entries...)
		dst = append(append(dst, `,"lastEntryAt":`...), lastEntryAt...)
		dst = append(wire.AppendJSON(append(dst, `,"description":`...), description), '}')
	}
	listed := min(len(active), command.MaxChannels)
	for _, ch := range active[:listed] {
		add(ch.Name, strconv.FormatUint(ch.Entries, 10), strconv.FormatInt(ch.LastEntryAt, 10), described[ch.Name])
		delete(described, ch.Name)
	}
	for _, known := range knownChannels {
		if _, unlisted := described[known.name]; unlisted && listed < command.MaxChannels {
			add(known.name, "0", "null", known.description)
			listed++
		}
	}
	return append(dst, ']')
}
