package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

const minTopInterval = 100 * time.Millisecond

type topCommand struct {
	nodes    `embed:""`
	Interval time.Duration `name:"interval" default:"1s" placeholder:"DURATION" help:"Time between two screens."`
	Count    int           `name:"count" default:"0" placeholder:"N" help:"End after so many screens; 0: at Ctrl-C."`
	JSON     bool          `name:"json" help:"Print one line of JSON for each screen."`
}

// Run shows the cluster until a signal ends it. A failed call is shown and repeated,
// because clusters are watched when things go wrong.
func (c *topCommand) Run(ctx context.Context, std terminal.Streams) error {
	if c.Interval < minTopInterval {
		return &config.Error{Problems: []string{fmt.Sprintf("--interval: %v is too short; give %v or more", c.Interval, minTopInterval)}}
	}
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	s := terminal.Screen{Out: std.Out, Live: !c.JSON && terminal.IsTerminal(std.Out)}
	s.Enter()
	defer s.Leave()
	w := watcher{target: &target{nodes: c.nodes, Timeout: max(c.Interval, minLook)}}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for shown := 0; c.Count == 0 || shown < c.Count; {
		err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case isConfigError(err):
			return err
		case err != nil:
			s.Show(err.Error() + "\n")
			shown++
		case w.earlier.IsZero():
		case c.JSON:
			if err := json.NewEncoder(std.Out).Encode(w.overview()); err != nil {
				return err
			}
			shown++
		default:
			s.Show(statusText(w.overview()) + "\n")
			shown++
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

const minLook = 5 * time.Second
