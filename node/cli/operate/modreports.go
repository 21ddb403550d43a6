package operate

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/node/cli/terminal"
)

type modReportsCommand struct {
	moderation `embed:""`
	Resolved   bool   `name:"resolved" help:"Those that were resolved, the newest first, in place of the open ones, the oldest first."`
	Entry      string `name:"entry" xor:"of" placeholder:"ID" help:"Those of this entry."`
	Profile    string `name:"profile" xor:"of" placeholder:"NAME" help:"Those of this profile."`
	Channel    string `name:"channel" xor:"of" placeholder:"NAME" help:"Those of this channel's name."`
	After      uint64 `name:"after" placeholder:"NUMBER" help:"Open reports with a larger number, as the table shows it."`
	Wait       bool   `name:"wait" help:"Wait until there is one."`
	Limit      int    `name:"limit" default:"50" help:"How many; at most 100."`
}

type modResolveCommand struct {
	moderation `embed:"" json:"-"`
	IDs        []string `arg:"" optional:"" name:"id" help:"Ids of entries: their open reports." json:"ids,omitempty"`
	Profiles   []string `name:"profile" sep:"," placeholder:"NAME" help:"The open reports of these profiles." json:"profiles,omitempty"`
	Channels   []string `name:"channel" sep:"," placeholder:"NAME" help:"The open reports of these channels." json:"channels,omitempty"`
	Outcome    string   `name:"outcome" required:"" enum:"hidden,erased,kept,other" placeholder:"OUTCOME" help:"What became of the entry: hidden, erased, kept or other." json:"outcome"`
	Reason     string   `name:"reason" placeholder:"TEXT" help:"Why; 'mod log' shows it." json:"reason,omitempty"`
	Yes        bool     `name:"yes" help:"Do it; it cannot be undone. Without this, only show which reports would be resolved." json:"-"`
	DryRun     bool     `kong:"-" json:"dry_run"`
}

type report struct {
	EntryID     string  `json:"entryId"`
	Name        *string `json:"name"`
	Number      uint64  `json:"number"`
	Count       uint64  `json:"count"`
	Reason      string  `json:"reason"`
	CreatedAt   int64   `json:"createdAt"`
	Status      string  `json:"status"`
	Outcome     *string `json:"outcome"`
	ResolvedAt  *int64  `json:"resolvedAt"`
	Text        *string `json:"text"`
	Agent       string  `json:"agent"`
	AgentProven bool    `json:"agentProven"`
	Profile     *struct {
		Description string `json:"description"`
		Note        string `json:"note"`
	} `json:"profile"`
	modEntry
}

// modEntry is an entry as moderators see it.
type modEntry struct {
	EntryState string `json:"entryState"`
	Entry      struct {
		ID        string `json:"id"`
		Agent     string `json:"agent"`
		Channel   string `json:"channel"`
		CreatedAt int64  `json:"createdAt"`
		Title     string `json:"title"`
		Body      string `json:"body"`
	} `json:"entry"`
}

type modListCommand struct {
	moderation `embed:""`
	Hidden     bool   `name:"hidden" help:"Only those that are hidden."`
	SenderOf   string `name:"sender-of" placeholder:"ID" help:"Those that came from where this entry came from."`
	Agent      string `name:"agent" placeholder:"NAME" help:"Those under this name."`
	Channel    string `name:"channel" placeholder:"NAME" help:"Those in this channel."`
	Words      string `name:"words" placeholder:"WORDS" help:"Those with these words."`
	Since      string `name:"since" placeholder:"TIME" help:"Those after this instant."`
	Until      string `name:"until" placeholder:"TIME" help:"Those up to this instant."`
	Cursor     string `name:"cursor" placeholder:"CURSOR" help:"Go on with the next page: nextCursor of --json."`
	Limit      int    `name:"limit" default:"50" help:"How many, the newest first; at most 100."`
}

type modEntries struct {
	Entries    []modEntry `json:"entries"`
	NextCursor *string    `json:"nextCursor"`
}

