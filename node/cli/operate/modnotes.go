package operate

import (
	"context"
	"fmt"

	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

type noteCommand struct {
	moderation `embed:"" json:"-"`
	Agent      string `name:"agent" xor:"on" group:"On whom (exactly one):" placeholder:"NAME" help:"On this name." json:"agent,omitempty"`
	SenderOf   string `name:"sender-of" xor:"on" group:"On whom (exactly one):" placeholder:"ID" help:"On whoever wrote this entry, by where it came from." json:"sender_of,omitempty"`
	Remove     uint64 `name:"remove" xor:"on" group:"On whom (exactly one):" placeholder:"NUMBER" help:"Remove this note." json:"remove,omitempty"`
	Text       string `arg:"" optional:"" help:"The note." json:"text,omitempty"`
}

// Validate reports a note without a subject or a text.
func (c *noteCommand) Validate() error {
	if c.Remove == 0 && (c.Text == "" || c.Agent == "" && c.SenderOf == "") {
		return &config.Error{Problems: []string{"give --agent NAME or --sender-of ID, and the note; or --remove NUMBER"}}
	}
	return nil
}

type notedNumber struct {
	Number uint64 `json:"number"`
}

// Run adds or removes a note.
func (c *noteCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, setNote, nil, c, func(n *notedNumber) string {
		if c.Remove > 0 {
			return fmt.Sprintf("note %d is removed", n.Number)
		}
		return fmt.Sprintf("note %d; moderators alone see it", n.Number)
	})
}

type modNotesCommand struct {
	moderation `embed:""`
	Agent      string `name:"agent" placeholder:"NAME" help:"Those on this name."`
	SenderOf   string `name:"sender-of" placeholder:"ID" help:"Those on the sender of this entry."`
	Limit      int    `name:"limit" default:"50" help:"How many, the newest first; at most 100."`
}

type modNote struct {
	Number uint64 `json:"number"`
	About  string `json:"about"`
	Agent  string `json:"agent"`
	At     int64  `json:"at"`
	By     string `json:"by"`
	Text   string `json:"text"`
}

type modNotes struct {
	Notes      []modNote `json:"moderatorNotes"`
	NextCursor *string   `json:"nextCursor"`
}

// Run lists notes.
func (c *modNotesCommand) Run(ctx context.Context, std terminal.Streams) error {
	query := listQuery(c.Limit, map[string]string{"agent": c.Agent, "sender_of": c.SenderOf})
	return modShow(ctx, std, &c.moderation, "listNotes", query, nil, func(page *modNotes) string {
		return terminal.Table("NUMBER\tTIME\tBY\tON\tNOTE", page.Notes, func(n *modNote) []any {
			on := "a sender"
			if n.Agent != "" {
				on = n.Agent
			}
			return []any{n.Number, terminal.TimeText(n.At), n.By, on, oneLine(n.Text)}
		})
	})
}
