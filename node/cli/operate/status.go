package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/loop"
)

const rateInterval = time.Second // the time between the two reports that rates are computed from

type statusCommand struct{ target }

func (c *statusCommand) Run(ctx context.Context, std terminal.Streams) error {
	w := watcher{target: &c.target}
	if err := w.update(ctx); err != nil {
		return err
	}
	if !loop.Pause(ctx, rateInterval) {
		return ctx.Err()
	}
	if err := w.update(ctx); err != nil {
		return err
	}
	seen := w.overview()
	return errors.Join(terminal.Show(std.Out, c.JSON, seen, statusText(seen)), cmp.Or(seen.lost(), unwell(seen.Servers)))
}

// watcher keeps the two newest reports of a cluster.
type watcher struct {
	target        *target
	before, now   admin.ClusterReport
	earlier, last time.Time
}

func (w *watcher) update(ctx context.Context) error {
	report, err := ask[admin.ClusterReport](ctx, w.target, admin.PathCluster, nil)
	if err != nil {
		return err
	}
	w.before, w.earlier = w.now, w.last
	w.now, w.last = report, time.Now()
	return nil
}

type overview struct {
	admin.ClusterReport
	Term           uint64       `json:"term"`
	Voters         int          `json:"voters"`
	VotersReady    int          `json:"votersReady"`
	VotersAnswer   int          `json:"votersAnswer"`   // that the asked node reaches, itself included
	MayFail        int          `json:"mayFail"`        // voters that may be lost while a quorum stays
	Rejected       string       `json:"writesRefused"`  // the reason why no server accepts writes; empty if one does
	WritesPerSec   float64      `json:"writesPerSec"`   // commands applied
	RequestsPerSec float64      `json:"requestsPerSec"` // public HTTP requests on all nodes
	Rates          []serverRate `json:"rates"`
	LargestBehind  uint64       `json:"largestBehind"`
}

type serverRate struct {
	ID       string  `json:"id"`
	Behind   uint64  `json:"behind"`
	Requests float64 `json:"requestsPerSec"`
}

// overview computes rates and lags from the two newest reports.
func (w *watcher) overview() *overview {
	p := &overview{ClusterReport: w.now}
	seconds := w.last.Sub(w.earlier).Seconds()
	earlier := map[string]*admin.NodeReport{}
	for _, s := range w.before.Servers {
		earlier[s.ID] = s.Report
	}
	newest := w.now.Newest()
	for _, s := range w.now.Servers {
		rate := serverRate{ID: s.ID}
		if s.Part == admin.Voter {
			p.Voters++
		}
		if r := s.Report; r != nil {
			p.Term = max(p.Term, r.Term)
			if s.Part == admin.Voter {
				p.VotersAnswer++
				if r.Ready {
					p.VotersReady++
				}
			}
			rate.Behind = newest - r.Applied
			if s.Part != admin.Outside {
				p.LargestBehind = max(p.LargestBehind, rate.Behind)
			}
			// A node that was started again in between begins to count at zero.
			if e := earlier[s.ID]; e != nil && e.UptimeMillis < r.UptimeMillis {
				rate.Requests = float64(r.Requests-e.Requests) / seconds
				p.WritesPerSec = max(p.WritesPerSec, float64(r.Commands-e.Commands)/seconds)
			}
		}
		p.RequestsPerSec += rate.Requests
		p.Rates = append(p.Rates, rate)
	}
	p.MayFail = max(p.VotersReady-p.quorum(), 0)
	p.Rejected = rejectedEverywhere(&w.now)
	return p
}

// quorum returns the number of voters that are a majority.
func (p *overview) quorum() int { return p.Voters/2 + 1 }

const quorumManual = "docs/operating/recover.md" // page of the manual

// lost returns the error of a cluster of which too few voters answer, or nil.
func (p *overview) lost() error {
	if p.Voters == 0 || p.VotersAnswer >= p.quorum() { // without voters, the asked node waits for a cluster
		return nil
	}
	return fmt.Errorf("no quorum: %s reaches %d of %d voters, itself included, and %d are needed; start the others, and do nothing else as long as they may come back: %s of the manual",
		p.AskedNode, p.VotersAnswer, p.Voters, p.quorum(), quorumManual)
}

