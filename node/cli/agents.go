package cli

import (
	"context"
	"fmt"

	"github.com/commons-cluster/commons/node/admin"
)

type agentsCommand struct {
	ResetKey resetKeyCommand `cmd:"" help:"Give an agent another edit_key, which is shown once."`
}

type resetKeyCommand struct {
	target `embed:""`
	Agent  string `arg:"" help:"The agent's name."`
}

// Run resets an agent's key.
func (c *resetKeyCommand) Run(ctx context.Context, std streams) error {
	answer, err := ask[admin.KeyAnswer](ctx, &c.target, admin.PathResetKey, admin.AgentRef{Agent: c.Agent})
	if err != nil {
		return err
	}
	return show(std.out, c.JSON, answer, fmt.Sprintf("the edit_key of %s is now %s\nIt is not kept and cannot be shown again; the former one opens nothing.", answer.Agent, answer.EditKey))
}
