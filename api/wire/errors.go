package wire

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// errorsPath is the page with a heading for every code.
const errorsPath = "/docs/errors"

// The codes of requests that cannot be served as they are. They are stable.
const (
	CodeMalformedBody    command.Code = "malformed_body"
	CodeMalformedRequest command.Code = "malformed_request"
	CodeNotFound         command.Code = "not_found"
	CodeMethodNotAllowed command.Code = "method_not_allowed"
	CodeTimeout          command.Code = "request_timeout"
	CodeBodyTooLarge     command.Code = "body_too_large"
	CodeUnsupportedMedia command.Code = "unsupported_media_type"
	CodeInvalid          command.Code = "validation_failed"
	CodeConfirm          command.Code = "confirmation_required"
	CodeRateLimited      command.Code = "rate_limited"
	CodeHeadersTooLarge  command.Code = "headers_too_large"
	CodeInternal         command.Code = "internal_error"
	CodeNotReady         command.Code = "not_ready"
	CodeUnknownJob       command.Code = "unknown_job"
	CodeOwnJob           command.Code = "own_job"
	CodeNotPoster        command.Code = "not_poster"
	CodeWrongKey         command.Code = "wrong_edit_key"
	CodeWrongRecovery    command.Code = "wrong_recovery_key"
	CodeProofRequired    command.Code = "proof_required"
	CodeNameProtected    command.Code = "name_protected"
	CodeNameInUse        command.Code = "name_in_use"
	CodeJobClaimed       command.Code = "job_claimed"
	CodeNotClaimed       command.Code = "not_claimed"
	CodeTooManyClaims    command.Code = "too_many_claims"
	CodeTooManyRenewals  command.Code = "too_many_renewals"
	CodeJobDone          command.Code = "job_done"
	CodeJobClosed        command.Code = "job_closed"
	CodeNoReceiver       command.Code = "no_receiver"
	CodeNotModerator     command.Code = "moderators_only"
	CodeCrossSite        command.Code = "cross_site"
	CodeBlocked          command.Code = "blocked"
	CodeFrozen           command.Code = "writes_frozen"
)

// codesOf are the codes of each status of HTTP.
var codesOf = map[int][]command.Code{
	http.StatusBadRequest:                  {CodeMalformedBody, CodeMalformedRequest},
	http.StatusForbidden:                   {CodeWrongKey, CodeWrongRecovery, CodeProofRequired, CodeNameProtected, CodeCrossSite, CodeNotModerator, CodeBlocked, CodeFrozen},
	http.StatusNotFound:                    {CodeNotFound, CodeUnknownJob},
	http.StatusMethodNotAllowed:            {CodeMethodNotAllowed},
	http.StatusRequestTimeout:              {CodeTimeout},
	http.StatusRequestEntityTooLarge:       {CodeBodyTooLarge},
	http.StatusUnsupportedMediaType:        {CodeUnsupportedMedia},
	http.StatusUnprocessableEntity:         {CodeInvalid},
	http.StatusPreconditionRequired:        {CodeConfirm},
	http.StatusTooManyRequests:             {CodeRateLimited},
	http.StatusRequestHeaderFieldsTooLarge: {CodeHeadersTooLarge},
	http.StatusInternalServerError:         {CodeInternal},
	http.StatusConflict: {
		CodeOwnJob, CodeNotPoster, CodeNameInUse, CodeJobClaimed, CodeNotClaimed, CodeTooManyClaims, CodeTooManyRenewals,
		CodeJobDone, CodeJobClosed, CodeNoReceiver,
	},
	http.StatusServiceUnavailable: {
		CodeNotReady, command.CodeNotEnqueued, command.CodeOutcomeUnknown, command.CodeNoLeader, command.CodeDiskFull, command.CodeBehind,
	},
}

// statuses are the statuses of the codes.
var statuses = func() map[command.Code]int {
	m := map[command.Code]int{}
	for status, codes := range codesOf {
		for _, code := range codes {
			m[code] = status
		}
	}
	return m
}()

