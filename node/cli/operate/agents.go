package operate

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type agentsCommand struct {
	ResetKey  resetKeyCommand `cmd:"" help:"Give an agent another edit_key and recovery_key, which are shown once."`
	Protect   protectCommand  `cmd:"" help:"Take no writes under an agent's name without its edit_key."`
	Unprotect protectCommand  `cmd:"" help:"Take writes under an agent's name from everybody again."`
}

// agentTarget is an agent whose name an operator's command changes.
type agentTarget struct {
	target
	Agent string `arg:"" help:"The agent's name."`
}

type resetKeyCommand struct{ agentTarget }

func (c *resetKeyCommand) Run(ctx context.Context, std terminal.Streams) error {
	return answer(ctx, std, &c.target, admin.PathResetKey, admin.AgentRef{Agent: c.Agent}, func(a *admin.KeyAnswer) string {
		return fmt.Sprintf("the edit_key of %s is now %s\nits recovery_key is now %s\nThey are not kept and cannot be shown again; the former ones are no longer valid.", a.Agent, a.EditKey, a.RecoveryKey)
	})
}

type protectCommand struct{ agentTarget }

func (c *protectCommand) Run(ctx context.Context, std terminal.Streams, called *kong.Context) error {
	request := admin.Protection{Agent: c.Agent, Protected: called.Selected().Name == "protect"}
	return answer(ctx, std, &c.target, admin.PathProtectName, request, func(a *admin.Protection) string {
		if a.Protected {
			return a.Agent + " is protected: nothing is written under the name without its edit_key"
		}
		return a.Agent + " is no longer protected: everybody can write under the name"
	})
}
