package membership

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
)

const pathPeer = "/v1/peer" // of the private port

const askTimeout = time.Second // bounds one request to another node

// peerAnswer is a node's report about itself to other nodes.
type peerAnswer struct {
	ID        string   `json:"id"`
	ClusterID string   `json:"clusterId,omitempty"`
	Fresh     bool     `json:"fresh"`   // it has no Raft state
	Expect    int      `json:"expect"`  // its --bootstrap-expect
	Seen      []string `json:"seen"`    // ids of the fresh nodes that expect the same, its own included, sorted
	Servers   []string `json:"servers"` // ids in its configuration
	Leads     bool     `json:"leads"`
	Format    int      `json:"format"`            // of its state
	Rejected  string   `json:"refused,omitempty"` // why the leader does not take the asking node in
	LastLog   uint64   `json:"lastLog"`           // index of its newest log entry
	LastTerm  uint64   `json:"lastTerm"`          // term of it
	Applied   uint64   `json:"applied"`           // index that its state machine has applied
	ContactMs int64    `json:"contactMs"`         // since it heard from a leader; -1 when it never did
}

// Handle answers other nodes' questions about this one. The private port has verified
// that the caller is a node with the cluster's secret.
func (ms *Membership) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathPeer, func(w http.ResponseWriter, r *http.Request) {
		cluster.Reply(w, ms.cfg.Logger, http.StatusOK, ms.aboutPeer(cluster.PeerID(r.Context())))
	})
}

func (ms *Membership) aboutPeer(asking string) peerAnswer {
	a := peerAnswer{
		ID: ms.cfg.ServerID, ClusterID: ms.cfg.ClusterID(), Fresh: ms.Fresh(),
		Expect: ms.cfg.Expect, Leads: ms.cfg.Leading(), Format: ms.cfg.Machine.Format(),
		LastLog: ms.cfg.Raft.LastIndex(), LastTerm: consensus.LastTerm(ms.cfg.Raft.Stats()), Applied: ms.cfg.Machine.Applied(),
	}
	if a.Fresh {
		a.Seen = freshPeers(ms.cfg.Gossip.Members(), a.ID, a.Expect)
	}
	if rejected := ms.rejected.Load(); rejected != nil {
		a.Rejected = (*rejected)[asking]
	}
	for _, s := range ms.cfg.Raft.Servers() {
		a.Servers = append(a.Servers, string(s.ID))
	}
	switch contact := ms.cfg.Raft.LastContact(); {
	case ms.cfg.Raft.Leads():
	case contact.IsZero():
		a.ContactMs = -1
	default:
		a.ContactMs = time.Since(contact).Milliseconds()
	}
	return a
}

func (ms *Membership) peer(ctx context.Context, id string) (peerAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return cluster.Ask[peerAnswer](ctx, ms.cfg.Client, id, pathPeer, nil)
}

// AppliedAt asks a server for the newest index that its state machine has applied.
func (ms *Membership) AppliedAt(ctx context.Context, id string) (uint64, error) {
	answer, err := ms.peer(ctx, id)
	return answer.Applied, err
}

const (
	recentContact  = time.Second // a node that heard from a leader within this time is certainly a member
	outsideTimeout = time.Hour   // heartbeat and election timeout of a removed node, which could not win an election
)

// The roles of a node in its cluster.
const (
	Removed = "removed" // and admin.Voter, admin.NonVoter
	None    = "none"
)

// Part returns the role of this node in its cluster.
func (ms *Membership) Part() string {
	if ms.outside.Load() {
		return Removed
	}
	for _, s := range ms.cfg.Raft.Servers() {
		switch {
		case string(s.ID) != ms.cfg.ServerID:
		case s.Suffrage == raft.Voter:
			return admin.Voter
		default:
			return admin.NonVoter
		}
	}
	return None
}

// Outside reports whether this node was removed from its cluster.
func (ms *Membership) Outside() bool { return ms.outside.Load() }

// watchRemoval detects that this node was removed: a leader's configuration does not include
// it, and the leader does not add it again. A removed node starts no elections.
func (ms *Membership) watchRemoval(ctx context.Context) {
	var since time.Time
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		leader := ms.leadsWithout(ctx)
		switch {
		case leader == "":
			since = time.Time{}
			if ms.outside.Swap(false) {
				ms.setTimeout(ctx, ms.cfg.Heartbeat)
				ms.cfg.Logger.InfoContext(ctx, "this server is a member of its cluster again")
			}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= ms.cfg.GoneFor && !ms.outside.Swap(true):
			ms.setTimeout(ctx, outsideTimeout)
			ms.cfg.Logger.WarnContext(ctx, "this server was removed from its cluster; stop it, or empty its data directory and start it to join as a new server",
				"leader", leader)
		}
	})
}

// leadsWithout returns a leader of this node's cluster that does not have this
// node in its configuration, or "".
func (ms *Membership) leadsWithout(ctx context.Context) string {
	if ms.Fresh() || ms.cfg.Raft.Leads() || ms.cfg.Raft.LeaderID() != "" && time.Since(ms.cfg.Raft.LastContact()) < recentContact {
		return ""
	}
	for _, m := range ms.cfg.Gossip.Members() {
		if m.ServerID == ms.cfg.ServerID {
			continue
		}
		p, err := ms.peer(ctx, m.ServerID)
		if err == nil && p.Leads && ms.sameCluster(p) && !slices.Contains(p.Servers, ms.cfg.ServerID) {
			return m.ServerID
		}
	}
	return ""
}

// sameCluster reports whether a leader is of this node's cluster. After a crash the
// cluster's id may not be applied yet; then the servers are compared.
func (ms *Membership) sameCluster(leader peerAnswer) bool {
	if id := ms.cfg.ClusterID(); id != "" {
		return leader.ClusterID == id
	}
	return slices.ContainsFunc(leader.Servers, func(id string) bool { return consensus.Contains(ms.cfg.Raft.Servers(), id) })
}

// setTimeout changes when Raft starts elections.
func (ms *Membership) setTimeout(ctx context.Context, timeout time.Duration) {
	err := ms.cfg.Raft.Reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = timeout, timeout })
	if err != nil && ctx.Err() == nil {
		ms.cfg.Logger.WarnContext(ctx, "Raft's timeouts were not changed", "error", err)
	}
}
