package moderate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

var (
	reportListParams = append([]string{"status", "entry_id", "after", "wait", "profile", "channel"}, recordParams...)
	resolveParams    = []string{"ids", "profiles", "channels", "outcome", "reason", "dry_run"}
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
	reportedName(l)
	for _, field := range []string{"after", "wait"} {
		if l.Doc.Get(field) != nil && l.Status == 1 {
			l.Problems.Add(field, "goes only with open reports")
		}
	}
	l.Wait()
	reportsAfter(l)
}, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	query := view.ReportQuery{Closed: l.Status == 1, Beyond: max(l.Query.Before, reportsAfter(l)), Limit: l.Query.Limit}
	if !l.Resolve(c.View()) {
		return nil, 0, nil
	}
	query.Of = state.ReportSubject{Entry: l.Query.Thread, Name: reportedName(l)}
	reports, next, err := awaitReports(c, query, l.Wait())
	if err != nil {
		return nil, 0, err
	}
	for i := range reports {
		row, err := reportRow(c, c.View(), &reports[i])
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, next, nil
})

// reportedName reads the profile or the channel whose reports are listed, as command.Report has it.
func reportedName(l *read.Params) string {
	channel := l.Text("channel", wire.MaxRawName)
	switch name := l.Agent("profile"); {
	case name != "":
		return command.ProfileMark + text.Fold(name)
	case channel != "":
		return command.ChannelMark + l.Name("channel", text.ChannelName(channel), command.MaxChannel)
	}
	return ""
}

// reportsAfter reads the number of the newest report that the caller has seen.
func reportsAfter(l *read.Params) uint64 {
	s := l.Text("after", command.MaxName)
	number, err := strconv.ParseUint(s, 10, 64)
	if s != "" && err != nil {
		l.Problems.Add("after", "must be the number of a report")
	}
	return number
}

// awaitReports lists reports, and waits for one if the list is empty.
func awaitReports(c *op.Call, query view.ReportQuery, wait time.Duration) (reports []state.Report, next uint64, err error) {
	wake, stop := c.Env.Backend.Watch(state.WatchReports)
	defer stop()
	err = c.AwaitNews(wait, func() <-chan struct{} { return wake }, func() (bool, error) {
		reports, next, err = c.NewestView().Reports(query)
		return len(reports) > 0, err
	})
	return reports, next, err
}

// reportRow returns a report for moderators.
func reportRow(c *op.Call, view *view.View, r *state.Report) (wire.Object, error) {
	about, err := subjectRow(view, r.ReportSubject)
	if err != nil {
		return nil, err
	}
	status := "open"
	if r.Closed > 0 {
		status = "resolved"
	}
	return append(append(resource.SubjectOf(c, view, r.ReportSubject), wire.Object{
		{"reason", r.Reason.String()},
		{"createdAt", r.At},
		{"status", status},
		{"outcome", wire.OrNull(r.Outcome.String())},
		{"resolvedAt", wire.OrNull(r.Closed)},
		{"number", r.Number},
		{"count", r.Count},
		{"text", wire.OrNull(r.Text)},
		{"agent", r.Agent},
		{"agentProven", r.Proven},
	}...), about...), nil
}

// subjectRow returns the subject of a report: an entry or a profile, with its texts, or the name of a
// channel.
func subjectRow(v *view.View, of state.ReportSubject) (wire.Object, error) {
	if of.Entry > 0 {
		row, err := entryRow(v, of.Entry, maxReportedBody)
		return append(row, wire.Field{"profile", nil}), err
	}
	name, isProfile := strings.CutPrefix(of.Name, command.ProfileMark)
	if isProfile {
		profile, err := v.AppendOriginalProfile(nil, name)
		is, _, errState := v.ProfileVisibility(name)
		if err = errors.Join(err, errState); err != nil {
			return nil, fmt.Errorf("show profile %s: %w", name, err)
		}
		return wire.Object{{"entryState", is}, {"entry", nil}, {"profile", json.RawMessage(profile)}}, nil
	}
	_, hidden, _, err := v.ReportSubject(of.Name)
	is := view.Visible
	if hidden {
		is = view.Hidden
	}
	return wire.Object{{"entryState", is}, {"entry", nil}, {"profile", nil}}, err
}

var sampleResolve = wire.Object{{"ids", []string{state.EntryID(1)}}, {"outcome", command.ReportKept.String()}, {"reason", "Not an advertisement"}}

// resolveReports serves POST /api/moderation/resolve: it closes the reports of entries, profiles and
// channels.
var resolveReports = ordering(resolveParams, sampleResolve, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.ResolveReports{Order: f.Order, Targets: f.ids()}
	for _, name := range f.words("profiles") {
		cmd.Targets = append(cmd.Targets, command.ProfileMark+text.Fold(text.AgentName(name)))
	}
	for _, name := range f.words("channels") {
		cmd.Targets = append(cmd.Targets, command.ChannelMark+text.ChannelName(name))
	}
	switch n := len(cmd.Targets); {
	case n == 0 && !f.Problems.Any():
		f.Problems.Add("ids", "is required: the ids of entries; or profiles, or channels")
	case n > command.MaxHidden:
		f.Problems.Add("ids", "and names may be at most %d together; these are %d", command.MaxHidden, n)
	}
	outcome := wire.Word(f.word("outcome", command.MaxName))
	cmd.Outcome = command.ReportOutcome(command.ReportOutcomes.Parse(outcome))
	if cmd.Outcome == command.ReportOpen && !f.Problems.Has("outcome") {
		f.Problems.Add("outcome", "must be one of %s", strings.Join(command.ReportOutcomes.List(), ", "))
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
	resolved, record := 0, uint64(0)
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
		{"matched", len(matched)}, {"resolved", resolved}, {"samples", samples}, {"record", wire.OrNull(record)},
	}))
}

// openReports returns the open reports that a command selects, and notes the targets without one.
func openReports(c *op.Call, cmd *command.ResolveReports) (open []state.Report, err error) {
	for _, target := range cmd.Targets {
		subject, _, known, err := c.View().ReportSubject(target)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", target, err)
		}
		if !known {
			c.Notes = append(c.Notes, target+" names no entry, profile or channel that exists.")
			continue
		}
		switch r, err := c.View().OpenReport(subject); {
		case errors.Is(err, state.ErrNotFound):
			c.Notes = append(c.Notes, target+" has no open report.")
		case err != nil:
			return nil, fmt.Errorf("look for a report of %s: %w", target, err)
		case !slices.ContainsFunc(open, func(o state.Report) bool { return o.Number == r.Number }):
			open = append(open, r)
		}
	}
	return open, nil
}
