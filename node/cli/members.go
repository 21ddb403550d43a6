package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
)

type membersCommand struct{ target }

func (c *membersCommand) Run(ctx context.Context, std streams) error {
	return answer(ctx, std, &c.target, admin.PathCluster, nil, membersText)
}

func membersText(report *admin.ClusterReport) string {
	return table("SERVER\tPART\tALIVE\tROLE\tREADY\tVERSION\tHTTP\tPRIVATE\tGOSSIP", report.Servers, func(s *admin.Server) []any {
		r := s.Report
		if r == nil {
			return []any{s.ID, s.Part, yesNo(s.Alive), "does not answer", "no"}
		}
		return []any{s.ID, s.Part, yesNo(s.Alive), r.Role, yesNo(r.Ready), r.Version, r.HTTP, r.Private, r.Gossip}
	})
}

type raftCommand struct {
	ListPeers      listPeersCommand      `cmd:"" help:"List the servers of the configuration: address, state, vote, commit index, how far behind."`
	TransferLeader transferLeaderCommand `cmd:"" help:"Make another server the leader."`
	RemovePeer     removePeerCommand     `cmd:"" help:"Take a server that is gone for good out of the configuration."`
}

type listPeersCommand struct{ target }

// peer is one line of the list.
type peer struct {
	ID      string `json:"id"`
	Address string `json:"address"` // private port, "" when it does not answer
	State   string `json:"state"`   // leader, follower, candidate; "unreachable" when it does not answer
	Voter   bool   `json:"voter"`
	Commit  uint64 `json:"commitIndex"`
	Applied uint64 `json:"appliedIndex"`
	Behind  uint64 `json:"behind"` // log entries that others have applied and this one has not
}

func (c *listPeersCommand) Run(ctx context.Context, std streams) error {
	report, err := ask[admin.ClusterReport](ctx, &c.target, admin.PathCluster, nil)
	if err != nil {
		return err
	}
	peers := peersOf(&report)
	return show(std.out, c.JSON, map[string]any{"leader": report.Leader, "peers": peers}, peersText(peers))
}

func peersText(peers []peer) string {
	return table("SERVER\tADDRESS\tSTATE\tVOTER\tCOMMIT\tAPPLIED\tBEHIND", peers, func(p *peer) []any {
		if p.Address == "" {
			return []any{p.ID, "-", p.State, yesNo(p.Voter)}
		}
		return []any{p.ID, p.Address, p.State, yesNo(p.Voter), p.Commit, p.Applied, p.Behind}
	})
}

func peersOf(report *admin.ClusterReport) []peer {
	peers := []peer{}
	newest := report.Newest()
	for _, s := range report.Servers {
		if s.Part == admin.Outside {
			continue
		}
		p := peer{ID: s.ID, State: "unreachable", Voter: s.Part == admin.Voter}
		if r := s.Report; r != nil {
			p.Address, p.State, p.Commit, p.Applied, p.Behind = r.Private, r.Role, r.Commit, r.Applied, newest-r.Applied
		}
		peers = append(peers, p)
	}
	return peers
}

type transferLeaderCommand struct {
	target `embed:""`
	ID     string `arg:"" optional:"" help:"Server id or node name of the next leader (default: the one that is most up to date)."`
}

func (c *transferLeaderCommand) Run(ctx context.Context, std streams) (err error) {
	id := c.ID
	if id != "" {
		if id, err = c.find(ctx, id); err != nil {
			return err
		}
	}
	return answer(ctx, std, &c.target, admin.PathTransfer, admin.ServerRef{ID: id}, func(a *admin.ServerRef) string { return a.ID + " leads" })
}

type removePeerCommand struct {
	target `embed:""`
	ID     string `arg:"" help:"Server id, or node name, of the server that is gone."`
}

func (c *removePeerCommand) Run(ctx context.Context, std streams) error {
	id, err := c.find(ctx, c.ID)
	if err != nil {
		return err
	}
	return answer(ctx, std, &c.target, admin.PathRemove, admin.Removal{ID: id}, func(a *admin.ServerRef) string {
		return a.ID + " was removed; empty its data directory: started with its old one it would join again"
	})
}

