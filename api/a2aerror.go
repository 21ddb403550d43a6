package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// a2aKind is a kind of error of the message protocol, as each binding writes it.
type a2aKind struct {
	code   int    // of JSON-RPC
	reason string // of google.rpc.ErrorInfo
	status int    // of HTTP
	rpc    string // google.rpc.Code
}

// The kinds of errors.
var (
	a2aUnparsable     = &a2aKind{-32700, "PARSE_ERROR", http.StatusBadRequest, "INVALID_ARGUMENT"}
	a2aBadRequest     = &a2aKind{-32600, "INVALID_REQUEST", http.StatusBadRequest, "INVALID_ARGUMENT"}
	a2aNoMethod       = &a2aKind{-32601, "METHOD_NOT_FOUND", http.StatusNotImplemented, "UNIMPLEMENTED"}
	a2aBadParams      = &a2aKind{-32602, "INVALID_PARAMS", http.StatusBadRequest, "INVALID_ARGUMENT"}
	a2aInternal       = &a2aKind{-32603, "INTERNAL_ERROR", http.StatusInternalServerError, "INTERNAL"}
	a2aLimited        = &a2aKind{-32000, "SERVER_ERROR", http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"}
	a2aUnavailable    = &a2aKind{-32000, "SERVER_ERROR", http.StatusServiceUnavailable, "UNAVAILABLE"}
	a2aNoTask         = &a2aKind{-32001, "TASK_NOT_FOUND", http.StatusNotFound, "NOT_FOUND"}
	a2aNoPush         = &a2aKind{-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	a2aUnsupported    = &a2aKind{-32004, "UNSUPPORTED_OPERATION", http.StatusBadRequest, "FAILED_PRECONDITION"}
	a2aNoContentType  = &a2aKind{-32005, "CONTENT_TYPE_NOT_SUPPORTED", http.StatusBadRequest, "INVALID_ARGUMENT"}
	a2aNoExtendedCard = &a2aKind{-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	a2aNoVersion      = &a2aKind{-32009, "VERSION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}
)

// a2aDomain is the domain of the reasons above.
const a2aDomain = "a2a-protocol.org"

// The types of the details of an error.
const (
	typeErrorInfo = "type.googleapis.com/google.rpc.ErrorInfo"
	typeStruct    = "type.googleapis.com/google.protobuf.Struct"
)

// a2aError is an error of the message protocol.
type a2aError struct {
	kind    *a2aKind
	message string
	// refusal is the Error object of the interface that explains it; nil: none.
	refusal *wire.Error
	// sent is the message as far as it could be read, for the example.
	sent *a2aMessage
}

func newA2AError(kind *a2aKind, message string) *a2aError {
	return &a2aError{kind: kind, message: message}
}

// a2aRefusal is the error that a refused operation comes to.
func a2aRefusal(refusal *wire.Error, sent *a2aMessage) *a2aError {
	message := strings.Join(append([]string{refusal.Message}, refusal.Notes...), " ")
	e := &a2aError{kind: a2aBadParams, message: message, refusal: refusal, sent: sent}
	switch refusal.Status() {
	case http.StatusTooManyRequests:
		e.kind = a2aLimited
	case http.StatusServiceUnavailable:
		e.kind = a2aUnavailable
	case http.StatusInternalServerError:
		e.kind = a2aInternal
	}
	return e
}

// a2aUnreached is the error of a request over HTTP+JSON that never reached the
// protocol. Its status is that of the refusal.
func a2aUnreached(refusal *wire.Error) *a2aError {
	e := a2aRefusal(refusal, nil)
	kind := *e.kind
	switch refusal.Status() {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError:
	case http.StatusNotFound:
		kind = *a2aNoMethod
		kind.rpc = a2aNoTask.rpc
	case http.StatusMethodNotAllowed:
		kind = *a2aNoMethod
	default:
		kind = *a2aBadRequest
	}
	kind.status = refusal.Status()
	e.kind = &kind
	return e
}

// belowA2A reports a request for HTTP+JSON of the message protocol. One that was not
// read far enough for its path to be known is none.
func (c *call) belowA2A() bool {
	if c.operation != nil {
		return strings.HasPrefix(c.operation.path, a2aUnversioned)
	}
	return c.rctx != nil && len(c.rctx.Host()) > 0 && strings.HasPrefix(string(c.rctx.URI().PathOriginal()), a2aUnversioned)
}

// hint tells HTTP when to try again.
func (e *a2aError) hint(c *call) {
	if e.refusal != nil {
		c.hint(e.refusal)
	}
}

// rpc is the error object of JSON-RPC. Version 0.3 leaves the form of data open. Its
// first clients state no version and read an object; those that state one read the
// list of 1.0. Each fails at the other form.
func (e *a2aError) rpc(d dialect, stated bool) wire.Object {
	o := wire.Object{{"code", e.kind.code}, {"message", e.message}}
	if d != dialect03 || stated {
		return o.With("data", e.details())
	}
	data := wire.Object{{"reason", e.kind.reason}, {"domain", a2aDomain}}
	if e.refusal != nil {
		if wait := e.refusal.Wait(); wait != "" {
			data = data.With("retryAfter", wait)
		}
		data = append(data, e.refusal.Object()...)
	}
	return o.With("data", data)
}

// http is the body of an error over HTTP+JSON.
func (e *a2aError) http() wire.Object {
	return wire.Object{{"error", wire.Object{
		{"code", e.kind.status}, {"status", e.kind.rpc}, {"message", e.message}, {"details", e.details()},
	}}}
}

// details are a google.rpc.ErrorInfo, and behind it the Error object.
func (e *a2aError) details() []wire.Object {
	info := wire.Object{{"@type", typeErrorInfo}, {"reason", e.kind.reason}, {"domain", a2aDomain}}
	if e.refusal == nil {
		return []wire.Object{info}
	}
	metadata := wire.Object{{"code", e.refusal.Code}, {"retryable", strconv.FormatBool(e.refusal.Retryable())}}
	if wait := e.refusal.Wait(); wait != "" {
		metadata = metadata.With("retryAfter", wait)
	}
	return []wire.Object{info.With("metadata", metadata), {{"@type", typeStruct}, {"value", e.refusal.Object()}}}
}

// mend turns the example of an entry into that of a whole request in the client's
// own dialect. rpc is nil over HTTP+JSON.
func (e *a2aError) mend(d dialect, rpc *rpcRequest) {
	if e.refusal == nil || e.sent == nil {
		return
	}
	shown := *e.refusal
	shown.Example = wire.Object{{"message", e.sent.example(d, e.refusal.Example)}}
	if rpc != nil {
		id := rpc.id
		if id == nil {
			id = 1
		}
		shown.Example = wire.Object{{"jsonrpc", "2.0"}, {"id", id}, {"method", rpc.method}, {"params", shown.Example}}
	}
	e.refusal = &shown
}
