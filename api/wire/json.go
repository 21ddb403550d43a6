package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// The reasons for which bytes are no JSON that we read.
var (
	errNotUTF8   = errors.New("it is not valid UTF-8")
	errSurrogate = errors.New("a string holds half of a surrogate pair")
	errDepth     = fmt.Errorf("it is nested more than %d deep", maxJSONDepth)
	ErrNotObject = errors.New("it is not a JSON object")
)

// Field is one field of a decoded request. The value is a string, json.Number,
// bool, nil, []any or map[string]any.
type Field = struct {
	Name  string
	Value any
}

// ReadObject reads one JSON object strictly: valid UTF-8, no duplicate key at any
// depth, at most maxJSONDepth deep, nothing behind it. The fields keep their
// order. Nothing of the answer points into data. It returns errNotObject for
// other valid JSON.
func ReadObject(data []byte) ([]Field, error) {
	if !utf8.Valid(data) {
		return nil, errNotUTF8
	}
	if err := checkSyntax(data); err != nil {
		return nil, err
	}
	if loneSurrogate(data) {
		return nil, errSurrogate
	}
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, ErrNotObject
	}
	var fields []Field
	err = r.members(1, func(name string, value any) {
		fields = append(fields, Field{name, value})
	})
	return fields, err
}

// formStart is how a form begins.
var formStart = regexp.MustCompile(`^\s*[A-Za-z_]+=`)

// checkSyntax returns a syntax error with its place. The standard library's
// token stream alone would stop at the end of the first value.
func checkSyntax(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var discard json.RawMessage
	err := json.Unmarshal(data, &discard)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("%w (at byte %d)", err, syntax.Offset)
		if formStart.Match(data) {
			err = fmt.Errorf("it is no JSON but looks like a form; send that as %s: %w", MediaForm, err)
		}
		return err
	}
	if err == nil {
		return errors.New("it is not valid JSON")
	}
	return err
}

// jsonReader walks the token stream of syntactically valid JSON.
type jsonReader struct{ dec *json.Decoder }

// members reads the members of an object whose brace was read.
func (r *jsonReader) members(depth int, add func(name string, value any)) error {
	if depth > maxJSONDepth {
		return errDepth
	}
	seen := map[string]struct{}{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, isName := tok.(string)
		if !isName {
			return fmt.Errorf("a key is a %T", tok)
		}
		if _, twice := seen[name]; twice {
			return fmt.Errorf("the key %q stands twice in one object", Shown(name, MaxUnknownName))
		}
		seen[name] = struct{}{}
		value, err := r.value(depth)
		if err != nil {
			return err
		}
		add(name, value)
	}
	_, err := r.dec.Token() // the closing brace
	return err
}

// value reads the next value, which lies depth deep.
func (r *jsonReader) value(depth int) (any, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		object := map[string]any{}
		err := r.members(depth+1, func(name string, value any) { object[name] = value })
		return object, err
	case json.Delim('['):
		return r.elements(depth + 1)
	}
	return tok, nil
}

// elements reads the elements of an array whose bracket was read.
func (r *jsonReader) elements(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, errDepth
	}
	list := []any{}
	for r.dec.More() {
		value, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := r.dec.Token() // the closing bracket
	return list, err
}

// loneSurrogate reports an escape of one half of a surrogate pair, which the
// standard library would replace without a word. data is valid JSON.
func loneSurrogate(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 {
			return false
		}
		data = data[i+1:] // valid JSON: a character follows every backslash
		if data[0] != 'u' {
			data = data[1:]
			continue
		}
		unit := hex4(data[1:])
		data = data[5:]
		switch {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
				return true
			}
			if low := hex4(data[2:]); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			data = data[6:]
		}
	}
}

// hex4 is the value of four hexadecimal digits.
func hex4(digits []byte) (v uint16) {
	for _, d := range digits[:4] {
		switch {
		case d >= 'a':
			d -= 'a' - 10
		case d >= 'A':
			d -= 'A' - 10
		default:
			d -= '0'
		}
		v = v<<4 | uint16(d)
	}
	return v
}

const (
	// maxJSONDepth is the deepest nesting of objects and arrays in a body.
	maxJSONDepth = 32
)
