package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
)

// adminTimeout bounds one call of an operator, but for those that stream.
const adminTimeout = 30 * time.Second

// passOnTimeout bounds a call that another node answers: it has adminTimeout to do
// so, and this one's connection gives up later than this.
const passOnTimeout = adminTimeout + 10*time.Second

// refusal is why an operator's call is not carried out, and what to do instead.
type refusal struct {
	status int
	reason string
}

// Error returns the reason.
func (r *refusal) Error() string { return r.reason }

func refusef(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// handleAdmin serves operators on the private port: whoever has the cluster's
// secret may do everything.
func (n *Node) handleAdmin(mux *http.ServeMux) {
	mux.HandleFunc("POST "+admin.PathNode, serveAdmin(n, func(context.Context, struct{}) (admin.NodeReport, error) { return n.report(), nil }))
	mux.HandleFunc("POST "+admin.PathCluster, serveAdmin(n, func(ctx context.Context, _ struct{}) (admin.ClusterReport, error) { return n.clusterReport(ctx), nil }))
	mux.HandleFunc("POST "+admin.PathDigest, serveLongAdmin(n, digestTimeout, n.digestAt))
	mux.HandleFunc("POST "+admin.PathCompare, serveLongAdmin(n, digestTimeout, n.compareDigests))
	mux.HandleFunc("POST "+admin.PathSnapshot, n.serveSnapshot)
	mux.HandleFunc("POST "+admin.PathSaved, serveAdmin(n, n.recordBackup))
	mux.HandleFunc("POST "+admin.PathHealth, n.onLeader(serveAdmin(n, n.healthReport)))
	mux.HandleFunc("POST "+admin.PathLeave, serveAdmin(n, n.leave))
	mux.HandleFunc("POST "+admin.PathTransfer, n.onLeader(serveAdmin(n, n.transferLeadership)))
	mux.HandleFunc("POST "+admin.PathResetKey, n.onLeader(serveAdmin(n, n.resetKey)))
	mux.HandleFunc("POST "+admin.PathRemove, n.onLeader(serveAdmin(n, n.removeServer)))
}

// serveAdmin turns a function into the handler of a call.
func serveAdmin[Request, Answer any](n *Node, do func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return serveLongAdmin(n, adminTimeout, do)
}

// serveLongAdmin is serveAdmin for what may take longer.
func serveLongAdmin[Request, Answer any](n *Node, timeout time.Duration, do func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + adminTimeout)); err != nil {
			n.refuse(w, err)
			return
		}
		var request Request
		d := json.NewDecoder(io.LimitReader(r.Body, admin.MaxRequestBytes))
		d.DisallowUnknownFields()
		if err := d.Decode(&request); err != nil {
			n.refuse(w, refusef(http.StatusBadRequest, "the call is not understood: %v; use a command of this version", err))
			return
		}
		answer, err := do(ctx, request)
		if err != nil {
			n.refuse(w, err)
			return
		}
		cluster.Reply(w, n.logger, http.StatusOK, answer)
	}
}

// refuse answers a call that was not carried out.
func (n *Node) refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if refused, ok := errors.AsType[*refusal](err); ok {
		status = refused.status
	}
	cluster.Reply(w, n.logger, status, admin.Failure{Error: err.Error()})
}

// onLeader passes a call on to the leader, unless this node leads.
func (n *Node) onLeader(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leader := n.raft.LeaderID()
		switch {
		case leader == n.identity.ServerID:
			h(w, r)
		case leader == "":
			n.refuse(w, refusef(http.StatusServiceUnavailable, "no leader is known at %s; see `commons members`, and repeat", n.identity.ServerID))
		case r.Header.Get(admin.HeaderPassedOn) != "":
			n.refuse(w, refusef(http.StatusMisdirectedRequest, "leadership is moving; repeat"))
		default:
			n.passOn(n.port.Client(), w, r, leader)
		}
	}
}

// passOn lets another node answer.
func (n *Node) passOn(client *http.Client, w http.ResponseWriter, r *http.Request, id string) {
	ctx, cancel := context.WithTimeout(r.Context(), passOnTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+id+r.URL.Path, io.LimitReader(r.Body, admin.MaxRequestBytes))
	if err != nil {
		n.refuse(w, err)
		return
	}
	req.Header.Set(admin.HeaderPassedOn, n.identity.ServerID)
	res, err := client.Do(req)
	if err != nil {
		n.refuse(w, refusef(http.StatusBadGateway, "%s does not answer: %v; repeat", id, err))
		return
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		n.logger.DebugContext(r.Context(), "an answer on the private port was lost", "error", err)
	}
}

// call asks another node as an operator does.
func call[Answer any](ctx context.Context, n *Node, id, path string, request any) (Answer, error) {
	return admin.Call[Answer](ctx, admin.NewNodeClient(n.port.Client(), id), path, request)
}
