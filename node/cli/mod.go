package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/loop"
)

type modCommand struct {
	Hide    hideCommand        `cmd:"" help:"Hide entries and profiles: their texts are shown nowhere any more."`
	Unhide  unhideCommand      `cmd:"" help:"Show what was hidden again."`
	Purge   purgeCommand       `cmd:"" help:"Erase the texts of entries and profiles for good, on all nodes."`
	List    purgeListCommand   `cmd:"" name:"purge-list" help:"Save the list of what was purged, for the restore of older backups. For operators only."`
	Status  purgeStatusCommand `cmd:"" name:"purge-status" help:"Show which disks still hold what was purged."`
	Gone    diskGoneCommand    `cmd:"" name:"purge-destroyed" help:"Say that the disk of a removed server was destroyed or erased by hand. For operators only."`
	Block   blockCommand       `cmd:"" help:"Keep a sender, a name or a network from writing for a while."`
	Freeze  freezeCommand      `cmd:"" help:"Let nobody write to a channel, or anywhere, for a while."`
	Watch   watchCommand       `cmd:"" help:"Reject texts that match a pattern, or hold them for review."`
	Lift    liftCommand        `cmd:"" aliases:"unblock,unfreeze,unwatch" help:"End a block, a freeze or a watch."`
	Rules   modRulesCommand    `cmd:"" help:"List what is blocked, frozen and watched."`
	Held    modHeldCommand     `cmd:"" help:"List what is held: show it with 'mod unhide ID', or settle it with 'mod hide ID --reason TEXT'."`
	Reports modReportsCommand  `cmd:"" help:"List what was reported."`
	Resolve modResolveCommand  `cmd:"" help:"Say what became of reports: their senders are shown that."`
	Log     modLogCommand      `cmd:"" help:"Show what operators and moderators did, and why."`
	Token   modTokenCommand    `cmd:"" help:"Give moderators their tokens, and take them away. For operators only."`
}

// moderation is where a moderator's command sends its calls: a node's public interface
// with a token, or its private port as the operator.
type moderation struct {
	target    `embed:""`
	URL       string `name:"url" env:"COMMONS_URL" placeholder:"URL" help:"Ask a node's public interface there, as a moderator, in place of the private port."`
	TokenFile string `name:"token-file" env:"COMMONS_TOKEN_FILE" placeholder:"FILE" help:"The moderator's token, with --url."`

	repeated bool // a call failed and was repeated: it is not known what the failed call did
}

// callPause is how long a call waits before it is repeated.
const callPause = 500 * time.Millisecond

