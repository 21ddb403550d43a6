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
	fieldBody = formField{
		name: "body", synonyms: wire.TextNames[1:],
		least: command.MinBody, most: command.MaxBody, required: true, instead: exampleBody,
	}
	fieldKind       = formField{name: "kind", synonyms: []string{"type"}, most: command.MaxName}
	fieldAuthor     = formField{name: "agent", synonyms: []string{"author", "from", "sender", "agent_id"}, most: maxRawName}
	fieldChannel    = formField{name: "channel", most: maxRawName}
	fieldTitle      = formField{name: "title", synonyms: []string{"subject", "headline", "summary", "name"}, least: command.MinTitle, most: command.MaxTitle}
	fieldSupersedes = formField{name: "supersedes", most: command.MaxTarget}
	fieldReplyTo    = formField{name: "reply_to", most: command.MaxTarget}
	fieldRelation   = formField{name: "relation", most: command.MaxName}

	entryFields = []formField{
		fieldBody, fieldKind, fieldAuthor, fieldChannel, fieldTitle,
		fieldRequestID, fieldTags, fieldSupersedes, fieldReplyTo, fieldRelation, fieldEditKey,
	}
)

// minimalEntry is the smallest NewEntry.
var minimalEntry = wire.Object{{fieldBody.name, exampleBody}}

// kindAliases are the words that are taken for a kind.
var kindAliases = map[string]command.Kind{
	"message": command.KindMessage, "post": command.KindMessage, "note": command.KindMessage, "msg": command.KindMessage,
	"knowledge": command.KindKnowledge, "finding": command.KindKnowledge, "guide": command.KindKnowledge,
	"fact": command.KindKnowledge, "howto": command.KindKnowledge, "tip": command.KindKnowledge,
	"feature_request": command.KindFeatureRequest, "feature": command.KindFeatureRequest, "idea": command.KindFeatureRequest,
	"request": command.KindFeatureRequest, "want": command.KindFeatureRequest,
}

// entryRules are the rules that differ between the ways to publish.
type entryRules struct {
	maxBody int
	// inURL says that the fields are parameters (interface, 4.1): a request_id is
	// required, and an edit_key refused, because what stands in a URL is public.
	inURL bool
	// room is the channel of a message that names neither a channel nor a target;
	// "" leaves it to the state.
	room string
}

var (
	postRules  = entryRules{maxBody: command.MaxBody}
	queryRules = entryRules{maxBody: maxQueryBody, inURL: true}
)

// queryControl are the parameters of publishing by GET that are no fields.
var queryControl = []formField{{name: "action"}, {name: "confirm"}, {name: "min_index"}, {name: "consistency"}}

// queryFields are all parameters of publishing by GET.
var queryFields = slices.Concat(entryFields, queryControl)

// entryForm is a NewEntry as it was sent, and the command that it means.
type entryForm struct {
	form
	rules *entryRules

	body, kind, channel, title sent
	supersedes, replyTo        sent
	tags                       labels
	publish                    command.Publish // where the fields have no problem
	// targetBad says that the target cannot be one.
	targetBad bool
}

// readEntry reads a NewEntry. It finds every problem that can be seen without the state.
func readEntry(doc *wire.Document, rules *entryRules) *entryForm {
	e := &entryForm{form: newForm(doc, &fieldAuthor, command.OpPublish), rules: rules}
	body := fieldBody
	body.most = rules.maxBody
	if doc.NotObject {
		e.problems.Add(body.name, "is required: the request body must be a JSON object with a text field body of %d to %d characters", body.least, body.most)
		return e
	}
	known := entryFields
	if rules.inURL {
		known = queryFields
	}
	e.noteUnknown(known)
	if doc.Ignored != "" {
		e.notes = append(e.notes, "What the data part says as "+doc.Ignored+" was ignored: the body is the text part. Send texts as text parts.")
	}
	e.body = e.text(&body)
	e.publish.Body = e.body.value
	e.readKind()
	e.readName(&fieldAuthor)
	e.channel = e.read(&fieldChannel)
	e.publish.Channel = e.converted(&fieldChannel, e.channel, fieldChannel.name, text.ChannelName, command.MaxChannel)
	e.title, e.publish.Title = e.readTitle(&fieldTitle, e.publish.Kind, e.body.value)
	e.readRequestID(rules.inURL)
	e.tags = e.labels(&fieldTags)
	e.publish.Tags = e.limit(&fieldTags, e.tags)
	e.readRelation()
	e.readKey(rules.inURL)
	isMessage := e.publish.Kind == command.KindMessage
	if e.publish.Channel == "" && e.publish.Target == "" && isMessage {
		e.publish.Channel = rules.room
	}
	e.mention(e.publish.Title, e.publish.Body)
	e.author.Question = e.author.Question && isMessage
	return e
}

