package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The codes of requests that cannot be served as they are. They are stable.
const (
	codeMalformedBody     Code = "malformed_body"
	codeMalformedRequest  Code = "malformed_request"
	codeNotFound          Code = "not_found"
	codeMethodNotAllowed  Code = "method_not_allowed"
	codeTimeout           Code = "request_timeout"
	codeBodyTooLarge      Code = "body_too_large"
	codeUnsupportedMedia  Code = "unsupported_media_type"
	codeInvalid           Code = "validation_failed"
	codeConfirm           Code = "confirmation_required"
	codeRateLimited       Code = "rate_limited"
	codeHeadersTooLarge   Code = "headers_too_large"
	codeInternal          Code = "internal_error"
	codeNotReady          Code = "not_ready"
	codeUnknownJob        Code = "unknown_job"
	codeOwnJob            Code = "own_job"
	codeNotPoster         Code = "not_poster"
	codeWrongKey          Code = "wrong_edit_key"
	codeJobClaimed        Code = "job_claimed"
	codeJobNotClaimed     Code = "job_not_claimed"
	codeJobDone           Code = "job_done"
	codeJobClosed         Code = "job_closed"
	statusHeadersTooLarge      = http.StatusRequestHeaderFieldsTooLarge
)

// errorKind is what follows from a code alone.
type errorKind struct {
	status    int
	retryable bool   // the same request may succeed later
	docs      string // where the documentation explains it
}

// errorKinds is the one map from error to status.
var errorKinds = map[Code]errorKind{
	codeMalformedBody:    {http.StatusBadRequest, false, "/docs#publish"},
	codeMalformedRequest: {http.StatusBadRequest, false, "/docs#errors"},
	codeNotFound:         {http.StatusNotFound, false, "/docs#endpoints"},
	codeMethodNotAllowed: {http.StatusMethodNotAllowed, false, "/docs#endpoints"},
	codeTimeout:          {http.StatusRequestTimeout, true, "/docs#limits"},
	codeBodyTooLarge:     {http.StatusRequestEntityTooLarge, false, "/docs#limits"},
	codeUnsupportedMedia: {http.StatusUnsupportedMediaType, false, "/docs#publish"},
	codeInvalid:          {http.StatusUnprocessableEntity, false, "/docs#errors"},
	codeConfirm:          {http.StatusPreconditionRequired, false, "/docs#get-write"},
	codeRateLimited:      {http.StatusTooManyRequests, true, "/docs#limits"},
	codeHeadersTooLarge:  {statusHeadersTooLarge, false, "/docs#limits"},
	codeInternal:         {http.StatusInternalServerError, false, "/docs#errors"},
	codeNotReady:         {http.StatusServiceUnavailable, true, "/docs#operations"},
	codeUnknownJob:       {http.StatusNotFound, false, "/docs#jobs"},
	codeOwnJob:           {http.StatusConflict, false, "/docs#jobs"},
	codeNotPoster:        {http.StatusConflict, false, "/docs#jobs"},
	codeWrongKey:         {http.StatusForbidden, false, "/docs#agents"},
	codeJobClaimed:       {http.StatusConflict, false, "/docs#jobs"},
	codeJobNotClaimed:    {http.StatusConflict, false, "/docs#jobs"},
	codeJobDone:          {http.StatusConflict, false, "/docs#jobs"},
	codeJobClosed:        {http.StatusConflict, false, "/docs#jobs"},
	CodeNotEnqueued:      {http.StatusServiceUnavailable, true, "/docs#errors"},
	CodeOutcomeUnknown:   {http.StatusServiceUnavailable, false, "/docs#errors"},
	CodeNoLeader:         {http.StatusServiceUnavailable, true, "/docs#errors"},
	CodeBehind:           {http.StatusServiceUnavailable, true, "/docs#consistency"},
}

// Issue is one problem of a request: the field it lies in, by the interface's
// own name, and a sentence.
type Issue struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a refusal: the Error object of the interface (2.7) and its status.
type Error struct {
	Code    Code
	Message string  // one or two sentences
	Issues  []Issue // every problem that was found
	Example object  // a payload that would have worked; nil: none
	// Repeatable overrides the code's own retryable where true.
	Repeatable bool
	// RetryAfter is when to try again, with a 429.
	RetryAfter time.Duration
	// Allow lists the methods of the path, with a 405.
	Allow string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// status is the HTTP status of the error.
func (e *Error) status() int {
	if kind, known := errorKinds[e.Code]; known {
		return kind.status
	}
	return http.StatusInternalServerError
}

// retryable reports whether the same request may be sent again.
func (e *Error) retryable() bool { return e.Repeatable || errorKinds[e.Code].retryable }

// object is the Error object.
func (e *Error) object() object {
	issues := e.Issues
	if issues == nil {
		issues = []Issue{}
	}
	example := e.Example
	if example == nil {
		example = object{}
	}
	return object{
		{"error", e.Message},
		{"issues", issues},
		{"example", example},
		{"docs", errorKinds[e.Code].docs},
		{"code", e.Code},
		{"retryable", e.retryable()},
	}
}

// malformed is the error of a body that cannot be read.
func malformed(why error) *Error {
	return &Error{
		Code:    codeMalformedBody,
		Message: "The request body cannot be read: " + why.Error() + ".",
		Example: minimalEntry(),
	}
}

// exampled shows the example of the endpoint that was called in an error of a body
// that cannot be read.
func exampled(err error, example object) error {
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.Example != nil {
		refusal.Example = example
	}
	return err
}

// invalid is the error of a request whose fields break rules.
func invalid(issues []Issue, example object) *Error {
	noun := "problems"
	if len(issues) == 1 {
		noun = "problem"
	}
	return &Error{
		Code:    codeInvalid,
		Message: fmt.Sprintf("The request has %d %s. The example would have worked.", len(issues), noun),
		Issues:  issues, Example: example,
	}
}

// toError turns what a backend or a view returned into an Error; nil when it is
// none that a client may see.
func toError(err error) *Error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	if unavailable, ok := errors.AsType[*Unavailable](err); ok {
		return &Error{Code: unavailable.Code, Message: "The service cannot do this right now: " + unavailable.Reason + "."}
	}
	if limited, ok := errors.AsType[*RateLimited](err); ok {
		return &Error{
			Code:       codeRateLimited,
			Message:    "Too many writes from this sender or this agent. Wait for Retry-After seconds.",
			RetryAfter: limited.RetryAfter,
		}
	}
	return nil
}

// seconds renders a wait for a header, rounded up and at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10)
}

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	name  string
	value any
}

// with appends a member.
func (o object) with(name string, value any) object { return append(o, member{name, value}) }

// appendJSON appends the object; HTML is not escaped.
func (o object) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSON(dst, m.name), ':')
		dst = appendJSON(dst, m.value)
	}
	return append(dst, '}')
}

// MarshalJSON renders the object.
func (o object) MarshalJSON() ([]byte, error) { return o.appendJSON(nil), nil }

// appendJSON appends any value that encoding/json takes, without escaping HTML.
// The values that we make cannot fail to encode.
func appendJSON(dst []byte, value any) []byte {
	if o, isObject := value.(object); isObject {
		return o.appendJSON(dst)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return append(dst, "null"...)
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

// Codes returns every code that an Error object can carry, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(errorKinds)) }

// DocsPlaces returns every place in the documentation that errors point to, sorted.
func DocsPlaces() []string {
	places := map[string]bool{}
	for _, kind := range errorKinds {
		places[kind.docs] = true
	}
	return slices.Sorted(maps.Keys(places))
}
