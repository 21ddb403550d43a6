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

// The structured content of each tool by name, as JSON schemas. The test of schemas.json writes
// them, too.
//
//go:embed outputs.json
var outputsJSON []byte

// argFull is the argument of tools whose text is brief by default.
const argFull = "full"

var fullArgument = argument{In: inTool, Schema: schema{Type: typeBoolean, Description: "true: whole texts; default: one line each"}}

// shape is a JSON schema of structured content, which also selects it.
type shape struct {
	Type       any               `json:"type,omitempty"`
	Items      *shape            `json:"items,omitempty"`
	Properties map[string]*shape `json:"properties,omitempty"`
}

// pick returns the parts of a value that the schema names.
func (s *shape) pick(value any) any {
	switch value := value.(type) {
	case map[string]any:
		picked := map[string]any{}
		for name, property := range s.Properties {
			member, has := value[name]
			if isNull := member == nil && property.Properties != nil; has && !isNull {
				picked[name] = property.pick(member)
			}
		}
		return picked
	case []any:
		picked := make([]any, len(value))
		for i, item := range value {
			picked[i] = s.Items.pick(item)
		}
		return picked
	}
	return value
}

// argument is an argument of an operation.
type argument struct {
	In       string `json:"in"`
	Required bool   `json:"required,omitempty"` // by the operation
	Schema   schema `json:"schema"`
}

// schema is the schema of an argument in the list of tools: its type, its words, and one clause of
// description. Further rules are named by rejections.
type schema struct {
	Type        any     `json:"type"` // the name of one, or a list of names
	Items       *schema `json:"items,omitempty"`
	Enum        []any   `json:"enum,omitempty"`
	Description string  `json:"description,omitempty"`
}

// may reports whether the argument may have a type.
func (a argument) may(name string) bool {
	several, isList := a.Schema.Type.([]any)
	return slices.Contains(several, any(name)) || !isList && a.Schema.Type == name
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
	if a.may(typeInteger) {
		names = append(names, "a number")
	}
	if a.may(typeText) {
		names = append(names, "a string")
	}
	if a.may(typeBoolean) {
		names = append(names, "true or false")
	}
	if a.may(typeArray) {
		names = append(names, "a list of strings")
	}
	return "must be " + strings.Join(names, " or ")
}
