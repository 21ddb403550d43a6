// Package wire holds the parts of requests and responses that every surface shares: bodies decoded
// into documents, JSON objects with ordered members, texts as they are stored and measured,
// validation problems and the Error object (interface, 2.7). It depends on no HTTP server, state or
// resource.
package wire

import (
	"bytes"
	"errors"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/internal/trace"
)

const (
	// MaxBodyBytes is the largest request body; more is a 413.
	MaxBodyBytes = 128 << 10
	// MaxParams is how many parameters a query may have, and fields a form. A2A and MCP bound what
	// they take in place of a query by it.
	MaxParams = 128
)

// Document holds the fields of a request from any source. It does not refer to the server's buffers.
type Document struct {
	Fields []Field
	// Flat means that the source has texts only (a form or a query). Lists are comma-separated. An
	// empty value counts as absent in a query, and as null in a form.
	Flat bool
	// NotObject means that a JSON body was not an object.
	NotObject bool
	// Hint suggests another form for a body that makes little sense, or is empty.
	Hint string
	// MessageID is the id of the message that carried the document, or "". It replaces a request_id.
	MessageID string
	// Key is the header Idempotency-Key, or "". It replaces a request_id.
	Key string
	// Owner returns the agent of an edit_key, or of the key in the header if the edit_key is
	// empty. It returns "" for an unknown key. nil means that keys do not name the author.
	Owner func(editKey string) string
	// Registered reports whether a folded agent name is registered. nil means that names are not
	// looked up.
	Registered func(agentKey string) bool
	// Notes are notes of the surface for the author of the document.
	Notes []string
	// SentAs is the name under which each field was sent, after Canonical.
	SentAs map[string]string
}

// Get returns the value of a field; nil when it is absent or null.
func (d *Document) Get(name string) any {
	if at := Object(d.Fields).Index(name); at >= 0 {
		return d.Fields[at].Value
	}
	return nil
}

// Has reports whether a field is present, even as null.
func (d *Document) Has(name string) bool { return Object(d.Fields).Has(name) }

// TrimBOM removes the byte order mark that some clients put before a text.
func TrimBOM(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) }

// DecodeBody reads a request body by its content type. Errors are *Error with
// status 400 or 415.
func DecodeBody(contentType string, body []byte) (Document, error) {
	body = TrimBOM(body)
	media, err := MediaType(contentType)
	if err != nil {
		return Document{}, err
	}
	trimmed := bytes.TrimLeft(body, jsonSpace)
	switch {
	case len(trimmed) == 0:
		return Document{}, nil
	case media == MediaJSON || trimmed[0] == '{':
		fields, err := ReadObject(body)
		if err != nil && !errors.Is(err, ErrNotObject) {
			return Document{}, Malformed(err)
		}
		return Document{Fields: fields, NotObject: err != nil}, nil
	case !utf8.Valid(body):
		return Document{}, Malformed(errNotUTF8)
	case media == MediaForm:
		return decodeForm(string(body))
	default:
		return Document{Fields: []Field{{"body", string(body)}}}, nil
	}
}

// The families of content types.
const (
	MediaJSON = "application/json"
	MediaForm = "application/x-www-form-urlencoded"
	MediaText = "text/plain"
)

// MediaType returns the family of a content type, which is MediaText if contentType is empty.
func MediaType(contentType string) (string, error) {
	switch contentType {
	case "":
		return MediaText, nil
	case MediaJSON:
		return MediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch {
	case media == MediaJSON, media == "text/json",
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"):
		return MediaJSON, nil
	case media == MediaForm, media == MediaText:
		return media, nil
	}
	return "", &Error{
		Code:    CodeUnsupportedMedia,
		Message: "This content type is not understood. Send application/json, application/x-www-form-urlencoded or text/plain.",
		Issues:  []Issue{{"Content-Type", "must be " + MediaJSON + ", " + MediaForm + " or " + MediaText}},
	}
}

// decodeForm reads a form. A field may occur once; lists may occur often and are joined.
// A field without a value is null: it clears a field of a profile.
func decodeForm(body string) (Document, error) {
	pairs, err := ParsePairs(body)
	if err != nil {
		return Document{}, Malformed(err)
	}
	doc, twice := FoldPairs(pairs)
	if !strings.Contains(body, "=") {
		doc.Hint = "The body was read as a form, and holds no name=value. Send text as " + MediaText + " (curl -H 'Content-Type: text/plain' -d …) or as the value of body (--data-urlencode 'body=…')."
	}
	if len(twice) > 0 {
		return Document{}, Malformed(errors.New("the field " + Shown(twice[0], MaxUnknownName) + " is given twice"))
	}
	for _, p := range pairs {
		if !utf8.ValidString(p.Name) || !utf8.ValidString(p.Value) {
			return Document{}, Malformed(errNotUTF8)
		}
		if p.Value == "" && p.Name != "" && !doc.Has(p.Name) {
			doc.Fields = append(doc.Fields, Field{p.Name, nil})
		}
	}
	return doc, nil
}

// Pair is one name=value of a query or a form.
type Pair = struct{ Name, Value string }

// ParsePairs takes a query or a form apart. A percent sign that starts no escape
// stands for itself: people write such URLs by hand.
func ParsePairs(s string) ([]Pair, error) {
	if s == "" {
		return nil, nil
	}
	parts := strings.Count(s, "&") + 1
	if parts > MaxParams {
		return nil, errors.New("it has too many parameters")
	}
	pairs := make([]Pair, 0, parts)
	for part := range strings.SplitSeq(s, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, Pair{unescape(name), unescape(value)})
	}
	return pairs, nil
}

