package resource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of NewEntry (interface, 2.2).
var (
	fieldBody       = write.Field{Name: "body", Least: command.MinBody, Most: command.MaxBody, Required: true, Noun: "text"}
	fieldKind       = write.Field{Name: "kind", Most: command.MaxName, Like: "message"}
	fieldChannel    = write.Field{Name: "channel", Most: wire.MaxRawName, Like: "general"}
	fieldTitle      = write.Field{Name: "title", Least: command.MinTitle, Most: command.MaxTitle, Derived: true}
	fieldSupersedes = write.Field{Name: "supersedes", Most: command.MaxTarget, Refers: state.TypeEntry}
	fieldReplyTo    = write.Field{Name: "reply_to", Most: command.MaxTarget, Refers: state.TypeEntry}
	// A reply is open to all, and goes with supersedes and with reply_to.
	fieldRelation = write.Field{Name: "relation", Most: command.MaxName, Like: "reply"}
	fieldErase    = write.Field{Name: "erase", Like: false}

	entryFields = []write.Field{
		fieldBody, fieldKind, write.FieldAuthor, fieldChannel, fieldTitle,
		write.FieldRequestID, write.FieldTags, fieldSupersedes, fieldReplyTo, fieldRelation, fieldErase, write.FieldEditKey, write.FieldDryRun,
	}
)

// retracted is the default text of a retraction.
const retracted = "Retracted."

// entryRules are the rules that differ between the ways to publish.
type entryRules struct {
	write.Body
	// channel is the default channel of a message without a channel and a target;
	// "" lets the state choose.
	channel string
}

var (
	entryBody = write.Body{
		Fields: entryFields, Signed: write.FieldAuthor.Name, Repeats: command.OpPublish,
		Subjects: []string{fieldSupersedes.Name, fieldReplyTo.Name},
	}
	postRules = entryRules{Body: entryBody}
	// queryRules are those of publishing by GET (interface, 4.1).
	queryRules = entryRules{Body: write.Body{
		Fields: append([]write.Field{queryBody}, entryFields[1:]...), Control: []string{"action", "confirm", "min_index", "consistency"},
		Signed: entryBody.Signed, Repeats: entryBody.Repeats, Subjects: entryBody.Subjects, InURL: true, Wrap: asQuery,
	}}
	// messageRules are those of publishing by a message.
	messageRules = entryRules{entryBody, "a2a"}
)

// queryBody is the text of an entry that a GET may write.
var queryBody = write.Field{Name: fieldBody.Name, Least: fieldBody.Least, Most: maxQueryBody, Required: true, Noun: fieldBody.Noun}

// queryNames are the names of the parameters of publishing by GET.
var queryNames = append(queryRules.Names(), queryRules.Control...)

// maxQueryBody is the longest entry body, in code points, that a GET may write.
const maxQueryBody = 1500

// entryForm is a NewEntry and its command.
type entryForm struct {
	write.Form

	supersedes, replyTo write.Sent
	publish             command.Publish // made of the valid fields
}

