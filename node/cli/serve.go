package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/memory"
	"github.com/commons-cluster/commons/node/offline"
)

// shutdownTimeout limits a graceful end after its delay: transfer of leadership, answers to
// accepted requests, and closing the stores.
const shutdownTimeout = 20 * time.Second

const shutdownGrace = 5 * time.Second // the additional time to abort the remaining work

type serveCommand struct {
	Config config.Config `embed:""`
}

func (c *serveCommand) Help() string {
	return "SIGTERM and Ctrl-C hand leadership over and end the node in good order; a second one ends it at once. " +
		"On a terminal SIGHUP does the same, because the terminal was closed, unless nohup is in front. " +
		"Without one the node goes on: there is nothing to reload, as the secret file is read again by itself and settings take a restart."
}

func (c *serveCommand) Run(ctx context.Context, std terminal.Streams) error {
	logger, err := terminal.NewLogger(std.Err, c.Config.LogLevel, c.Config.LogFormat)
	if err != nil {
		return err
	}
	slog.SetDefault(logger) // for libraries, which would write to stderr themselves
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	terminal.OutliveHangups()
	c.Config.Version, c.Config.LogDropped = Version(), std.Dropped
	if c.Config.Build, err = build(); err != nil {
		logger.WarnContext(ctx, "this build has no name: entity tags differ from those of other nodes", "error", err)
	}
	logger.InfoContext(ctx, "starting", "version", c.Config.Version)
	memory.SetLimit()
	n, err := node.Start(ctx, c.Config, logger)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Wait() }()
	select {
	case err := <-ended:
		if err == nil { // the only end without an error and without a signal
			logger.InfoContext(ctx, "ended")
			err = offline.ErrLeft
		}
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Config.ShutdownDelay+shutdownTimeout)
	defer cancel()
	go func() { _ = n.Shutdown(bounded) }() // Wait returns the same
	logger.InfoContext(ctx, "shutting down; SIGTERM or Ctrl-C, once more, ends the process at once", "reason", context.Cause(ctx))
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("shutting down: %w", err)
		}
	case <-time.After(c.Config.ShutdownDelay + shutdownTimeout + shutdownGrace):
		return errors.New("shutting down: the node did not end in time; its disk may hang")
	}
	logger.InfoContext(ctx, "ended")
	return nil
}
