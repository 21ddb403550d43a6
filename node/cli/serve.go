package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/node"
)

// shutdownTimeout bounds a graceful end: handing leadership over, answering what
// was taken, and closing the stores.
const shutdownTimeout = 20 * time.Second

type serveCommand struct {
	Config node.Config `embed:""`
}

// Run runs one node until a signal or its own failure ends it.
func (c *serveCommand) Run(ctx context.Context, std streams) error {
	logger, err := newLogger(std.err, c.Config.LogLevel, c.Config.LogFormat)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	c.Config.Version = Version()
	logger.InfoContext(ctx, "starting", "version", c.Config.Version)
	n, err := node.Start(ctx, c.Config, logger)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	logger.InfoContext(ctx, "shutting down; a second signal ends the process at once")
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := n.Shutdown(bounded); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	if err := <-ended; err != nil {
		return err
	}
	logger.InfoContext(ctx, "ended")
	return nil
}
