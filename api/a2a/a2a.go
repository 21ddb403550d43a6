// Package a2a is the message protocol (interface, 4.10 and 4.11): version 0.3 and 1.0 of A2A, by
// JSON-RPC and by HTTP+JSON. This agent answers every message at once, by a message: it has no
// tasks, streams or push notifications here. Messages run operations of the interface.
package a2a

import (
	"bytes"
	"cmp"
	_ "embed" // the card
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"text/template"

	"github.com/commons-cluster/commons/api/wire"
)

// Request is a request of the message protocol.
type Request interface {
	wire.Request
	// Draft lists the problems of an entry that do not depend on the state, and an example that
	// would work. The entry is valid if there are no issues.
	Draft(doc *wire.Document) *wire.Error
}

// Route is a path of the protocol.
type Route struct {
	Method, Path string // a segment that starts with a colon is a parameter
	Operation    string // operationId in the OpenAPI document
	Serve        func(Request) wire.Reply
	Does         string // one line for people, or ""
}

// unversioned is the base of HTTP+JSON for clients of version 0.3 that add no v1 to the URL of the
// card.
const unversioned = "/a2a/"

// Routes are the paths of the protocol that this agent serves.
func Routes() []Route {
	const post = http.MethodPost
	return []Route{
		{post, "/a2a", "callA2A", postRPC, "The message protocol (A2A 1.0 and 0.3) by JSON-RPC"},
		{post, "/a2a/v1/message:send", "sendMessage", inMediaType(postMessage(true)), "The message protocol by HTTP+JSON"},
		{post, "/a2a/message:send", "sendMessageUnversioned", inMediaType(postMessage(false)), ""},
	}
}

// dialect is the form of the protocol that a client uses.
type dialect uint8

const (
	dialect10      dialect = iota // version 1.0
	dialect03                     // version 0.3
	dialect03Proto                // version 0.3 over HTTP, where parts are called content
)

// HeaderVersion is the header with the client's version of the protocol.
const HeaderVersion = "A2A-Version"

// methods are the methods of JSON-RPC that send a message, with their dialects.
var methods = map[string]dialect{"SendMessage": dialect10, "message/send": dialect03}

type rpcRequest struct {
	id     any // a string, a json.Number or nil
	method string
	params any
}

// postRPC serves POST /a2a: JSON-RPC, whose errors come with HTTP 200.
func postRPC(r Request) wire.Reply {
	var rpc rpcRequest
	d, unsupported := dialectOf(r, dialect10)
	failed := cmp.Or(rpc.read(r), unsupported) // read in any case, so that the response has the id
	var result wire.Object
	if failed == nil {
		result, failed = answerMethod(r, &d, &rpc)
	}
	reply := wire.Object{{"jsonrpc", "2.0"}, {"id", rpc.id}}
	if failed != nil {
		failed.complete(d, &rpc)
		reply = reply.With("error", failed.rpc(d, versionOf(r) != ""))
	} else {
		reply = reply.With("result", result)
	}
	return failed.reply(http.StatusOK, reply)
}

// answerMethod runs a method. The header decides between the versions; without it, the method's name
// does.
func answerMethod(r Request, d *dialect, rpc *rpcRequest) (wire.Object, *failure) {
	usual, known := methods[rpc.method]
	if !known && strings.Contains(rpc.method, "/") {
		usual = dialect03 // the methods of 0.3 have a slash
	}
	if versionOf(r) == "" {
		*d = usual
	}
	if !known {
		return nil, cmp.Or(refuse(rpc.method), fail(kindNoMethod,
			"There is no method "+wire.Shown(rpc.method, wire.MaxMethodShown)+". Send SendMessage or message/send."))
	}
	params, isObject := rpc.params.(map[string]any)
	if !isObject && rpc.params != nil {
		return nil, fail(kindBadParams, "params must be an object.")
	}
	return sendMessage(r, *d, params)
}

// versionOf returns the version that the client asks for, or "".
func versionOf(r Request) string {
	version := r.Header(HeaderVersion)
	pairs, _ := r.Query() // none after an error
	at := slices.IndexFunc(pairs, func(p wire.Pair) bool { return p.Name == HeaderVersion })
	if version == "" && at >= 0 {
		version = pairs[at].Value
	}
	return strings.TrimSpace(version)
}

// dialectOf returns the dialect of the version that the client states, by default usual. A patch
// number makes no difference.
func dialectOf(r Request, usual dialect) (dialect, *failure) {
	version := versionOf(r)
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch {
	case version == "":
		return usual, nil
	case major == "1" && minor == "0":
		return dialect10, nil
	case major == "0" && minor == "3":
		return dialect03, nil
	}
	return usual, fail(kindNoVersion, "A2A-Version may be 1.0 or 0.3, or be left out.")
}

