package propose

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// Handler returns the handler of the private port for the write path and the read path: POST
// /v1/propose, GET /v1/read-index, /v1/clock and /v1/term. The caller must have
// verified that the peer is a node of this cluster.
func (p *Pipeline) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPropose, p.servePropose)
	mux.HandleFunc("GET "+pathReadIndex, p.serveNumber(p.readAsLeader))
	mux.HandleFunc("GET "+pathClock, p.serveNumber(func(context.Context) (uint64, error) {
		return uint64(p.sync.Own().UnixMicro()), nil //nolint:gosec // the other node converts it back
	}))
	mux.HandleFunc("GET "+pathTerm, p.serveNumber(func(context.Context) (uint64, error) {
		d := p.deps.Load()
		if d == nil {
			return 0, errors.New("this node is starting")
		}
		return d.raft.CurrentTerm(), nil
	}))
	return mux
}

// servePropose reads a group, submits it and answers with the result.
func (p *Pipeline) servePropose(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, command.MaxForwardBytes))
	if err != nil {
		http.Error(w, "the group cannot be read", http.StatusBadRequest)
		return
	}
	g, err := command.DecodeGroup(data)
	if err != nil {
		p.logger.ErrorContext(r.Context(), "a forwarded group was rejected", "error", err)
		cluster.Reply(w, p.logger, http.StatusOK, result{Status: statusInvalid, Reason: shorten(err.Error())})
		return
	}
	for _, value := range r.Header.Values(trace.Header) {
		if parent := trace.Parse(value); parent != "" {
			p.logger.DebugContext(r.Context(), "took a forwarded write", "traceId", parent.TraceID(), "spanId", parent.SpanID())
		}
	}
	answer := p.submitForwarded(r.Context(), g)
	answer.Reason = shorten(answer.Reason)
	cluster.Reply(w, p.logger, http.StatusOK, answer)
}

// submitForwarded submits a group of another node. That node may already know a newer
// format of the cluster than this one.
func (p *Pipeline) submitForwarded(ctx context.Context, g command.Group) result {
	for _, c := range g.Commands {
		if reason := p.tooNew(c.Payload); reason != "" {
			return result{Status: statusNotEnqueued, Reason: reason}
		}
	}
	return p.leader.submit(ctx, g)
}

func shorten(reason string) string { return reason[:min(len(reason), maxReasonBytes)] }

// serveNumber returns a handler that answers with a number.
func (p *Pipeline) serveNumber(get func(context.Context) (uint64, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := get(r.Context())
		switch {
		case errors.Is(err, errNotLeading):
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			cluster.Reply(w, p.logger, http.StatusOK, number{value})
		}
	}
}