type leaveCommand struct{ target }

func (c *leaveCommand) Run(ctx context.Context, std streams) error {
	if len(c.ClusterAddr) != 1 {
		return &configError{[]string{"--cluster-addr: the node that is asked leaves the cluster; name that one alone"}}
	}
	return answer(ctx, std, &c.target, admin.PathLeave, nil, func(a *admin.ServerRef) string {
		return a.ID + " has left the cluster and ends; empty its data directory before it joins again"
	})
}

type autopilotCommand struct {
	Health autopilotHealthCommand `cmd:"" help:"Show how healthy the leader finds each server; fail unless all are healthy."`
}

type autopilotHealthCommand struct{ target }

func (c *autopilotHealthCommand) Run(ctx context.Context, std streams) error {
	health, err := ask[admin.HealthReport](ctx, &c.target, admin.PathHealth, nil)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("voters that may be lost while a majority stays: %d\n\n%s\n\n%s",
		health.FailureTolerance, healthText(&health.Health), conditionsText(health.Reports))
	return errors.Join(show(std.out, c.JSON, health, text), unwell(&health))
}

// unwell says what is not well; nil when all is. Slowness alone does not count.
func unwell(health *admin.HealthReport) error {
	var ids []string
	for _, s := range health.Reports {
		if s.Part != admin.Outside && (s.Report == nil || len(s.Report.Problems) > 0) {
			ids = append(ids, s.ID)
		}
	}
	switch {
	case len(ids) > 0:
		return fmt.Errorf("not well: %s; the problems of each are listed above, and in its report with --json", strings.Join(ids, ", "))
	case !health.Healthy:
		return errors.New("not every server is healthy yet; see HEALTHY and STABLE SINCE above")
	}
	return nil
}

func healthText(health *admin.Health) string {
	const names = "SERVER\tHEALTHY\tLEADER\tVOTER\tALIVE\tLAST CONTACT\tLAST TERM\tLAST INDEX\tSTABLE SINCE"
	return table(names, health.Servers, func(s *admin.ServerHealth) []any {
		contact := "never"
		if s.LastContactMs >= 0 {
			contact = fmt.Sprintf("%d ms", s.LastContactMs)
		}
		return []any{
			s.ID, yesNo(s.Healthy), yesNo(s.Leader), yesNo(s.Voter), yesNo(s.Alive), contact,
			s.LastTerm, s.LastIndex, s.StableSince.UTC().Format(time.RFC3339),
		}
	})
}

// shownDigest is how much of a digest a table shows.
const shownDigest = 16

// short returns the part of a digest that a table shows.
func short(digest string) string { return digest[:min(len(digest), shownDigest)] }

type digestCommand struct{ target }

// Run compares all nodes, and fails when they differ or one does not answer.
func (c *digestCommand) Run(ctx context.Context, std streams) error {
	request := admin.CompareRequest{PatienceMillis: (c.Timeout * 2 / 3).Milliseconds()} // a node that does not answer must not hold up the others
	comparison, err := ask[admin.Comparison](ctx, &c.target, admin.PathCompare, request)
	if err != nil {
		return err
	}
	text := table("SERVER\tINDEX\tLOG\tROWS", comparison.Digests, func(d *admin.Digest) []any {
		return []any{d.ID, d.Index, short(d.Digest) + d.Error, short(d.Rows)}
	})
	return errors.Join(show(std.out, c.JSON, comparison, text), differences(&comparison))
}

// differences says what to do about a comparison; nil when the digests agree.
func differences(comparison *admin.Comparison) error {
	switch {
	case !comparison.Equal:
		return fmt.Errorf("the nodes differ at index %d: save a backup of each first (`commons snapshot save FILE --cluster-addr …`); "+
			"then, one after the other, stop those that differ from the majority, empty their data directories, start them again and wait until `commons health --voter` says that they vote", comparison.Index)
	case !comparison.Complete():
		return errors.New("not every node answered; see `commons members` and run it again")
	}
	return nil
}

type agentsCommand struct {
	ResetKey  resetKeyCommand  `cmd:"" help:"Give an agent another edit_key, which is shown once."`
	Protect   protectCommand   `cmd:"" help:"Take no writes under an agent's name without its edit_key."`
	Unprotect unprotectCommand `cmd:"" help:"Take writes under an agent's name from everybody again."`
}

