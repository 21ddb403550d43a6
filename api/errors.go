package api

import (
	"encoding/json"
	"errors"
	"fmt"
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
	codeNoReceiver        Code = "no_receiver"
	statusHeadersTooLarge      = http.StatusRequestHeaderFieldsTooLarge
)

// errorKind is what follows from a code alone.
type errorKind struct {
	status    int
	retryable bool // the same request may succeed later
}

// errorKinds is the one map from error to status.
var errorKinds = map[Code]errorKind{
	codeMalformedBody:    {http.StatusBadRequest, false},
	codeMalformedRequest: {http.StatusBadRequest, false},
	codeNotFound:         {http.StatusNotFound, false},
	codeMethodNotAllowed: {http.StatusMethodNotAllowed, false},
	codeTimeout:          {http.StatusRequestTimeout, true},
	codeBodyTooLarge:     {http.StatusRequestEntityTooLarge, false},
	codeUnsupportedMedia: {http.StatusUnsupportedMediaType, false},
	codeInvalid:          {http.StatusUnprocessableEntity, false},
	codeConfirm:          {http.StatusPreconditionRequired, false},
	codeRateLimited:      {http.StatusTooManyRequests, true},
	codeHeadersTooLarge:  {statusHeadersTooLarge, false},
	codeInternal:         {http.StatusInternalServerError, false},
	codeNotReady:         {http.StatusServiceUnavailable, true},
	codeUnknownJob:       {http.StatusNotFound, false},
	codeOwnJob:           {http.StatusConflict, false},
	codeNotPoster:        {http.StatusConflict, false},
	codeWrongKey:         {http.StatusForbidden, false},
	codeJobClaimed:       {http.StatusConflict, false},
	codeJobNotClaimed:    {http.StatusConflict, false},
	codeJobDone:          {http.StatusConflict, false},
	codeJobClosed:        {http.StatusConflict, false},
	codeNoReceiver:       {http.StatusConflict, false},
	CodeNotEnqueued:      {http.StatusServiceUnavailable, true},
	CodeOutcomeUnknown:   {http.StatusServiceUnavailable, false},
	CodeNoLeader:         {http.StatusServiceUnavailable, true},
	CodeDiskFull:         {http.StatusServiceUnavailable, true},
	CodeBehind:           {http.StatusServiceUnavailable, true},
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
	// Notes say what of the request was ignored.
	Notes []string
	// Repeatable overrides the code's own retryable where true.
	Repeatable bool
	// RetryAfter is when to try again, with a 429.
	RetryAfter time.Duration
	// Limit is what was exceeded, with a 429; nil: that of writes.
	Limit *RateLimit
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

// wait is the Retry-After of the error, in seconds; "": none.
func (e *Error) wait() string {
	switch e.status() {
	case http.StatusTooManyRequests:
		return seconds(e.RetryAfter)
	case http.StatusServiceUnavailable:
		return retryAfterUnavailable
	}
	return ""
}

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
	o := object{
		{"error", e.Message},
		{"issues", issues},
		{"example", example},
		{"docs", errorsPath + "#" + string(e.Code)},
		{"code", e.Code},
		{"retryable", e.retryable()},
	}
	if len(e.Notes) > 0 {
		o = o.with("notes", e.Notes)
	}
	return o
}

// malformed is the error of a body that cannot be read.
func malformed(why error) *Error {
	return &Error{
		Code:    codeMalformedBody,
		Message: "The request body cannot be read." + exampleWorks,
		Issues:  []Issue{{"body", "cannot be read: " + why.Error()}},
	}
}

// internalError is what a client sees of a mistake of ours.
func internalError() *Error {
	return &Error{Code: codeInternal, Message: "Something went wrong here. It was logged."}
}

// encoded is the error of a body with a Content-Encoding.
func encoded() *Error {
	return &Error{
		Code: codeUnsupportedMedia, Message: "A Content-Encoding is not accepted. Send the body as it is.",
		Issues: []Issue{{"Content-Encoding", "must be left out"}},
	}
}

// missing is the error of an id in a path that names nothing, such as an entry.
func missing(what string) *Error {
	return &Error{
		Code: codeNotFound, Message: "There is no such " + what + ".",
		Issues: []Issue{{"id", "names no " + what + " that exists"}},
	}
}

// invalid is the error of a request whose fields break rules.
func invalid(issues []Issue, example object) *Error {
	return &Error{Code: codeInvalid, Message: countProblems(issues) + exampleWorks, Issues: issues, Example: example}
}

// exampleWorks ends the message of an error with an example that could be sent.
const exampleWorks = " The example would have worked."

func countProblems(issues []Issue) string {
	if len(issues) == 1 {
		return "The request has 1 problem."
	}
	return fmt.Sprintf("The request has %d problems.", len(issues))
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
		refusal := &Error{
			Code: codeRateLimited, Message: "Too many writes from this sender or this agent.",
			RetryAfter: limited.RetryAfter, Limit: limited.Limit,
		}
		field := fieldAgent.name
		if limited.Limit != nil {
			refusal.Message, field = limited.Limit.Message, limited.Limit.Field
		}
		unit := " seconds."
		if refusal.wait() == "1" {
			unit = " second."
		}
		refusal.Message += " Wait " + refusal.wait() + unit
		refusal.Issues = []Issue{{field, "is over a limit, or its sender is"}}
		return refusal
	}
	return nil
}

// limitOfWrites names the limit of writes in headers.
const limitOfWrites = "writes"

// ratePolicy is the value of RateLimit-Policy for a limit and a window in seconds.
func ratePolicy(limit string, quota int, window string) string {
	return `"` + limit + `";q=` + itoa(quota) + ";w=" + window
}

// minWriteWindow is the shortest window, in seconds, that RateLimit-Policy tells of
// writes.
const minWriteWindow = 60

// writePolicy is the value of RateLimit-Policy for writes at a rate a minute and a
// burst: as many as the burst are taken in any window, which is as long as they
// take to come back.
func writePolicy(perMinute, burst int) string {
	const minute = 60
	back := (minute*burst + perMinute - 1) / perMinute
	return ratePolicy(limitOfWrites, burst, itoa(max(minWriteWindow, back)))
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

// has reports whether the object has a member.
func (o object) has(name string) bool {
	return slices.ContainsFunc(o, func(m member) bool { return m.name == name })
}

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
