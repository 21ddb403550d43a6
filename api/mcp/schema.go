package mcp

import (
	_ "embed" // the schemas
	"encoding/json"
	"slices"
	"strings"
)

// The schemas of tools are those of the operations behind them, shortened from the
// OpenAPI document: by operationId and by the name of the argument. A test writes them,
// and checks that they match the document.
//
//go:embed schemas.json
var schemasJSON []byte

// The places of an argument in a request of HTTP.
const (
	inQuery = "query"
	inPath  = "path"
	inBody  = "body"
	inKey   = "key"  // the edit_key, in the header Authorization
	inTool  = "tool" // not in the request: it concerns the tool's answer
)

// The types of arguments that are no part of a body.
const (
	typeText    = "string"
	typeInteger = "integer"
	typeArray   = "array"
	typeBoolean = "boolean"
)

// argFull is the argument of tools whose text is brief by default.
const argFull = "full"

var fullArgument = argument{In: inTool, Schema: schema{Type: typeBoolean, Description: "true: whole texts; default: one line each"}}

// argument is an argument of an operation.
type argument struct {
	In       string `json:"in"`
	Required bool   `json:"required,omitempty"` // by the operation
	Schema   schema `json:"schema"`
	// Also is a second type that is accepted. The schema does not show it, because some models
	// reject a list of types.
	Also string `json:"also,omitempty"`
}

// schema is the schema of an argument in the list of tools: its type, its words, and one clause of
// description. Further rules are named by rejections.
type schema struct {
	Type        string  `json:"type"`
	Items       *schema `json:"items,omitempty"`
	Enum        []any   `json:"enum,omitempty"`
	Description string  `json:"description,omitempty"`
}

// may reports whether the argument may have a type.
func (a argument) may(name string) bool {
	return a.Schema.Type == name || a.Also == name
}

// takes reports whether a value of JSON has a type that the argument may have.
func (a argument) takes(value any) bool {
	switch value := value.(type) {
	case string:
		return a.may(typeText)
	case []any:
		return a.may(typeArray) && !slices.ContainsFunc(value, func(one any) bool { _, isText := one.(string); return !isText })
	case json.Number:
		return a.may(typeInteger)
	case bool:
		return a.may(typeBoolean)
	}
	return false
}

// wanted returns the message for a value of another type.
func (a argument) wanted() string {
	var names []string
	for _, t := range [...]struct{ name, shown string }{
		{typeInteger, "a number"}, {typeText, "a string"}, {typeBoolean, "true or false"}, {typeArray, "a list of strings"},
	} {
		if a.may(t.name) {
			names = append(names, t.shown)
		}
	}
	return "must be " + strings.Join(names, " or ")
}