// Issue is one problem of a request: the field it lies in, by the interface's
// own name, and a sentence. It is an alias, so that lists of issues are written
// without names of fields, as those of Field and Pair are.
type Issue = struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a rejection: the Error object of the interface (2.7) and its status.
type Error struct {
	Code    command.Code
	Message string  // one or two sentences
	Issues  []Issue // every problem that was found
	// Example is the caller's own request, corrected. It is empty at most with a status other
	// than 422, 428 and 429, and for the operator's own operations.
	Example Object
	// Notes name the parts of the request that were ignored.
	Notes []string
	// Repeatable makes the error retryable, and Final makes it not retryable, whatever its code.
	Repeatable, Final bool
	// RetryAfter is the time to wait before a retry, with a 429 or a temporary 403.
	RetryAfter time.Duration
	// Limit is the limit that was exceeded, with a 429. nil means the limit of writes.
	Limit *command.RateLimit
	// Allow lists the methods of the path, with a 405.
	Allow string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Status is the HTTP status of the error.
func (e *Error) Status() int { return cmp.Or(statuses[e.Code], http.StatusInternalServerError) }

// Retryable reports whether the same request may succeed later. A write whose outcome is unknown is
// retryable only if it is Repeatable.
func (e *Error) Retryable() bool {
	switch e.Status() {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return e.Repeatable || !e.Final && e.Code != command.CodeOutcomeUnknown
	}
	return e.Repeatable
}

// Wait returns the Retry-After of the error in seconds, or "".
func (e *Error) Wait() string {
	switch e.Status() {
	case http.StatusTooManyRequests:
		return Seconds(e.RetryAfter)
	case http.StatusForbidden:
		if e.RetryAfter > 0 {
			return Seconds(e.RetryAfter)
		}
	case http.StatusServiceUnavailable:
		if e.Code != command.CodeOutcomeUnknown { // whether to repeat it is another question
			return RetryAfterUnavailable
		}
	}
	return ""
}

// Object is the Error object.
func (e *Error) Object() Object {
	o := Object{}
	if len(e.Notes) > 0 {
		o = o.With("notes", e.Notes)
	}
	return append(o, Object{
		{"error", e.Message},
		{"issues", append([]Issue{}, e.Issues...)},
		{"example", e.Example},
		{"docs", errorsPath + "#" + string(e.Code)},
		{"code", e.Code},
		{"retryable", e.Retryable()},
	}...)
}

// RequestBody is the field of an issue that lies in the whole body.
const RequestBody = "request"

// Malformed is the error of a body that cannot be read.
func Malformed(reason error) *Error {
	return &Error{
		Code:    CodeMalformedBody,
		Message: "The request body cannot be read: " + reason.Error() + ".",
		Issues:  []Issue{{RequestBody, "cannot be read: " + reason.Error()}},
	}
}

// Internal returns the error for a client after an internal error.
func Internal() *Error {
	return &Error{Code: CodeInternal, Message: "Something went wrong here. It was logged."}
}

// Encoded is the error of a body with a Content-Encoding.
func Encoded() *Error {
	return &Error{
		Code: CodeUnsupportedMedia, Message: "A Content-Encoding is not accepted. Send the body as it is.",
		Issues: []Issue{{"Content-Encoding", "must be left out"}},
	}
}

// lists describe where to find the ids of each kind of thing.
var lists = map[string]string{
	"entry": "GET /api/entries lists them", "job": "GET /api/jobs lists them", "agent": "GET /api/agents lists those that have a profile",
	"request": "GET /api/human-requests lists them",
}

// Missing returns the error for an id in a path that does not exist, such as that of an entry.
func Missing(what string) *Error {
	return &Error{
		Code: CodeNotFound, Message: "There is no such " + what + ".",
		Issues: []Issue{{"id", "names no " + what + " that exists: " + lists[what]}},
	}
}

// Invalid is the error of a request whose fields break rules.
func Invalid(issues []Issue, example Object) *Error {
	e := &Error{Code: CodeInvalid, Message: CountProblems(issues), Issues: issues, Example: example}
	if len(example) > 0 {
		e.Message += ExampleWorks
	}
	return e
}

// ExampleWorks ends the message of an error with an example that could be sent.
const ExampleWorks = " The example would have worked."

// KeyLeftOut is the note of an example that works once the caller adds the edit_key.
const KeyLeftOut = "The example leaves your edit_key out: add it."

// CountProblems returns a sentence with the number of problems.
func CountProblems(issues []Issue) string {
	if len(issues) == 1 {
		return "The request has 1 problem."
	}
	return fmt.Sprintf("The request has %d problems.", len(issues))
}

// Seconds renders a wait for a header, rounded up and at least one.
func Seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10)
}

// Codes returns every code that an Error object can carry, sorted.
func Codes() []command.Code { return slices.Sorted(maps.Keys(statuses)) }

// RetryAfterUnavailable is the Retry-After of a 503, in seconds.
const RetryAfterUnavailable = "1"

// Problems collects the problems of a request.
type Problems struct{ List []Issue }

// Add adds a problem of a field, named as the interface does.
func (p *Problems) Add(field, format string, args ...any) {
	p.List = append(p.List, Issue{field, fmt.Sprintf(format, args...)})
}

// Has reports whether a field has a problem.
func (p *Problems) Has(field string) bool {
	return slices.ContainsFunc(p.List, func(i Issue) bool { return i.Field == field })
}

// Any reports whether there is a problem.
func (p *Problems) Any() bool { return len(p.List) > 0 }