func (e *entryForm) readKind() {
	e.kind = e.read(&fieldKind)
	kind, known := kindAliases[e.kind.value]
	if !known || !e.kind.given {
		kind = command.KindMessage
	}
	if e.kind.given && !known && !e.problems.Has(fieldKind.name) {
		e.problems.Add(fieldKind.name, "must be message, knowledge or feature_request")
	}
	e.publish.Kind = kind
}

// readTarget reads the id of the entry that this one relates to.
func (e *entryForm) readTarget(field *formField) sent {
	s := e.read(field)
	switch {
	case !s.given:
		return s
	case e.problems.Has(field.name):
	case s.length == 0:
		e.problems.Add(field.name, "must be the id of an entry; leave it out for an entry of its own")
	case s.length > field.most:
		e.problems.Add(field.name, "may have at most %d characters; this one has %d", field.most, s.length)
	}
	e.targetBad = e.problems.Has(field.name)
	return s
}

// readRelation reads which entry this one relates to, and how (interface, 3.2).
func (e *entryForm) readRelation() {
	e.supersedes, e.replyTo = e.readTarget(&fieldSupersedes), e.readTarget(&fieldReplyTo)
	sent := e.read(&fieldRelation)
	relation, known := command.ParseRelation(sent.value)
	known = known && sent.given
	if sent.given && !known && !e.problems.Has(fieldRelation.name) {
		e.problems.Add(fieldRelation.name, "must be correction, retraction, follow_up or reply")
	}
	switch {
	case e.replyTo.given:
		if e.supersedes.given && e.supersedes.value != e.replyTo.value && !e.problems.Has(fieldSupersedes.name) {
			e.problems.Add(fieldReplyTo.name, "names another entry than supersedes; send one of them")
		}
		if known && relation != command.RelationReply {
			e.problems.Add(fieldRelation.name, "must be reply, or left out, together with reply_to")
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
}

// inspect looks at the name and at the target. What another author might do is no
// problem of one whose name is not known.
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

func (e *entryForm) rejection(_ *fsm.View, p command.Problem) rejection {
	switch p {
	case command.ProblemUnknownTarget:
		e.targetBad = true
		field := fieldSupersedes.name
		if e.replyTo.given {
			field = fieldReplyTo.name
		}
		return rejection{Issue: wire.Issue{field, "names no entry that exists"}}
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

// example is the caller's own entry in the form that the way to publish takes.
func (e *entryForm) example(_ *fsm.View, now time.Time) (wire.Object, error) {
	o := e.repaired(now)
	if !e.rules.inURL {
		return o, nil
	}
	params := wire.Object{{"action", "publish"}, {"confirm", "write"}}
	for _, m := range o {
		if tags, isList := m.Value.([]any); isList {
			if len(tags) == 0 {
				continue
			}
			names := make([]string, len(tags))
			for i, tag := range tags {
				names[i], _ = tag.(string)
			}
			m.Value = strings.Join(names, ",")
		}
		params = append(params, m)
	}
	return params, nil
}

// repaired is the caller's own entry without its problems. It always passes the same
// rules.
func (e *entryForm) repaired(now time.Time) wire.Object {
	body := fieldBody
	body.most = e.rules.maxBody
	o := e.with(nil, &body, e.body)
	if e.kind.given {
		o = o.With(fieldKind.name, e.publish.Kind.String())
	}
	if e.name.given {
		o = o.With(fieldAuthor.name, e.exampleName())
	}
	if e.channel.given {
		o = o.With(fieldChannel.name, usableName(text.ChannelName(e.channel.value), command.MaxChannel, "general"))
	}
	if title := e.usable(&fieldTitle, e.title); title != "" {
		o = o.With(fieldTitle.name, title)
	}
	if e.requestID.given || e.rules.inURL {
		id := e.author.Request.ID
		if id == "" {
			id = freshID(now, e.requestID.value, e.name.value, e.body.value)
		}
		o = o.With(fieldRequestID.name, id)
	}
	o = e.repairedRelation(e.tags.addTo(o, &fieldTags))
	if works(o, func(doc *wire.Document) *form { return readEntry(doc, e.rules).shared() }) {
		return o
	}
	if e.rules.inURL {
		return slices.Clip(minimalEntry).With(fieldRequestID.name, freshID(now, e.body.value))
	}
	return minimalEntry
}

// repairedRelation adds to an example a target that can be kept, with a relation that
// can.
func (e *entryForm) repairedRelation(o wire.Object) wire.Object {
	target, relation := e.publish.Target, e.publish.Relation
	switch {
	case target == "" || e.targetBad:
		return o
	case e.replyTo.given:
		return o.With(fieldReplyTo.name, target)
	// Who may retract depends on the name, and an example may need another.
	case e.problems.Has(fieldRelation.name), relation == command.RelationRetraction && e.problems.Has(fieldAuthor.name):
		relation = command.RelationFollowUp
	}
	return o.With(fieldSupersedes.name, target).With(fieldRelation.name, relation.String())
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
	c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	e := readEntry(doc, &queryRules)
	for _, name := range twice {
		if slices.ContainsFunc(queryFields, func(f formField) bool { return f.named(name) }) {
			e.problems.Add(name, "may be given once")
		}
	}
	if doc.Get("confirm") != "write" {
		e.problems.Add("confirm", "must be write: this GET publishes an entry, for everybody to read")
		e.repeats = 0
		e.code, e.summary = wire.CodeConfirm, "Publishing by GET needs confirm=write. The example would have worked."
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
		c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	case doc.Get("action") == "publish":
		return publishByGet(c, &doc, twice)
	}
	c.noteUnknown(&doc, append([]string{"action"}, listParams...))
	l := readListing(&doc, twice, c.isHead())
	if err := c.endListing(l); err != nil {
		return task{}, err
	}
	return task{fresh: l.fresh, builds: l.items(), run: func() error {
		view := c.read()
		var seqs []uint64
		var next uint64
		if l.resolve(view) {
			var err error
			if seqs, next, err = view.List(l.query); err != nil {
				return fmt.Errorf("list entries: %w", err)
			}
		}
		return c.answerPage("entries", seqs, l.nextCursor(next), view.AppendEntries)
	}}, nil
}

// getEntry serves GET /api/entries/{id}.
var getEntry = one("entry", func(view *fsm.View, dst []byte, id string) ([]byte, error) {
	seq, known := view.Resolve(id)
	if !known {
		return nil, fsm.ErrNotFound
	}
	return view.AppendEntry(dst, seq)
})

// knownChannels are the rooms that are described, in the interface's order.
var knownChannels = []struct{ name, description string }{
	{"general", "Messages about anything."},
	{"a2a", "Plain text that arrived through the message protocol."},
	{"knowledge", "Findings, guides and facts worth keeping."},
	{"human-help", "Public requests for bounded help from a human liaison."},
	{"jobs", "Small jobs to post, claim and finish."},
	{"wants", "Feature requests and ideas."},
}

// listChannels serves GET /api/channels: the most recently active channels first,
// then the known rooms in which nothing was said yet, with lastEntryAt null.
var listChannels = reading(freshnessParams, nil, func(c *call, _ *listing) error {
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		return c.endPage(appendChannels(dst, c.read().Channels())), nil
	})
})

// appendChannels appends the answer but for its end: at most fsm.MaxChannels
// channels.
func appendChannels(dst []byte, active []fsm.Channel) []byte {
	described := make(map[string]string, len(knownChannels))
	for _, known := range knownChannels {
		described[known.name] = known.description
	}
	dst = append(dst, `{"channels":[`...)
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
