package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
)

// rateInterval is the time between the two looks that rates are made from.
const rateInterval = time.Second

type statusCommand struct{ target }

func (c *statusCommand) Run(ctx context.Context, std streams) error {
	w := watcher{target: &c.target}
	if err := w.look(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(rateInterval):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	return show(std.out, c.JSON, w.overview(), statusText(w.overview()))
}

// watcher looks at the cluster again and again.
type watcher struct {
	target        *target
	before, now   admin.ClusterReport
	earlier, last time.Time
}

func (w *watcher) look(ctx context.Context) error {
	report, err := ask[admin.ClusterReport](ctx, w.target, admin.PathCluster, nil)
	if err != nil {
		return err
	}
	w.before, w.earlier = w.now, w.last
	w.now, w.last = report, time.Now()
	return nil
}

// overview is the state of a cluster, as one screen shows it.
type overview struct {
	admin.ClusterReport
	Term           uint64       `json:"term"`
	Voters         int          `json:"voters"`
	VotersReady    int          `json:"votersReady"`
	MayFail        int          `json:"mayFail"`        // voters that may be lost while a quorum stays
	Rejected       string       `json:"writesRefused"`  // why no server takes writes, "" where one does
	WritesPerSec   float64      `json:"writesPerSec"`   // commands applied
	RequestsPerSec float64      `json:"requestsPerSec"` // public HTTP requests on all nodes
	Rates          []serverRate `json:"rates"`
	LargestBehind  uint64       `json:"largestBehind"`
}

// serverRate is one server's part of the overview, in the order of the servers.
type serverRate struct {
	ID       string  `json:"id"`
	Behind   uint64  `json:"behind"`
	Requests float64 `json:"requestsPerSec"`
}

// overview works out rates and lags from the two newest looks.
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
			if r.Ready && s.Part == admin.Voter {
				p.VotersReady++
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
	p.MayFail = max(p.VotersReady-(p.Voters/2+1), 0)
	p.Rejected = rejectedEverywhere(&w.now)
	return p
}

// rejectedEverywhere returns why no server of the configuration that answers takes
// writes; "" where one does.
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
			if s.Report.Settings.Retention != "" {
				fmt.Fprintf(&out, "retention %s\n\n", retentionText(&s.Report.Settings))
			}
		}
	}
	if p.Rejected != "" {
		fmt.Fprintf(&out, "WRITES ARE REJECTED: %s\n\n", p.Rejected)
	}
	const names = "SERVER\tROLE\tPART\tREADY\tAPPLIED\tBEHIND\tREQ/S\tOPEN\tLOG\tDISK FREE\tMEMORY\tUP"
	rates := p.Rates
	servers := table(names, p.Servers, func(s *admin.Server) []any {
		r, rate := s.Report, rates[0]
		rates = rates[1:]
		if r == nil {
			return []any{s.ID, "-", s.Part, "no"}
		}
		return []any{
			s.ID, r.Role, s.Part, yesNo(r.Ready), r.Applied, rate.Behind, fmt.Sprintf("%.0f", rate.Requests), r.Open,
			admin.BytesText(uint64(max(r.LogBytes, 0))), admin.BytesText(r.DiskFree), admin.BytesText(r.MemoryBytes), uptime(r.UptimeMillis),
		}
	})
	return out.String() + servers + "\n\n" + conditionsText(p.Servers)
}

// daysText says for how many days the fullest disk has room, if as much is written
// as today so far, and if the whole budget is.
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
	if set.UsedBytes > 0 && set.DayMillis > 0 {
		day := float64(set.UsedBytes) * float64(command.DayMillis) / float64(set.DayMillis)
		days = append(days, fmt.Sprintf("%.0f days like today", float64(free)/day))
	}
	if set.DailyBytes > 0 {
		days = append(days, fmt.Sprintf("%.0f days of the whole budget", float64(free)/float64(set.DailyBytes)))
	}
	if len(days) == 0 {
		return ""
	}
	return "   disk for " + strings.Join(days, ", ")
}

func uptime(millis int64) string {
	return (time.Duration(millis) * time.Millisecond).Round(time.Second).String()
}

