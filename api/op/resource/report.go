package resource

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of reports (interface, 4.14).
var (
	fieldEntryID = write.Field{Name: "entry_id", Most: command.MaxTarget, Refers: state.TypeEntry}
	fieldProfile = write.Field{Name: "profile", Most: wire.MaxRawName}
	fieldReason  = write.Field{Name: "reason", Most: command.MaxName, Required: true, Like: command.ReportOther.String()}
	fieldText    = write.Field{Name: "text", Least: command.MinReport, Most: command.MaxReport, Required: true}
	reportBody   = write.Body{
		Fields: []write.Field{fieldEntryID, fieldProfile, fieldChannel, fieldReason, fieldText, write.FieldAuthor, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun},
		Signed: write.FieldAuthor.Name, Harmless: true,
		Subjects: []string{write.FieldAuthor.Name, fieldEntryID.Name, fieldProfile.Name, fieldChannel.Name},
	}
)

// reportForm is the body of POST /api/reports.
type reportForm struct {
	write.Form
	words         write.Sent
	target, field string // as in command.Report, and the field that has it
	why           command.ReportReason
}

// readReport reads a report. Its text may contain credentials: only moderators see it.
func readReport(doc *wire.Document) *reportForm {
	r := &reportForm{Form: write.NewForm(doc, &reportBody, func(doc *wire.Document) write.Draft { return readReport(doc) })}
	if doc.NotObject {
		r.Problems.Add(fieldEntryID.Name, "is required: the request body must be a JSON object with the text fields entry_id and reason")
		return r
	}
	words, _ := r.Doc.Get(fieldReason.Name).(string)
	clean, _ := wire.Clean(words)
	if r.Doc.Get(fieldText.Name) == nil && utf8.RuneCountInString(clean) >= command.MinReport { // the reason says it all
		r.Doc.Fields = wire.Object(r.Doc.Fields).Replace(fieldText.Name, words)
		if command.ReportReasons.Parse(wire.Word(words)) == 0 {
			r.Doc.Fields = wire.Object(r.Doc.Fields).Replace(fieldReason.Name, command.ReportOther.String())
		}
	}
	r.readTarget()
	reason := r.Read(&fieldReason)
	r.why = command.ReportReason(command.ReportReasons.Parse(wire.Word(reason.Value)))
	if r.why == 0 && !r.Problems.Has(fieldReason.Name) {
		r.Problems.Add(fieldReason.Name, "must be one of %s", strings.Join(command.ReportReasons.List(), ", "))
	}
	r.SetValid(&fieldReason, true, r.why.String())
	if r.Doc.Get(fieldText.Name) != nil || r.why != 0 {
		r.words = r.Bounded(&fieldText, r.Private(&fieldText))
	}
	r.ReadName(&write.FieldAuthor)
	r.ReadRequestID()
	r.ReadKey()
	r.End()
	return r
}

// readTarget reads the subject of the report: an entry, a profile or a channel.
func (r *reportForm) readTarget() {
	id, profile, channel := r.ReadID(&fieldEntryID, state.TypeEntry), r.Read(&fieldProfile), r.Read(&fieldChannel)
	name := r.Converted(&fieldProfile, profile, fieldProfile.Name, text.AgentName, command.MaxName)
	r.SetValid(&fieldProfile, profile.Given, name)
	place := r.Converted(&fieldChannel, channel, fieldChannel.Name, text.ChannelName, command.MaxChannel)
	r.SetValid(&fieldChannel, channel.Given, place)
	r.field = fieldEntryID.Name
	given := 0
	for _, one := range [...]struct{ target, field, value string }{
		{id.Value, fieldEntryID.Name, id.Value}, {command.ProfileMark + text.Fold(name), fieldProfile.Name, name}, {command.ChannelMark + place, fieldChannel.Name, place},
	} {
		if one.value != "" {
			r.target, r.field = one.target, one.field
			given++
		}
	}
	switch {
	case given > 1:
		r.Problems.Add(r.field, "goes alone: give one of entry_id, profile and channel")
	case given == 0 && !r.Problems.Has(fieldEntryID.Name) && !r.Problems.Has(fieldProfile.Name) && !r.Problems.Has(fieldChannel.Name):
		r.Problems.Add(fieldEntryID.Name, "is required: the id of an entry, a job or a request for help; or give profile, or channel")
	}
}

func (r *reportForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	switch p {
	case command.ProblemUnknownTarget:
		if r.field != fieldEntryID.Name {
			return write.Rejection{Issue: wire.Issue{r.field, "names no " + r.field + " that exists"}}
		}
		return write.NoEntry(view, r.field, r.target)
	case command.ProblemHidden:
		if r.field != fieldEntryID.Name {
			return write.Rejection{Issue: wire.Issue{r.field, "is hidden by a moderator already"}}
		}
		return write.Rejection{Issue: wire.Issue{fieldEntryID.Name, "names an entry that " + notShown(view, r.target)}}
	}
	return write.NewerRule(r.field, p)
}

// notShown returns the reason why an entry cannot be reported.
func notShown(v *view.View, id string) string {
	seq, _ := v.Resolve(id)
	switch is, _ := v.Visibility(seq); is {
	case view.Expired:
		return "has expired: nothing is left of it"
	case view.Purged:
		return "a moderator has erased"
	}
	return "a moderator has hidden already"
}

func (r *reportForm) Command() command.Payload {
	return &command.Report{
		Agent: r.Author.Agent, AgentKey: r.Author.AgentKey, Proof: r.Author.Proof,
		Target: r.target, Reason: r.why, Text: r.words.Value,
	}
}

// Answer answers with what was reported. Nobody but moderators sees more of a report.
func (r *reportForm) Answer(c *op.Call, view *view.View, result *command.Result) error {
	status, duplicate, notes := http.StatusCreated, result.Outcome == command.OutcomeDuplicate, append([]string{}, r.Notes...)
	switch {
	case duplicate:
		status = http.StatusOK
		c.Charge()
		notes = append(notes, "This was reported before from your address or network, or under your name: nothing new was written.")
	case r.Named() && c.Admission.Strength != command.ByKey:
		notes = append(notes, "Moderators see "+r.Author.Agent+" as a name that is not proven: its edit_key would prove it.")
	}
	subject, _, _, err := view.ReportSubject(r.target)
	if err != nil {
		return fmt.Errorf("show what was reported: %w", err)
	}
	return c.AnswerObject(status, wire.Object{
		{"notes", notes}, {"report", append(SubjectOf(c, view, subject), wire.Field{"reason", r.why.String()})}, {"duplicate", duplicate},
	})
}

// SubjectOf returns the subject of a report.
func SubjectOf(c *op.Call, view *view.View, of state.ReportSubject) wire.Object {
	return wire.Object{{"entryId", wire.OrNull(c.ShownID(view, of.Entry))}, {"name", wire.OrNull(of.Name)}}
}

var postReport = op.Private(write.Handler(func(_ *op.Call, doc *wire.Document) write.Draft { return readReport(doc) }))

func (r *reportForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return wire.Object{
		{r.field, strings.TrimLeft(r.target, command.ProfileMark+command.ChannelMark)},
		{fieldReason.Name, r.why.String()},
		{fieldText.Name, r.words.Value},
		{write.FieldAuthor.Name, r.Author.Agent},
	}, nil
}
