package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// exitInterrupted is the exit code after a second signal, which cuts a graceful
// end short: 128 + SIGINT, as shells have it.
const exitInterrupted = 130

// UntilSignal returns a context that ends at the first SIGINT or SIGTERM, or when
// the terminal that the process runs on is closed. A second SIGINT or SIGTERM ends
// the process immediately. The context's cause is the reason.
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
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
			// The shell may repeat the signal. Other processes on the terminal have
			// ended too, perhaps the reader of our log: that must not end us early.
			signal.Ignore(syscall.SIGPIPE)
			cancel(errors.New("the terminal was closed"))
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

// hangsUp reports whether SIGHUP means that the terminal was closed: the process has a
// terminal, and was not started by nohup or similar.
func hangsUp() bool {
	if signal.Ignored(syscall.SIGHUP) {
		return false
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = terminal.Close() // it was not written to
	return true
}

// OutliveHangups keeps a process without a terminal running at a SIGHUP. Without a terminal the
// signal can only be a request to reload, and there is nothing to reload.
func OutliveHangups() {
	if !hangsUp() {
		signal.Ignore(syscall.SIGHUP)
	}
}