// modCall makes a call of moderation, with a nil body for none, and repeats it while it
// fails for temporary reasons, for example while the leader changes. That is safe: what
// is hidden stays hidden.
func modCall[Answer any](ctx context.Context, m *moderation, operation string, query url.Values, body any) (answer Answer, err error) {
	call := admin.Moderation{Operation: operation, Query: query.Encode()}
	if body != nil {
		if call.Body, err = json.Marshal(body); err != nil {
			return answer, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	for {
		if m.URL == "" {
			answer, err = ask[Answer](ctx, &m.target, admin.PathModerate, call)
		} else {
			answer, err = modRequest[Answer](ctx, m, call)
		}
		failed, is := errors.AsType[*admin.CallError](err)
		if err == nil || isConfigError(err) || is && failed.Status != 0 && failed.Status < http.StatusInternalServerError {
			return answer, err
		}
		if !loop.Pause(ctx, callPause) {
			return answer, err
		}
		m.repeated = true
	}
}

// moderate makes a call of moderation and shows what it answers.
func moderate[Answer any](ctx context.Context, std streams, m *moderation, operation string, query url.Values, body any, text func(*Answer) string) error {
	a, err := modCall[Answer](ctx, m, operation, query, body)
	if err != nil {
		return err
	}
	return show(std.out, m.JSON, a, text(&a))
}

// modRequest makes the call by HTTP, with a token.
func modRequest[Answer any](ctx context.Context, m *moderation, call admin.Moderation) (answer Answer, err error) {
	method, path := api.ModerationPath(call.Operation)
	token, err := os.ReadFile(m.TokenFile)
	switch {
	case path == "":
		return answer, &configError{[]string{"--url: this is for operators alone; leave it out, and name a private port with --cluster-addr"}}
	case m.TokenFile == "":
		return answer, &configError{[]string{"--token-file: name the file with your moderator's token; an operator makes a token with `commons mod token create NAME`"}}
	case err != nil:
		return answer, &configError{[]string{"--token-file: " + err.Error()}}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(m.URL, "/")+path+"?"+call.Query, bytes.NewReader(call.Body))
	if err != nil {
		return answer, &configError{[]string{"--url: " + err.Error()}}
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer, fmt.Errorf("ask %s: %w", m.URL, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	const longest = 16 << 20
	body, err := io.ReadAll(io.LimitReader(res.Body, longest))
	if err != nil {
		return answer, fmt.Errorf("ask %s: %w", m.URL, err)
	}
	if res.StatusCode != http.StatusOK {
		return answer, &admin.CallError{
			Status: res.StatusCode, Message: cmp.Or(admin.PublicError(body), m.URL+" answers "+res.Status),
		}
	}
	err = json.Unmarshal(body, &answer)
	return answer, err
}

// selection is what hide and unhide are about.
type selection struct {
	moderation `embed:""`
	IDs        []string `arg:"" optional:"" name:"id" help:"Ids of entries, jobs and requests for help."`
	Profiles   []string `name:"profile" sep:"," placeholder:"NAME" help:"The profiles of these agents."`
	SenderOf   *string  `name:"sender-of" group:"A selection, in place of ids (several narrow it):" placeholder:"ID" help:"All that came from where this entry came from."`
	Agent      *string  `name:"agent" group:"A selection, in place of ids (several narrow it):" placeholder:"NAME" help:"All under this name."`
	Channel    *string  `name:"channel" group:"A selection, in place of ids (several narrow it):" placeholder:"NAME" help:"All in this channel."`
	Words      *string  `name:"words" group:"A selection, in place of ids (several narrow it):" placeholder:"WORDS" help:"All with these words."`
	Since      *string  `name:"since" group:"A selection, in place of ids (several narrow it):" placeholder:"TIME" help:"After this instant: 2026-01-31, with a time, or milliseconds since the epoch."`
	Until      *string  `name:"until" group:"A selection, in place of ids (several narrow it):" placeholder:"TIME" help:"Up to this instant."`
	Yes        bool     `name:"yes" help:"Do it. Without this, a selection is only shown; what is named by id or --profile is done at once."`
}

type hideCommand struct {
	selection `embed:""`
	Reason    string `name:"reason" required:"" placeholder:"TEXT" help:"Why; everybody can read it."`
}

type unhideCommand struct {
	selection `embed:""`
	Reason    string `name:"reason" placeholder:"TEXT" help:"Why; everybody can read it."`
}

func (c *hideCommand) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "hide", c.Reason)
}

func (c *unhideCommand) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "unhide", c.Reason)
}

type purgeCommand struct {
	moderation `embed:""`
	IDs        []string `arg:"" optional:"" name:"id" help:"Ids of entries, jobs and requests for help; at most 100."`
	Profiles   []string `name:"profile" sep:"," placeholder:"NAME" help:"The profiles of these agents: what they say of themselves. Names, and the keys to them, stay their owners'."`
	Reason     string   `name:"reason" required:"" placeholder:"TEXT" help:"Why; everybody can read it."`
	Yes        bool     `name:"yes" help:"Do it; it cannot be undone. Without this, only show what would be affected."`
}

func (c *purgeCommand) Run(ctx context.Context, std streams) error {
	if len(c.IDs)+len(c.Profiles) == 0 {
		return &configError{[]string{"name what is to be purged: ids, or --profile NAME"}}
	}
	body := map[string]any{"ids": append([]string{}, c.IDs...), "profiles": append([]string{}, c.Profiles...), "reason": c.Reason, "dry_run": !c.Yes}
	done, err := modCall[hidden](ctx, &c.moderation, "purge", nil, body)
	if err != nil {
		return err
	}
	return c.showChange(std, done, done.text("purge", !c.Yes), done.Changed, !c.Yes)
}

type purgeStatusCommand struct {
	moderation `embed:""`
}

// purgeStatus is the operation behind it.
const purgeStatus = "listPurges"