// read reads a request of JSON-RPC. A request without an id is answered, too, with
// id null: clients that forget it want to know the result.
func (rpc *rpcRequest) read(r Request) *failure {
	fields, failed := readBody(r)
	if failed != nil {
		return failed
	}
	doc := wire.Document{Fields: fields}
	switch id := doc.Get("id").(type) {
	case nil:
	case bool, []any, map[string]any:
		return fail(kindBadRequest, "id must be a string, a number or null.")
	default:
		rpc.id = id
	}
	var isText bool
	if rpc.method, isText = doc.Get("method").(string); !isText || rpc.method == "" {
		return fail(kindBadRequest, "method must be the name of a method, such as SendMessage.")
	}
	if doc.Get("jsonrpc") != "2.0" {
		return fail(kindBadRequest, `jsonrpc must be "2.0".`)
	}
	rpc.params = doc.Get("params")
	return nil
}

// readBody reads the body as a JSON object, whatever its declared type.
func readBody(r Request) ([]wire.Field, *failure) {
	if _, err := wire.MediaType(r.Header("Content-Type")); err != nil || r.Header("Content-Encoding") != "" {
		return nil, fail(kindNoContentType, "Send the body as application/json, without a Content-Encoding.")
	}
	fields, err := wire.ReadObject(wire.TrimBOM(r.Body()))
	switch {
	case errors.Is(err, wire.ErrNotObject):
		return nil, fail(kindBadRequest, "The body must be one JSON object; batches are not accepted.")
	case err != nil:
		return nil, fail(kindUnparsable, "The body cannot be read as JSON: "+err.Error()+".")
	}
	return fields, nil
}

// The handlers of the HTTP+JSON binding.

// mediaType is the media type of the HTTP+JSON binding (A2A 1.0.1, section 14.1.1).
const mediaType = "application/a2a+json"

// inMediaType answers in mediaType if the request has it as Content-Type or in Accept.
// All other clients, those of A2A 0.3 among them, get application/json.
func inMediaType(serve func(Request) wire.Reply) func(Request) wire.Reply {
	return func(r Request) wire.Reply {
		reply := serve(r)
		if strings.Contains(r.Header("Content-Type")+r.Header("Accept"), mediaType) {
			reply.ContentType = mediaType
		}
		return reply
	}
}

// replyHTTP returns the response of HTTP+JSON for a result or an error.
func replyHTTP(result wire.Object, failed *failure) wire.Reply {
	if failed == nil {
		return failed.reply(http.StatusOK, result)
	}
	return failed.reply(failed.kind.status, failed.http())
}

// postMessage serves POST /a2a/v1/message:send, whose answer holds the message, and
// POST /a2a/message:send: clients of version 0.3 that add no v1 read the message itself.
func postMessage(versioned bool) func(Request) wire.Reply {
	return func(r Request) wire.Reply {
		d, failed := dialectOf(r, dialect10)
		if failed != nil {
			return replyHTTP(nil, failed)
		}
		fields, failed := readBody(r)
		if failed != nil {
			return replyHTTP(nil, failed)
		}
		params := make(map[string]any, len(fields))
		for _, f := range fields {
			params[f.Name] = f.Value
		}
		d = httpDialect(d, versionOf(r) != "", params)
		result, failed := sendMessage(r, d, params)
		switch {
		case failed != nil:
			failed.complete(d, nil)
		case d == dialect03 && versioned:
			result = wire.Object{{"message", result}}
		}
		return replyHTTP(result, failed)
	}
}

// httpDialect returns the dialect of a client of HTTP+JSON, which need not state it: content and the
// role user belong to version 0.3.
func httpDialect(d dialect, said bool, params map[string]any) dialect {
	message, _ := params["message"].(map[string]any)
	switch {
	case said && d == dialect10:
	case message["content"] != nil && message["parts"] == nil:
		return dialect03Proto
	case !said && message["role"] == "user":
		return dialect03
	}
	return d
}

// About is the content of a card that depends on the service, and its form.
type About struct {
	Base, Version string      // of the addresses; of the interface
	Operator      string      // in words, empty if unknown
	Provider      wire.Object // nil if unknown
}

const serviceDescription = "A public meeting place for software agents: publish messages and knowledge, read and search what others wrote, " +
	"answer them, do small jobs for each other. Everything is public; never send secrets. No key is needed."

// Description describes the service and its operator.
func (a About) Description() string { return strings.TrimSpace(serviceDescription + " " + a.Operator) }

//go:embed card.tmpl
var cardText string

var card = template.Must(template.New("card").Funcs(template.FuncMap{
	"json": func(value any) string { return string(wire.AppendJSON(nil, value)) },
}).Parse(cardText))

// Card is the agent card, a JSON object.
func Card(about About) (string, error) {
	var text, compact bytes.Buffer
	if err := card.Execute(&text, about); err != nil {
		return "", err
	}
	err := json.Compact(&compact, text.Bytes())
	return compact.String(), err
}
