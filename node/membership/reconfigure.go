package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// changeTimeout bounds the wait for a change of the configuration to begin.
const changeTimeout = 5 * time.Second

// configuration is the newest committed one.
type configuration struct {
	index   uint64 // of its log entry
	servers []raft.Server
}

var errNoConfiguration = errors.New("this node has no configuration of the cluster")

// configuration returns the newest committed configuration, as the state holds it:
// Raft does not tell the index of its own. It is an error for a node without one: a
// change that names no index would be made on any.
func (ms *Membership) configuration() (configuration, error) {
	v := ms.cfg.Machine.View()
	defer v.Release()
	index, data := v.Configuration()
	if index == 0 {
		return configuration{}, errNoConfiguration
	}
	return configuration{index, raft.DecodeConfiguration(data).Servers}, nil
}

// reconfigure is the one way to change Raft's configuration. judge decides on the
// newest one, and nobody else changes it here meanwhile. What it decides is carried
// out on that configuration or not at all, also when another node has led in
// between: two changes that each leave a quorum can take it together.
func (ms *Membership) reconfigure(ctx context.Context, judge func(configuration) (change, error)) error {
	ms.changing.Lock()
	defer ms.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	judged, err := ms.configuration()
	if err != nil {
		return err
	}
	c, err := judge(judged)
	if err != nil {
		return err
	}
	return ms.carryOut(ctx, judged.index, c)
}

// carryOut makes a change that was judged by the configuration at an index. A
// change of two steps takes the second on what the first has made.
func (ms *Membership) carryOut(ctx context.Context, index uint64, c change) error {
	for _, step := range []struct {
		id    string
		do    func(id raft.ServerID, prevIndex uint64) raft.IndexFuture
		doing string
		why   string
	}{
		{c.add, ms.addNonvoter, "adding", "it is alive and new"},
		{c.promote, ms.addVoter, "promoting", "it is healthy"},
		{c.demote, ms.demoteVoter, "demoting", "it does not want to vote"},
		{c.remove, ms.dropServer, "removing", c.why},
	} {
		if step.id == "" {
			continue
		}
		future := step.do(raft.ServerID(step.id), index)
		if err := future.Error(); err != nil {
			return fmt.Errorf("%s %s: %w", step.doing, step.id, err)
		}
		index = future.Index()
		ms.cfg.Logger.InfoContext(ctx, "changed the configuration", "change", step.doing, "server", step.id, "reason", step.why)
	}
	if c.remove != "" {
		if err := ms.cfg.Book.Forget(c.remove); err != nil {
			ms.cfg.Logger.WarnContext(ctx, "the address book was not written", "error", err)
		}
	}
	if c.lead == "" {
		return nil
	}
	ms.cfg.Logger.WarnContext(ctx, "another server is to lead", "server", c.lead)
	if err := ms.cfg.Raft.LeadershipTransferToServer(raft.ServerID(c.lead), raft.ServerAddress(c.lead)).Error(); err != nil {
		return fmt.Errorf("handing leadership to %s: %w", c.lead, err)
	}
	return nil
}

// The changes that Raft knows. Each fails unless the newest configuration is the
// one at prevIndex.

func (ms *Membership) addNonvoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return ms.cfg.Raft.AddNonvoter(id, raft.ServerAddress(id), prevIndex, changeTimeout)
}

func (ms *Membership) addVoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return ms.cfg.Raft.AddVoter(id, raft.ServerAddress(id), prevIndex, changeTimeout)
}

func (ms *Membership) demoteVoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return ms.cfg.Raft.DemoteVoter(id, prevIndex, changeTimeout)
}

func (ms *Membership) dropServer(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return ms.cfg.Raft.RemoveServer(id, prevIndex, changeTimeout)
}

// Remove takes a server out of the configuration for the given reason, unless may says
// why not.
func (ms *Membership) Remove(ctx context.Context, id, reason string, may func([]raft.Server) error) error {
	return ms.reconfigure(ctx, func(current configuration) (change, error) {
		return change{remove: id, why: reason}, may(current.servers)
	})
}

// Without counts the voters that are left when a server goes, and those of them
// that count as living.
func Without(servers []raft.Server, id string, lives func(id string) bool) (left, living int) {
	for _, s := range servers {
		if s.Suffrage != raft.Voter || string(s.ID) == id {
			continue
		}
		left++
		if lives(string(s.ID)) {
			living++
		}
	}
	return left, living
}

// Decides reports whether so many living voters of a configuration are a majority.
func Decides(living, voters int) bool { return living > voters/2 }
