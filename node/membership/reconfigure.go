package membership

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
)

const changeTimeout = 5 * time.Second // bounds the wait for a change of the configuration to begin

type configuration struct {
	index   uint64 // of its log entry
	servers []raft.Server
}

var errNoConfiguration = errors.New("this node has no configuration of the cluster")

// configuration returns the newest committed configuration from the state, because Raft
// does not give the index of its own. Without one it returns an error: a change without
// an index would be made on any configuration.
func (ms *Membership) configuration() (configuration, error) {
	v := ms.cfg.Machine.View()
	defer v.Release()
	index, data := v.Configuration()
	if index == 0 {
		return configuration{}, errNoConfiguration
	}
	return configuration{index, raft.DecodeConfiguration(data).Servers}, nil
}

// reconfigure is the only way to change Raft's configuration. decide gets the newest
// one, and this node does not change it otherwise meanwhile. The change is carried out on
// that configuration or not at all, even if another node has led in between: two
// changes that each leave a quorum may together remove it.
func (ms *Membership) reconfigure(ctx context.Context, decide func(configuration) (change, error)) error {
	ms.changing <- struct{}{}
	defer func() { <-ms.changing }()
	if err := ctx.Err(); err != nil {
		return err
	}
	current, err := ms.configuration()
	if err != nil {
		return err
	}
	c, err := decide(current)
	if err != nil {
		return err
	}
	return ms.carryOut(ctx, current.index, c)
}

// carryOut makes a change that was decided on the configuration at an index. The second
// step of a change is made on the result of the first. No step begins while the disk is
// nearly full: a leader that cannot store its own configuration ends.
func (ms *Membership) carryOut(ctx context.Context, index uint64, c change) error {
	r := ms.cfg.Raft
	for _, step := range []struct {
		action string
		id     string
		do     func() raft.IndexFuture // fails unless the newest configuration is the one at index
		doing  string
		reason string
	}{
		{command.ChangeAdd, c.add, func() raft.IndexFuture {
			return r.AddNonvoter(raft.ServerID(c.add), raft.ServerAddress(c.add), index, changeTimeout)
		}, "adding", "it is alive and new"},
		{command.ChangePromote, c.promote, func() raft.IndexFuture {
			return r.AddVoter(raft.ServerID(c.promote), raft.ServerAddress(c.promote), index, changeTimeout)
		}, "promoting", "it is healthy"},
		{command.ChangeDemote, c.demote, func() raft.IndexFuture { return r.DemoteVoter(raft.ServerID(c.demote), index, changeTimeout) }, "demoting", "it does not want to vote"},
		{command.ChangeRemove, c.remove, func() raft.IndexFuture { return r.RemoveServer(raft.ServerID(c.remove), index, changeTimeout) }, "removing", c.reason},
	} {
		if step.id == "" {
			continue
		}
		if err := ms.cfg.CheckDisk(); err != nil {
			return fmt.Errorf("%s %s: %w", step.doing, step.id, err)
		}
		future := step.do()
		if err := future.Error(); err != nil {
			return fmt.Errorf("%s %s: %w", step.doing, step.id, err)
		}
		index = future.Index()
		ms.cfg.Logger.InfoContext(ctx, "changed the configuration", "change", step.doing, "server", step.id, "reason", step.reason)
		ms.note(ctx, step.action, step.id, step.reason)
	}
	if c.remove != "" {
		if err := ms.cfg.Book.Forget(c.remove); err != nil {
			ms.cfg.Logger.WarnContext(ctx, "the address book was not written", "error", err)
		}
	}
	if c.lead == "" {
		return nil
	}
	err := ms.cfg.Raft.HandOver(c.lead)
	ms.cfg.Logger.WarnContext(ctx, "another server is to lead", "server", c.lead, "reason", c.reason)
	if err != nil {
		return fmt.Errorf("handing leadership to %s: %w", c.lead, err)
	}
	return nil
}