// unwell returns an error that names the servers with problems, or nil. Warnings do not count.
func unwell(servers []admin.Server) error {
	var ids []string
	for _, s := range servers {
		if s.Part != admin.Outside && (s.Report == nil || len(s.Report.Problems) > 0) {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return fmt.Errorf("not well: %s; the problems of each are listed above, and in its report with --json", strings.Join(ids, ", "))
}

// rejectedEverywhere returns the reason why no server of the configuration accepts writes,
// or "" if one does.
func rejectedEverywhere(report *admin.ClusterReport) string {
	reason := "no server answers"
	for _, s := range report.Servers {
		switch r := s.Report; {
		case r == nil || s.Part == admin.Outside:
		case r.Leader == "":
			reason = "no leader is known"
		case r.Rejects == "":
			return ""
		default:
			reason = r.Rejects
		}
	}
	return reason
}

func statusText(p *overview) string {
	var out strings.Builder
	fmt.Fprintf(&out, "cluster %s   leader %s   term %d\n", p.ClusterID, cmp.Or(p.Leader, "none"), p.Term)
	fmt.Fprintf(&out, "%d of %d voters ready, %d more may fail   %.0f writes/s   %.0f requests/s   largest lag %d\n\n",
		p.VotersReady, p.Voters, p.MayFail, p.WritesPerSec, p.RequestsPerSec, p.LargestBehind)
	for _, s := range p.Servers {
		if s.Report != nil && s.ID == p.Leader {
			fmt.Fprintf(&out, "%s%s\n\n", budgetText(&s.Report.Settings), daysText(p.Servers, &s.Report.Settings))
			if s.Report.Settings.BackupURL != "" {
				fmt.Fprintf(&out, "backups %s\n\n", backupText(&s.Report.Settings))
			}
			if s.Report.Settings.RetentionDays > 0 {
				fmt.Fprintf(&out, "retention %s\n\n", retentionText(&s.Report.Settings))
			}
		}
	}
	if p.Rejected != "" {
		fmt.Fprintf(&out, "WRITES ARE REJECTED: %s\n\n", p.Rejected)
	}
	const names = "SERVER\tROLE\tPART\tREADY\tAPPLIED\tBEHIND\tREQ/S\tOPEN\tLOG\tDISK FREE\tMEMORY\tCACHE\tUP"
	rates := p.Rates
	servers := terminal.Table(names, p.Servers, func(s *admin.Server) []any {
		r, rate := s.Report, rates[0]
		rates = rates[1:]
		if r == nil {
			return []any{s.ID, "-", s.Part, "no"}
		}
		return []any{
			s.ID, r.Role, s.Part, terminal.YesNo(r.Ready), r.Applied, rate.Behind, fmt.Sprintf("%.0f", rate.Requests), r.Open,
			admin.BytesText(uint64(max(r.LogBytes, 0))), admin.BytesText(r.DiskFree), admin.BytesText(r.MemoryBytes), admin.BytesText(uint64(max(r.CacheBytes, 0))), (time.Duration(r.UptimeMillis) * time.Millisecond).Round(time.Second),
		}
	})
	return out.String() + servers + "\n\n" + conditionsText(p.Servers)
}

const farDays = 10 * 365 // a longer estimate helps nobody

// daysText estimates for how many days the fullest disk has room: if as much is written
// as today so far, and if the whole budget is used. It leaves out what is beyond farDays.
func daysText(servers []admin.Server, set *admin.SettingsReport) string {
	free, known := uint64(0), false
	for _, s := range servers {
		if s.Report != nil && s.Report.DiskSize > 0 && (!known || s.Report.DiskFree < free) {
			free, known = s.Report.DiskFree, true
		}
	}
	if !known {
		return ""
	}
	var days []string
	add := func(n float64, of string) {
		if n <= farDays {
			days = append(days, fmt.Sprintf("%.0f days %s", n, of))
		}
	}
	if set.UsedBytes > 0 && set.DayMillis > 0 {
		day := float64(set.UsedBytes) * float64(command.DayMillis) / float64(set.DayMillis)
		add(float64(free)/day, "like today")
	}
	if set.DailyBytes > 0 {
		add(float64(free)/float64(set.DailyBytes), "of the whole budget")
	}
	if len(days) == 0 {
		return ""
	}
	return "   disk for " + strings.Join(days, ", ")
}

// conditionsText shows the measurements of each server, and below them all problems,
// warnings and missing reports.
func conditionsText(servers []admin.Server) string {
	flags := []string{""}
	warned := map[string][]string{} // servers by warning
	var warnings []string
	text := terminal.Table("LAST MINUTE\tWRITES\tREJECTED\tTIME EACH\tLOG SYNC\tSTALL\tAPPLY LAG\tCLOCK", servers, func(s *admin.Server) []any {
		r := s.Report
		if r == nil {
			flags = append(flags, "! "+silence(s))
			return []any{s.ID}
		}
		for _, line := range r.Problems {
			flags = append(flags, "! "+s.ID+": "+line)
		}
		for _, line := range r.Warnings {
			if warned[line] == nil {
				warnings = append(warnings, line)
			}
			warned[line] = append(warned[line], s.ID)
		}
		return []any{
			s.ID, r.Write.Count, rejectedText(r), timingText(r.Write), timingText(r.Sync), timingText(r.Stall),
			lagText(r), signedText(r.ClockAheadMillis),
		}
	})
	for _, line := range warnings { // once for all servers that have it
		flags = append(flags, "! "+strings.Join(warned[line], ", ")+": "+line)
	}
	if len(flags) == 1 {
		return text
	}
	return text + "\n" + strings.Join(flags, "\n")
}

// gossipNotices is the longest time after which gossip has noticed that a process has ended.
const gossipNotices = 20 * time.Second

// silence explains why a server has no report. If gossip still sees the server after a time, it is
// running.
func silence(s *admin.Server) string {
	text, silent := s.Error, time.Duration(s.SilentMillis)*time.Millisecond
	if silent > 0 {
		text += fmt.Sprintf("; it has not answered since %s (%v)", terminal.TimeText(s.HeardAt), silent.Round(time.Second))
	}
	if s.Alive && silent > gossipNotices {
		text += "; gossip still hears of it: the process is stopped, gets no processor time, or its disk hangs"
	}
	return text
}

func rejectedText(r *admin.NodeReport) string {
	var count uint64
	codes := make([]string, 0, len(r.Rejected))
	for _, rejected := range r.Rejected {
		count += rejected.Count
		codes = append(codes, rejected.Code)
	}
	text := strconv.FormatUint(count, 10)
	if len(codes) > 0 {
		text += " " + strings.Join(codes, ",")
	}
	if r.Rejects != "" {
		text += " (all now)"
	}
	return text
}

func timingText(t admin.Timing) string {
	if t.Count == 0 {
		return "-"
	}
	return millisText(t.MeanMillis) + ", max " + millisText(t.MostMillis)
}

func lagText(r *admin.NodeReport) string {
	if r.ApplyLag == 0 && r.ApplyLagMillis == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, %s", r.ApplyLag, millisText(r.ApplyLagMillis))
}

// Durations from which on fewer digits are shown.
const (
	fineMillis   = 10
	coarseMillis = 10_000
)

func millisText(ms float64) string {
	switch {
	case ms < fineMillis:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < coarseMillis:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}

// signedText shows by how much a clock is ahead, or behind.
func signedText(ms float64) string {
	if ms < 0 {
		return "-" + millisText(-ms)
	}
	return "+" + millisText(ms)
}

const minTopInterval = 100 * time.Millisecond

type topCommand struct {
	nodes    `embed:""`
	Interval time.Duration `name:"interval" default:"1s" placeholder:"DURATION" help:"Time between two screens."`
	Count    int           `name:"count" default:"0" placeholder:"N" help:"End after so many screens; 0: at Ctrl-C."`
	JSON     bool          `name:"json" help:"Print one line of JSON for each screen."`
}

// Run shows the cluster until a signal ends it. A failed call is shown and repeated,
// because clusters are watched when things go wrong.
func (c *topCommand) Run(ctx context.Context, std terminal.Streams) error {
	if c.Interval < minTopInterval {
		return &config.Error{Problems: []string{fmt.Sprintf("--interval: %v is too short; give %v or more", c.Interval, minTopInterval)}}
	}
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	s := terminal.Screen{Out: std.Out, Live: !c.JSON && terminal.IsTerminal(std.Out)}
	defer s.Enter()()
	w := watcher{target: &target{nodes: c.nodes, Timeout: max(c.Interval, minLook)}}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for shown := 0; c.Count == 0 || shown < c.Count; {
		err := w.update(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case isConfigError(err):
			return err
		case err != nil:
			if c.JSON {
				fmt.Fprintln(std.Err, err)
			} else {
				s.Show(err.Error() + "\n")
			}
			shown++
		case w.earlier.IsZero():
		case c.JSON:
			if err := json.NewEncoder(std.Out).Encode(w.overview()); err != nil {
				return err
			}
			shown++
		default:
			seen := w.overview()
			text := statusText(seen) + "\n"
			if err := seen.lost(); err != nil {
				text += err.Error() + "\n"
			}
			s.Show(text)
			shown++
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

const minLook = 5 * time.Second
