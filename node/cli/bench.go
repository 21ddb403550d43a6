package cli

import (
	"context"
	"strings"

	"github.com/commons-cluster/commons/node/bench"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

type benchCommand struct {
	bench.Options `embed:""`
	JSON          bool `name:"json" help:"Print the report as JSON."`
}

func (c *benchCommand) Validate() error {
	if err := c.Options.Validate(); err != nil {
		return &config.Error{Problems: strings.Split(err.Error(), "\n")}
	}
	return nil
}

func (c *benchCommand) Run(ctx context.Context, std terminal.Streams) error {
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	report, err := bench.Run(ctx, c.Options)
	if err != nil {
		return err
	}
	return terminal.Show(std.Out, c.JSON, report, report.Text())
}
