package api

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// The fields of reports (interface, 4.14).
var (
	fieldEntryID  = formField{name: "entry_id", most: command.MaxTarget, required: true}
	fieldReason   = formField{name: "reason", most: command.MaxName, required: true}
	fieldText     = formField{name: "text", least: command.MinReport, most: command.MaxReport, required: true}
	fieldContact  = formField{name: "contact", most: command.MaxReportContact}
	reportFields  = []formField{fieldEntryID, fieldReason, fieldText, fieldContact, fieldAuthor, fieldRequestID, fieldEditKey}
	reportNames   = namesOf(reportFields)
	reportReasons = strings.Join(command.ReportReasons.List(), ", ")
)

// reportPrefix begins the id of every report.
const reportPrefix = "rep_"

var reportEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func formatReportID(id []byte) string { return reportPrefix + reportEncoding.EncodeToString(id) }

// parseReportID reads the id of a report in its one form.
func parseReportID(s string) (id []byte, ok bool) {
	digits, ok := strings.CutPrefix(s, reportPrefix)
	if !ok {
		return nil, false
	}
	id, err := reportEncoding.DecodeString(digits)
	return id, err == nil && len(id) == command.ReportIDBytes && formatReportID(id) == s
}

// reportForm is the body of POST /api/reports as it was sent.
type reportForm struct {
	form
	target, words, contact sent
	why                    command.ReportReason
}

// readReport reads a report. Only moderators see its text: it may quote what must not be
// published.
func readReport(doc *wire.Document) *reportForm {
	r := &reportForm{form: newForm(doc, reportNames, &fieldAuthor, 0)}
	r.harmless = true
	if doc.NotObject {
		r.problems.Add(fieldEntryID.name, "is required: the request body must be a JSON object with the text fields entry_id, reason and text")
		return r
	}
	r.target = r.readID(&fieldEntryID, fsm.TypeEntry)
	if r.target.length == 0 && !r.problems.Has(fieldEntryID.name) {
		r.problems.Add(fieldEntryID.name, "is required: the id of an entry, a job or a request for help")
		r.lost = true
	}
	reason := r.read(&fieldReason)
	r.why = command.ReportReason(command.ReportReasons.Parse(word(reason.value)))
	if r.why == 0 && !r.problems.Has(fieldReason.name) {
		r.problems.Add(fieldReason.name, "must be one of %s", reportReasons)
	}
	r.settle(&fieldReason, true, r.why.String())
	r.words = r.bounded(&fieldText, r.private(&fieldText))
	r.contact = r.bounded(&fieldContact, r.private(&fieldContact))
	r.readName(&fieldAuthor)
	r.readRequestID(false)
	r.readKey(false)
	r.end()
	return r
}

func (r *reportForm) inspect(view *fsm.View) ([]command.Problem, error) {
	if r.problems.Has(fieldAuthor.name) || r.problems.Has(fieldEntryID.name) {
		return r.form.inspect(view)
	}
	return view.ReportProblems(r.author.Signature(), r.target.value)
}

func (r *reportForm) rejection(view *fsm.View, p command.Problem) rejection {
	switch p {
	case command.ProblemUnknownTarget:
		issue := wire.Issue{fieldEntryID.name, "names no entry that exists: GET /api/entries lists them"}
		r.doubts = append(r.doubts, doubt{fieldEntryID.name, r.target.value, fsm.TypeEntry})
		if near, err := nearID(view, r.target.value, fsm.TypeEntry); err == nil && near != "" {
			issue.Message += "; there is " + near
		}
		return rejection{Issue: issue}
	case command.ProblemHidden:
		return rejection{Issue: wire.Issue{fieldEntryID.name, "names an entry that " + notShown(view, r.target.value)}}
	}
	return newerRule(fieldEntryID.name, p)
}

// notShown says why there is nothing to report of an entry.
func notShown(view *fsm.View, id string) string {
	seq, _ := view.Resolve(id)
	switch is, _ := view.Visibility(seq); is {
	case fsm.Held:
		return "is not shown before a moderator has looked at it"
	case fsm.Expired:
		return "has expired: nothing is left of it"
	case fsm.Purged:
		return "a moderator has erased"
	}
	return "a moderator has hidden already"
}

