package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// The schemas of tools are those of the operations behind them, taken from the
// OpenAPI document when the server is made.

// maxSchemaDepth bounds how deep references of the document may lead.
const maxSchemaDepth = 32

// apiDocument is the OpenAPI document as it is decoded.
type apiDocument map[string]any

// readDocument decodes the OpenAPI document.
func readDocument(openAPI string) (apiDocument, error) {
	var doc apiDocument
	if err := json.Unmarshal([]byte(openAPI), &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	return doc, nil
}

// The places of an argument in a request of HTTP.
const (
	inQuery = "query"
	inPath  = "path"
	inBody  = "body"
	inKey   = "key" // the edit_key, in the header Authorization
)

// securityKey is the security scheme of operations that want an edit_key.
const securityKey = "EditKey"

// The types of arguments that are no part of a body.
const (
	typeText    = "string"
	typeInteger = "integer"
)

// argument is an argument of an operation.
type argument struct {
	schema   map[string]any
	in       string
	required bool
}

// numbers are the parameters of URLs that a tool also takes as a number. The document
// knows them as text alone, as everything in a URL is, so that the clients that are
// generated from it have one type for them.
var numbers = map[string]bool{"since": true}

// brief says of arguments that many tools take what a model needs to know, where the
// document says more.
var brief = map[string]string{
	"agent":       "Your name",
	"request_id":  "8 to 80 characters of your own making: the same one never writes twice",
	"edit_key":    "The key of your name, if you have registered it",
	"consistency": "strong: as new as any node has it",
	"cursor":      "nextCursor of the page before",
	"supersedes":  "Id of the entry that this one relates to",
	"relation":    "Default correction; needs supersedes",
	"reply_to":    "Id of the entry that this one answers",
	"body":        "", "title": "", "tags": "", "limit": "", "capabilities": "", "endpoint": "", "context": "", "constraints": "",
}

// maxDescription bounds the description of an argument, in bytes.
const maxDescription = 100

// slim is the schema of the argument as a tool lists it: its type, its words, and one
// clause on what it is. What breaks a rule beyond that, the rejection names.
func (a argument) slim(name string) wire.Object {
	o := wire.Object{}
	types := slices.DeleteFunc(a.types(), func(t string) bool { return t == "null" })
	if len(types) == 1 {
		o = o.With("type", types[0])
	} else {
		o = o.With("type", types)
	}
	if items, isList := a.schema["items"].(map[string]any); isList {
		o = o.With("items", wire.Object{{"type", items["type"]}})
	}
	words, _ := a.schema["enum"].([]any)
	if name == "kind" && len(words) > kinds {
		words = words[:kinds] // the others stand for these
	}
	if len(words) > 0 {
		o = o.With("enum", words)
	}
	text, isBrief := brief[name]
	if !isBrief {
		text, _ = a.schema["description"].(string)
		for _, end := range []string{". ", "; "} {
			text, _, _ = strings.Cut(text, end)
		}
		text = strings.TrimSuffix(wire.Shorten(text, maxDescription), ".")
	}
	if text != "" {
		o = o.With("description", text)
	}
	return o
}

// kinds is how many kinds of entries there are.
const kinds = 3

// types are the JSON types that the argument may have.
func (a argument) types() []string {
	switch t := a.schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		names := make([]string, len(t))
		for i := range t {
			names[i], _ = t[i].(string)
		}
		return names
	}
	return []string{typeText}
}

// takes reports whether a value of JSON has a type that the argument may have.
func (a argument) takes(value any) bool {
	switch value.(type) {
	case string:
		return slices.Contains(a.types(), typeText)
	case json.Number:
		return slices.Contains(a.types(), typeInteger)
	}
	return false
}

// wanted says which types the argument may have.
func (a argument) wanted() string {
	var names []string
	if slices.Contains(a.types(), typeInteger) {
		names = append(names, "a number")
	}
	if slices.Contains(a.types(), typeText) {
		names = append(names, "a string")
	}
	return "must be " + strings.Join(names, " or ")
}

// documented is an operation as the OpenAPI document describes it.
type documented struct{ arguments map[string]argument }

// operation finds an operation by its operationId.
func (doc apiDocument) operation(id string) (documented, error) {
	found := documented{arguments: map[string]argument{}}
	paths, _ := doc["paths"].(map[string]any)
	for _, path := range paths {
		methods, _ := path.(map[string]any)
		for _, method := range methods {
			if operation, _ := method.(map[string]any); operation["operationId"] == id {
				plain, err := doc.resolve(operation, 0)
				if err != nil {
					return found, err
				}
				operation, _ = plain.(map[string]any)
				found.read(operation)
				return found, nil
			}
		}
	}
	return found, fmt.Errorf("the OpenAPI document has no operation %q", id)
}

// resolve copies a part of the document with every reference replaced by what it
// refers to.
func (doc apiDocument) resolve(node any, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, errors.New("the references of the OpenAPI document lead too deep")
	}
	switch node := node.(type) {
	case map[string]any:
		if ref, isRef := node["$ref"].(string); isRef {
			target, err := doc.find(ref)
			if err != nil {
				return nil, err
			}
			return doc.resolve(target, depth+1)
		}
		plain := make(map[string]any, len(node))
		for name, value := range node {
			value, err := doc.resolve(value, depth+1)
			if err != nil {
				return nil, err
			}
			plain[name] = value
		}
		return plain, nil
	case []any:
		plain := make([]any, len(node))
		for i, value := range node {
			value, err := doc.resolve(value, depth+1)
			if err != nil {
				return nil, err
			}
			plain[i] = value
		}
		return plain, nil
	}
	return node, nil
}

// find returns what a reference within the document refers to.
func (doc apiDocument) find(ref string) (any, error) {
	path, local := strings.CutPrefix(ref, "#/")
	var node any = map[string]any(doc)
	for name := range strings.SplitSeq(path, "/") {
		members, _ := node.(map[string]any)
		node = members[name]
	}
	if !local || node == nil {
		return nil, fmt.Errorf("the OpenAPI document refers to %q, which is not there", ref)
	}
	return node, nil
}

// read takes the arguments from an operation without references.
func (d *documented) read(operation map[string]any) {
	parameters, _ := operation["parameters"].([]any)
	for _, value := range parameters {
		p, _ := value.(map[string]any)
		name, _ := p["name"].(string)
		in, _ := p["in"].(string)
		schema, _ := p["schema"].(map[string]any)
		if in != inQuery && in != inPath || schema == nil {
			continue
		}
		if text, has := p["description"]; has {
			schema["description"] = text
		}
		if numbers[name] {
			schema["type"] = []any{typeText, typeInteger}
		}
		required, _ := p["required"].(bool)
		d.arguments[name] = argument{schema: schema, in: in, required: required}
	}
	security, _ := operation["security"].([]any)
	for _, value := range security {
		if scheme, _ := value.(map[string]any); scheme[securityKey] != nil {
			schema := map[string]any{"type": typeText, "description": "The key that the first registration returned"}
			d.arguments["edit_key"] = argument{schema: schema, in: inKey, required: true}
		}
	}
	if body := jsonSchema(operation["requestBody"]); body != nil {
		properties, _ := body["properties"].(map[string]any)
		for name, value := range properties {
			schema, _ := value.(map[string]any)
			d.arguments[name] = argument{schema: schema, in: inBody}
		}
	}
}

// jsonSchema is the schema of a request that holds JSON; nil where there is none.
func jsonSchema(message any) map[string]any {
	m, _ := message.(map[string]any)
	content, _ := m["content"].(map[string]any)
	media, _ := content[wire.MediaJSON].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	return schema
}
