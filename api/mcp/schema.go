package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	example  any // nil: none
}

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
type documented struct {
	arguments map[string]argument
	answer    map[string]any // the schema of what a success answers
}

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
				err = found.read(operation)
				return found, err
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

// read takes the arguments and the answer from an operation without references.
func (d *documented) read(operation map[string]any) error {
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
		required, _ := p["required"].(bool)
		d.arguments[name] = argument{schema: schema, in: in, required: required, example: p["example"]}
	}
	security, _ := operation["security"].([]any)
	for _, value := range security {
		if scheme, _ := value.(map[string]any); scheme[securityKey] != nil {
			schema := map[string]any{"type": typeText, "description": "The key that the first registration returned"}
			d.arguments["edit_key"] = argument{schema: schema, in: inKey, required: true, example: wire.ExampleKey}
		}
	}
	if body := jsonSchema(operation["requestBody"]); body != nil {
		properties, _ := body["properties"].(map[string]any)
		for name, value := range properties {
			schema, _ := value.(map[string]any)
			d.arguments[name] = argument{schema: schema, in: inBody}
		}
	}
	responses, _ := operation["responses"].(map[string]any)
	for _, status := range []int{http.StatusOK, http.StatusCreated} {
		if d.answer == nil {
			d.answer = jsonSchema(responses[strconv.Itoa(status)])
		}
	}
	if d.answer == nil {
		return fmt.Errorf("the operation %v answers with no JSON", operation["operationId"])
	}
	return nil
}

// jsonSchema is the schema of a request or of a response that holds JSON; nil where
// there is none.
func jsonSchema(message any) map[string]any {
	m, _ := message.(map[string]any)
	content, _ := m["content"].(map[string]any)
	media, _ := content[wire.MediaJSON].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	return schema
}

// schemaNamed returns a schema of the document's components.
func (doc apiDocument) schemaNamed(name string) (map[string]any, error) {
	node, err := doc.find("#/components/schemas/" + name)
	if err != nil {
		return nil, err
	}
	plain, err := doc.resolve(node, 0)
	schema, _ := plain.(map[string]any)
	return schema, err
}

// walk visits a schema and every schema in it.
func walk(schema any, visit func(map[string]any)) {
	switch schema := schema.(type) {
	case map[string]any:
		visit(schema)
		for name, value := range schema {
			properties, isObject := value.(map[string]any)
			if !isObject || name != "properties" {
				walk(value, visit)
				continue
			}
			for _, property := range properties { // a name among them is no keyword
				walk(property, visit)
			}
		}
	case []any:
		for _, value := range schema {
			walk(value, visit)
		}
	}
}

// withoutExamples takes out of a schema what OpenAPI alone knows.
func withoutExamples(schema any) {
	walk(schema, func(s map[string]any) { delete(s, "example") })
}

// openEnded lets a schema of answers, and every schema in it, hold for answers that
// say more: clients keep schemas, and a later version may add fields.
func openEnded(schema any) {
	walk(schema, func(s map[string]any) {
		if closed, isBool := s["additionalProperties"].(bool); isBool && !closed {
			delete(s, "additionalProperties")
		}
	})
}
