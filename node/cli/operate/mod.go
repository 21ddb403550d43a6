package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/loop"
)

type modCommand struct {
	Entries modListCommand     `cmd:"" name:"list" help:"List entries, hidden or not, with what their authors wrote."`
	Hide    hideCommand        `cmd:"" help:"Hide entries and profiles: their texts are shown nowhere any more."`
	Unhide  unhideCommand      `cmd:"" help:"Show what was hidden again."`
	Purge   purgeCommand       `cmd:"" help:"Erase the texts of entries and profiles for good, on all nodes. For operators only."`
	List    purgeListCommand   `cmd:"" name:"purge-list" help:"Save the list of what was purged, for the restore of older backups. For operators only."`
	Status  purgeStatusCommand `cmd:"" name:"purge-status" help:"Show which nodes have erased what was purged. For operators only."`
	Block   blockCommand       `cmd:"" help:"Keep a sender, a name or a network from writing for a while."`
	Freeze  freezeCommand      `cmd:"" help:"Let nobody write to a channel, or anywhere, for a while."`
	Watch   watchCommand       `cmd:"" help:"Reject texts that match a pattern."`
	Undo    undoCommand        `cmd:"" aliases:"lift,unblock,unfreeze,unwatch" help:"Take back a hide, a block, a freeze or a watch, by the number of its order."`
	Rules   modRulesCommand    `cmd:"" help:"List what is blocked, frozen and watched."`
	Reports modReportsCommand  `cmd:"" help:"List what was reported."`
	Resolve modResolveCommand  `cmd:"" help:"Say what became of reports."`
	Log     modLogCommand      `cmd:"" help:"Show what operators and moderators did, and why."`
	Token   modTokenCommand    `cmd:"" help:"Give moderators their tokens, and take them away. For operators only."`
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
	Reason string `json:"reason"`
	Order  uint64 `json:"order"`
}

// maxWhat bounds the object of an act in a table, in code points; --json shows all of it.
const maxWhat = 100

type records struct {
	Records []record `json:"records"`
}

func (c *modLogCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, "moderationLog", listQuery(c.Limit, nil), nil, func(page *records) string {
		return terminal.Table("NUMBER\tORDER\tTIME\tBY\tACTION\tWHAT\tREASON", page.Records, func(r *record) []any {
			return []any{r.Number, r.Order, terminal.TimeText(r.At), r.By, r.Action, wire.Shorten(r.What, maxWhat), r.Reason}
		})
	})
}

type modTokenCommand struct {
	Create createTokenCommand  `cmd:"" help:"Make a moderator's token, which is shown once; a former one ends."`
	Revoke revokeTokenCommand  `cmd:"" help:"End a moderator's token."`
	List   modTokenListCommand `cmd:"" help:"List who has a token, and when it ends."`
}

type createTokenCommand struct {
	moderation `embed:"" json:"-"`
	Name       string `arg:"" help:"The moderator's name, which stands in the record." json:"name"`
	For        string `name:"for" default:"90d" placeholder:"DURATION" help:"For how long, such as 12h or 30d; at most 366d." json:"for"`
}

type revokeTokenCommand struct {
	moderation `embed:"" json:"-"`
	Name       string `arg:"" help:"The moderator's name." json:"name"`
}

type modTokenListCommand struct{ moderation }

type moderatorToken struct {
	Name  string `json:"name"`
	Token string `json:"token,omitempty"`
	Until int64  `json:"until,omitempty"`
}

func (c *createTokenCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, "setModerator", nil, c, func(t *moderatorToken) string {
		return fmt.Sprintf("the token of %s is %s\nIt ends at %s. It is not kept and cannot be shown again.", t.Name, t.Token, terminal.TimeText(t.Until))
	})
}

