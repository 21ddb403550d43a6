package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/bench"
	"github.com/commons-cluster/commons/node/dev"
)

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

// Run runs three nodes until a signal ends them.
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
	Mode        string        `arg:"" enum:"write,list,search,mixed,wait" help:"What to send: write, list, search, mixed (seven lists, two searches and one write of ten) or wait (home calls that are held, and writes that wake them)."`
	URL         []string      `name:"url" sep:"," default:"http://127.0.0.1:8080" placeholder:"URL" help:"Nodes that the connections are divided among."`
	Connections int           `name:"connections" default:"64" placeholder:"N" help:"Connections, each with one request under way."`
	Duration    time.Duration `name:"duration" default:"10s" placeholder:"DURATION" help:"How long to measure."`
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
		Size: c.Size, Fill: c.Fill, Surfaces: surfaces, AllowRemote: c.AllowRemote, PID: c.PID,
	}
}

// Validate implements kong's hook.
func (c *benchCommand) Validate() error {
	if err := c.options().Validate(); err != nil {
		return &configError{strings.Split(err.Error(), "\n")}
	}
	return nil
}

// Run measures and prints the report.
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
