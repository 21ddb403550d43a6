package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth is the deepest nesting of objects and arrays in a body.
const maxJSONDepth = 32

// The reasons for which bytes are no JSON that we read.
var (
	errNotUTF8   = errors.New("it is not valid UTF-8")
	errSurrogate = errors.New("a string holds half of a surrogate pair")
	errDepth     = fmt.Errorf("it is nested more than %d deep", maxJSONDepth)
)

// ErrNotObject is the error of valid JSON that is no object.
var ErrNotObject = errors.New("it is not a JSON object")

// Field is one field of a decoded request. The value is a string, json.Number,
// bool, nil, []any or map[string]any.
type Field = struct {
	Name  string
	Value any
}

// ReadObject reads one JSON object strictly: valid UTF-8, no duplicate key at any depth, at most
// maxJSONDepth deep, no trailing data. The fields keep their order and do not refer to data. It
// returns ErrNotObject for other valid JSON.
func ReadObject(data []byte) ([]Field, error) {
	r := jsonReader{jsontext.NewDecoder(bytes.NewBuffer(data))}
	fields, err := r.object()
	if err == nil {
		return fields, nil
	}
	return nil, explain(data, err)
}

// Members returns the members of an object, or of a text with one, ordered by their names.
func Members(value any) (fields []Field, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			fields = append(fields, Field{name, value})
		}
	case string:
		var err error
		if fields, err = ReadObject([]byte(v)); err != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return fields, true
}

// jsonSpace is what may stand around a value in JSON.
const jsonSpace = " \t\r\n"

// ReadList returns the items of a text that is a JSON array, which some models send as a list.
func ReadList(s string) (items []any, is bool) {
	if !strings.HasPrefix(strings.TrimLeft(s, jsonSpace), "[") {
		return nil, false // as nearly always: no reader is made for it
	}
	r := jsonReader{jsontext.NewDecoder(strings.NewReader(s))}
	value, _, err := r.value()
	if _, after := r.dec.ReadToken(); err != nil || !errors.Is(after, io.EOF) {
		return nil, false
	}
	items, is = value.([]any)
	return items, is
}

// ReadTexts is ReadList for strings alone.
func ReadTexts(s string) (texts []string, is bool) {
	items, is := ReadList(s)
	for _, item := range items {
		text, isText := item.(string)
		texts, is = append(texts, text), is && isText
	}
	return texts, is
}

// Items returns the items of a list, or of a text that is an array of JSON or has commas.
func Items(value any) (items []any, isList bool) {
	s, isText := value.(string)
	if !isText {
		items, isList = value.([]any)
		return items, isList
	}
	if items, isList = ReadList(s); isList {
		return items, true
	}
	for piece := range strings.SplitSeq(s, ",") {
		if piece = strings.TrimSpace(piece); piece != "" {
			items = append(items, piece)
		}
	}
	return items, true
}

// ListText returns a list as a text that Items reads: with commas, or as an array if an item needs it.
func ListText(items ...string) string {
	if slices.ContainsFunc(items, func(s string) bool { return strings.ContainsAny(s, ",[") }) {
		return string(AppendJSON(nil, items))
	}
	return strings.Join(items, ",")
}

// explain returns the error for bytes that cannot be read: the same text for the same mistake,
// wherever the reader stopped.
func explain(data []byte, err error) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	var discard json.RawMessage
	errSyntax := json.Unmarshal(data, &discard)
	if syntax, is := errors.AsType[*json.SyntaxError](errSyntax); is {
		errSyntax = fmt.Errorf("%w (at byte %d)", errSyntax, syntax.Offset)
		if formStart.Match(data) {
			errSyntax = fmt.Errorf("it is no JSON but looks like a form; send that as %s: %w", MediaForm, errSyntax)
		}
	}
	if errSyntax != nil {
		return errSyntax
	}
	if !jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)) {
		return errSurrogate
	}
	if syntax, is := errors.AsType[*jsontext.SyntacticError](err); is && errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("the key %q occurs twice in one object", Shown(syntax.JSONPointer.LastToken(), MaxUnknownName))
	}
	return err
}

// formStart matches the beginning of a form.
var formStart = regexp.MustCompile(`^\s*[A-Za-z_]+=`)

