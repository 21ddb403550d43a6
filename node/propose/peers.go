package propose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// The paths of the private port that Handler serves.
const (
	pathPropose   = "/v1/propose"
	pathReadIndex = "/v1/read-index"
	pathClock     = "/v1/clock"
	pathTerm      = "/v1/term"
)

// peers asks other nodes over the private port.
type peers struct {
	client *http.Client
}

const reasonUnreached = "the leader cannot be reached"

// propose brings a group to the leader and returns its result.
func (p peers) propose(ctx context.Context, id string, g command.Group) result {
	data, err := command.EncodeGroup(g)
	if err != nil {
		return result{Status: statusInvalid, Reason: err.Error()}
	}
	body := &onceBody{data: bytes.NewReader(data)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+id+pathPropose, body)
	if err != nil {
		return result{Status: statusNotEnqueued, Reason: reasonUnreached, cause: err}
	}
	req.ContentLength = int64(len(data))
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := p.client.Do(req)
	if err != nil {
		if body.revoke() {
			return result{Status: statusNotEnqueued, Reason: reasonUnreached, cause: err}
		}
		return result{Status: statusUnknown, Reason: "the leader did not answer", cause: err}
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden: // by cluster.Members, before anybody has read the group
		return result{Status: statusNotEnqueued, Reason: "this server is no member of the leader's cluster"}
	default:
		return result{Status: statusUnknown, Reason: "the leader answered " + resp.Status}
	}
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes+1))
	if err != nil {
		return result{Status: statusUnknown, Reason: "the leader's answer broke off", cause: err}
	}
	r, err := decodeReply(reply, len(g.Commands))
	if err != nil {
		return result{Status: statusUnknown, Reason: err.Error()}
	}
	return r
}

// decodeReply reads the leader's answer to a group of n commands.
func decodeReply(data []byte, n int) (r result, err error) {
	if err := decodeAnswer(data, maxReplyBytes, &r); err != nil {
		return result{}, fmt.Errorf("the leader's answer: %w", err)
	}
	if err := r.check(n); err != nil {
		return result{}, fmt.Errorf("the leader's answer: %w", err)
	}
	return r, nil
}

// readIndex asks the leader for an index that covers everything acknowledged.
func (p peers) readIndex(ctx context.Context, id string) (uint64, error) {
	var a indexAnswer
	err := p.get(ctx, id, pathReadIndex, &a)
	return a.Index, err
}

// term asks a node for the newest term that it knows.
func (p peers) term(ctx context.Context, id string) (uint64, error) {
	var a termAnswer
	err := p.get(ctx, id, pathTerm, &a)
	return a.Term, err
}

// now asks a node for its clock.
func (p peers) now(ctx context.Context, id string) (time.Time, error) {
	var a clockAnswer
	err := p.get(ctx, id, pathClock, &a)
	return time.UnixMicro(a.UnixMicro), err
}

func (p peers) get(ctx context.Context, id, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+id+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", id, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", id, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxJSONBytes+1))
	if err != nil {
		return fmt.Errorf("ask %s: %w", id, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", id, resp.Status)
	}
	if err := decodeAnswer(data, maxJSONBytes, into); err != nil {
		return fmt.Errorf("answer of %s: %w", id, err)
	}
	return nil
}

// The answers of the private port that are JSON.
type (
	indexAnswer struct {
		Index uint64 `json:"index"`
	}
	termAnswer struct {
		Term uint64 `json:"term"`
	}
	clockAnswer struct {
		UnixMicro int64 `json:"unixMicro"`
	}
)

// decodeAnswer reads one JSON value that has the fields of into and no others.
func decodeAnswer(data []byte, limit int, into any) error {
	if len(data) > limit {
		return errors.New("answer too long")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode: something follows the answer")
	}
	return nil
}

// onceBody is a request body that records whether reading it has begun. If not, the
// other side has not seen it, whatever the error of the request.
type onceBody struct {
	data  io.Reader
	state atomic.Uint32
}

const (
	bodyUntouched = iota
	bodyRead
	bodyRevoked
)

var errRevoked = errors.New("the request was given up")

func (b *onceBody) Read(into []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyUntouched, bodyRead) && b.state.Load() == bodyRevoked {
		return 0, errRevoked
	}
	return b.data.Read(into)
}

// Close does not change the state: a transport may close a body that it never read.
func (b *onceBody) Close() error { return nil }

// revoke prevents reads of the body from now on; false if reading has begun.
func (b *onceBody) revoke() bool {
	return b.state.CompareAndSwap(bodyUntouched, bodyRevoked) || b.state.Load() == bodyRevoked
}

// Handler serves the private port's paths of the write path and the read path: POST
// /v1/propose, GET /v1/read-index, /v1/clock and /v1/term. The caller must have
// verified that the peer is a node of this cluster.
func (p *Pipeline) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPropose, p.servePropose)
	mux.HandleFunc("GET "+pathReadIndex, p.serveReadIndex)
	mux.HandleFunc("GET "+pathClock, p.serveClock)
	mux.HandleFunc("GET "+pathTerm, p.serveTerm)
	return mux
}

// servePropose accepts a group as the leader and answers when it is applied.
func (p *Pipeline) servePropose(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, command.MaxForwardBytes))
	if err != nil {
		http.Error(w, "the group cannot be read", http.StatusBadRequest)
		return
	}
	g, err := command.DecodeGroup(data)
	if err != nil {
		p.logger.ErrorContext(r.Context(), "a forwarded group was rejected", "error", err)
		writeAnswer(w, result{Status: statusInvalid, Reason: shorten(err.Error())})
		return
	}
	answer := p.submitForwarded(r.Context(), g)
	answer.Reason = shorten(answer.Reason)
	writeAnswer(w, answer)
}

// submitForwarded is submit for a group of another node, which may already know a newer
// format of the cluster than this node.
func (p *Pipeline) submitForwarded(ctx context.Context, g command.Group) result {
	for _, c := range g.Commands {
		if reason := p.tooNew(c.Payload); reason != "" {
			return result{Status: statusNotEnqueued, Reason: reason}
		}
	}
	return p.leader.submit(ctx, g)
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
