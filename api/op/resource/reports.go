package resource

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of reports (interface, 4.14).
var (
	fieldEntryID  = write.Field{Name: "entry_id", Most: command.MaxTarget, Refers: state.TypeEntry}
	fieldProfile  = write.Field{Name: "profile", Most: wire.MaxRawName}
	fieldReason   = write.Field{Name: "reason", Most: command.MaxName, Required: true, Like: command.ReportOther.String()}
	fieldText     = write.Field{Name: "text", Least: command.MinReport, Most: command.MaxReport, Required: true}
	fieldContact  = write.Field{Name: "contact", Most: command.MaxReportContact}
	reportFields  = []write.Field{fieldEntryID, fieldProfile, fieldChannel, fieldReason, fieldText, fieldContact, write.FieldAuthor, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun}
	reportReasons = strings.Join(command.ReportReasons.List(), ", ")
)

// reportPrefix begins the id of every report.
const reportPrefix = "rep_"

var reportEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// FormatReportID returns the public id of a report.
func FormatReportID(id []byte) string { return reportPrefix + reportEncoding.EncodeToString(id) }

// ParseReportID reads the canonical form of the id of a report.
func ParseReportID(s string) (id []byte, ok bool) {
	digits, ok := strings.CutPrefix(s, reportPrefix)
	if !ok {
		return nil, false
	}
	id, err := reportEncoding.DecodeString(digits)
	return id, err == nil && len(id) == command.ReportIDBytes && FormatReportID(id) == s
}

// reportForm is the body of POST /api/reports.
type reportForm struct {
	write.Form
	words, contact write.Sent
	target, field  string // as in command.Report, and the field that has it
	why            command.ReportReason
}

// readReport reads a report. Its text may contain credentials: only moderators see it.
func readReport(doc *wire.Document) *reportForm {
	r := &reportForm{Form: write.NewForm(doc, reportFields, &write.FieldAuthor, 0)}
	r.Reread = func(doc *wire.Document) write.Draft { return readReport(doc) }
	r.Harmless = true
	if doc.NotObject {
		r.Problems.Add(fieldEntryID.Name, "is required: the request body must be a JSON object with the text fields entry_id, reason and text")
		return r
	}
	r.readTarget()
	reason := r.Read(&fieldReason)
	r.why = command.ReportReason(command.ReportReasons.Parse(wire.Word(reason.Value)))
	if r.why == 0 && !r.Problems.Has(fieldReason.Name) {
		r.Problems.Add(fieldReason.Name, "must be one of %s", reportReasons)
	}
	r.Settle(&fieldReason, true, r.why.String())
	r.words = r.Bounded(&fieldText, r.Private(&fieldText))
	r.contact = r.Bounded(&fieldContact, r.Private(&fieldContact))
	r.ReadName(&write.FieldAuthor)
	r.ReadRequestID(false)
	r.ReadKey(false)
	r.End()
	return r
}

// readTarget reads the subject of the report: an entry, a profile or a channel.
func (r *reportForm) readTarget() {
	id, profile, channel := r.ReadID(&fieldEntryID, state.TypeEntry), r.Read(&fieldProfile), r.Read(&fieldChannel)
	name := r.Converted(&fieldProfile, profile, fieldProfile.Name, text.AgentName, command.MaxName)
	r.Settle(&fieldProfile, profile.Given, name)
	place := r.Converted(&fieldChannel, channel, fieldChannel.Name, text.ChannelName, command.MaxChannel)
	r.Settle(&fieldChannel, channel.Given, place)
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
		r.Ask(fieldEntryID.Name)
	}
}

func (r *reportForm) Inspect(view *view.View) ([]command.Problem, error) {
	if r.Problems.Has(write.FieldAuthor.Name) || r.target == "" || r.Problems.Has(r.field) {
		return r.Form.Inspect(view)
	}
	return view.ReportProblems(r.Author.Signature(), r.target)
}

