package propose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/commons-cluster/commons/cluster"
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
	r, err := decodeReply(resp.Body, len(g.Commands))
	if err != nil {
		return result{Status: statusUnknown, Reason: "the leader's answer was incomplete", cause: err}
	}
	return r
}

// decodeReply decodes the leader's answer to a group of n commands. A newer leader may add fields.
func decodeReply(from io.Reader, n int) (r result, err error) {
	if err = cluster.ReadAnswer(from, &r); err == nil {
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
	answer, err := cluster.Ask[number](ctx, p.client, id, path, nil)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", id, err)
	}
	return answer.Value, nil
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
