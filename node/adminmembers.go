package node

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/membership"

	"github.com/commons-cluster/commons/node/consensus"

	"github.com/commons-cluster/commons/node/offline"
)

const (
	// leaveShutdown bounds the end of a node that has left.
	leaveShutdown = 15 * time.Second
)

// transferLeadership gives leadership to the server that is named, or to the
// fittest one that is alive.
func (n *Node) transferLeadership(ctx context.Context, request admin.ServerRef) (admin.ServerRef, error) {
	if request.ID == n.identity.ServerID {
		return request, nil // it leads already
	}
	if request.ID == "" {
		heirs := n.members.Heirs()
		if len(heirs) == 0 {
			return admin.ServerRef{}, refusef(http.StatusConflict, "no other voter is alive that could lead; see `commons members`")
		}
		request.ID = heirs[0]
	}
	if !slices.Contains(n.raft.Voters(), request.ID) {
		return admin.ServerRef{}, refusef(http.StatusConflict, "%s has no vote and cannot lead; see `commons raft list-peers`", request.ID)
	}
	if err := n.raft.LeadershipTransferToServer(raft.ServerID(request.ID), raft.ServerAddress(request.ID)).Error(); err != nil {
		return admin.ServerRef{}, refusef(http.StatusServiceUnavailable,
			"leadership was not handed over: %v; look at `commons raft list-peers` whether the server keeps up, and repeat", err)
	}
	next := n.awaitOtherLeader(ctx)
	n.logger.InfoContext(ctx, "handed leadership over, as an operator asked", "server", orNone(next), "by", cluster.PeerID(ctx))
	return admin.ServerRef{ID: next}, nil
}

// awaitOtherLeader waits until this node knows whom it has handed leadership to.
func (n *Node) awaitOtherLeader(ctx context.Context) string {
	for {
		if id := n.raft.LeaderID(); id != "" && id != n.identity.ServerID {
			return id
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(membership.Retry):
		}
	}
}

// removeServer takes a server out of the configuration that is gone, or is leaving.
func (n *Node) removeServer(ctx context.Context, request admin.Removal) (admin.ServerRef, error) {
	err := n.members.Remove(ctx, request.ID, "asked for by "+cluster.PeerID(ctx), func(servers []raft.Server) error {
		return n.mayRemove(ctx, servers, request)
	})
	if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
		err = refusef(http.StatusServiceUnavailable, "%s was not removed: %v; repeat", request.ID, err)
	}
	return admin.ServerRef{ID: request.ID}, err
}

// mayRemove refuses to remove a server that is not there, that would come back, or
// whose vote is needed. What may be otherwise in a moment is unavailable, not a
// conflict.
func (n *Node) mayRemove(ctx context.Context, servers []raft.Server, request admin.Removal) error {
	id := request.ID
	if !consensus.Contains(servers, id) {
		return refusef(http.StatusNotFound, "%s is not in the configuration; see `commons raft list-peers`", id)
	}
	m, alive := n.gossip.Member(id)
	switch {
	case id != n.identity.ServerID && (!alive || m.Leaving):
	case request.Leaving:
		// Whom gossip does not count as leaving would be taken in again.
		return refusef(http.StatusServiceUnavailable, "%s is leaving, but this leader has yet to hear so by gossip, or to hand over; repeat", id)
	case id != n.identity.ServerID && !n.members.Answers(ctx, id):
		return refusef(http.StatusServiceUnavailable,
			"%s does not answer, but gossip still counts it as alive; repeat in a few seconds", id)
	default:
		return refusef(http.StatusConflict,
			"%s runs, and would be taken in again; end it with `commons leave` on its own --cluster-addr (%s)", id, m.ClusterAddr)
	}
	return n.mayLose(ctx, servers, id)
}

// mayLose refuses to remove a server when the voters that are left could not
// decide anything. Gossip may not have noticed yet who is gone, so they are asked.
func (n *Node) mayLose(ctx context.Context, servers []raft.Server, id string) error {
	left, alive := membership.Without(servers, id, func(voter string) bool {
		return voter == n.identity.ServerID || n.members.Answers(ctx, voter)
	})
	switch {
	case left == 0:
		return refusef(http.StatusConflict, "%s is the only voter: without it there is no cluster; stop the node instead", id)
	case !membership.Decides(alive, left):
		return refusef(http.StatusConflict, "without %s only %d of %d voters are alive, which is no majority; start the others first", id, alive, left)
	}
	return nil
}

// leave takes this node out of the cluster for good and ends it.
func (n *Node) leave(ctx context.Context, _ struct{}) (answer admin.ServerRef, err error) {
	id := n.identity.ServerID
	if servers := n.raft.Servers(); consensus.Contains(servers, id) {
		// The leader decides. This saves one that leads from handing over in vain.
		if err := n.mayLose(ctx, servers, id); err != nil {
			return answer, err
		}
		if err := n.depart(ctx); err != nil {
			_ = n.members.SetLeaving(false) // says nothing to others
			return answer, err
		}
	}
	if err := offline.MarkLeft(n.cfg.DataDir); err != nil {
		return answer, refusef(http.StatusInternalServerError, "%s has left the cluster, but that was not noted on its disk: %v; stop it and empty its data directory", id, err)
	}
	n.logger.InfoContext(ctx, "left the cluster, as an operator asked", "by", cluster.PeerID(ctx))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveShutdown)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			n.logger.WarnContext(ctx, "the end was cut short", "error", err)
		}
	}()
	return admin.ServerRef{ID: id}, nil
}

// depart has another leader remove this node.
func (n *Node) depart(ctx context.Context) error {
	if err := n.members.SetLeaving(true); err != nil {
		return refusef(http.StatusServiceUnavailable, "the others could not be told: %v", err)
	}
	for attempts := 0; ; {
		// Also one that led before may lead again: another that leaves handed over.
		if err := n.members.HandOver(ctx); err != nil {
			return refusef(http.StatusServiceUnavailable, "%v; repeat", err)
		}
		leader := n.raft.LeaderID()
		var err error
		if leader != "" && leader != n.identity.ServerID {
			_, err = call[admin.ServerRef](ctx, n, leader, admin.PathRemove, admin.Removal{ID: n.identity.ServerID, Leaving: true})
			refused, ok := errors.AsType[*admin.CallError](err)
			switch {
			// Not there: an attempt before was carried out, and its answer lost.
			case err == nil, ok && refused.Status == http.StatusNotFound && attempts > 0:
				return nil
			case ok && refused.Status == http.StatusConflict:
				return refusef(refused.Status, "%s", refused.Message)
			}
			attempts++
		}
		select {
		case <-ctx.Done():
			return refusef(http.StatusServiceUnavailable, "no leader took this node out in time (last: %v); repeat", err)
		case <-time.After(membership.Retry):
		}
	}
}
