package propose

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/commons-cluster/commons/fsm/command"
)

// Handler serves the private port's paths of the write path and the read path:
// POST /v1/propose, GET /v1/read-index, /v1/clock and /v1/term. Whoever mounts it
// has verified that the caller is a node of this cluster.
func (p *Pipeline) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPropose, p.servePropose)
	mux.HandleFunc("GET "+pathReadIndex, p.serveReadIndex)
	mux.HandleFunc("GET "+pathClock, p.serveClock)
	mux.HandleFunc("GET "+pathTerm, p.serveTerm)
	return mux
}

// servePropose takes a group in as the leader and answers when it is applied.
func (p *Pipeline) servePropose(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, command.MaxForwardBytes))
	if err != nil {
		http.Error(w, "the group cannot be read", http.StatusBadRequest)
		return
	}
	g, err := command.DecodeGroup(data)
	if err != nil {
		p.logger.ErrorContext(r.Context(), "a forwarded group was refused", "error", err)
		writeAnswer(w, result{Status: statusInvalid, Reason: shorten(err.Error())})
		return
	}
	answer := p.leader.submit(r.Context(), g)
	answer.Reason = shorten(answer.Reason)
	writeAnswer(w, answer)
}

func shorten(reason string) string { return reason[:min(len(reason), maxReasonBytes)] }

func (p *Pipeline) serveReadIndex(w http.ResponseWriter, r *http.Request) {
	index, err := p.readAsLeader(r.Context())
	switch {
	case errors.Is(err, errNotLeading):
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		writeAnswer(w, indexAnswer{Index: index})
	}
}

func (p *Pipeline) serveClock(w http.ResponseWriter, _ *http.Request) {
	writeAnswer(w, clockAnswer{UnixMicro: p.sync.Own().UnixMicro()})
}

func (p *Pipeline) serveTerm(w http.ResponseWriter, _ *http.Request) {
	d := p.deps.Load()
	if d == nil {
		http.Error(w, "this node is starting", http.StatusServiceUnavailable)
		return
	}
	writeAnswer(w, termAnswer{Term: d.raft.CurrentTerm()})
}

func writeAnswer(w http.ResponseWriter, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the other side asks again when it is lost
}
