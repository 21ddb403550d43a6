package resource

import (
	"encoding/json"
	"os"
	"path"
	"testing"

	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// schema is the schema of a field in the OpenAPI document.
type schema struct {
	Ref        string  `json:"$ref"`
	Type       any     `json:"type"`
	MinLength  int     `json:"minLength"`
	MaxLength  int     `json:"maxLength"`
	Minimum    int     `json:"minimum"`
	Maximum    int     `json:"maximum"`
	MaxItems   int     `json:"maxItems"`
	Items      *schema `json:"items"`
	Properties map[string]schema
}

// typeOf is the type of JSON that a field has.
func typeOf(field *write.Field) string {
	if field.Items > 0 {
		return "array"
	}
	switch field.Like.(type) {
	case bool:
		return "boolean"
	case int:
		return "integer"
	case wire.Object:
		return "object"
	}
	return "string"
}

// TestSchemasHaveTheFields compares the schemas of bodies with the fields that are read: their
// names, types and bounds. The schemas of MCP are made from these. Bounds that a name has only after
// it was converted, and that of a text that is shortened, are no bounds of a schema.
func TestSchemasHaveTheFields(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			} `json:"requestBody"`
		}
		Components struct{ Schemas map[string]schema }
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../openapi.json"))(t), &document))
	bodies := map[string]*write.Body{
		CallPublish: &entryBody, "registerAgent": &profileBody, "actOnJob": &unknownAction.body, "askHuman": &helpBody, "reportEntry": &reportBody, "markSeen": &seenBody,
	}
	for _, o := range Operations() {
		body := bodies[o.ID]
		if (body == nil) != (o.Fields == nil) {
			t.Errorf("%s has the fields %v, and the body %v", o.ID, o.Fields, body)
		}
		if body == nil {
			continue
		}
		t.Run(o.ID, func(t *testing.T) {
			shown := document.Paths[o.ShownPath()]["post"].RequestBody.Content["application/json"].Schema
			shown = document.Components.Schemas[path.Base(shown.Ref)]
			compare(t, body.Fields, shown.Properties)
		})
	}
	t.Run("next", func(t *testing.T) { compare(t, nextFields, document.Components.Schemas["NextJob"].Properties) })
}

func compare(t *testing.T, fields []write.Field, shown map[string]schema) {
	t.Helper()
	check.Equal(t, len(shown), len(fields), "fields shown")
	for i := range fields {
		field, s := &fields[i], shown[fields[i].Name]
		type bounds struct {
			Type               string
			Least, Most, Items int
		}
		want := bounds{typeOf(field), field.Least, field.Most, field.Items}
		got := bounds{s.typeName(), s.MinLength + s.Minimum, s.MaxLength + s.Maximum, s.MaxItems}
		if s.Items != nil {
			got.Least, got.Most = s.Items.MinLength, s.Items.MaxLength
		}
		if got.Most == 0 { // it is converted, shortened, or one of a few words
			want.Most = 0
		}
		if got.Least == 0 && field.Refers != 0 {
			want.Least = 0
		}
		check.Equal(t, got, want, "%s is shown as", field.Name)
	}
}

// typeName is the type of a value that is not null.
func (s *schema) typeName() string {
	switch names := s.Type.(type) {
	case string:
		return names
	case []any:
		name, _ := names[0].(string)
		return name
	}
	return "object" // a reference
}
