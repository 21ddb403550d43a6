package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

// selection selects the entries, jobs, requests for help and profiles to hide or unhide.
type selection struct {
	moderation `embed:"" json:"-"`
	IDs        []string `arg:"" optional:"" name:"id" help:"Ids of entries, jobs and requests for help." json:"ids,omitempty"`
	Profiles   []string `name:"profile" sep:"," placeholder:"NAME" help:"The profiles of these agents." json:"profiles,omitempty"`
	SenderOf   *string  `name:"sender-of" group:"A selection, in place of ids (several narrow it):" placeholder:"ID" help:"All that came from where this entry came from." json:"sender_of,omitempty"`
	Agent      *string  `name:"agent" group:"A selection, in place of ids (several narrow it):" placeholder:"NAME" help:"All under this name." json:"agent,omitempty"`
	Channel    *string  `name:"channel" group:"A selection, in place of ids (several narrow it):" placeholder:"NAME" help:"All in this channel." json:"channel,omitempty"`
	Words      *string  `name:"words" group:"A selection, in place of ids (several narrow it):" placeholder:"WORDS" help:"All with these words." json:"words,omitempty"`
	Since      *string  `name:"since" group:"A selection, in place of ids (several narrow it):" placeholder:"TIME" help:"After this instant: 2026-01-31, with a time, or milliseconds since the epoch." json:"since,omitempty"`
	Until      *string  `name:"until" group:"A selection, in place of ids (several narrow it):" placeholder:"TIME" help:"Up to this instant." json:"until,omitempty"`
	Hidden     bool     `name:"hidden" group:"A selection, in place of ids (several narrow it):" help:"Of these, only those that are hidden." json:"hidden,omitempty"`
	Yes        bool     `name:"yes" help:"Do it. Without this, a selection is only shown, as is all that would be purged; what is hidden or shown by id or --profile is done at once." json:"-"`
	DryRun     bool     `kong:"-" json:"dry_run"`
	Before     *string  `kong:"-" json:"before,omitempty"`
	Order      uint64   `kong:"-" json:"order,omitempty"` // of the first part that was hidden
}

type hideCommand struct {
	selection `embed:""`
	Reason    string `name:"reason" required:"" placeholder:"TEXT" help:"Why; everybody can read it." json:"reason"`
	BlockFor  string `name:"block-for" placeholder:"DURATION" help:"Block the senders, too, for so long, such as 12h or 7d." json:"block_for,omitempty"`
}

type unhideCommand struct {
	selection `embed:""`
	Reason    string `name:"reason" placeholder:"TEXT" help:"Why; everybody can read it." json:"reason"`
}

type purgeCommand struct {
	selection `embed:""`
	Reason    string `name:"reason" required:"" placeholder:"TEXT" help:"Why; everybody can read it." json:"reason"`
	BlockFor  string `name:"block-for" placeholder:"DURATION" help:"Block the senders, too, for so long." json:"block_for,omitempty"`
}

// The names of commands, and of their operations.
const (
	hide  = "hide"
	purge = "purge"
	undo  = "undo"
)

