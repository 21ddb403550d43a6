package cli

import (
	"context"
	"os"

	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/dev"
)

type devCommand struct{ dev.Options }

// AfterApply removes the -- before the flags of the nodes.
func (c *devCommand) AfterApply() error {
	if len(c.ServeFlags) > 0 && c.ServeFlags[0] == "--" {
		c.ServeFlags = c.ServeFlags[1:]
	}
	return nil
}

func (c *devCommand) Run(ctx context.Context, std terminal.Streams) (err error) {
	if c.Binary, err = os.Executable(); err != nil {
		return err
	}
	c.Out = std.Out
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	return dev.Run(ctx, c.Options)
}