// agentTarget is an agent whose name an operator's command changes.
type agentTarget struct {
	target
	Agent string `arg:"" help:"The agent's name."`
}

type resetKeyCommand struct{ agentTarget }

func (c *resetKeyCommand) Run(ctx context.Context, std streams) error {
	return answer(ctx, std, &c.target, admin.PathResetKey, admin.AgentRef{Agent: c.Agent}, func(a *admin.KeyAnswer) string {
		return fmt.Sprintf("the edit_key of %s is now %s\nIt is not kept and cannot be shown again; the former one is no longer valid.", a.Agent, a.EditKey)
	})
}

type protectCommand struct{ agentTarget }

func (c *protectCommand) Run(ctx context.Context, std streams) error {
	return c.protect(ctx, std, true)
}

type unprotectCommand struct{ agentTarget }

func (c *unprotectCommand) Run(ctx context.Context, std streams) error {
	return c.protect(ctx, std, false)
}

func (c *agentTarget) protect(ctx context.Context, std streams, on bool) error {
	return answer(ctx, std, &c.target, admin.PathProtectName, admin.Protection{Agent: c.Agent, Protected: on}, func(a *admin.Protection) string {
		if a.Protected {
			return a.Agent + " is protected: nothing is written under the name without its edit_key"
		}
		return a.Agent + " is no longer protected: everybody can write under the name"
	})
}

type settingsCommand struct {
	Show settingsShowCommand `cmd:"" default:"withargs" help:"Show the settings, and what is used of the budget today."`
	Set  settingsSetCommand  `cmd:"" help:"Change settings."`
}

type settingsShowCommand struct{ target }

func (c *settingsShowCommand) Run(ctx context.Context, std streams) error {
	return answer(ctx, std, &c.target, admin.PathSettings, admin.SettingsChange{}, settingsText)
}

var settingNames = []string{"daily-bytes", "sender-bytes", "proven-only", "alike-hourly", "retention", "sender-memory"}

type settingsSetCommand struct {
	target  `embed:""`
	Changes []string `arg:"" help:"daily-bytes=4GiB: of all writes in a day of UTC; sender-bytes=1GiB: of one sender's; 0: no bound. proven-only=true: only names that are proven write; alike-hourly=20: near-duplicates of a long text in an hour, by all who prove no name; 0: no bound. retention=test-*=30d,*=365d: for how long texts are kept, by channel; the first that fits counts; h: hours; keep: for good; retention= for all of them. sender-memory=30d: for how long it is known from where an entry came, as a pseudonym."`
	Yes     bool     `name:"yes" help:"Change the retention also where texts are older than it: they go for good."`
}