// note writes a change to the record of changes. If the leader loses leadership
// meanwhile, as by its own removal, only the log has the change.
func (ms *Membership) note(ctx context.Context, action, server, reason string) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	change := command.NoteChange{Action: action, Server: server, By: ms.cfg.ServerID, Reason: reason[:min(len(reason), command.MaxReason)]}
	if err := ms.cfg.Propose(ctx, &change); err != nil {
		ms.cfg.Logger.WarnContext(ctx, "a change of the configuration is not in the record", "change", action, "server", server, "error", err)
	}
}

// Remove removes a server from the configuration, unless may returns an error.
func (ms *Membership) Remove(ctx context.Context, id, reason string, may func([]raft.Server) error) error {
	return ms.reconfigure(ctx, func(current configuration) (change, error) {
		return change{remove: id, reason: reason}, may(current.servers)
	})
}

// Without counts the voters that remain without a server, and the living ones of them.
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

// Decides reports whether the living voters are a majority.
func Decides(living, voters int) bool { return living > voters/2 }

// reconcile adapts Raft's configuration to the nodes that are present, for as long as
// this node leads.
func (ms *Membership) reconcile(ctx context.Context) {
	p := newPlanner(ms.cfg.ServerID, prober(ms), ms.cfg.Timing, ms.cfg.DeadFor, ms.cfg.Logger)
	tick := time.NewTicker(ms.cfg.ReconcileInterval)
	defer tick.Stop()
	defer ms.rejected.Store(nil)
	for {
		err := ms.reconfigure(ctx, func(current configuration) (change, error) {
			health, _ := ms.Health()
			next := p.plan(ctx, situation{
				now: time.Now(), cluster: ms.cfg.ClusterID(), format: ms.cfg.Machine.Format(), members: ms.cfg.Gossip.Members(),
				servers: current.servers, index: current.index, health: health,
			})
			ms.rejected.Store(new(p.rejected))
			return next, nil
		})
		if err != nil && ctx.Err() == nil {
			ms.cfg.Logger.WarnContext(ctx, "the configuration was not changed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-ms.reconcileNow:
		}
	}
}

// Answers reports whether a server answers on its private port.
func (ms *Membership) Answers(ctx context.Context, id string) bool {
	_, err := ms.peer(ctx, id)
	return err == nil
}

// knows returns the servers in another node's configuration.
func (ms *Membership) knows(ctx context.Context, id string) ([]string, error) {
	p, err := ms.peer(ctx, id)
	return p.Servers, err
}

// raiseFormat raises the replicated format number as soon as every server's program
// knows a newer one, for as long as this node leads. Until then every log entry is one
// that an old program can read. No server is added meanwhile: its program might be
// older.
func (ms *Membership) raiseFormat(ctx context.Context) {
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		ms.changing <- struct{}{}
		defer func() { <-ms.changing }()
		has := ms.cfg.Machine.Format()
		all := commonFormat(ms.cfg.Raft.Servers(), ms.cfg.Gossip.Members(), ms.cfg.ClusterID())
		if all <= has {
			return
		}
		if err := ms.cfg.Propose(ctx, &command.SetFormat{Format: all}); err != nil {
			if ctx.Err() == nil {
				ms.cfg.Logger.WarnContext(ctx, "the format was not raised; it is tried again", "error", err)
			}
			return
		}
		ms.cfg.Logger.InfoContext(ctx, "raised the format: every node is upgraded", "from", has, "to", all)
	})
}

// commonFormat returns the newest format that every server, and every live node that
// belongs to the cluster or may join it, knows; 0 while a server is not in gossip.
func commonFormat(servers []raft.Server, members []cluster.Member, clusterID string) int {
	known := make(map[string]int, len(members))
	common := command.InitialFormat
	if len(members) > 0 {
		common = math.MaxInt
	}
	for _, m := range members {
		known[m.ServerID] = max(m.Format, command.InitialFormat)
		if m.ClusterID == "" || m.ClusterID == clusterID {
			common = min(common, known[m.ServerID])
		}
	}
	for _, s := range servers {
		if known[string(s.ID)] == 0 {
			return 0
		}
	}
	return common
}
