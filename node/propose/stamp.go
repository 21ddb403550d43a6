package propose

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

// compareClocks compares the clocks regularly until the Pipeline is closed.
func (p *Pipeline) compareClocks() {
	loop.Every(p.ctx, p.timing.clockInterval, func(ctx context.Context) { p.compareClocksOnce(ctx, clockTimeout) })
}

// knowClocks returns nil once a majority of the clocks is known. A new leader makes no stamp
// before that: log time never goes back from a stamp that is too late, and a period that
// begins with a stamp that is too early would end too early. If the stamped time is behind
// the log, which was not applied at the last comparison, the clocks are compared again.
func (p *Pipeline) knowClocks(ctx context.Context) error {
	d := p.deps.Load()
	if d == nil || p.sync.knowsMajority() && d.logTime().Sub(p.sync.Corrected()) <= MaxClockSkew {
		return nil // before Start there are no stamps
	}
	if p.compareClocksOnce(ctx, clockFirstTimeout); !p.sync.knowsMajority() {
		return errors.New("the clocks of a majority of the voters are not known yet")
	}
	return nil
}

// stamp returns the stamp of the next batch. If this node's clock was set, or its
// machine slept, it compares the clocks first.
func (p *Pipeline) stamp() int64 {
	if p.sync.stepped() {
		p.compareClocksOnce(p.ctx, clockFirstTimeout) // on failure, the stamped time goes on
	}
	return p.sync.Stamp()
}

func (p *Pipeline) compareClocksOnce(ctx context.Context, timeout time.Duration) {
	d := p.deps.Load()
	voters := d.raft.Voters()
	if len(voters) == 0 {
		return // not a member yet, so its own clock is no majority
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	others := slices.DeleteFunc(voters, func(id string) bool { return id == p.self })
	p.sync.compare(ctx, others, d.logTime, func(ctx context.Context, id string) (time.Time, error) {
		micros, err := p.peers.get(ctx, id, pathClock)
		return time.UnixMicro(int64(micros)), err //nolint:gosec // as serveNumber has sent it
	})
}