// conditionsText shows what each server has measured of itself, and below it all
// problems, warnings and missing reports.
func conditionsText(servers []admin.Server) string {
	flags := []string{""}
	warned := map[string][]string{} // the servers by what they warn of
	var warnings []string
	text := table("LAST MINUTE\tWRITES\tREJECTED\tTIME EACH\tLOG SYNC\tSTALL\tAPPLY LAG\tCLOCK", servers, func(s *admin.Server) []any {
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
	for _, line := range warnings { // what holds for all of them is said once
		flags = append(flags, "! "+strings.Join(warned[line], ", ")+": "+line)
	}
	if len(flags) == 1 {
		return text
	}
	return text + "\n" + strings.Join(flags, "\n")
}

// silence says why a server has no report. If gossip still sees the server, it is running.
func silence(s *admin.Server) string {
	if s.Alive {
		return s.Error + "; gossip still hears of it: the process is stopped, gets no processor time, or its disk hangs"
	}
	return s.Error
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

// timingText is a mean and the most.
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

// The steps at which a time is shown with less detail.
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

// signedText is how far a clock is ahead, or behind.
func signedText(ms float64) string {
	if ms < 0 {
		return "-" + millisText(-ms)
	}
	return "+" + millisText(ms)
}

// Sequences of a terminal: another screen, so that what was there comes back at
// the end, and the way to write over what is shown without a flicker.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l"
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineRest    = "\x1b[K"
	screenRest  = "\x1b[J"
)

const minTopInterval = 100 * time.Millisecond

type topCommand struct {
	ClusterAddr []string      `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; not needed for nodes on this machine that have none."`
	Interval    time.Duration `name:"interval" default:"1s" placeholder:"DURATION" help:"Time between two screens."`
	Count       int           `name:"count" default:"0" placeholder:"N" help:"End after so many screens; 0: at Ctrl-C."`
	JSON        bool          `name:"json" help:"Print one line of JSON for each screen."`
}

// Run shows the cluster until a signal ends it. A look that fails is shown,
// and tried again: clusters are watched when things go wrong.
func (c *topCommand) Run(ctx context.Context, std streams) error {
	if c.Interval < minTopInterval {
		return &configError{[]string{fmt.Sprintf("--interval: %v is too short; give %v or more", c.Interval, minTopInterval)}}
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	s := screen{out: std.out, live: !c.JSON && isTerminal(std.out)}
	s.enter()
	defer s.leave()
	w := watcher{target: &target{ClusterAddr: c.ClusterAddr, SecretFile: c.SecretFile, Timeout: max(c.Interval, minLook)}}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for shown := 0; c.Count == 0 || shown < c.Count; {
		err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case isConfigError(err):
			return err
		case err != nil:
			s.show(err.Error() + "\n")
			shown++
		case w.earlier.IsZero():
		case c.JSON:
			if err := json.NewEncoder(std.out).Encode(w.overview()); err != nil {
				return err
			}
			shown++
		default:
			s.show(statusText(w.overview()) + "\n")
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

// minLook is the least time that one look may take.
const minLook = 5 * time.Second

// screen shows one text after the other in the same place of a terminal, or,
// where there is none, below each other.
type screen struct {
	out  io.Writer
	live bool
}

func (s *screen) enter() {
	if s.live {
		fmt.Fprint(s.out, screenEnter)
	}
}

func (s *screen) leave() {
	if s.live {
		fmt.Fprint(s.out, screenLeave)
	}
}

func (s *screen) show(text string) {
	if !s.live {
		fmt.Fprintln(s.out, text)
		return
	}
	text += time.Now().Format(time.TimeOnly) + "   Ctrl-C ends this\n"
	fmt.Fprint(s.out, screenHome, strings.ReplaceAll(text, "\n", lineRest+"\n"), screenRest)
}

// maxAnswer bounds how much of a node's answer is read.
const maxAnswer = 16 << 10

type healthCommand struct {
	URL      string        `name:"url" env:"COMMONS_HEALTH_URL" placeholder:"URL" help:"Base URL of the node (default: made from --http-addr)."`
	HTTPAddr string        `name:"http-addr" env:"COMMONS_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the node's public HTTP service listens."`
	Timeout  time.Duration `name:"timeout" env:"COMMONS_HEALTH_TIMEOUT" default:"5s" placeholder:"DURATION" help:"How long to wait for the answer."`
	Voter    bool          `name:"voter" help:"Fail also while the node has no vote and does not count for a majority; its private port is asked for that."`

	ClusterAddr string `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of the node, for --voter."`
	SecretFile  string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret, for --voter; not needed for a node on this machine that has none."`

	JSON bool `name:"json" help:"Print JSON."`
}

// Run succeeds when the node says that it is ready, and else shows why not. With
// --voter it has to have a vote, too.
func (c *healthCommand) Run(ctx context.Context, std streams) error {
	local, err := localAddr(c.HTTPAddr)
	if err != nil && c.URL == "" {
		return &configError{[]string{"--http-addr: " + err.Error()}}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	base := strings.TrimSuffix(cmp.Or(c.URL, "http://"+local), "/")
	ready, body, err := c.get(ctx, base+"/readyz")
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, strings.TrimSpace(string(body)))
	if ready != http.StatusOK {
		return fmt.Errorf("not ready: %s answers %d", base, ready)
	}
	if !c.Voter {
		return nil
	}
	private := target{ClusterAddr: []string{c.ClusterAddr}, SecretFile: c.SecretFile, Timeout: c.Timeout}
	status, err := ask[admin.Status](ctx, &private, admin.PathStatus, nil)
	if err == nil && status.Membership != admin.Voter {
		err = fmt.Errorf("no voter yet: its membership is %q", status.Membership)
	}
	return err
}

func (c *healthCommand) get(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, &configError{[]string{"--url: " + err.Error()}}
	}
	if c.JSON {
		req.Header.Set("Accept", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, body, err
}
