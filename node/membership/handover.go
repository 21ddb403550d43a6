package membership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Retry is the pause after a failed attempt to hand leadership over, or to leave.
const Retry = 50 * time.Millisecond

// HandOver gives leadership to another voter. It returns nil also when this node
// does not lead or nobody else is there to lead.
func (ms *Membership) HandOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ms.cfg.HandoverTimeout)
	defer cancel()
	led := ms.cfg.Raft.Leads()
	for attempt := 0; ms.cfg.Raft.Leads(); attempt++ {
		heirs := ms.Heirs()
		if len(heirs) == 0 {
			break
		}
		next := heirs[attempt%len(heirs)]
		transfer := ms.cfg.Raft.LeadershipTransferToServer(raft.ServerID(next), raft.ServerAddress(next))
		done := make(chan error, 1)
		go func() { done <- transfer.Error() }()
		select {
		case err := <-done:
			if err != nil { // also when it takes the other longer than expected
				ms.cfg.Logger.WarnContext(ctx, "leadership is not handed over yet", "server", next, "error", err)
			}
		case <-ctx.Done():
			return fmt.Errorf("handing leadership over: %w", ctx.Err())
		}
		select {
		case <-time.After(Retry):
		case <-ctx.Done():
			return fmt.Errorf("handing leadership over: %w", ctx.Err())
		}
	}
	if led && !ms.cfg.Raft.Leads() {
		ms.cfg.Logger.InfoContext(ctx, "handed leadership over")
	}
	return nil
}

// Heirs returns the other voters that are alive, the fittest to lead first. Raft by
// itself would pick one by its log alone, alive or not.
func (ms *Membership) Heirs() []string {
	health, _ := ms.Health()
	var alive []heir
	for _, id := range ms.cfg.Raft.Voters() {
		if m, ok := ms.cfg.Gossip.Member(id); ok && id != ms.cfg.ServerID {
			of, _ := health.Server(id)
			alive = append(alive, heir{id, of.Healthy && !m.DiskLow && !m.NonVoter && !m.Leaving, of.LastIndex})
		}
	}
	return byFitness(alive)
}

// heir is a server that may lead next.
type heir struct {
	id    string
	fit   bool
	index uint64 // of its log
}

// byFitness returns the ids of heirs, the fit ones first and those with more log
// before those with less.
func byFitness(heirs []heir) []string {
	slices.SortStableFunc(heirs, func(a, b heir) int {
		if a.fit != b.fit {
			if a.fit {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.index, a.index)
	})
	ids := make([]string, len(heirs))
	for i, h := range heirs {
		ids[i] = h.id
	}
	return ids
}
