package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
)

// TestSchemas holds that schemas.json matches the OpenAPI document.
func TestSchemas(t *testing.T) {
	doc, err := readDocument(document(t))
	must.Do(t, err)
	var tools struct {
		// Arguments say of arguments that many tools take what a model needs to know,
		// where the document says more.
		Arguments map[string]string
		Tools     []tool
	}
	must.Do(t, json.Unmarshal(toolsJSON, &tools))
	schemas := map[string]map[string]argument{}
	for _, tool := range tools.Tools {
		id := operations[tool.Name]
		operation := must.Get(doc.operation(id))(t)
		if schemas[id] == nil {
			schemas[id] = map[string]argument{}
		}
		for word := range strings.FieldsSeq(tool.Wants) {
			name := strings.TrimSuffix(word, "*")
			if name == argFull {
				continue
			}
			a, known := operation.arguments[name]
			if !known {
				t.Fatalf("%s: the operation %s takes no %s", tool.Name, id, name)
			}
			a.Schema = slim(name, a.In, operation.full[name], tools.Arguments)
			schemas[id][name] = a
		}
	}
	want, err := json.MarshalIndent(schemas, "", "  ")
	must.Do(t, err)
	golden.Compare(t, "schemas.json", string(append(want, '\n')))
}

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

// securityKey is the security scheme of operations that want an edit_key.
const securityKey = "EditKey"

// numbers are the parameters of URLs that a tool also takes as a number. The document
// knows them as text alone, as everything in a URL is, so that the clients that are
// generated from it have one type for them.
var numbers = map[string]bool{"since": true}

// maxDescription bounds the description of an argument, in bytes.
const maxDescription = 100

// slim returns the schema of an argument for the list of tools: its type, its words, and one clause
// of description, from brief if the name is there. A filter of a list keeps its own description.
func slim(name, in string, full map[string]any, brief map[string]string) schema {
	o := schema{Type: typeOf(full)}
	if items, isList := full["items"].(map[string]any); isList {
		o.Items = &schema{Type: typeOf(items)}
	}
	o.Enum, _ = full["enum"].([]any)
	text, isBrief := brief[name]
	isBrief = isBrief && (in == inBody || name != "agent" && name != "reply_to")
	switch {
	case name == "kind" && len(o.Enum) > kinds:
		o.Enum = o.Enum[:kinds] // the others stand for these
	case !isBrief:
		text, _ = full["description"].(string)
		for _, end := range []string{". ", "; "} {
			text, _, _ = strings.Cut(text, end)
		}
		text = strings.TrimSuffix(wire.Shorten(text, maxDescription), ".")
	}
	o.Description = text
	return o
}

// typeOf returns the type of a schema other than null, and text for one that names none.
func typeOf(full map[string]any) string {
	types, several := full["type"].([]any)
	if !several {
		types = []any{full["type"]}
	}
	for _, value := range types {
		if name, _ := value.(string); name != "" && name != "null" {
			return name
		}
	}
	return typeText
}

// kinds is how many kinds of entries there are.
const kinds = 3

// documented is an operation as the OpenAPI document describes it.
type documented struct {
	arguments map[string]argument
	full      map[string]map[string]any // their schemas
}

// operation finds an operation by its operationId.
func (doc apiDocument) operation(id string) (documented, error) {
	found := documented{arguments: map[string]argument{}, full: map[string]map[string]any{}}
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

// resolve copies a part of the document with every reference resolved.
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
		required, _ := p["required"].(bool)
		a := argument{In: in, Required: required}
		switch {
		case numbers[name]:
			a.Also = typeInteger
		case schema["type"] == typeArray: // a parameter that may be repeated
			a.Also = typeText
		}
		d.arguments[name], d.full[name] = a, schema
	}
	security, _ := operation["security"].([]any)
	needed := !slices.ContainsFunc(security, func(value any) bool {
		scheme, _ := value.(map[string]any)
		return len(scheme) == 0
	})
	for _, value := range security {
		if scheme, _ := value.(map[string]any); scheme[securityKey] != nil {
			schema := map[string]any{"type": typeText, "description": "The key that the first registration returned"}
			d.arguments["edit_key"], d.full["edit_key"] = argument{In: inKey, Required: needed}, schema
		}
	}
	if body := jsonSchema(operation["requestBody"]); body != nil {
		properties, _ := body["properties"].(map[string]any)
		for name, value := range properties {
			schema, _ := value.(map[string]any)
			d.arguments[name], d.full[name] = argument{In: inBody}, schema
		}
	}
}

// jsonSchema returns the schema of a JSON request or response, or nil.
func jsonSchema(message any) map[string]any {
	m, _ := message.(map[string]any)
	content, _ := m["content"].(map[string]any)
	media, _ := content[wire.MediaJSON].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	return schema
}