type diskGoneCommand struct {
	target `embed:""`
	Server string `arg:"" help:"The removed server, as 'mod purge-status' shows it."`
	Reason string `name:"reason" required:"" placeholder:"TEXT" help:"What became of the disk; it stands in the record."`
}

// Run says that a removed server's disk was destroyed.
func (c *diskGoneCommand) Run(ctx context.Context, std streams) error {
	operator := &moderation{target: c.target}
	report, err := modCall[api.Purges](ctx, operator, purgeStatus, nil, nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(report.Servers, func(s api.PurgeDisk) bool { return s.ID == c.Server && s.Part == admin.Removed }) {
		return fmt.Errorf("%q is no removed server with a disk that 'mod purge-status' lists as pending; write its whole id", c.Server)
	}
	body := map[string]string{"server": c.Server, "reason": c.Reason}
	return moderate(ctx, std, operator, "destroyDisk", nil, body, func(a *destroyedDisk) string {
		return "the disk of " + a.Server + " counts as destroyed"
	})
}

type destroyedDisk struct {
	Server string `json:"server"`
}

type purgeListCommand struct {
	target `embed:""`
	File   string `arg:"" help:"Where to save it: beside the backups, as NAME.purged.json."`
}

func (c *purgeListCommand) Run(ctx context.Context, _ streams) error {
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return savePurgeList(ctx, client, c.File)
}

func (c *purgeStatusCommand) Run(ctx context.Context, std streams) error {
	return moderate(ctx, std, &c.moderation, purgeStatus, nil, nil, purgesText)
}

func purgesText(report *api.Purges) string {
	return table("SERVER\tPART\tPURGED\tGONE\tPENDING\tPROBLEM", report.Servers, func(s *api.PurgeDisk) []any {
		return []any{s.ID, s.Part, s.Purged, s.Done, s.Pending, cmp.Or(s.Problem, "-")}
	})
}

// hidden is what a call of hide, unhide or purge answers.
type hidden struct {
	Matched int      `json:"matched"`
	Changed int      `json:"changed"`
	Next    *string  `json:"next"`
	Notes   []string `json:"notes,omitempty"`
	Samples []struct {
		ID      string `json:"id"`
		Agent   string `json:"agent"`
		Channel string `json:"channel"`
		Title   string `json:"title"`
		Body    string `json:"body"`
	} `json:"samples"`
	Profiles []struct {
		ID          string `json:"id"`
		Description string `json:"description"`
		Note        string `json:"note"`
	} `json:"profiles"`
}

// run goes through all that is selected, part by part. What is named alone needs no
// second look.
func (s *selection) run(ctx context.Context, std streams, operation, reason string) error {
	fields := map[string]any{"reason": reason, "dry_run": !s.Yes && len(s.IDs)+len(s.Profiles) == 0}
	for name, value := range map[string]*string{
		"sender_of": s.SenderOf, "agent": s.Agent, "channel": s.Channel, "words": s.Words, "since": s.Since, "until": s.Until,
	} {
		if value != nil {
			fields[name] = *value
		}
	}
	if len(s.IDs) > 0 {
		fields["ids"] = s.IDs
	}
	if len(s.Profiles) > 0 {
		fields["profiles"] = s.Profiles
	}
	var all hidden
	for {
		part, err := modCall[hidden](ctx, &s.moderation, operation, nil, fields)
		if err != nil {
			if all.Changed > 0 {
				err = fmt.Errorf("%w; %d are done: repeat the command to go on", err, all.Changed)
			}
			return err
		}
		all.Matched += part.Matched
		all.Changed += part.Changed
		all.Samples = append(all.Samples, part.Samples...)
		all.Profiles = append(all.Profiles, part.Profiles...)
		all.Notes = append(all.Notes, part.Notes...)
		if part.Next == nil {
			break
		}
		fields["before"] = *part.Next
	}
	const shown = 5
	all.Samples = all.Samples[:min(len(all.Samples), shown)]
	dry := fields["dry_run"] == true
	return s.showChange(std, all, all.text(operation, dry), all.Changed, dry)
}

// errUnchanged is the end of a command that has shown why it changed nothing.
var errUnchanged = errors.New("nothing was changed")

// showChange shows what a command has changed; errUnchanged where that is nothing, unless
// a call that failed before may have done it.
func (m *moderation) showChange(std streams, answer any, text string, changed int, dry bool) error {
	err := show(std.out, m.JSON, answer, text)
	switch {
	case err != nil || changed > 0:
		return err
	case dry || !m.repeated:
		return errUnchanged
	}
	_, err = fmt.Fprintln(std.err, "commons: the call failed and was repeated: an earlier attempt may have done it; 'mod log' shows what was done")
	return err
}

func (h *hidden) text(operation string, dry bool) string {
	lines := slices.Clone(h.Notes)
	switch {
	case !dry:
		return strings.Join(append(lines, fmt.Sprintf("%d of %d changed (%s)", h.Changed, h.Matched, operation)), "\n")
	case h.Matched == 0:
		return strings.Join(append(lines, fmt.Sprintf("nothing would be changed (%s)", operation)), "\n")
	}
	lines = append(lines, fmt.Sprintf("%d would be changed (%s). The newest:", h.Matched, operation))
	for _, e := range h.Samples {
		lines = append(lines, fmt.Sprintf("  %s  %s in %s: %s", e.ID, e.Agent, e.Channel, oneLine(e.Title, e.Body)))
	}
	for _, p := range h.Profiles {
		lines = append(lines, fmt.Sprintf("  the profile of %s: %s", p.ID, oneLine(p.Description, p.Note)))
	}
	return strings.Join(append(lines, "Nothing was changed yet: give --yes to do it."), "\n")
}

// oneLine joins the texts that there are.
func oneLine(texts ...string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(strings.Join(texts, " | "))
}

type modLogCommand struct {
	moderation `embed:""`
	Limit      int `name:"limit" default:"50" help:"How many rows, the newest first; at most 100."`
}

type record struct {
	Number uint64 `json:"number"`
	At     int64  `json:"at"`
	By     string `json:"by"`
	Action string `json:"action"`
	What   string `json:"what"`
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

type records struct {
	Records []record `json:"records"`
}

func (a *records) text() string {
	return table("NUMBER\tTIME\tBY\tREASON\tWHAT WAS DONE", a.Records, func(r *record) []any {
		return []any{r.Number, timeText(r.At), r.By, cmp.Or(r.Reason, "-"), r.Text}
	})
}

func (c *modLogCommand) Run(ctx context.Context, std streams) error {
	return moderate(ctx, std, &c.moderation, "moderationLog", limitQuery(c.Limit), nil, (*records).text)
}

func limitQuery(limit int) url.Values { return url.Values{"limit": {strconv.Itoa(limit)}} }

type modTokenCommand struct {
	Create modTokenCreateCommand `cmd:"" help:"Make a moderator's token, which is shown once; a former one ends."`
	Revoke modTokenRevokeCommand `cmd:"" help:"End a moderator's token."`
	List   modTokenListCommand   `cmd:"" help:"List who has a token."`
}

type modTokenCreateCommand struct {
	moderation `embed:""`
	Name       string `arg:"" help:"The moderator's name, which stands in the record."`
}

type modTokenRevokeCommand struct {
	moderation `embed:""`
	Name       string `arg:"" help:"The moderator's name."`
}

type modTokenListCommand struct {
	moderation `embed:""`
}

type moderatorToken struct {
	Name  string `json:"name"`
	Token string `json:"token,omitempty"`
}

func (c *modTokenCreateCommand) Run(ctx context.Context, std streams) error {
	body := map[string]any{"name": c.Name, "revoke": false}
	return moderate(ctx, std, &c.moderation, "setModerator", nil, body, func(t *moderatorToken) string {
		return fmt.Sprintf("the token of %s is %s\nIt is not kept and cannot be shown again.", t.Name, t.Token)
	})
}

func (c *modTokenRevokeCommand) Run(ctx context.Context, std streams) error {
	body := map[string]any{"name": c.Name, "revoke": true}
	return moderate(ctx, std, &c.moderation, "setModerator", nil, body, func(t *moderatorToken) string { return t.Name + " is no moderator any more" })
}

type moderatorNames struct {
	Moderators []string `json:"moderators"`
}

func (c *modTokenListCommand) Run(ctx context.Context, std streams) error {
	return moderate(ctx, std, &c.moderation, "listModerators", nil, nil, func(a *moderatorNames) string {
		return strings.Join(append(a.Moderators, plural(len(a.Moderators), "moderator")), "\n")
	})
}
