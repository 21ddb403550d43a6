package delivery

import (
	"context"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// digestInterval is how often the leader looks for entries of subscriptions to list in
	// digests, and maxDigestLook at how many agents it looks each time.
	digestInterval = time.Second
	maxDigestLook  = 256
)

// digests is the progress of one leader through the agents that have digests.
type digests struct {
	after string            // the agent that was looked at last, or "" at the beginning
	seen  map[string]uint64 // the seq up to which an agent has no entry since its last digest
}

// sendDigests queues due digests of subscriptions, for as long as this node leads.
func (s *Service) sendDigests(ctx context.Context) {
	d := &digests{seen: make(map[string]uint64)}
	loop.Every(ctx, digestInterval, func(ctx context.Context) {
		c, err := s.dueDigests(d)
		if err == nil && len(c.Digests) > 0 {
			err = s.cfg.ProposeAsLeader(ctx, c)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "digests of subscriptions were not queued; it is tried again", "error", err)
		}
	})
}

// dueDigests returns the due digests of the next agents.
func (s *Service) dueDigests(d *digests) (*command.SendDigests, error) {
	v := s.cfg.Machine.View()
	defer v.Release()
	if len(d.seen) > command.MaxAllSubscriptions { // names without digests are among them
		clear(d.seen)
	}
	c, now, looked := &command.SendDigests{}, max(s.cfg.Stamp(), v.Time()), 0
	after := d.after
	d.after = ""
	err := v.DigestsAfter(after, func(agentKey string, at state.DigestRow) error {
		if looked == maxDigestLook || len(c.Digests) == command.MaxDigests {
			return state.ErrEnough
		}
		looked++
		d.after = agentKey
		if at.At != 0 && now < at.At+command.DigestMillis || max(at.Read, d.seen[agentKey]) >= v.LastSeq() {
			return nil
		}
		due, err := v.DueDigest(agentKey, at, d.seen[agentKey])
		if err == nil && len(due.Entries) > 0 {
			c.Digests = append(c.Digests, due)
		} else if err == nil {
			d.seen[agentKey] = due.To
		}
		return err
	})
	if looked < maxDigestLook && len(c.Digests) < command.MaxDigests {
		d.after = "" // that was the last agent
	}
	return c, err
}
