package operate

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

// ruleSetter is a command that sets a rule.
type ruleSetter struct{ moderation }

// Run calls the operation with the name of the command. Its body is the command.
func (c *ruleSetter) Run(ctx context.Context, std terminal.Streams, called *kong.Context) error {
	return modShow(ctx, std, &c.moderation, called.Selected().Name, nil, called.Selected().Target.Addr().Interface(), func(r *rule) string {
		return fmt.Sprintf("rule %d: %s, %s", r.Number, r.text(), r.end())
	})
}

type blockCommand struct {
	ruleSetter `embed:"" json:"-"`
	SenderOf   string `name:"sender-of" xor:"whom" group:"Whom (exactly one):" placeholder:"ID" help:"Block whoever wrote this entry, by where it came from." json:"sender_of,omitempty"`
	Agent      string `name:"agent" xor:"whom" group:"Whom (exactly one):" placeholder:"NAME" help:"Block all writes under this name; anonymous is everybody who writes without one." json:"agent,omitempty"`
	Network    string `name:"network" xor:"whom" group:"Whom (exactly one):" placeholder:"CIDR" help:"Block a network, such as 192.0.2.0/24." json:"network,omitempty"`
	For        string `name:"for" placeholder:"DURATION" help:"For how long, such as 90m, 12h or 7d, at most 366d; without it, or with forever, until it is lifted." json:"for,omitempty"`
	Reason     string `name:"reason" required:"" placeholder:"TEXT" help:"Why; whoever is kept from writing reads it." json:"reason,omitempty"`
}

type freezeCommand struct {
	ruleSetter `embed:"" json:"-"`
	Channel    string `name:"channel" xor:"what" group:"What (exactly one):" placeholder:"NAME" help:"Freeze this channel." json:"channel,omitempty"`
	Unproven   bool   `name:"unproven" xor:"what" group:"What (exactly one):" help:"Freeze writes that prove no name." json:"unproven,omitempty"`
	All        bool   `name:"all" xor:"what" group:"What (exactly one):" help:"Freeze all writes." json:"all,omitempty"`
	For        string `name:"for" required:"" placeholder:"DURATION" help:"For how long, such as 90m, 12h or 7d; at most 366d." json:"for,omitempty"`
	Reason     string `name:"reason" required:"" placeholder:"TEXT" help:"Why; whoever is kept from writing reads it." json:"reason,omitempty"`
}

// Validate reports that no sender, agent or network is named.
func (c *blockCommand) Validate() error {
	if c.SenderOf == "" && c.Agent == "" && c.Network == "" {
		return &config.Error{Problems: []string{"give one of --sender-of ID, --agent NAME and --network CIDR"}}
	}
	return nil
}

// Validate reports that no channel and no kind of write is named.
func (c *freezeCommand) Validate() error {
	if c.Channel == "" && !c.Unproven && !c.All {
		return &config.Error{Problems: []string{"give one of --channel NAME, --unproven and --all"}}
	}
	return nil
}

type watchCommand struct {
	ruleSetter `embed:"" json:"-"`
	Pattern    string `arg:"" help:"A regular expression (RE2), such as '(?i)cheap pills'. A text that it is found in is rejected." json:"pattern,omitempty"`
	For        string `name:"for" placeholder:"DURATION" help:"For how long, such as 12h or 7d; without it, or with forever, until it is lifted." json:"for,omitempty"`
	Reason     string `name:"reason" placeholder:"TEXT" help:"Why; whoever is kept from writing reads it. Required without --test." json:"reason,omitempty"`
	Test       bool   `name:"test" help:"Set no rule: show in which of the newest entries the pattern is found." json:"dry_run,omitempty"`
	Last       int    `name:"last" placeholder:"N" help:"With --test, how many entries to look at: 1000, or up to 10000." json:"last,omitempty"`
}

// Validate reports a rule without a reason.
func (c *watchCommand) Validate() error {
	if c.Reason == "" && !c.Test {
		return &config.Error{Problems: []string{"--reason: say why; or give --test to see what the pattern is found in"}}
	}
	return nil
}

// patternTest is the answer to the test of a pattern.
type patternTest struct {
	Tested  int        `json:"tested"`
	Matched int        `json:"matched"`
	Entries []modEntry `json:"entries"`
}

// Run sets the rule, or tests its pattern.
func (c *watchCommand) Run(ctx context.Context, std terminal.Streams, called *kong.Context) error {
	if !c.Test {
		return c.ruleSetter.Run(ctx, std, called)
	}
	return modShow(ctx, std, &c.moderation, "watch", nil, c, func(a *patternTest) string {
		text := fmt.Sprintf("found in %d of the newest %d entries; no rule was set", a.Matched, a.Tested)
		if a.Matched == 0 {
			return text
		}
		return text + ". The newest:\n" + entriesTable(a.Entries)
	})
}

type undoCommand struct {
	moderation `embed:"" json:"-"`
	Numbers    []uint64 `arg:"" name:"number" help:"Numbers of orders, as 'mod log' shows them, or of rules, as 'mod rules' shows them." json:"-"`
	Reason     string   `name:"reason" placeholder:"TEXT" help:"Why; everybody can read it." json:"reason"`
	Number     uint64   `kong:"-" json:"number"`
	Before     *string  `kong:"-" json:"before,omitempty"`
}

type modRulesCommand struct{ moderation }

type rule struct {
	Number  uint64 `json:"number"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	At      int64  `json:"at"`
	Until   *int64 `json:"until"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

func (r *rule) text() string {
	switch r.Kind {
	case "pattern":
		return "reject texts with " + r.Subject
	case "sender":
		return "block the sender of " + r.Subject
	case "agent", "network":
		return "block the " + r.Kind + " " + r.Subject
	case "unproven":
		return "freeze unproven writes"
	case "all":
		return "freeze all writes"
	}
	return strings.TrimSpace("freeze the " + r.Kind + " " + r.Subject)
}

func (r *rule) end() string {
	if r.Until == nil {
		return "until it is lifted"
	}
	return "until " + terminal.TimeText(*r.Until)
}

// Run takes orders back. It returns an error for one that was taken back before, unless an earlier
// attempt of the same call may have done it.
func (c *undoCommand) Run(ctx context.Context, std terminal.Streams) error {
	for _, c.Number = range c.Numbers {
		c.repeated, c.Before = false, nil
		var all hidden
		err := allParts(ctx, std, &c.moderation, undo, c, &all, func(part *hidden) { c.Before = part.Next })
		if err == nil {
			err = terminal.Show(std.Out, c.JSON, all, fmt.Sprintf("order %d: %s", c.Number, all.text(undo, false)))
		}
		if err := c.doneEarlier(std, fmt.Sprintf("order %d", c.Number), err); err != nil {
			return err
		}
	}
	return nil
}

func (c *modRulesCommand) Run(ctx context.Context, std terminal.Streams) error {
	type page struct {
		Rules      []rule  `json:"rules"`
		NextCursor *string `json:"nextCursor"`
	}
	rules := []rule{}
	for query := (url.Values{"limit": {"100"}}); ; {
		part, err := modCall[page](ctx, &c.moderation, "listRules", query, nil)
		if err != nil {
			return err
		}
		rules = append(rules, part.Rules...)
		if part.NextCursor == nil {
			break
		}
		query.Set("cursor", *part.NextCursor)
	}
	text := terminal.Table("NUMBER\tRULE\tEND\tBY\tREASON", rules, func(r *rule) []any {
		return []any{r.Number, r.text(), r.end(), r.By, r.Reason}
	})
	return terminal.Show(std.Out, c.JSON, map[string]any{"rules": rules}, text)
}
