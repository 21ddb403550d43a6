package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// exitInterrupted is the exit code after a second signal, which cuts a graceful
// end short: 128 + SIGINT, as shells have it.
const exitInterrupted = 130

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The
// second one ends the process at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			// The command ends by itself; a signal meanwhile may end it faster.
		}
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, cancel
}
