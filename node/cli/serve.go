package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/bench"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/dev"
	"github.com/commons-cluster/commons/node/offline"
)

// shutdownTimeout bounds a graceful end, after its delay: handing leadership over,
// answering what was taken, and closing the stores.
const shutdownTimeout = 20 * time.Second

// shutdownGrace is what the node gets to cut short what is left after that.
const shutdownGrace = 5 * time.Second

type serveCommand struct {
	Config config.Config `embed:""`
}

func (c *serveCommand) Help() string {
	return "SIGTERM and Ctrl-C hand leadership over and end the node in good order; a second one ends it at once. " +
		"On a terminal SIGHUP does the same, because the terminal was closed, unless nohup is in front. " +
		"Without one the node goes on: there is nothing to reload, as the secret file is read again by itself and settings take a restart."
}

func (c *serveCommand) Run(ctx context.Context, std streams) error {
	logger, err := newLogger(std.err, c.Config.LogLevel, c.Config.LogFormat)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	outlived, stopOutliving := context.WithCancel(context.WithoutCancel(ctx)) // also while it ends
	defer stopOutliving()
	outliveHangups(outlived, logger)
	c.Config.Version = Version()
	if c.Config.Build, err = build(); err != nil {
		logger.WarnContext(ctx, "this build has no name: entity tags differ from those of other nodes", "error", err)
	}
	logger.InfoContext(ctx, "starting", "version", c.Config.Version)
	n, err := node.Start(ctx, c.Config, logger)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Wait() }()
	select {
	case err := <-ended:
		if err == nil { // nothing else ends a node without an error and without a signal
			logger.InfoContext(ctx, "ended")
			err = offline.ErrLeft
		}
		return err
	case <-ctx.Done():
	}
	logger.InfoContext(ctx, "shutting down; SIGTERM or Ctrl-C, once more, ends the process at once", "reason", context.Cause(ctx))
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Config.ShutdownDelay+shutdownTimeout)
	defer cancel()
	go func() { _ = n.Shutdown(bounded) }() // Wait returns the same
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

// exitInterrupted is the exit code after a second signal, which cuts a graceful
// end short: 128 + SIGINT, as shells have it.
const exitInterrupted = 130

var errTerminalClosed = errors.New("the terminal was closed")

// untilSignal returns a context that ends at the first SIGINT or SIGTERM, or when
// the terminal that the process runs on is closed. A second SIGINT or SIGTERM ends
// the process immediately. The context's cause says which it was.
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
			// The shell may repeat the signal. Other processes on the terminal have
			// ended too, perhaps the reader of our log: that must not end us early.
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
// has one, and was not started to outlive it, as by nohup.
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

// newLogger makes the process's logger. level and format are those of a
// validated configuration; format auto is text on a terminal, else JSON.
func newLogger(out io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, &configError{[]string{"--log-level: " + err.Error()}}
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" || format == "auto" && isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, options)), nil
	}
	return slog.New(slog.NewJSONHandler(out, options)), nil
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

type devCommand struct {
	DataDir     string   `name:"data-dir" env:"COMMONS_DEV_DATA_DIR" default:"./data/dev" placeholder:"DIR" help:"Where the nodes keep their data, their logs and their secret."`
	HTTPPort    int      `name:"http-port" default:"8080" placeholder:"PORT" help:"Public HTTP port of the first node; the others take the next ones."`
	ClusterPort int      `name:"cluster-port" default:"7000" placeholder:"PORT" help:"Private port of the first node."`
	GossipPort  int      `name:"gossip-port" default:"7946" placeholder:"PORT" help:"Gossip port of the first node."`
	Serve       []string `arg:"" optional:"" passthrough:"" help:"More flags for each node, after --: see commons serve --help."`
}

// serveFlags are the flags after "--".
func (c *devCommand) serveFlags() []string {
	if len(c.Serve) > 0 && c.Serve[0] == "--" {
		return c.Serve[1:]
	}
	return c.Serve
}

func (c *devCommand) Run(ctx context.Context, std streams) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	return dev.Run(ctx, dev.Options{
		Binary: binary, DataDir: c.DataDir, Out: std.out, ServeFlags: c.serveFlags(),
		HTTPPort: c.HTTPPort, ClusterPort: c.ClusterPort, GossipPort: c.GossipPort,
	})
}

type benchCommand struct {
	Mode        string        `arg:"" enum:"write,list,search,home,poll,mixed,wait" help:"What to send: write, list, search, home, poll (lists and homes with the entity tag of the answer before), mixed (seven lists, two searches and one write of ten) or wait (home calls that are held, and writes that wake them)."`
	URL         []string      `name:"url" sep:"," default:"http://127.0.0.1:8080" placeholder:"URL" help:"Nodes that the connections are divided among."`
	Connections int           `name:"connections" default:"64" placeholder:"N" help:"Connections, each with one request under way."`
	Duration    time.Duration `name:"duration" default:"10s" placeholder:"DURATION" help:"How long to measure."`
	Rate        float64       `name:"rate" default:"0" placeholder:"N" help:"Requests a second, due whether or not earlier ones are answered; they wait for a connection if need be. 0: each connection sends when its last request is answered."`
	Size        int           `name:"size" default:"1000" placeholder:"BYTES" help:"Bytes of a written body."`
	Fill        int           `name:"fill" default:"0" placeholder:"N" help:"Entries to publish before measuring."`
	JSON        bool          `name:"json" help:"Print the report as JSON."`
	Surface     []string      `name:"surface" sep:"," default:"http" placeholder:"SURFACE" help:"How to write: http, a2a or mcp; several in turn with commas."`
	PID         int           `name:"pid" default:"0" placeholder:"PID" help:"Report the most memory that this process takes."`
	AllowRemote bool          `name:"allow-remote" help:"Load nodes on other machines, too."`
}

func (c *benchCommand) options() bench.Options {
	surfaces := make([]bench.Surface, len(c.Surface))
	for i, s := range c.Surface {
		surfaces[i] = bench.Surface(s)
	}
	return bench.Options{
		Mode: bench.Mode(c.Mode), URLs: c.URL, Connections: c.Connections, Duration: c.Duration,
		Rate: c.Rate, Size: c.Size, Fill: c.Fill, Surfaces: surfaces, AllowRemote: c.AllowRemote, PID: c.PID,
	}
}

func (c *benchCommand) Validate() error {
	if err := c.options().Validate(); err != nil {
		return &configError{strings.Split(err.Error(), "\n")}
	}
	return nil
}

func (c *benchCommand) Run(ctx context.Context, std streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	report, err := bench.Run(ctx, c.options())
	if err != nil {
		return err
	}
	if c.JSON {
		return report.WriteJSON(std.out)
	}
	return report.WriteText(std.out)
}