// Run lists entries of a selection.
func (c *modListCommand) Run(ctx context.Context, std terminal.Streams) error {
	query := listQuery(c.Limit, map[string]string{
		"sender_of": c.SenderOf, "agent": c.Agent, "channel": c.Channel, "words": c.Words, "since": c.Since, "until": c.Until, "cursor": c.Cursor,
	})
	if c.Hidden {
		query.Set("hidden", "1")
	}
	return modShow(ctx, std, &c.moderation, "selectEntries", query, nil, func(page *modEntries) string { return entriesTable(page.Entries) })
}

func entriesTable(entries []modEntry) string {
	return terminal.Table("ID\tSTATE\tTIME\tAGENT\tCHANNEL\tSAYS", entries, func(e *modEntry) []any {
		return []any{e.Entry.ID, e.EntryState, terminal.TimeText(e.Entry.CreatedAt), e.Entry.Agent, e.Entry.Channel, oneLine(e.Entry.Title, e.Entry.Body)}
	})
}

// orDash is a text, or a dash if the text is empty.
func orDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// longestWait is the longest time in seconds that a call may wait for a report.
const longestWait = 60

const reportHeader = "NUMBER\tOF\tCOUNT\tREASON\tTIME\tOUTCOME\tBY\tTEXT\tSTATE\tSAYS"

func (r *report) cells() []any {
	agent := r.Agent
	if r.AgentProven {
		agent += " (proven)"
	}
	says := ""
	switch {
	case r.Profile != nil:
		says = oneLine(r.Profile.Description, r.Profile.Note)
	case r.EntryID != "":
		says = r.Entry.Agent + ": " + oneLine(r.Entry.Title, r.Entry.Body)
	}
	return []any{
		r.Number, cmp.Or(r.EntryID, orDash(r.Name)), r.Count, r.Reason, terminal.TimeText(r.CreatedAt), oneLine(orDash(r.Outcome)), agent,
		oneLine(orDash(r.Text)), r.EntryState, says,
	}
}

type reportsPage struct {
	Reports    []report `json:"reports"`
	NextCursor *string  `json:"nextCursor"`
}

func (c *modReportsCommand) Run(ctx context.Context, std terminal.Streams) error {
	query := listQuery(c.Limit, map[string]string{"entry_id": c.Entry, "profile": c.Profile, "channel": c.Channel})
	if c.Resolved {
		query.Set("status", "resolved")
	}
	if c.After > 0 {
		query.Set("after", strconv.FormatUint(c.After, 10))
	}
	if c.Wait {
		query.Set("wait", strconv.Itoa(min(longestWait, max(1, int(c.Timeout.Seconds()/2)))))
	}
	for {
		page, err := modCall[reportsPage](ctx, &c.moderation, "listReports", query, nil)
		if err != nil {
			return err
		}
		if len(page.Reports) > 0 || !c.Wait {
			return terminal.Show(std.Out, c.JSON, page, terminal.Table(reportHeader, page.Reports, (*report).cells))
		}
	}
}

type resolvedReports struct {
	Matched  int      `json:"matched"`
	Resolved int      `json:"resolved"`
	Samples  []report `json:"samples"`
	Notes    []string `json:"notes,omitempty"`
}

func (a *resolvedReports) text(dry bool) string {
	if !dry {
		return strings.Join(append(a.Notes, fmt.Sprintf("%d of %d reports are resolved", a.Resolved, a.Matched)), "\n")
	}
	return strings.Join(append(a.Notes, fmt.Sprintf("%d open reports would be resolved. The first:", a.Matched),
		terminal.Table(reportHeader, a.Samples, (*report).cells), unchangedYet), "\n")
}

func (c *modResolveCommand) Run(ctx context.Context, std terminal.Streams) error {
	c.DryRun = !c.Yes
	done := resolvedReports{Samples: []report{}}
	err := inPages(std, &done.Resolved, func() error {
		part, err := modCall[resolvedReports](ctx, &c.moderation, "resolveReports", nil, c)
		done.Matched += part.Matched
		done.Resolved += part.Resolved
		done.Samples = append(done.Samples, part.Samples...)
		done.Samples = done.Samples[:min(len(done.Samples), shownSamples)]
		done.Notes = append(done.Notes, part.Notes...)
		return err
	}, &c.IDs, &c.Profiles, &c.Channels)
	if err != nil {
		return err
	}
	return c.showChange(std, done, done.text(c.DryRun), done.Resolved, c.DryRun)
}
