package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Sequences of a terminal: another screen, so that what was there comes back at
// the end, and the way to write over what is shown without a flicker.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l"
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineRest    = "\x1b[K"
	screenRest  = "\x1b[J"
)

const minTopInterval = 100 * time.Millisecond

type topCommand struct {
	ClusterAddr []string      `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT,..." help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; not needed for nodes on this machine that have none."`
	Interval    time.Duration `name:"interval" default:"1s" placeholder:"DURATION" help:"Time between two looks."`
	Count       int           `name:"count" default:"0" placeholder:"N" help:"End after so many screens; 0: at Ctrl-C."`
	JSON        bool          `name:"json" help:"Print one line of JSON for each look."`
}

// Run shows the cluster until a signal ends it. A look that fails is shown,
// and tried again: clusters are watched when things go wrong.
func (c *topCommand) Run(ctx context.Context, std streams) error {
	if c.Interval < minTopInterval {
		return &configError{[]string{fmt.Sprintf("--interval: %v is too short; give %v or more", c.Interval, minTopInterval)}}
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	s := screen{out: std.out, live: !c.JSON && isTerminal(std.out)}
	s.enter()
	defer s.leave()
	w := watcher{target: &target{ClusterAddr: c.ClusterAddr, SecretFile: c.SecretFile, Timeout: max(c.Interval, minLook)}}
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
			s.show(err.Error() + "\n")
			shown++
		case !w.earlier.IsZero():
			if err := c.showOverview(&s, w.overview()); err != nil {
				return err
			}
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

// minLook is the least time that one look may take.
const minLook = 5 * time.Second

func (c *topCommand) showOverview(s *screen, p *overview) error {
	var text bytes.Buffer
	if c.JSON {
		return json.NewEncoder(s.out).Encode(p)
	}
	if err := writeStatus(&text, p); err != nil {
		return err
	}
	s.show(text.String())
	return nil
}

// screen shows one text after the other in the same place of a terminal, or,
// where there is none, below each other.
type screen struct {
	out  io.Writer
	live bool
}

func (s *screen) enter() {
	if s.live {
		fmt.Fprint(s.out, screenEnter)
	}
}

func (s *screen) leave() {
	if s.live {
		fmt.Fprint(s.out, screenLeave)
	}
}

func (s *screen) show(text string) {
	if !s.live {
		fmt.Fprintln(s.out, text)
		return
	}
	text += time.Now().Format(time.TimeOnly) + "   Ctrl-C ends this\n"
	fmt.Fprint(s.out, screenHome, strings.ReplaceAll(text, "\n", lineRest+"\n"), screenRest)
}
