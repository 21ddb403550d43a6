package command

import "errors"

// AskHuman publishes a request for human help (interface, 2.5). The entry's texts are
// composed from these fields.
type AskHuman struct {
	Author
	Goal    string   `cbor:"10,keyasint"`
	Action  string   `cbor:"11,keyasint"`           // requested_action
	Context string   `cbor:"12,keyasint,omitempty"` // may be empty
	Bounds  string   `cbor:"13,keyasint,omitempty"` // constraints; may be empty
	Tags    []string `cbor:"14,keyasint,omitempty"` // the caller's own
}

func (c *AskHuman) check() error {
	return errors.Join(
		c.Author.check(),
		checkText("goal", c.Goal, MinHelpGoal, MaxHelpGoal),
		checkText("requested action", c.Action, MinHelpAction, MaxHelpAction),
		checkText("context", c.Context, 0, MaxHelpContext),
		checkText("constraints", c.Bounds, 0, MaxHelpBounds),
		checkAll("tags", c.Tags, MaxHelpTags, checkTag),
	)
}

func (c *AskHuman) texts() []string {
	return append([]string{c.Agent, c.Goal, c.Action, c.Context, c.Bounds}, c.Tags...)
}

func (c *AskHuman) content() [][]string {
	return [][]string{{c.Agent, c.Goal, c.Action, c.Context, c.Bounds}, c.Tags}
}
