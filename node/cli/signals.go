package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// exitInterrupted is the exit code after a second signal, which cuts a graceful
// end short: 128 + SIGINT, as shells have it.
const exitInterrupted = 130

var errTerminalClosed = errors.New("the terminal was closed")

// untilSignal returns a context that ends at the first SIGINT or SIGTERM, or when
// the terminal that the process runs on is closed. A second SIGINT or SIGTERM ends
// the process at once. The context's cause says which it was.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if hangsUp() {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		defer signal.Stop(signals)
		select {
		case <-hangups:
			// The shell may repeat it. Whatever else was on the terminal is gone
			// too, perhaps with what reads our log: that must not end us early.
			signal.Ignore(syscall.SIGPIPE)
			cancel(errTerminalClosed)
		case s := <-signals:
			cancel(fmt.Errorf("signal: %v", s))
		case <-ctx.Done():
			// The command ends by itself; a signal meanwhile may end it faster.
		}
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { cancel(nil) }
}

// hangsUp reports whether SIGHUP means that the terminal was closed: the process
// has one, and was not told to outlive it, as nohup does.
func hangsUp() bool {
	if signal.Ignored(syscall.SIGHUP) {
		return false
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = terminal.Close() // nothing was written
	return true
}

// outliveHangups keeps a process without a terminal going at a SIGHUP, which there
// can only be meant as a request to reload, and says what comes of it.
func outliveHangups(ctx context.Context, logger *slog.Logger) {
	if hangsUp() || signal.Ignored(syscall.SIGHUP) {
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				logger.InfoContext(ctx, "SIGHUP: nothing to reload, the node goes on; the secret file is read again by itself, and settings take a restart")
			}
		}
	}()
}