// unescape decodes percent escapes and plus signs.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return strings.Clone(s)
	}
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s):
			if code, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c = byte(code)
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Anonymous is the author of entries without a name.
const Anonymous = "anonymous"

// ExampleKey stands in examples for an edit_key.
const ExampleKey = "<edit_key>"

// PageParams are the parameters of a list that a cursor is not bound to.
var PageParams = []string{"limit", "consistency", "min_index"}

// joinedFields are the lists, by all their names.
var joinedFields = []string{"tags", "capabilities", "labels"}

// FoldPairs makes a flat document. Repeated lists are joined; of other repeated fields
// the first value counts, and their names are returned.
func FoldPairs(pairs []Pair) (doc Document, twice []string) {
	doc.Flat = true
	seen := make(map[string]bool, len(pairs))
	more := map[string][]string{} // texts of a list after the first
	for _, p := range pairs {
		switch {
		case p.Value == "":
		case !seen[p.Name]:
			seen[p.Name] = true
			doc.Fields = append(doc.Fields, Field{p.Name, p.Value})
		case slices.Contains(joinedFields, p.Name):
			more[p.Name] = append(more[p.Name], p.Value)
		default:
			twice = append(twice, p.Name)
		}
	}
	for i, f := range doc.Fields {
		if first, _ := f.Value.(string); more[f.Name] != nil {
			doc.Fields[i].Value = joinLists(append([]string{first}, more[f.Name]...))
		}
	}
	return doc, twice
}

// joinLists joins the texts of lists, by commas unless one of them is an array. It reads each at most twice.
func joinLists(lists []string) string {
	if !slices.ContainsFunc(lists, func(list string) bool { _, isArray := ReadList(list); return isArray }) {
		return strings.Join(lists, ",")
	}
	var all []any
	for _, list := range lists {
		items, _ := Items(list)
		all = append(all, items...)
	}
	return string(AppendJSON(nil, all))
}

// Invocation is the input of an operation that runs in memory. It corresponds to the query, path and
// body of an HTTP request.
type Invocation struct {
	Params   []Pair   // of the query
	ID       string   // the path parameter
	Document Document // the body
	EditKey  string   // of the header Authorization
	// CheckOnly stops after the validation of the parameters.
	CheckOnly bool
	// Trace is the caller's span if the surface has one for each operation; "" means that of
	// the request.
	Trace trace.Parent
}

// Performed is the result of an operation.
type Performed struct {
	Status int    // of HTTP
	Body   []byte // the JSON object that HTTP returns
	// Rejection is the Error object in Body, or nil.
	Rejection *Error
	// Index is the log index of a write, or 0.
	Index uint64
}

// Performer runs operations of the interface for the client of a request.
type Performer interface {
	// Perform runs the operation with an operationId, under all its rules. With CheckOnly it
	// returns only the problems. It may be called from any goroutine while the request is being
	// answered.
	Perform(operation string, in Invocation) Performed
}

// Request is an HTTP request as seen by a surface that runs operations. All but Body may be kept.
type Request interface {
	Performer
	// Header returns a header, or "".
	Header(name string) string
	// Param returns a path parameter, unescaped.
	Param(name string) string
	// Query returns the parameters of the URL, or an *Error.
	Query() ([]Pair, error)
	// Body returns the body as it was sent.
	Body() []byte
	// BaseURL is the base of this service's addresses as the client sees them, without a slash at
	// the end.
	BaseURL() string
	// Sender is the pseudonym of the client's address.
	Sender() string
}

// Reply is the response of a surface to an HTTP request.
type Reply struct {
	// Status is the HTTP status. 0 means that Rejection is the response, as an Error object.
	Status int
	Body   []byte
	// ContentType is the media type of the body, "" for application/json.
	ContentType string
	// Policy is the Content-Security-Policy, Caching the Cache-Control, and Location the target of a
	// redirect. Each may be empty.
	Policy, Caching, Location string
	// Tag is the entity tag, or "".
	Tag string
	// Work is the number of bytes read and written to make a page.
	Work int
	// Rejection is the source of headers such as Retry-After, or nil.
	Rejection *Error
	// Cause is the internal error to log, or nil.
	Cause error
}