func (r *reportForm) command(*Server) command.Payload {
	id := make([]byte, command.ReportIDBytes)
	_, _ = rand.Read(id) // never fails
	return &command.Report{
		Agent: r.author.Agent, AgentKey: r.author.AgentKey, Proof: r.author.Proof,
		ID: id, Target: r.target.value, Reason: r.why, Text: r.words.value, Contact: r.contact.value,
	}
}

// answer answers with the receipt. If the sender has reported the entry before, it is the
// receipt of the first report.
func (r *reportForm) answer(c *call, view *fsm.View, result *command.Result) error {
	report, err := view.Report(result.Entry)
	if err != nil {
		return fmt.Errorf("show report %d: %w", result.Entry, err)
	}
	status, duplicate, notes := http.StatusCreated, result.Outcome == command.OutcomeDuplicate, append([]string{}, r.notes...)
	switch {
	case duplicate:
		status = http.StatusOK
		c.charge()
		notes = append(notes, "You have reported this before: this is the receipt of then, and nothing new was written.")
	case r.name.given && !report.Proven:
		notes = append(notes, "Moderators see "+report.Agent+" as a name that is not proven: its edit_key would prove it.")
	}
	c.out.Header.Set(fiber.HeaderLocation, "/api/reports/"+formatReportID(report.ID))
	return c.answerObject(status, wire.Object{{"notes", notes}, {"report", receipt(c, view, &report)}, {"duplicate", duplicate}})
}

// receipt is a report as everybody who knows its id sees it.
func receipt(c *call, view *fsm.View, r *fsm.Report) wire.Object {
	status, outcome, closed := "open", any(nil), any(nil)
	if r.Closed > 0 {
		status, outcome, closed = "resolved", r.Outcome.String(), r.Closed
	}
	return wire.Object{
		{"id", formatReportID(r.ID)},
		{"entryId", c.shownID(view, r.Entry)},
		{"reason", r.Reason.String()},
		{"createdAt", r.At},
		{"status", status},
		{"outcome", outcome},
		{"resolvedAt", closed},
	}
}

var (
	// postReport serves POST /api/reports.
	postReport = private(writing(func(_ *call, doc *wire.Document) draft { return readReport(doc) }))
	// getReport serves GET /api/reports/{id}: the state of a report. Reports do not
	// change the version of views, so a receipt has no entity tag.
	getReport = private(func(c *call) (task, error) {
		t, err := one("report", 0, func(view *fsm.View, dst []byte, s string) ([]byte, error) {
			id, ok := parseReportID(strings.Trim(s, aroundIDs))
			if !ok {
				return nil, fsm.ErrNotFound
			}
			r, err := view.ReportByID(id)
			if err != nil {
				return nil, err
			}
			return receipt(c, view, &r).AppendJSON(dst), nil
		})(c)
		t.versioned = false
		return t, err
	})
)

var (
	reportListParams = append([]string{"status", "entry_id"}, recordParams...)
	resolveParams    = []string{"ids", "outcome", "reason", "dry_run"}
	reportOutcomes   = strings.Join(command.ReportOutcomes.List(), ", ")
)

// maxReportedBody is how many code points of a body moderators see beside a report.
const maxReportedBody = 200