func (r *reportForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	switch p {
	case command.ProblemUnknownTarget:
		if r.field != fieldEntryID.Name {
			return write.Rejection{Issue: wire.Issue{r.field, "names no " + r.field + " that exists"}}
		}
		issue := wire.Issue{fieldEntryID.Name, "names no entry that exists: GET /api/entries lists them"}
		r.Doubts = append(r.Doubts, write.Doubt{fieldEntryID.Name, r.target, state.TypeEntry})
		if near, err := op.NearID(view, r.target, state.TypeEntry); err == nil && near != "" {
			issue.Message += "; there is " + near
		}
		return write.Rejection{Issue: issue}
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

func (r *reportForm) Command(*op.Environment) command.Payload {
	id := make([]byte, command.ReportIDBytes)
	_, _ = rand.Read(id) // never fails
	return &command.Report{
		Agent: r.Author.Agent, AgentKey: r.Author.AgentKey, Proof: r.Author.Proof,
		ID: id, Target: r.target, Reason: r.why, Text: r.words.Value, Contact: r.contact.Value,
	}
}

// Answer answers with the receipt, of the first report if the sender repeats one.
func (r *reportForm) Answer(c *op.Call, view *view.View, result *command.Result) error {
	report, err := view.Report(result.Entry)
	if err != nil {
		return fmt.Errorf("show report %d: %w", result.Entry, err)
	}
	status, duplicate, notes := http.StatusCreated, result.Outcome == command.OutcomeDuplicate, append([]string{}, r.Notes...)
	switch {
	case duplicate:
		status = http.StatusOK
		c.Charge()
		notes = append(notes, "You have reported this before: this is the receipt of then, and nothing new was written.")
	case r.Name.Given && !report.Proven:
		notes = append(notes, "Moderators see "+report.Agent+" as a name that is not proven: its edit_key would prove it.")
	}
	c.Out.Set(op.HeaderLocation, "/api/reports/"+FormatReportID(report.ID))
	return c.AnswerObject(status, wire.Object{{"notes", notes}, {"report", Receipt(c, view, &report)}, {"duplicate", duplicate}})
}

// Receipt returns the part of a report that is shown to everybody who has its id.
func Receipt(c *op.Call, view *view.View, r *state.Report) wire.Object {
	status, outcome := "open", ""
	if r.Closed > 0 {
		status, outcome = "resolved", r.Outcome.String()
	}
	entry := ""
	if r.Entry > 0 {
		entry = c.ShownID(view, r.Entry)
	}
	return wire.Object{
		{"id", FormatReportID(r.ID)},
		{"entryId", wire.OrNull(entry)},
		{"name", wire.OrNull(r.Name)},
		{"reason", r.Reason.String()},
		{"createdAt", r.At},
		{"status", status},
		{"outcome", wire.OrNull(outcome)},
		{"resolvedAt", wire.OrNull(r.Closed)},
	}
}

var (
	postReport = op.Private(write.Handler(func(_ *op.Call, doc *wire.Document) write.Draft { return readReport(doc) }))
	// getReport serves GET /api/reports/{id}. Reports do not change the version of views, so a
	// receipt has no entity tag.
	getReport = op.Private(func(c *op.Call) (op.Task, error) {
		t, err := read.One("report", 0, func(view *view.View, dst []byte, s string) ([]byte, error) {
			id, ok := ParseReportID(strings.Trim(s, op.AroundIDs))
			if !ok {
				return nil, state.ErrNotFound
			}
			r, err := view.ReportByID(id)
			if err != nil {
				return nil, err
			}
			return Receipt(c, view, &r).AppendJSON(dst), nil
		})(c)
		t.Versioned = false
		return t, err
	})
)

func (r *reportForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return wire.Object{
		{r.field, strings.TrimLeft(r.target, command.ProfileMark+command.ChannelMark)},
		{fieldReason.Name, r.why.String()},
		{fieldText.Name, r.words.Value},
		{fieldContact.Name, wire.OrNull(r.contact.Value)},
		{write.FieldAuthor.Name, r.Author.Agent},
	}, nil
}
