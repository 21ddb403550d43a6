package node

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
func (n *Node) configuration() (configuration, error) {
	v := n.machine.View()
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
func (n *Node) reconfigure(ctx context.Context, judge func(configuration) (change, error)) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	judged, err := n.configuration()
	if err != nil {
		return err
	}
	c, err := judge(judged)
	if err != nil {
		return err
	}
	return n.carryOut(ctx, judged.index, c)
}

// carryOut makes a change that was judged by the configuration at an index. A
// change of two steps takes the second on what the first has made.
func (n *Node) carryOut(ctx context.Context, index uint64, c change) error {
	for _, step := range []struct {
		id    string
		do    func(id raft.ServerID, prevIndex uint64) raft.IndexFuture
		doing string
		why   string
	}{
		{c.add, n.addNonvoter, "adding", "it is alive and new"},
		{c.promote, n.addVoter, "promoting", "it is healthy"},
		{c.demote, n.demoteVoter, "demoting", "it does not want to vote"},
		{c.remove, n.dropServer, "removing", c.why},
	} {
		if step.id == "" {
			continue
		}
		future := step.do(raft.ServerID(step.id), index)
		if err := future.Error(); err != nil {
			return fmt.Errorf("%s %s: %w", step.doing, step.id, err)
		}
		index = future.Index()
		n.logger.InfoContext(ctx, "changed the configuration", "change", step.doing, "server", step.id, "reason", step.why)
	}
	if c.remove != "" {
		if err := n.book.Forget(c.remove); err != nil {
			n.logger.WarnContext(ctx, "the address book was not written", "error", err)
		}
	}
	if c.lead == "" {
		return nil
	}
	n.logger.WarnContext(ctx, "another server is to lead", "server", c.lead)
	if err := n.raft.LeadershipTransferToServer(raft.ServerID(c.lead), raft.ServerAddress(c.lead)).Error(); err != nil {
		return fmt.Errorf("handing leadership to %s: %w", c.lead, err)
	}
	return nil
}

// The changes that Raft knows. Each fails unless the newest configuration is the
// one at prevIndex.

func (n *Node) addNonvoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return n.raft.AddNonvoter(id, raft.ServerAddress(id), prevIndex, changeTimeout)
}

func (n *Node) addVoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return n.raft.AddVoter(id, raft.ServerAddress(id), prevIndex, changeTimeout)
}

func (n *Node) demoteVoter(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return n.raft.DemoteVoter(id, prevIndex, changeTimeout)
}

func (n *Node) dropServer(id raft.ServerID, prevIndex uint64) raft.IndexFuture {
	return n.raft.RemoveServer(id, prevIndex, changeTimeout)
}

// without counts the voters that are left when a server goes, and those of them
// that count as living.
func without(servers []raft.Server, id string, lives func(id string) bool) (left, living int) {
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

// decides reports whether so many living voters of a configuration are a majority.
func decides(living, voters int) bool { return living > voters/2 }
