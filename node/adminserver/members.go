package adminserver

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/offline"
)

const leaveShutdown = 15 * time.Second // bounds the end of a node that has left

// transferLeadership transfers leadership to the named server, or to the fittest one
// that is alive.
func (a *Server) transferLeadership(ctx context.Context, request admin.ServerRef) (admin.ServerRef, error) {
	if request.ID == a.cfg.ServerID {
		return request, nil // it leads already
	}
	if request.ID == "" {
		successors := a.cfg.Members.Successors()
		if len(successors) == 0 {
			return admin.ServerRef{}, rejectf(http.StatusConflict, "no other voter is alive that could lead; see `commons members`")
		}
		request.ID = successors[0]
	}
	if !slices.Contains(a.cfg.Raft.Voters(), request.ID) {
		return admin.ServerRef{}, rejectf(http.StatusConflict, "%s has no vote and cannot lead; see `commons raft list-peers`", request.ID)
	}
	if err := a.cfg.Raft.HandOver(request.ID); err != nil {
		return admin.ServerRef{}, rejectf(http.StatusServiceUnavailable,
			"leadership was not handed over: %v; look at `commons raft list-peers` whether the server keeps up, and repeat", err)
	}
	next := ""
	for next == "" && loop.Pause(ctx, membership.Retry) { // until this node knows the new leader
		if id := a.cfg.Raft.LeaderID(); id != a.cfg.ServerID {
			next = id
		}
	}
	a.cfg.Logger.InfoContext(ctx, "handed leadership over, as an operator asked", "server", cmp.Or(next, "none"), "by", cluster.PeerID(ctx))
	return admin.ServerRef{ID: next}, nil
}

func (a *Server) removeServer(ctx context.Context, request admin.Removal) (admin.ServerRef, error) {
	err := a.cfg.Members.Remove(ctx, request.ID, "asked for by "+cluster.PeerID(ctx), func(servers []raft.Server) error {
		return a.mayRemove(ctx, servers, request)
	})
	if err != nil && statusOf(err) == 0 {
		err = rejectf(http.StatusServiceUnavailable, "%s was not removed: %v; repeat", request.ID, err)
	}
	return admin.ServerRef{ID: request.ID}, err
}

// mayRemove rejects the removal of a server that is not in the configuration, would be added
// again, or whose vote is needed. Temporary reasons are answered as unavailable.
func (a *Server) mayRemove(ctx context.Context, servers []raft.Server, request admin.Removal) error {
	id := request.ID
	if !consensus.Contains(servers, id) {
		return rejectf(http.StatusNotFound, "%s is not in the configuration; see `commons raft list-peers`", id)
	}
	m, alive := a.cfg.Gossip.Member(id)
	switch {
	case id != a.cfg.ServerID && (!alive || m.Leaving):
	case request.Leaving:
		// A server that is not leaving according to gossip would be added again.
		return rejectf(http.StatusServiceUnavailable, "%s is leaving, but this leader has yet to hear so by gossip, or to hand over; repeat", id)
	case id != a.cfg.ServerID && !a.cfg.Members.Answers(ctx, id):
		return rejectf(http.StatusServiceUnavailable,
			"%s does not answer, but gossip still counts it as alive; repeat in a few seconds", id)
	default:
		return rejectf(http.StatusConflict,
			"%s runs, and would be taken in again; end it with `commons leave` on its own --cluster-addr (%s)", id, m.ClusterAddr)
	}
	return a.mayLose(ctx, servers, id)
}

// mayLose rejects the removal of a server if the remaining voters would have no living
// majority. They are asked directly, because gossip may not have noticed dead ones yet.
func (a *Server) mayLose(ctx context.Context, servers []raft.Server, id string) error {
	left, alive := membership.Without(servers, id, func(voter string) bool {
		return voter == a.cfg.ServerID || a.cfg.Members.Answers(ctx, voter)
	})
	switch {
	case left == 0:
		return rejectf(http.StatusConflict, "%s is the only voter: without it there is no cluster; stop the node instead", id)
	case !membership.Decides(alive, left):
		return rejectf(http.StatusConflict, "without %s only %d of %d voters are alive, which is no majority; start the others first", id, alive, left)
	}
	return nil
}

// leave removes this node from the cluster for good and ends it.
func (a *Server) leave(ctx context.Context, _ struct{}) (answer admin.ServerRef, err error) {
	id := a.cfg.ServerID
	if servers := a.cfg.Raft.Servers(); consensus.Contains(servers, id) {
		// The leader decides. This check only avoids a useless transfer of leadership.
		if err := a.mayLose(ctx, servers, id); err != nil {
			return answer, err
		}
		if err := a.depart(ctx); err != nil {
			_ = a.cfg.Members.SetLeaving(false) // gossip repeats it
			return answer, err
		}
	}
	if err := offline.MarkLeft(a.cfg.DataDir); err != nil {
		return answer, rejectf(http.StatusInternalServerError, "%s has left the cluster, but that was not noted on its disk: %v; stop it and empty its data directory", id, err)
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveShutdown)
		defer cancel()
		if err := a.cfg.Shutdown(ctx); err != nil {
			a.cfg.Logger.WarnContext(ctx, "the end was cut short", "error", err)
		}
	}()
	a.cfg.Logger.InfoContext(ctx, "left the cluster, as an operator asked", "by", cluster.PeerID(ctx))
	return admin.ServerRef{ID: id}, nil
}

// depart lets another leader remove this node.
func (a *Server) depart(ctx context.Context) error {
	if err := a.cfg.Members.SetLeaving(true); err != nil {
		return rejectf(http.StatusServiceUnavailable, "the other nodes could not be notified: %v", err)
	}
	// It is outside if it was removed and nobody told it: the leader that did so has lost its
	// leadership before it could answer.
	for attempts := 0; !a.cfg.Members.Outside(); {
		// A node that led before may lead again, because another leaving node transferred
		// leadership to it.
		if err := a.cfg.Members.HandOver(ctx); err != nil {
			return rejectf(http.StatusServiceUnavailable, "%v; repeat", err)
		}
		leader := a.cfg.Raft.LeaderID()
		var err error
		if leader != "" && leader != a.cfg.ServerID {
			_, err = call[admin.ServerRef](ctx, a, leader, admin.PathRemove, admin.Removal{ID: a.cfg.ServerID, Leaving: true})
			switch {
			case err == nil, noMember(err) && attempts > 0: // an attempt before was carried out, and its answer lost
				return nil
			case statusOf(err) == http.StatusConflict:
				return err
			}
			attempts++
		}
		if !loop.Pause(ctx, membership.Retry) {
			return rejectf(http.StatusServiceUnavailable, "no leader took this node out in time (last: %v); repeat", err)
		}
	}
	return nil
}

// noMember reports whether a leader, or cluster.Members on it, answered that the server is not
// in its configuration.
func noMember(err error) bool {
	status := statusOf(err)
	return status == http.StatusNotFound || status == http.StatusForbidden
}