// readEntry reads a NewEntry, and finds the problems that do not depend on the state.
func readEntry(doc *wire.Document, rules *entryRules) *entryForm {
	body := &rules.Fields[0]
	e := &entryForm{Form: write.NewForm(doc, &rules.Body, func(doc *wire.Document) write.Draft { return readEntry(doc, rules) })}
	if doc.NotObject {
		e.Problems.Add(body.Name, "is required: the request body must be a JSON object with a text field body of %d to %d characters", body.Least, body.Most)
		return e
	}
	e.Notes = append(e.Notes, doc.Notes...)
	if doc.Get(body.Name) == nil && wire.Word(doc.Get(fieldRelation.Name)) == command.RelationRetraction.String() {
		doc.Fields = wire.Object(doc.Fields).Replace(body.Name, retracted) // null means absent
	}
	e.publish.Body = e.Text(body).Value
	e.readKind()
	e.ReadName(&write.FieldAuthor)
	if !e.Named() && !e.Problems.Has(write.FieldAuthor.Name) && doc.SentAs[fieldTitle.Name] == "name" {
		e.Notes = append(e.Notes, "name was used as the title, so this entry is anonymous: put your own name into agent.")
	}
	channel := e.Read(&fieldChannel)
	e.publish.Channel = e.Converted(&fieldChannel, channel, fieldChannel.Name, text.ChannelName, command.MaxChannel)
	e.SetValid(&fieldChannel, channel.Given, e.publish.Channel)
	title, said := e.ReadTitle(&fieldTitle, e.publish.Kind, e.publish.Body)
	e.publish.Title = title
	e.ReadRequestID()
	e.publish.Tags = e.Labels(&write.FieldTags)
	e.readRelation()
	if e.publish.Erase = e.Flag(&fieldErase); e.publish.Erase && e.publish.Relation != command.RelationRetraction {
		e.Problems.Add(fieldErase.Name, "needs relation retraction, with supersedes: only an entry that is taken back is erased")
		e.Set(&fieldErase, false)
	}
	e.ReadKey()
	e.End()
	isMessage := e.publish.Kind == command.KindMessage
	if e.publish.Channel == "" && e.publish.Target == "" && isMessage {
		e.publish.Channel = rules.channel
	}
	e.Mention(said, e.publish.Body)
	e.Author.Question = e.Author.Question && isMessage
	return e
}

func (e *entryForm) readKind() {
	sent := e.Read(&fieldKind)
	kind, note, problem := command.KindMessage, "", ""
	if sent.Given {
		kind, note, problem = wire.ParseKind(sent.Value)
	}
	if problem != "" && !e.Problems.Has(fieldKind.Name) {
		e.Problems.Add(fieldKind.Name, "%s", problem)
	}
	if note != "" {
		e.Notes = append(e.Notes, note)
	}
	e.publish.Kind = kind
	e.SetValid(&fieldKind, sent.Given, kind.String())
}

// readTarget reads the id of the entry that this one relates to.
func (e *entryForm) readTarget(field *write.Field) write.Sent {
	s := e.ReadID(field, state.TypeEntry)
	if s.Given && s.Length == 0 && !e.Problems.Has(field.Name) {
		e.Problems.Add(field.Name, "must be the id of an entry; leave it out for an entry of its own")
	}
	return s
}

// readRelation reads the target and the relation (interface, 3.2).
func (e *entryForm) readRelation() {
	e.supersedes, e.replyTo = e.readTarget(&fieldSupersedes), e.readTarget(&fieldReplyTo)
	sent := e.Read(&fieldRelation)
	relation := command.Relation(command.RelationNames.Parse(wire.Word(sent.Value)))
	known := sent.Given && relation != command.RelationNone
	if sent.Given && !known && !e.Problems.Has(fieldRelation.Name) {
		e.Problems.Add(fieldRelation.Name, "must be correction, retraction, follow_up or reply")
	}
	switch {
	case e.replyTo.Given:
		if e.supersedes.Given && e.supersedes.Value != e.replyTo.Value && !e.Problems.Has(fieldSupersedes.Name) {
			e.Problems.Add(fieldReplyTo.Name, "is not the same entry as supersedes; send one of them")
			e.Drop(fieldSupersedes.Name)
			e.Unsure(fieldReplyTo.Name)
		}
		if known && relation != command.RelationReply {
			e.Problems.Add(fieldRelation.Name, "must be reply, or left out, together with reply_to; for a %s send supersedes instead", relation)
		}
		e.publish.Target, e.publish.Relation = e.replyTo.Value, command.RelationReply
	case e.supersedes.Given:
		if !known { // a target is looked up even where the relation has a problem
			relation = command.RelationCorrection
		}
		e.publish.Target, e.publish.Relation = e.supersedes.Value, relation
	case sent.Given:
		e.Unsure(fieldSupersedes.Name)
		if known {
			e.Problems.Add(fieldRelation.Name, "needs supersedes: the id of the entry that this one relates to")
			e.Set(&fieldRelation, relation.String())
		}
		return
	}
	e.SetValid(&fieldRelation, sent.Given, relation.String())
}