func (c *revokeTokenCommand) Run(ctx context.Context, std terminal.Streams) error {
	body := map[string]any{"name": c.Name, "revoke": true}
	err := modShow(ctx, std, &c.moderation, "setModerator", nil, body, func(t *moderatorToken) string {
		return t.Name + " is no moderator any more"
	})
	return c.doneEarlier(std, "the token of "+c.Name, err)
}

type moderatorList struct {
	Moderators []moderatorToken `json:"moderators"`
}

func (c *modTokenListCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, "listModerators", nil, nil, func(a *moderatorList) string {
		return terminal.Table("NAME\tUNTIL", a.Moderators, func(t *moderatorToken) []any {
			return []any{t.Name, terminal.TimeText(t.Until)}
		})
	})
}

type eventsCommand struct {
	target `embed:""`
	Since  time.Duration `name:"since" placeholder:"DURATION" help:"Only events of the last DURATION, such as 24h (default: all that are kept)."`
	Limit  int           `name:"limit" default:"100" help:"How many events at most, the newest; up to 1000."`
	Follow bool          `name:"follow" help:"With --json, print each event as a line as it happens, until it is interrupted. It goes on after an error of the node."`
	From   uint64        `name:"from" placeholder:"N" help:"Events from this number on: one more than the last that was read."`
}

// followPause is the time between two questions for new events.
const followPause = time.Second

func (c *eventsCommand) Run(ctx context.Context, std terminal.Streams) error {
	if c.Since < 0 || c.Limit < 1 || c.Limit > admin.MaxEvents {
		return &config.Error{Problems: []string{fmt.Sprintf("--since: give a time that has passed, such as 24h; --limit: give 1 to %d", admin.MaxEvents)}}
	}
	if c.Follow && !c.JSON {
		return &config.Error{Problems: []string{"--follow: prints lines of JSON; give --json, too"}}
	}
	if c.Follow {
		return c.follow(ctx, std)
	}
	request := admin.EventsRequest{Limit: c.Limit, From: c.From}
	if c.Since > 0 {
		request.Since = time.Now().Add(-c.Since).UnixMilli()
	}
	answer, err := ask[admin.Events](ctx, &c.target, admin.PathEvents, request)
	if err != nil {
		return err
	}
	text := terminal.Table("TIME\tBY\tACTION\tWHAT\tREASON", answer.Events, func(e *admin.Event) []any {
		return []any{terminal.TimeText(e.At), e.By, e.Action, wire.Shorten(e.What, maxWhat), e.Reason}
	})
	if answer.More && !c.JSON {
		fmt.Fprintln(std.Err, "events are left out; give a larger --limit")
	}
	return terminal.Show(std.Out, c.JSON, answer, text)
}

// follow prints each event as a line, from a number or a time on, or after the newest.
func (c *eventsCommand) follow(ctx context.Context, std terminal.Streams) error {
	request := admin.EventsRequest{From: c.From}
	switch {
	case c.Since > 0:
		request.Since, request.From = time.Now().Add(-c.Since).UnixMilli(), max(c.From, 1)
	case c.From == 0:
		request.Limit = 1
	}
	lines := json.NewEncoder(std.Out)
	for problem := ""; ; {
		answer, err := ask[admin.Events](ctx, &c.target, admin.PathEvents, request)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the operator ended the command
		case isConfigError(err):
			return err
		case err != nil:
			if text := err.Error(); text != problem {
				problem = text
				fmt.Fprintln(std.Err, "no events, trying again:", text)
			}
		default:
			problem = ""
			if request.From == 0 { // begins after the newest
				request.From, request.Limit = 1, 0
				if last := len(answer.Events) - 1; last >= 0 {
					request.From = answer.Events[last].Number + 1
				}
				answer = admin.Events{}
			}
			for i := range answer.Events {
				if err := lines.Encode(&answer.Events[i]); err != nil {
					return err
				}
				request.From = answer.Events[i].Number + 1
			}
		}
		if !answer.More && !loop.Pause(ctx, followPause) {
			return nil
		}
	}
}
