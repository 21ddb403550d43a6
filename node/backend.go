package node

import (
	"context"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

var _ api.Backend = (*backend)(nil)

// backend is the node as the HTTP service sees it.
type backend struct{ *Node }

// Propose replicates one command of a client. One without a fingerprint came before
// the key of fingerprints was known here; only the node's own have none.
func (b *backend) Propose(ctx context.Context, from command.Sender, body command.Payload) (command.Result, uint64, error) {
	begun := b.sinceStart()
	result, index, err := b.propose(ctx, from, body)
	b.noteWrite(begun, err)
	return result, index, err
}

func (b *backend) propose(ctx context.Context, from command.Sender, body command.Payload) (command.Result, uint64, error) {
	if from.Fingerprint == "" {
		return command.Result{}, 0, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "this node is not yet part of a cluster"}
	}
	if why := b.refusal(); why != nil {
		return command.Result{}, 0, why
	}
	return b.pipeline.Propose(ctx, from, body)
}

// View returns the newest view of the state.
func (b *backend) View() *fsm.View { return b.machine.View() }

// WaitIndex waits until this node has applied the index.
func (b *backend) WaitIndex(ctx context.Context, index uint64) error {
	if err := b.machine.Wait(ctx, index); err != nil {
		return &command.Unavailable{Code: command.CodeBehind, Reason: "this node has not applied that index yet"}
	}
	return nil
}

// ReadIndex returns an index that holds everything acknowledged before.
func (b *backend) ReadIndex(ctx context.Context) (uint64, error) { return b.pipeline.ReadIndex(ctx) }

// Watch wakes when something that concerns the agent was applied.
func (b *backend) Watch(agentKey string) (wake <-chan struct{}, stop func()) {
	return b.machine.Watch(agentKey)
}

// Joined is closed once this node is part of a cluster and can open its data key.
func (b *backend) Joined() <-chan struct{} { return b.joined }

// StaleFor returns how old what is read here may be.
func (b *backend) StaleFor() time.Duration { return b.staleFor() }

// staleFor returns for how long this node has not heard from a leader, or has
// lacked what the leader had applied.
func (n *Node) staleFor() time.Duration {
	if n.raft.Leads() {
		return 0
	}
	last := n.raft.LastContact()
	if last.Before(n.started) {
		last = n.started
	}
	return max(time.Since(last), n.lag())
}

// NodeName is the node's name.
func (b *backend) NodeName() string { return b.identity.NodeName }

// Status describes the node and its part in the cluster.
func (b *backend) Status() api.Status { return b.status() }

// Checks are the conditions of readiness.
func (b *backend) Checks() []api.Check { return b.checks() }
