package moderate

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

var (
	reportListParams = append([]string{"status", "entry_id"}, recordParams...)
	resolveParams    = []string{"ids", "outcome", "reason", "dry_run"}
	reportOutcomes   = strings.Join(command.ReportOutcomes.List(), ", ")
)

// maxReportedBody is how many code points of a body moderators see beside a report.
const maxReportedBody = 200

// listReports serves GET /api/moderation/reports: the open or the resolved ones.
var listReports = forModerators("reports", reportListParams, func(l *read.Params) {
	switch wire.Word(l.Text("status", command.MaxName)) {
	case "", "open":
	case "resolved":
		l.Status = 1
	default:
		l.Problems.Add("status", "must be open (the usual) or resolved")
	}
	l.Thread = l.ID("entry_id")
}, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	view, query := c.View(), view.ReportQuery{Closed: l.Status == 1, Beyond: l.Query.Before, Limit: l.Query.Limit}
	if !l.Resolve(view) {
		return nil, 0, nil
	}
	query.Entry = l.Query.Thread
	reports, next, err := view.Reports(query)
	if err != nil {
		return nil, 0, err
	}
	for i := range reports {
		row, err := reportRow(c, view, &reports[i])
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, next, nil
})

// reportRow returns a report for moderators.
func reportRow(c *op.Call, view *view.View, r *state.Report) (wire.Object, error) {
	entry, err := entryRow(view, r.Entry, maxReportedBody)
	if err != nil {
		return nil, err
	}
	return append(append(resource.Receipt(c, view, r), wire.Object{
		{"text", wire.OrNull(r.Text)},
		{"contact", wire.OrNull(r.Contact)},
		{"agent", r.Agent},
		{"agentProven", r.Proven},
	}...), entry...), nil
}

var sampleResolve = wire.Object{{"ids", []string{state.EntryID(1)}}, {"outcome", command.ReportKept.String()}, {"reason", "Not an advertisement"}}

// resolveReports serves POST /api/moderation/resolve: it closes reports by their ids, or all
// reports of an entry.
var resolveReports = ordering(resolveParams, sampleResolve, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.ResolveReports{Order: f.Order}
	for _, s := range f.ids() {
		if id, ok := resource.ParseReportID(s); ok {
			cmd.Reports = append(cmd.Reports, id)
			continue
		}
		f.checkIDs([]string{s})
		cmd.Targets = append(cmd.Targets, s)
	}
	if len(cmd.Reports)+len(cmd.Targets) == 0 && !f.Problems.Any() {
		f.Problems.Add("ids", "is required: the ids of reports, or of entries for all open reports of these")
	}
	outcome := wire.Word(f.word("outcome", command.MaxName))
	cmd.Outcome = command.ReportOutcome(command.ReportOutcomes.Parse(outcome))
	if cmd.Outcome == command.ReportOpen && !f.Problems.Has("outcome") {
		f.Problems.Add("outcome", "must be one of %s", reportOutcomes)
	}
	if f.Reason == "" && !f.Problems.Has("reason") {
		f.Problems.Add("reason", "is required: everybody can read why")
	}
	dry := f.flag("dry_run")
	return func() error { return closeReports(c, cmd, dry) }
})

// closeReports closes reports; with dry it only shows them.
func closeReports(c *op.Call, cmd *command.ResolveReports, dry bool) error {
	matched, err := openReports(c, cmd)
	if err != nil {
		return err
	}
	samples := make([]wire.Object, min(len(matched), maxSamples))
	for i := range samples {
		if samples[i], err = reportRow(c, c.View(), &matched[i]); err != nil {
			return err
		}
	}
	resolved, record := 0, any(nil)
	if !dry && len(matched) > 0 {
		result, err := order(c, cmd)
		if err != nil {
			return err
		}
		view, err := write.ReadBack(c)
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
	return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{
		{"matched", len(matched)}, {"resolved", resolved}, {"samples", samples}, {"record", record},
	}))
}

// openReports returns the open reports that a command selects, and notes the ids without
// an open report.
func openReports(c *op.Call, cmd *command.ResolveReports) (open []state.Report, err error) {
	view, seen := c.View(), map[uint64]bool{}
	add := func(reports ...state.Report) {
		for _, r := range reports {
			if !seen[r.Number] {
				seen[r.Number] = true
				open = append(open, r)
			}
		}
	}
	for _, id := range cmd.Reports {
		switch r, err := view.ReportByID(id); {
		case errors.Is(err, state.ErrNotFound):
			c.Notes = append(c.Notes, resource.FormatReportID(id)+" names no report that exists.")
		case err != nil:
			return nil, fmt.Errorf("look for a report: %w", err)
		case r.Closed > 0:
			c.Notes = append(c.Notes, resource.FormatReportID(id)+" is resolved already: "+r.Outcome.String()+".")
		default:
			add(r)
		}
	}
	for _, id := range cmd.Targets {
		seq, known := view.Resolve(id)
		if !known {
			c.Notes = append(c.Notes, id+" names no entry that exists.")
			continue
		}
		all, err := reportsOf(view, seq)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			c.Notes = append(c.Notes, id+" has no open report.")
		}
		add(all...)
	}
	return open, nil
}

// reportsOf returns all open reports of an entry.
func reportsOf(v *view.View, seq uint64) (all []state.Report, err error) {
	query := view.ReportQuery{Entry: seq, Limit: command.MaxList}
	for {
		page, next, err := v.Reports(query)
		if err != nil {
			return nil, fmt.Errorf("look for reports: %w", err)
		}
		if all = append(all, page...); next == 0 {
			return all, nil
		}
		query.Beyond = next
	}
}