// jsonReader builds values from tokens. The decoder rejects invalid UTF-8, half a surrogate pair,
// and a key that occurs twice in one object.
type jsonReader struct{ dec *jsontext.Decoder }

// object reads the only value, which is an object.
func (r *jsonReader) object() (fields []Field, err error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if tok.Kind() != '{' {
		return nil, ErrNotObject
	}
	err = r.members(func(name string, value any) { fields = append(fields, Field{name, value}) })
	if err != nil {
		return nil, err
	}
	if _, err = r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return fields, nil
}

// members reads the members of an object whose brace was read, and the other brace.
func (r *jsonReader) members(add func(name string, value any)) error {
	if r.dec.StackDepth() > maxJSONDepth {
		return errDepth
	}
	for {
		tok, err := r.dec.ReadToken()
		if err != nil || tok.Kind() == '}' {
			return err
		}
		name := tok.String()
		value, _, err := r.value()
		if err != nil {
			return err
		}
		add(name, value)
	}
}

// value reads the next value. end reports that the array ended instead.
func (r *jsonReader) value() (value any, end bool, err error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, false, err
	}
	switch tok.Kind() {
	case '{':
		object := map[string]any{}
		err = r.members(func(name string, value any) { object[name] = value })
		return object, false, err
	case '[':
		list, err := r.elements()
		return list, false, err
	case ']':
		return nil, true, nil
	case '"':
		return tok.String(), false, nil
	case '0':
		return json.Number(tok.String()), false, nil
	case 't', 'f':
		return tok.Bool(), false, nil
	}
	return nil, false, nil // null
}

// elements reads the elements of an array whose bracket was read, and the other bracket.
func (r *jsonReader) elements() ([]any, error) {
	if r.dec.StackDepth() > maxJSONDepth {
		return nil, errDepth
	}
	list := []any{}
	for {
		value, end, err := r.value()
		if err != nil || end {
			return list, err
		}
		list = append(list, value)
	}
}

// Object is a JSON object that keeps the order of its members.
type Object []Field

// With appends a member.
func (o Object) With(name string, value any) Object { return append(o, Field{name, value}) }

// Has reports whether the object has a member.
func (o Object) Has(name string) bool { return o.Index(name) >= 0 }

// Replace returns the object with another value of a member, which it adds if it is absent.
func (o Object) Replace(name string, value any) Object {
	if at := o.Index(name); at >= 0 {
		o[at].Value = value
		return o
	}
	return append(o, Field{name, value})
}

// Index returns the index of the first member of a name, or -1.
func (o Object) Index(name string) int {
	return slices.IndexFunc(o, func(m Field) bool { return m.Name == name })
}

// AppendJSON appends the object; HTML is not escaped.
func (o Object) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendJSON(dst, m.Name), ':')
		dst = AppendJSON(dst, m.Value)
	}
	return append(dst, '}')
}

// MarshalJSON renders the object.
func (o Object) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil), nil }

// isPlain reports whether a text in JSON is itself between quotation marks.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// AppendJSON appends any value that encoding/json takes, without escaping HTML.
// The values that we make cannot fail to encode.
func AppendJSON(dst []byte, value any) []byte {
	switch value := value.(type) {
	case Object:
		return value.AppendJSON(dst)
	case []Object:
		dst = append(dst, '[')
		for i, o := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.AppendJSON(dst)
		}
		return append(dst, ']')
	case json.RawMessage:
		return append(dst, value...)
	case []string:
		if value == nil {
			break
		}
		dst = append(dst, '[')
		for i, s := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, s)
		}
		return append(dst, ']')
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, value)
	case int:
		return strconv.AppendInt(dst, int64(value), 10)
	case int64:
		return strconv.AppendInt(dst, value, 10)
	case uint64:
		return strconv.AppendUint(dst, value, 10)
	case string:
		if isPlain(value) {
			return append(append(append(dst, '"'), value...), '"')
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return append(dst, "null"...)
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

// OrNull returns a value, or nil, which is null in JSON, if it is zero.
func OrNull[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

// NonNil returns a copy of a list that JSON shows as an array, never as null.
func NonNil(s []string) []string { return append([]string{}, s...) }
