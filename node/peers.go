package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/commons-cluster/commons/cluster"
)

// Paths of the private port beside those of node/propose.
const (
	pathPeer  = "/v1/peer"
	pathStats = "/v1/stats"
)

const (
	// askTimeout bounds one question to another node.
	askTimeout = time.Second
	// maxAnswer bounds its answer.
	maxAnswer = 64 << 10
)

// peerAnswer is what a node says before it belongs to a cluster.
type peerAnswer struct {
	ID        string   `json:"id"`
	ClusterID string   `json:"clusterId,omitempty"`
	Fresh     bool     `json:"fresh"`   // it has no Raft state
	Expect    int      `json:"expect"`  // its --bootstrap-expect
	Seen      []string `json:"seen"`    // ids of the fresh nodes that expect the same, its own included, sorted
	Servers   []string `json:"servers"` // ids in its configuration
	Leads     bool     `json:"leads"`
	Refused   string   `json:"refused,omitempty"` // why the leader does not take the asking node in
}

// statsAnswer says how far a node is.
type statsAnswer struct {
	ID        string `json:"id"`
	Term      uint64 `json:"term"`
	LastLog   uint64 `json:"lastLog"`   // index of its newest log entry
	LastTerm  uint64 `json:"lastTerm"`  // term of it
	Applied   uint64 `json:"applied"`   // index that its state machine has applied
	ContactMs int64  `json:"contactMs"` // since it heard from a leader; -1 when it never did
}

// privateHandler serves the private port. The port has verified that the caller
// is a node with the cluster's secret.
func (n *Node) privateHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPeer, func(w http.ResponseWriter, r *http.Request) { n.answer(w, n.aboutPeer(cluster.PeerID(r.Context()))) })
	mux.HandleFunc("GET "+pathStats, func(w http.ResponseWriter, _ *http.Request) { n.answer(w, n.stats()) })
	n.handleAdmin(mux)
	mux.HandleFunc("POST "+pathVerify, n.serveVerify)
	mux.Handle("/", n.pipeline.Handler())
	return mux
}

func (n *Node) answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(what); err != nil {
		n.logger.Debug("an answer on the private port was lost", "error", err)
	}
}

// aboutPeer is what this node says of itself to another one.
func (n *Node) aboutPeer(asking string) peerAnswer {
	a := peerAnswer{
		ID: n.identity.ServerID, ClusterID: n.clusterID(), Fresh: n.fresh(),
		Expect: n.cfg.BootstrapExpect, Leads: n.pipeline.Stats().Leading,
	}
	if a.Fresh {
		a.Seen = freshPeers(n.gossip.Members(), a.ID, a.Expect)
	}
	if refused := n.refused.Load(); refused != nil {
		a.Refused = (*refused)[asking]
	}
	for _, s := range n.raft.Servers() {
		a.Servers = append(a.Servers, string(s.ID))
	}
	return a
}

func (n *Node) stats() statsAnswer {
	a := statsAnswer{
		ID: n.identity.ServerID, Term: n.raft.CurrentTerm(),
		LastLog: n.raft.LastIndex(), Applied: n.machine.Applied(),
	}
	a.LastTerm = lastTerm(n.raft.Stats())
	switch contact := n.raft.LastContact(); {
	case n.raft.Leads():
	case contact.IsZero():
		a.ContactMs = -1
	default:
		a.ContactMs = time.Since(contact).Milliseconds()
	}
	return a
}

// lastTerm returns the term of a node's newest log entry, as Raft has no other way
// to tell. Right after a snapshot was installed there is no entry in the log.
func lastTerm(stats map[string]string) uint64 {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(stats[name], 10, 64) // always a number
		return n
	}
	if number("last_snapshot_index") >= number("last_log_index") {
		return number("last_snapshot_term")
	}
	return number("last_log_term")
}

// ask asks another node over its private port.
func ask[T any](ctx context.Context, client *http.Client, id, path string) (T, error) {
	var answer T
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+id+path, nil)
	if err != nil {
		return answer, err
	}
	res, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer, fmt.Errorf("asking %s: %w", id, err)
	case res.StatusCode != http.StatusOK:
		return answer, fmt.Errorf("asking %s: %s", id, res.Status)
	case len(data) > maxAnswer:
		return answer, fmt.Errorf("asking %s: %w", id, errors.New("the answer is too long"))
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, fmt.Errorf("asking %s: %w", id, err)
	}
	return answer, nil
}
