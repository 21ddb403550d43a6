package a2a

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// kind is a kind of error, in the terms of each binding.
type kind struct {
	code   int    // of JSON-RPC
	reason string // of google.rpc.ErrorInfo
	status int    // of HTTP
	rpc    string // google.rpc.Code
}

// The kinds of errors.
var (
	kindUnparsable     = &kind{-32700, "PARSE_ERROR", http.StatusBadRequest, "INVALID_ARGUMENT"}
	kindBadRequest     = &kind{-32600, "INVALID_REQUEST", http.StatusBadRequest, "INVALID_ARGUMENT"}
	kindNoMethod       = &kind{-32601, "METHOD_NOT_FOUND", http.StatusNotImplemented, "UNIMPLEMENTED"}
	kindBadParams      = &kind{-32602, "INVALID_PARAMS", http.StatusBadRequest, "INVALID_ARGUMENT"}
	kindInternal       = &kind{-32603, "INTERNAL_ERROR", http.StatusInternalServerError, "INTERNAL"}
	kindLimited        = &kind{-32000, "SERVER_ERROR", http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"}
	kindUnavailable    = &kind{-32000, "SERVER_ERROR", http.StatusServiceUnavailable, "UNAVAILABLE"}
	kindNoTask         = &kind{-32001, "TASK_NOT_FOUND", http.StatusNotFound, "NOT_FOUND"}
	kindNoPush         = &kind{-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	kindUnsupported    = &kind{-32004, "UNSUPPORTED_OPERATION", http.StatusBadRequest, "FAILED_PRECONDITION"}
	kindNoContentType  = &kind{-32005, "CONTENT_TYPE_NOT_SUPPORTED", http.StatusBadRequest, "INVALID_ARGUMENT"}
	kindNoExtendedCard = &kind{-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	kindNoVersion      = &kind{-32009, "VERSION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}
)

// domain is the domain of the reasons above.
const domain = "a2a-protocol.org"

// The types of the details of an error.
const (
	typeErrorInfo = "type.googleapis.com/google.rpc.ErrorInfo"
	typeStruct    = "type.googleapis.com/google.protobuf.Struct"
)

// failure is an error of the message protocol.
type failure struct {
	kind    *kind
	message string
	// rejection is the Error object of the interface that explains the failure, or nil.
	rejection *wire.Error
	// sent is the part of the message that was read, for the example.
	sent *message
	// cause is the internal error to log, or nil.
	cause error
}

func fail(kind *kind, message string) *failure {
	return &failure{kind: kind, message: message}
}

// kinds are the kinds of rejections, by status; for any other status, the parameters are at fault.
var kinds = map[int]*kind{
	http.StatusTooManyRequests:     kindLimited,
	http.StatusServiceUnavailable:  kindUnavailable,
	http.StatusInternalServerError: kindInternal,
}

// rejected returns the error of a rejected operation.
func rejected(rejection *wire.Error, sent *message) *failure {
	message := strings.Join(append([]string{rejection.Message}, rejection.Notes...), " ")
	kind := cmp.Or(kinds[rejection.Status()], kindBadParams)
	return &failure{kind: kind, message: message, rejection: rejection, sent: sent}
}

// reply returns an HTTP response. The failure, which may be nil, adds headers and the error to log.
func (e *failure) reply(status int, body wire.Object) wire.Reply {
	r := wire.Reply{Status: status, Body: body.AppendJSON(nil)}
	if e != nil {
		r.Rejection, r.Cause = e.rejection, e.cause
	}
	return r
}

// rpc returns the error object of JSON-RPC. Version 0.3 leaves the form of data open. Its first
// clients state no version and read an object; those that state one read the list of 1.0. Each fails
// at the other form.
func (e *failure) rpc(d dialect, stated bool) wire.Object {
	o := wire.Object{{"code", e.kind.code}, {"message", e.message}}
	if d != dialect03 || stated {
		return o.With("data", e.details())
	}
	data := wire.Object{{"reason", e.kind.reason}, {"domain", domain}}
	if e.rejection != nil {
		if wait := e.rejection.Wait(); wait != "" {
			data = data.With("retryAfter", wait)
		}
		data = append(data, e.rejection.Object()...)
	}
	return o.With("data", data)
}

// http returns the body of an error over HTTP+JSON.
func (e *failure) http() wire.Object {
	return wire.Object{{"error", wire.Object{
		{"code", e.kind.status}, {"status", e.kind.rpc}, {"message", e.message}, {"details", e.details()},
	}}}
}

// details returns a google.rpc.ErrorInfo, followed by the Error object.
func (e *failure) details() []wire.Object {
	info := wire.Object{{"@type", typeErrorInfo}, {"reason", e.kind.reason}, {"domain", domain}}
	if e.rejection == nil {
		return []wire.Object{info}
	}
	metadata := wire.Object{{"code", e.rejection.Code}, {"retryable", strconv.FormatBool(e.rejection.Retryable())}}
	if wait := e.rejection.Wait(); wait != "" {
		metadata = metadata.With("retryAfter", wait)
	}
	return []wire.Object{info.With("metadata", metadata), {{"@type", typeStruct}, {"value", e.rejection.Object()}}}
}

// complete turns the example of an entry into a whole request in the client's own dialect. rpc is
// nil over HTTP+JSON.
func (e *failure) complete(d dialect, rpc *rpcRequest) {
	if e.rejection == nil || e.sent == nil {
		return
	}
	shown := *e.rejection
	message := e.sent.example(d, e.rejection.Example)
	if len(message) == 0 {
		return
	}
	shown.Example = wire.Object{{"message", message}}
	if rpc != nil {
		id := rpc.id
		if id == nil {
			id = 1
		}
		shown.Example = wire.Object{{"jsonrpc", "2.0"}, {"id", id}, {"method", rpc.method}, {"params", shown.Example}}
	}
	e.rejection = &shown
}