// listReports serves GET /api/moderation/reports: the open ones, or those that are
// resolved.
var listReports = forModerators("reports", reportListParams, func(l *listing) {
	switch word(l.text("status", command.MaxName)) {
	case "", "open":
	case "resolved":
		l.status = 1
	default:
		l.problems.Add("status", "must be open (the usual) or resolved")
	}
	l.thread = l.id("entry_id")
}, func(c *call, l *listing) (rows []wire.Object, next uint64, err error) {
	view, query := c.read(), fsm.ReportQuery{Closed: l.status == 1, Beyond: l.query.Before, Limit: l.query.Limit}
	if !l.resolve(view) {
		return nil, 0, nil
	}
	query.Entry = l.query.Thread
	reports, next, err := view.Reports(query)
	if err != nil {
		return nil, 0, err
	}
	for i := range reports {
		row, err := c.reportRow(view, &reports[i])
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, next, nil
})

// reportRow is a report as moderators see it.
func (c *call) reportRow(view *fsm.View, r *fsm.Report) (wire.Object, error) {
	entry, err := view.AppendOriginal(nil, r.Entry, maxReportedBody)
	state, errState := view.Visibility(r.Entry)
	if err = errors.Join(err, errState); err != nil {
		return nil, fmt.Errorf("show entry %d: %w", r.Entry, err)
	}
	return append(receipt(c, view, r), wire.Object{
		{"text", orNull(r.Text)},
		{"contact", orNull(r.Contact)},
		{"agent", r.Agent},
		{"agentProven", r.Proven},
		{"entryState", state},
		{"entry", json.RawMessage(entry)},
	}...), nil
}

// orNull is a text, or null where there is none.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// resolveReports serves POST /api/moderation/resolve: it closes open reports, by their
// ids, or all of an entry.
var resolveReports = ordering(resolveParams, func(c *call, f *orderForm) func() error {
	cmd := &command.ResolveReports{Order: f.Order}
	for _, s := range f.words("ids", command.MaxHidden) {
		if id, ok := parseReportID(s); ok {
			cmd.Reports = append(cmd.Reports, id)
			continue
		}
		f.checkIDs([]string{s})
		cmd.Targets = append(cmd.Targets, s)
	}
	if len(cmd.Reports)+len(cmd.Targets) == 0 && !f.problems.Any() {
		f.problems.Add("ids", "is required: the ids of reports, or of entries for all open reports of these")
	}
	outcome := word(f.word("outcome", command.MaxName))
	cmd.Outcome = command.ReportOutcome(command.ReportOutcomes.Parse(outcome))
	if cmd.Outcome == command.ReportOpen && !f.problems.Has("outcome") {
		f.problems.Add("outcome", "must be one of %s", reportOutcomes)
	}
	if f.Reason == "" && !f.problems.Has("reason") {
		f.problems.Add("reason", "is required: everybody can read why")
	}
	dry := f.flag("dry_run")
	return func() error { return c.resolveReports(cmd, dry) }
})

// resolveReports closes reports; with dry it only shows which.
func (c *call) resolveReports(cmd *command.ResolveReports, dry bool) error {
	matched, err := c.openReports(cmd)
	if err != nil {
		return err
	}
	samples := make([]wire.Object, min(len(matched), maxSamples))
	for i := range samples {
		if samples[i], err = c.reportRow(c.read(), &matched[i]); err != nil {
			return err
		}
	}
	resolved, record := 0, any(nil)
	if !dry && len(matched) > 0 {
		result, err := c.order(cmd)
		if err != nil {
			return err
		}
		view, err := c.readBack()
		if err != nil {
			return err
		}
		for i := range matched {
			if r, err := view.Report(matched[i].Number); err == nil && r.Closed > 0 {
				resolved++
			}
		}
		if result.Outcome == command.OutcomeDone {
			record = result.Entry
		}
	}
	return c.answerObject(http.StatusOK, c.withNotes(wire.Object{
		{"matched", len(matched)}, {"resolved", resolved}, {"samples", samples}, {"record", record},
	}))
}

// openReports returns the open reports that a command selects, and notes the ids without
// an open report.
func (c *call) openReports(cmd *command.ResolveReports) (open []fsm.Report, err error) {
	view, seen := c.read(), map[uint64]bool{}
	add := func(reports ...fsm.Report) {
		for _, r := range reports {
			if !seen[r.Number] {
				seen[r.Number] = true
				open = append(open, r)
			}
		}
	}
	for _, id := range cmd.Reports {
		switch r, err := view.ReportByID(id); {
		case errors.Is(err, fsm.ErrNotFound):
			c.notes = append(c.notes, formatReportID(id)+" names no report that exists.")
		case err != nil:
			return nil, fmt.Errorf("look for a report: %w", err)
		case r.Closed > 0:
			c.notes = append(c.notes, formatReportID(id)+" is resolved already: "+r.Outcome.String()+".")
		default:
			add(r)
		}
	}
	for _, id := range cmd.Targets {
		seq, known := view.Resolve(id)
		if !known {
			c.notes = append(c.notes, id+" names no entry that exists.")
			continue
		}
		all, err := reportsOf(view, seq)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			c.notes = append(c.notes, id+" has no open report.")
		}
		add(all...)
	}
	return open, nil
}

// reportsOf returns all open reports of an entry.
func reportsOf(view *fsm.View, seq uint64) (all []fsm.Report, err error) {
	query := fsm.ReportQuery{Entry: seq, Limit: command.MaxList}
	for {
		page, next, err := view.Reports(query)
		if err != nil {
			return nil, fmt.Errorf("look for reports: %w", err)
		}
		if all = append(all, page...); next == 0 {
			return all, nil
		}
		query.Beyond = next
	}
}