func (c *settingsSetCommand) Run(ctx context.Context, std streams) error {
	var change admin.SettingsChange
	var problems []error
	for _, s := range c.Changes {
		name, value, _ := strings.Cut(s, "=")
		bytes, err := admin.ParseBytes(value, command.MaxSettingBytes)
		on, notBool := strconv.ParseBool(value)
		days, notDays := parseDays(value)
		switch {
		case !slices.Contains(settingNames, name):
			problems = append(problems, fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(settingNames, ", ")))
		case name == "retention":
			change.Retention = &value
		case name == "proven-only" && notBool != nil:
			problems = append(problems, fmt.Errorf("%q: neither true nor false", s))
		case name == "proven-only":
			change.ProvenOnly = &on
		case name == "sender-memory" && notDays != nil:
			problems = append(problems, fmt.Errorf("%q: %w", s, notDays))
		case name == "sender-memory":
			change.SenderDays = &days
		case name == "alike-hourly" && err == nil:
			change.AlikeHourly = &bytes
		case err != nil:
			problems = append(problems, fmt.Errorf("%q: %w; write it as %s=512MiB, or 0 for no bound", s, err, name))
		case name == "daily-bytes":
			change.DailyBytes = &bytes
		default:
			change.SenderBytes = &bytes
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if change.Retention != nil && !c.Yes {
		if err := c.mayLose(ctx, change); err != nil {
			return err
		}
	}
	return answer(ctx, std, &c.target, admin.PathSettings, change, settingsText)
}

// mayLose returns an error where a retention would take texts.
func (c *settingsSetCommand) mayLose(ctx context.Context, change admin.SettingsChange) error {
	change.DryRun = true
	tried, err := ask[admin.SettingsReport](ctx, &c.target, admin.PathSettings, change)
	if err != nil || tried.Older == 0 {
		return err
	}
	return fmt.Errorf("nothing is changed yet: %s entries are older than the retention %q, and their texts would go for good; give --yes to have it so",
		olderText(tried.Older), *change.Retention)
}

func olderText(n uint64) string {
	if n >= admin.MaxOlder {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatUint(n, 10)
}

func settingsText(s *admin.SettingsReport) string {
	return fmt.Sprintf("daily-bytes   %-9s  of all writes in a day of UTC\n"+
		"sender-bytes  %-9s  of those of one sender\n"+
		"proven-only   %-9t  true: only names that are proven write\n"+
		"alike-hourly  %-9d  near-duplicates of a long text in an hour, by all who prove no name; 0: no bound\n"+
		"retention     %s\n"+
		"sender-memory %-9s  for how long it is known from where an entry came, as a pseudonym\n"+
		"%s. The second half of daily-bytes is kept for senders below %s.",
		boundText(s.DailyBytes), boundText(s.SenderBytes), s.ProvenOnly, s.AlikeHourly, retentionText(s), fmt.Sprint(s.SenderDays, "d"), budgetText(s), boundText(s.SmallShareBytes))
}

// retentionText says for how long texts are kept.
func retentionText(s *admin.SettingsReport) string {
	text := "keep       all texts are kept for good"
	if s.Retention != "" {
		text = s.Retention
	}
	if s.Retention != "" || s.Swept > 0 {
		text += fmt.Sprintf("; %d entries became stubs, %d are to be looked at", s.Swept, s.SweepWaiting)
	}
	return text
}

// parseDays reads a number of days.
func parseDays(s string) (uint64, error) {
	number, found := strings.CutSuffix(s, "d")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !found {
		return 0, errors.New("not a number of days; write it as sender-memory=30d")
	}
	return n, nil
}

func boundText(bytes uint64) string {
	if bytes == 0 {
		return "no bound"
	}
	return admin.BytesText(bytes)
}

// budgetText says what is used of the budget today.
func budgetText(s *admin.SettingsReport) string {
	text := fmt.Sprintf("%s of %s used today by %d senders, networks and names", admin.BytesText(s.UsedBytes), boundText(s.DailyBytes), s.Senders)
	if s.DailyBytes > 0 {
		const percent = 100
		text += fmt.Sprintf(" (%.0f%%)", percent*float64(s.UsedBytes)/float64(s.DailyBytes))
	}
	return text
}

type eventsCommand struct {
	target `embed:""`
	Since  time.Duration `name:"since" placeholder:"DURATION" help:"Only events of the last DURATION, such as 24h (default: all that are kept)."`
	Limit  int           `name:"limit" default:"100" help:"How many events at most, the newest; up to 1000."`
}

func (c *eventsCommand) Run(ctx context.Context, std streams) error {
	if c.Since < 0 || c.Limit < 1 || c.Limit > admin.MaxEvents {
		return &configError{[]string{fmt.Sprintf("--since: give a time that has passed, such as 24h; --limit: give 1 to %d", admin.MaxEvents)}}
	}
	request := admin.EventsRequest{Limit: c.Limit}
	if c.Since > 0 {
		request.Since = time.Now().Add(-c.Since).UnixMilli()
	}
	answer, err := ask[admin.Events](ctx, &c.target, admin.PathEvents, request)
	if err != nil {
		return err
	}
	text := table("TIME\tBY\tACTION\tWHAT\tREASON", answer.Events, func(e *admin.Event) []any {
		return []any{timeText(e.At), e.By, e.Action, e.What, e.Reason}
	})
	if answer.More && !c.JSON {
		fmt.Fprintln(std.err, "older events are left out; give a larger --limit")
	}
	return show(std.out, c.JSON, answer, text)
}