// hidden is the answer to a call of hide, unhide, purge or undo.
type hidden struct {
	Matched int      `json:"matched"`
	Changed int      `json:"changed"`
	Blocked int      `json:"blocked"`
	Next    *string  `json:"next"`
	Record  *uint64  `json:"record,omitempty"` // of a part
	Orders  []uint64 `json:"orders,omitempty"` // that undo takes back
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

// Run hides, unhides or purges the whole selection, one part in each call, and shows the progress.
// The operation has the name of the command, and its body is the command. Ids and names of
// profiles need no --yes, except for a purge.
func (s *selection) Run(ctx context.Context, std terminal.Streams, called *kong.Context) error {
	operation, body := called.Selected().Name, called.Selected().Target.Addr().Interface()
	s.DryRun = !s.Yes && (operation == purge || len(s.IDs)+len(s.Profiles) == 0)
	var all hidden
	err := inPages(std, &all.Changed, func() error {
		s.Order = 0
		return allParts(ctx, std, &s.moderation, operation, body, &all, func(part *hidden) {
			s.Before = part.Next
			if operation == hide && s.Order == 0 && part.Record != nil {
				s.Order, all.Orders = *part.Record, append(all.Orders, *part.Record)
			}
		})
	}, &s.IDs, &s.Profiles)
	if err != nil {
		return err
	}
	return s.showChange(std, all, all.text(operation, s.DryRun), all.Changed, s.DryRun)
}

// allParts makes a call again until its answer names no next part. It adds the answers, and calls
// done after each.
func allParts(ctx context.Context, std terminal.Streams, m *moderation, operation string, body any, all *hidden, done func(part *hidden)) error {
	for {
		part, err := modCall[hidden](ctx, m, operation, nil, body)
		if err != nil {
			return err
		}
		all.add(part)
		if done(&part); part.Next == nil {
			return nil
		}
		fmt.Fprintf(std.Err, "commons: %d so far\n", all.Matched)
	}
}

const (
	mostItems    = 100 // of one call
	shownSamples = 5
)

// inPages calls f with all items of some lists, as many at once as a call may have, or once without
// any. Each list holds its part of a call meanwhile. It shows the progress, and adds to an error how
// much is done, which f counts in changed.
func inPages(std terminal.Streams, changed *int, f func() error, lists ...*[]string) error {
	call := func() error {
		err := f()
		if err != nil && *changed > 0 {
			err = fmt.Errorf("%w; %d are done: repeat the command to go on", err, *changed)
		}
		return err
	}
	full, all := make([][]string, len(lists)), 0
	for i, list := range lists {
		full[i] = *list
		all += len(*list)
	}
	if all <= mostItems {
		return call()
	}
	for _, list := range lists {
		*list = nil
	}
	done := 0
	for i, list := range lists {
		for *list = range slices.Chunk(full[i], mostItems) {
			if err := call(); err != nil {
				return err
			}
			done += len(*list)
			fmt.Fprintf(std.Err, "commons: %d of %d\n", done, all)
		}
		*list = nil
	}
	return nil
}

// add adds the answer to a further call.
func (h *hidden) add(part hidden) {
	h.Matched += part.Matched
	h.Changed += part.Changed
	h.Blocked += part.Blocked
	h.Samples = append(h.Samples, part.Samples...)
	h.Samples = h.Samples[:min(len(h.Samples), shownSamples)]
	h.Profiles = append(h.Profiles, part.Profiles...)
	h.Notes = append(h.Notes, part.Notes...)
}

func (h *hidden) text(operation string, dry bool) string {
	lines := slices.Clone(h.Notes)
	switch {
	case !dry:
		lines = append(lines, fmt.Sprintf("%d of %d changed (%s)", h.Changed, h.Matched, operation))
		if h.Blocked > 0 {
			lines = append(lines, terminal.Plural(h.Blocked, "sender")+" blocked")
		}
		if len(h.Orders) > 0 {
			lines = append(lines, "to show them again: commons mod undo "+strings.Trim(fmt.Sprint(h.Orders), "[]"))
		}
	case h.Matched == 0:
		lines = append(lines, fmt.Sprintf("nothing would be changed (%s)", operation))
	default:
		lines = append(lines, fmt.Sprintf("%d would be changed (%s). The newest:", h.Matched, operation))
		for _, e := range h.Samples {
			lines = append(lines, fmt.Sprintf("  %s  %s in %s: %s", e.ID, e.Agent, e.Channel, oneLine(e.Title, e.Body)))
		}
		for _, p := range h.Profiles {
			lines = append(lines, fmt.Sprintf("  the profile of %s: %s", p.ID, oneLine(p.Description, p.Note)))
		}
		lines = append(lines, unchangedYet)
	}
	return strings.Join(lines, "\n")
}

type purgeStatusCommand struct{ moderation }

type purgeListCommand struct {
	target `embed:""`
	File   string `arg:"" help:"Where to save it: beside the backups, as NAME.purged.json."`
}

func (c *purgeListCommand) Run(ctx context.Context, _ terminal.Streams) error {
	list, err := c.purgeList(ctx)
	if err != nil {
		return err
	}
	return list.Write(c.File)
}

func (c *purgeStatusCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, "listPurges", nil, nil, func(report *op.Purges) string {
		text := terminal.Table("SERVER\tPART\tGONE\tPENDING\tPROBLEM", report.Servers, func(s *op.PurgeDisk) []any {
			return []any{s.ID, s.Part, s.Done, s.Pending, cmp.Or(s.Problem, "-")}
		})
		if report.RemovedSince != "" {
			text += "\nThe disks of servers that were removed since " + report.RemovedSince + " may hold purged texts: they are yours to erase."
		}
		if report.BackupsUntil != "" {
			text += "\nScheduled backups in the store have purged texts until " + report.BackupsUntil + ", if the schedule goes on."
		}
		return text
	})
}
