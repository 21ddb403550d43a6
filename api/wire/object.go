package wire

import (
	"encoding/json"
	"slices"
	"strings"
)

// Object is a JSON object that keeps the order of its members.
type Object []Field

// With appends a member.
func (o Object) With(name string, value any) Object { return append(o, Field{name, value}) }

// Has reports whether the object has a member.
func (o Object) Has(name string) bool {
	return slices.ContainsFunc(o, func(m Field) bool { return m.Name == name })
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

// AppendJSON appends any value that encoding/json takes, without escaping HTML.
// The values that we make cannot fail to encode.
func AppendJSON(dst []byte, value any) []byte {
	if o, isObject := value.(Object); isObject {
		return o.AppendJSON(dst)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return append(dst, "null"...)
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}
