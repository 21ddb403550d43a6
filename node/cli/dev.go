package cli

import (
	"context"
	"os"

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
