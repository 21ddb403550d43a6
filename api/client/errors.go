package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is the rejection of a request: the service's Error object.
type Error struct {
	Status     int             `json:"-"`
	Code       string          `json:"code"` // stable; empty if something else than the service answered
	Message    string          `json:"error"`
	Issues     []Issue         `json:"issues"`    // every problem found
	Example    json.RawMessage `json:"example"`   // the request, corrected; never {} with a status of 422, 428 or 429
	Docs       string          `json:"docs"`      // path of the page about Code
	Retryable  bool            `json:"retryable"` // the same request may succeed later
	Notes      []string        `json:"notes"`     // the ignored parts
	RetryAfter time.Duration   `json:"-"`         // 0 if the answer does not name it
	Header     http.Header     `json:"-"`         // of the answer
}

// Issue is a problem of one field.
type Issue struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error returns the status, the sentence and all problems that it does not name.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d", e.Status)
	if e.Code != "" {
		text.WriteString(" " + e.Code)
	}
	text.WriteString(": " + e.Message)
	for _, issue := range e.Issues {
		if problem := issue.Field + " " + issue.Message; !strings.Contains(e.Message, problem) {
			text.WriteString("\n- " + problem)
		}
	}
	return text.String()
}

// UnknownError is the error of a write that may or may not have been carried out. The same
// write with this request_id, sent later, returns the first one if there was one.
type UnknownError struct {
	RequestID string // empty if the write is not safe to repeat
	Err       error  // of the last attempt
}

func (e *UnknownError) Error() string {
	if e.RequestID == "" {
		return "the outcome is not known: " + e.Err.Error()
	}
	return "the outcome is not known; send the same again with request_id " + e.RequestID + ": " + e.Err.Error()
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Settled reports whether an error is the service's final answer to a write: nothing was written, and the
// same call would be rejected again.
func Settled(err error) bool {
	e, isRejected := errors.AsType[*Error](err)
	_, isUnknown := errors.AsType[*UnknownError](err)
	return isRejected && !isUnknown && e.Code != "" && !e.Retryable
}

// ErrKeyWithheld is the error of a call that would send the key where others could read it.
var ErrKeyWithheld = errors.New("a key is sent over https or to this machine only")

// ErrNoKey is the error of a registration under a name that has an owner, by a client without the key.
var ErrNoKey = errors.New("the name is registered, and this client has no key of it: set Config.Key, or call RecoverKey")

// GapError reports that events were missed: those after the last one are no longer kept,
// or belong to another cluster. The stream continues with the present.
type GapError struct {
	Reason  string `json:"reason"` // too_old or other_cluster
	Message string `json:"message"`
}

func (e *GapError) Error() string { return e.Message }

// ErrUnreachable is the error of a call that no node answered.
var ErrUnreachable = errors.New("no node answered")

// transportError is the failure of a connection. It is ErrUnreachable.
type transportError struct{ error }

func (*transportError) Is(target error) bool { return target == ErrUnreachable }

func (e *transportError) Unwrap() error { return e.error }

// rejected returns the error of an answer. lost reports that the request may have been carried out.
func rejected(res *http.Response, body []byte) (lost bool, err error) {
	e := &Error{}
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		// A balancer in front of the service answered.
		text := strings.TrimSpace(string(body[:min(len(body), maxQuoted)]))
		if to := res.Header.Get("Location"); to != "" {
			text = "redirects are not followed; this one leads to " + to
		}
		e = &Error{Message: http.StatusText(res.StatusCode) + ": " + text, Retryable: res.StatusCode >= http.StatusBadGateway || res.StatusCode == http.StatusTooManyRequests}
	}
	e.Status, e.Header = res.StatusCode, res.Header
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	lost = e.lost()
	return lost, e
}

// lost reports that the request may have been carried out: the service does not say that it was not.
func (e *Error) lost() bool {
	switch {
	case e.Status == http.StatusBadGateway, e.Status == http.StatusGatewayTimeout:
		return true // of a balancer, whatever it says
	case e.Status < http.StatusInternalServerError, e.Code == codeBehind:
		return false
	}
	return !e.Retryable || e.Code == "" || e.Code == "outcome_unknown"
}
