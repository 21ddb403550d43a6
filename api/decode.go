package api

import (
	"bytes"
	"errors"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// document is a request's fields, from wherever they came. Nothing in it points
// into the server's buffers.
type document struct {
	fields []field
	// flat says that the source knows only text (a form or a query): lists are
	// comma-separated there, and an empty value counts as absent in a query and as
	// null in a form.
	flat bool
	// notObject says that a JSON body was something other than an object.
	notObject bool
	// hint says how else to send what makes little sense as it came; "": nothing.
	hint string
	// messageID is the idempotency key of a message that carried the document, in
	// place of a request_id; "": none.
	messageID string
	// ignored names the fields of a message that gave way to its text; "": none.
	ignored string
}

// get returns the value of a field; nil when it is absent or null.
func (d *document) get(name string) any {
	for i := range d.fields {
		if d.fields[i].name == name {
			return d.fields[i].value
		}
	}
	return nil
}

// has reports whether a field stands there, be it null.
func (d *document) has(name string) bool {
	return slices.ContainsFunc(d.fields, func(f field) bool { return f.name == name })
}

// utf8BOM is what some clients put before a text.
var utf8BOM = []byte("\xef\xbb\xbf")

// decodeBody reads a request body by its content type. Errors are *Error with
// status 400 or 415.
func decodeBody(contentType string, body []byte) (document, error) {
	body = bytes.TrimPrefix(body, utf8BOM)
	media, err := mediaType(contentType)
	if err != nil {
		return document{}, err
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return document{}, nil
	case media == mediaJSON || trimmed[0] == '{':
		return decodeJSON(body)
	case !utf8.Valid(body):
		return document{}, malformed(errNotUTF8)
	case media == mediaForm:
		return decodeForm(string(body))
	default:
		return document{fields: []field{{"body", string(body)}}}, nil
	}
}

// The families of content types.
const (
	mediaJSON = "application/json"
	mediaForm = "application/x-www-form-urlencoded"
	mediaText = "text/plain"
)

// mediaType returns the family of a content type; none counts as text.
func mediaType(contentType string) (string, error) {
	switch contentType {
	case "":
		return mediaText, nil
	case mediaJSON:
		return mediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch {
	case media == mediaJSON, media == "text/json",
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"):
		return mediaJSON, nil
	case media == mediaForm, media == mediaText:
		return media, nil
	}
	return "", &Error{
		Code:    codeUnsupportedMedia,
		Message: "This content type is not understood. Send application/json, application/x-www-form-urlencoded or text/plain.",
		Issues:  []Issue{{"Content-Type", "must be " + mediaJSON + ", " + mediaForm + " or " + mediaText}},
	}
}

func decodeJSON(body []byte) (document, error) {
	fields, err := readObject(body)
	if errors.Is(err, errNotObject) {
		return document{notObject: true}, nil
	}
	if err != nil {
		return document{}, malformed(err)
	}
	return document{fields: fields}, nil
}

// decodeForm reads a form. A field may stand once, lists may stand often and are
// joined. One without a value is null: it clears a field of a profile.
func decodeForm(body string) (document, error) {
	pairs, err := parsePairs(body)
	if err != nil {
		return document{}, malformed(err)
	}
	doc, twice := foldPairs(pairs)
	if !strings.Contains(body, "=") {
		doc.hint = "The body was read as a form, and holds no name=value. Send text as " + mediaText + " (curl -H 'Content-Type: text/plain' -d …) or as the value of body (--data-urlencode 'body=…')."
	}
	if len(twice) > 0 {
		return document{}, malformed(errors.New("the field " + shown(twice[0], maxUnknownName) + " stands twice"))
	}
	for _, p := range pairs {
		if p.value == "" && p.name != "" && !doc.has(p.name) {
			doc.fields = append(doc.fields, field{p.name, nil})
		}
	}
	for _, f := range doc.fields {
		if text, isText := f.value.(string); !utf8.ValidString(f.name) || isText && !utf8.ValidString(text) {
			return document{}, malformed(errNotUTF8)
		}
	}
	return doc, nil
}

// errTooManyParams is the error of a query or form with too many parts.
var errTooManyParams = errors.New("it has too many parameters")

// pair is one name=value of a query or a form.
type pair struct{ name, value string }

// parsePairs takes a query or a form apart. A percent sign that starts no escape
// stands for itself: people write such URLs by hand.
func parsePairs(s string) ([]pair, error) {
	if s == "" {
		return nil, nil
	}
	parts := strings.Count(s, "&") + 1
	if parts > maxParams {
		return nil, errTooManyParams
	}
	pairs := make([]pair, 0, parts)
	for part := range strings.SplitSeq(s, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{unescape(name), unescape(value)})
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
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(byte(hex4([]byte{'0', '0', s[i+1], s[i+2]})))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// joinedFields are the lists, by all their names.
var joinedFields = append([]string{fieldTags.name, fieldCapabilities.name}, fieldTags.synonyms...)

// foldPairs makes a flat document. Repeated lists are joined; the names of other
// repeated fields are returned, and the first value stands.
func foldPairs(pairs []pair) (doc document, twice []string) {
	doc.flat = true
	seen := make(map[string]int, len(pairs))
	for _, p := range pairs {
		if p.value == "" {
			continue
		}
		at, again := seen[p.name]
		switch {
		case !again:
			seen[p.name] = len(doc.fields)
			doc.fields = append(doc.fields, field{p.name, p.value})
		case slices.Contains(joinedFields, p.name):
			first, _ := doc.fields[at].value.(string)
			doc.fields[at].value = first + "," + p.value
		default:
			twice = append(twice, p.name)
		}
	}
	return doc, twice
}
