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

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// The paths of Handler on the private port.
const (
	pathPropose   = "/v1/propose"
	pathReadIndex = "/v1/read-index"
	pathClock     = "/v1/clock"
	pathTerm      = "/v1/term"
)

type peers struct{ client *http.Client }

const reasonUnreached = "the leader cannot be reached"

// send posts a group, with the spans of its callers, to the leader and returns its result.
func (p peers) send(ctx context.Context, id string, g command.Group, traces ...trace.Parent) result {
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
	for _, parent := range traces {
		req.Header.Add(trace.Header, string(parent))
	}
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
	case http.StatusForbidden: // by cluster.Members, before the group was read
		return result{Status: statusNotEnqueued, Reason: "this server is no member of the leader's cluster"}
	default:
		return result{Status: statusUnknown, Reason: "the leader answered " + resp.Status}
	}
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes+1))
	if err != nil {
		return result{Status: statusUnknown, Reason: "the leader's answer was incomplete", cause: err}
	}
	r, err := decodeReply(reply, len(g.Commands))
	if err != nil {
		return result{Status: statusUnknown, Reason: err.Error()}
	}
	return r
}

// decodeReply decodes the leader's answer to a group of n commands.
func decodeReply(data []byte, n int) (r result, err error) {
	if err = decodeAnswer(data, maxReplyBytes, &r); err == nil {
		err = r.check(n)
	}
	if err != nil {
		return result{}, fmt.Errorf("the leader's answer: %w", err)
	}
	return r, nil
}

// number is the JSON answer of the paths that are asked by GET: a log index, a term, or the
// microseconds since the epoch.
type number struct {
	Value uint64 `json:"value"`
}

// get asks another node for a number.
func (p peers) get(ctx context.Context, id, path string) (uint64, error) {
	var answer number
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+id+path, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", id, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", id, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxJSONBytes+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask %s: %w", id, err)
	case resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%s answered %s", id, resp.Status)
	}
	if err := decodeAnswer(data, maxJSONBytes, &answer); err != nil {
		return 0, fmt.Errorf("answer of %s: %w", id, err)
	}
	return answer.Value, nil
}

// decodeAnswer decodes one JSON value. It rejects fields that into does not have.
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
		return errors.New("decode: there is more data after the answer")
	}
	return nil
}

// onceBody is a request body that records whether reading it has begun. Until then the
// other node has not seen it, whatever the error of the request.
type onceBody struct {
	data  io.Reader
	state atomic.Uint32
}

const (
	bodyUntouched = iota
	bodyRead
	bodyRevoked
)

var errRevoked = errors.New("the request was cancelled")

func (b *onceBody) Read(into []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyUntouched, bodyRead) && b.state.Load() == bodyRevoked {
		return 0, errRevoked
	}
	return b.data.Read(into)
}

// Close does not change the state: a transport may close a body that it never read.
func (b *onceBody) Close() error { return nil }

// revoke prevents later reads of the body. It reports false if reading has begun.
func (b *onceBody) revoke() bool {
	return b.state.CompareAndSwap(bodyUntouched, bodyRevoked) || b.state.Load() == bodyRevoked
}