func (e *entryForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	field := fieldSupersedes.Name
	if e.replyTo.Given {
		field = fieldReplyTo.Name
	}
	switch p {
	case command.ProblemUnknownTarget:
		return write.NoEntry(view, field, e.publish.Target)
	case command.ProblemHidden:
		return write.Rejection{Issue: wire.Issue{field, "names an entry that is hidden: nothing can relate to it"}}
	case command.ProblemRetractionOther:
		return write.Rejection{Issue: wire.Issue{fieldRelation.Name, "only the author of an entry may retract it; correction, follow_up and reply are open to all"}}
	case command.ProblemRetractionAnonymous:
		return write.Rejection{Issue: wire.Issue{fieldRelation.Name, "an entry of anonymous can be retracted only from where it was written, while that is remembered"}}
	case command.ProblemJobClaimed:
		issue := wire.Issue{fieldRelation.Name, "a job cannot be retracted while somebody holds its claim"}
		return write.Rejection{issue, wire.CodeJobClaimed, "The job is claimed."}
	case command.ProblemEraseNoKey:
		issue := wire.Issue{write.FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body: a text is erased only by the key that wrote it"}
		return write.Rejection{issue, wire.CodeProofRequired, "Only the key that wrote a text erases it."}
	case command.ProblemEraseUnproven:
		return write.Rejection{Issue: wire.Issue{fieldErase.Name, "is for entries that were written with the edit_key of their author, and this one was not: leave erase out, or write to the operator"}}
	case command.ProblemEraseReported:
		return write.Rejection{Issue: wire.Issue{fieldErase.Name, "must wait: the entry was reported, and a moderator has to look at it first. Leave erase out to retract it now"}}
	}
	return write.NewerRule(fieldBody.Name, p)
}

func (e *entryForm) Command() command.Payload {
	cmd, by := e.publish, &e.Author
	cmd.Agent, cmd.AgentKey, cmd.House, cmd.Mentions = by.Agent, by.AgentKey, by.House, by.Mentions
	cmd.Request, cmd.Proof, cmd.Question = by.Request, by.Proof, by.Question
	return &cmd
}

// asQuery turns an example into the parameters of a GET.
func asQuery(o wire.Object) wire.Object {
	params := append(make(wire.Object, 0, 2+len(o)), wire.Object{{"action", "publish"}, {"confirm", "write"}}...)
	for _, m := range o {
		if tags, isList := m.Value.([]string); isList {
			joined := strings.Join(tags, ",")
			if strings.Count(joined, ",") >= len(tags) { // a tag has a comma itself
				joined = string(wire.AppendJSON(nil, tags))
			}
			m.Value = joined
		}
		params = append(params, m)
	}
	return params
}

func (e *entryForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	const before = "the entry that it published"
	if e.publish.Erase && r.Outcome == command.OutcomeDone {
		e.Notes = append(e.Notes, "The text of "+e.publish.Target+" is erased: it is in no answer any more, and leaves the disks within minutes. Copies that others made stay.")
	}
	entry, err := view.AppendEntry(nil, r.Entry)
	if err != nil {
		return fmt.Errorf("show entry %d: %w", r.Entry, err)
	}
	return write.Answer(c, &e.Form, view, r, &write.Written{
		Location: "/api/entries/" + state.EntryID(r.Entry), Before: before, Shown: wire.Object{{"entry", json.RawMessage(entry)}},
	})
}

// postEntry serves POST /api/entries.
var postEntry = write.Handler(func(_ *op.Call, doc *wire.Document) write.Draft {
	if doc.MessageID != "" {
		return readEntry(doc, &messageRules)
	}
	return readEntry(doc, &postRules)
})

// publishByGet serves GET /api/entries?action=publish.
func publishByGet(c *op.Call, doc *wire.Document, twice []string) (op.Task, error) {
	c.Action = CallPublish
	c.Out.Set(op.HeaderCacheControl, op.CachingNever)
	e := readEntry(doc, &queryRules)
	for _, name := range twice {
		if name, _ = wire.Means(name, queryNames); name != "" {
			e.Problems.Add(name, "may be given once")
			e.Unsure(name)
		}
	}
	if !e.DryRun && doc.Get("confirm") != "write" {
		e.Problems.Add("confirm", "must be write: this GET publishes an entry, for everybody to read")
		e.Reason = write.Rejection{Code: wire.CodeConfirm, Summary: "Publishing by GET needs confirm=write."}
	}
	return write.Prepare(c, e, doc)
}

// listEntries serves GET /api/entries: a list, or a write where action=publish.
func listEntries(c *op.Call) (op.Task, error) {
	pairs, err := c.Query()
	if err != nil {
		return op.Task{}, err
	}
	doc, twice := wire.FoldPairs(pairs)
	switch {
	case doc.Get("action") != nil && c.IsHead(): // a HEAD never writes: it asks about the list
		c.Out.Set(op.HeaderCacheControl, op.CachingNever)
	case wire.Word(doc.Get("action")) == "publish" && !c.Inner: // other surfaces publish by POST
		doc.Key = c.Header(op.HeaderKey)
		c.LookUp(&doc)
		write.TakeDryRun(&doc, pairs)
		return publishByGet(c, &doc, twice)
	}
	return entryList.Handle(c)
}

var entryList = read.List{
	Member: "entries", Params: read.EntryListParams, Filters: (*read.Params).ReadEntries,
	Find: func(v *view.View, l *read.Params) ([]uint64, uint64, error) {
		if !l.Resolve(v) {
			return nil, 0, nil
		}
		return v.List(l.Query)
	},
	Show: (*view.View).AppendEntries,
}

func (e *entryForm) Preview(view *view.View, cmd command.Payload) (wire.Object, error) {
	channel, err := view.ChannelOf(cmd)
	p := &e.publish
	o := wire.Object{
		{write.FieldAuthor.Name, e.Author.Agent},
		{fieldChannel.Name, channel},
		{fieldKind.Name, p.Kind.String()},
		{fieldTitle.Name, p.Title},
		{fieldBody.Name, p.Body},
		{write.FieldTags.Name, wire.NonNil(p.Tags)},
		{"mentions", wire.NonNil(e.Author.Mentions)},
	}
	if p.Target != "" {
		o = o.With(fieldSupersedes.Name, p.Target).With(fieldRelation.Name, p.Relation.String())
	}
	if p.Erase {
		o = o.With(fieldErase.Name, true)
	}
	return o, err
}

// getEntry serves GET /api/entries/{id}. A key shows its owner the texts of a hidden entry.
func getEntry(c *op.Call) (op.Task, error) {
	c.Out.VaryBy(op.HeaderAuthorization)
	if c.BearerKey() == "" {
		return read.OneEntry("entry", state.TypeEntry, (*view.View).AppendEntry)(c)
	}
	t, err := read.OneEntry("entry", state.TypeEntry, func(view *view.View, dst []byte, seq uint64) ([]byte, error) {
		return view.AppendOwn(dst, seq, op.HashSecret(c.BearerKey()))
	})(c)
	c.Out.Set(op.HeaderCacheControl, op.CachingNever)
	return t, err
}

// DraftMessage returns the problems and the example of the entry of a message. Without a
// call, it does not look at the state.
func DraftMessage(c *op.Call, now time.Time, doc *wire.Document) *wire.Error {
	e := readEntry(doc, &messageRules)
	draft := &wire.Error{Code: wire.CodeInvalid, Issues: slices.Clone(e.Problems.List), Notes: e.Notes}
	var view *view.View
	if c != nil {
		write.Prove(c, &e.Form, command.Sender{AgentKey: e.Author.AgentKey})
		view = c.View()
	}
	example, notes, err := write.ExampleOf(e, view, now, true)
	if err != nil {
		return wire.Internal()
	}
	draft.Example, draft.Notes = example, append(draft.Notes, notes...)
	return draft
}

// CallPublish is the id of publishing, also by GET.
const CallPublish = "publishEntry"
