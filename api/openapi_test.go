package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// TestMain holds, after a run of all tests, that every status that the OpenAPI
// document promises was the answer to something.
func TestMain(m *testing.M) {
	longtest.Beside(4) // they wait for time limits
	code := m.Run()
	if code == 0 && apitest.RanAll() {
		missing, err := apitest.Unanswered()
		for _, room := range []string{"mcp", "op/moderate", "op/resource", "op/write"} {
			theirs, errTheirs := apitest.Answers(room)
			err = errors.Join(err, errTheirs)
			missing = slices.DeleteFunc(missing, func(answer string) bool { return slices.Contains(theirs, answer) })
		}
		if err != nil || len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "documented, and answered by no test: %s (%v)\n", strings.Join(missing, ", "), err)
			code = 1
		}
	}
	os.Exit(code)
}

// sorted returns names in order.
func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// TestGeneratorsReadTheDocument holds what the generators of clients need that
// scripts/clients.sh runs: a type list is one type and null, references lead to
// components, and instants have 64 bits.
func TestGeneratorsReadTheDocument(t *testing.T) {
	var doc any
	must.Do(t, json.Unmarshal([]byte(api.OpenAPI()), &doc))
	component := regexp.MustCompile(`^#/components/\w+/\w+$`)
	isInstant := regexp.MustCompile(`^(at|now|since|until|\w+At)$`)
	asMap := func(node any) map[string]any {
		m, _ := node.(map[string]any)
		return m
	}
	lists, refs := 0, 0
	var look func(place string, node any)
	look = func(place string, node any) {
		switch node := node.(type) {
		case []any:
			for i, value := range node {
				look(place+"/"+strconv.Itoa(i), value)
			}
		case map[string]any:
			if types, isList := node["type"].([]any); isList {
				lists++
				if len(types) != 2 || !slices.Contains(types, any("null")) {
					t.Errorf("%s: type is %v", place, types)
				}
			}
			for name, property := range asMap(node["properties"]) {
				if isInstant.MatchString(name) && strings.Contains(fmt.Sprint(asMap(property)["type"]), "integer") && asMap(property)["format"] != "int64" {
					t.Errorf("%s: the instant %s has no format int64: it does not fit into 32 bits", place, name)
				}
			}
			if ref, isRef := node["$ref"].(string); isRef {
				refs++
				if !component.MatchString(ref) {
					t.Errorf("%s refers to %s", place, ref)
				}
			}
			for name, value := range node {
				look(place+"/"+name, value)
			}
		}
	}
	look("", doc)
	if lists == 0 || refs == 0 {
		t.Errorf("%d type lists and %d references were found", lists, refs)
	}
}

// TestServedDocument holds that the document for clients lets answers have further members, and that
// the one for agents has only their operations, with the components that these use.
func TestServedDocument(t *testing.T) {
	s := apitest.New(t)
	load := func(path string) (*openapi3.T, string) {
		t.Helper()
		body := s.Get(path).Want(t, http.StatusOK).Body
		doc := must.Get(openapi3.NewLoader().LoadFromData(body))(t)
		check.Lacks(t, strings.ReplaceAll(string(body), " ", ""), `"additionalProperties":false`, "%s, which leaves objects open,", path)
		return doc, string(body)
	}
	whole, _ := load("/openapi.json")
	strict := apitest.Document(t)
	if whole.Paths.Len() != strict.Paths.Len() || whole.Paths.Len() == 0 {
		t.Errorf("%d paths are served of %d", whole.Paths.Len(), strict.Paths.Len())
	}
	agents, text := load("/openapi.json?for=agents")
	for _, path := range []string{"/api/entries", "/api/home", "/api/jobs", "/api/reports", "/mcp"} {
		if agents.Paths.Find(path) == nil {
			t.Errorf("the document for agents lacks %s", path)
		}
	}
	other := regexp.MustCompile(`^/(a2a|api/moderation|livez|readyz|status|metrics|\.well-known/agent)`)
	for path := range agents.Paths.Map() {
		check.Equal(t, other.MatchString(path), false, "the document for agents has %s", path)
	}
	for name := range agents.Components.Schemas {
		check.Contains(t, text, `"#/components/schemas/`+name+`"`, "the document for agents, which has the schema %s,", name)
	}
	if len(agents.Components.SecuritySchemes) != 1 || len(agents.Tags) == 0 || len(agents.Tags) >= len(whole.Tags) {
		t.Errorf("the document for agents has %d security schemes and %d tags", len(agents.Components.SecuritySchemes), len(agents.Tags))
	}
	s.Get("/openapi.json?for=everybody").Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "for", `"example":{"for":"agents"}`)
}

// TestErrorCodesAreOpen holds that the document names all codes of errors, as values to which
// others may be added.
func TestErrorCodesAreOpen(t *testing.T) {
	code := apitest.Document(t).Components.Schemas["Error"].Value.Properties["code"].Value
	check.Empty(t, code.Enum, "a closed list of codes")
	apitest.Equal(t, "codes", apitest.JSON(t, code.Extensions["x-extensible-enum"]), apitest.JSON(t, wire.Codes()))
}

// TestEntriesAreDocumentedAlike holds that jobs and requests for human help say the
// same of the fields of their entries as entries do.
func TestEntriesAreDocumentedAlike(t *testing.T) {
	schemas := apitest.Document(t).Components.Schemas
	entry := schemas["Entry"].Value.Properties
	for _, name := range []string{"Job", "HumanRequest"} {
		same := 0
		for field, ref := range schemas[name].Value.Properties {
			if entry[field] == nil || field == "status" { // of the job
				continue
			}
			same++
			if got, want := apitest.JSON(t, ref.Value), apitest.JSON(t, entry[field].Value); got != want {
				t.Errorf("%s.%s is %s, in Entry %s", name, field, got, want)
			}
		}
		if same < len(entry)-1 {
			t.Errorf("%s has %d of the %d fields of entries", name, same, len(entry))
		}
	}
}

// TestParametersAreDocumented holds that the document has exactly the parameters
// that the handlers read, each described and with an example.
func TestParametersAreDocumented(t *testing.T) {
	doc := apitest.Document(t)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			var query []string
			for _, ref := range operation.Parameters {
				p := ref.Value
				if p.In == "query" {
					query = append(query, p.Name)
				}
				if p.Description == "" && !p.Required {
					t.Errorf("%s %s: %s is not described", method, path, p.Name)
				}
				if p.Example == nil && len(p.Examples) == 0 && !settled(p.Schema.Value) {
					t.Errorf("%s %s: %s has no example", method, path, p.Name)
				}
			}
			want, isList := api.QueryParams()[path]
			if !isList && slices.Contains(query, "consistency") {
				want = api.OtherParams()
			}
			if method == http.MethodGet && want != nil && !slices.Equal(sorted(query), sorted(want)) {
				t.Errorf("%s %s: parameters %v are documented, %v are read", method, path, sorted(query), sorted(want))
			}
		}
	}
}

// settled reports a schema that shows by itself what to send.
func settled(s *openapi3.Schema) bool {
	return s.Default != nil || len(s.Enum) > 0 || s.Extensions["const"] != nil || s.Const != nil || s.Example != nil || len(s.Examples) > 0
}

// TestBodiesAreDocumented does the same for the fields of bodies.
func TestBodiesAreDocumented(t *testing.T) {
	doc := apitest.Document(t)
	for path, want := range api.BodyFields() {
		media := doc.Paths.Value(path).Post.RequestBody.Value.Content["application/json"]
		shown := map[string]bool{}
		for _, example := range apitest.ExamplesOf(t, media) {
			var fields map[string]any
			must.Do(t, json.Unmarshal(example, &fields))
			for name := range fields {
				shown[name] = true
			}
		}
		var fields []string
		for name, ref := range media.Schema.Value.Properties {
			fields = append(fields, name)
			if ref.Value.Description == "" {
				t.Errorf("POST %s: %s is not described", path, name)
			}
			if !shown[name] && !settled(ref.Value) {
				t.Errorf("POST %s: %s has no example", path, name)
			}
		}
		apitest.Equal(t, "fields of POST "+path, sorted(fields), sorted(want))
	}
}

// earlier are the examples of the same body that come before one in the story that
// the document tells.
var earlier = map[string][]string{
	"reply": {"smallest"}, "follow_up": {"smallest"}, "note": {"register"}, "unchanged": {"register"}, "protect": {"register"}, "rotate": {"register"}, "delete": {"register"}, "recover": {"register"},
	"claim": {"post"}, "result": {"post", "claim"}, "release": {"post", "claim"}, "close": {"post"}, "end": {"channel"},
}

// keyInExample stands in examples for the key that a registration returned, as
// encoding/json writes it.
const keyInExample = `\u003cthe key of ada\u003e`

// recoveryKeyInExample stands in the same way for a recovery key.
const recoveryKeyInExample = `\u003cthe recovery key of ada\u003e`

// keyFor registers ada where a body needs her key from elsewhere, and publishes the entry
// that a report is of.
func keyFor(t *testing.T, s *apitest.Server, path string) string {
	t.Helper()
	if path == apitest.ReportsPath {
		s.Publish(map[string]any{"body": "Cheap pills!"})
	} else if !apitest.NeedsKey(path) {
		return ""
	}
	registered := apitest.Decoded[client.Registered](t, s.Post("/api/agents", map[string]any{"id": "ada", "note": "Here."}))
	return registered.EditKey
}

// TestDocumentedBodiesWork sends every example of a body.
func TestDocumentedBodiesWork(t *testing.T) {
	longtest.SkipShort(t, "sends one request after the other: long, and alike")
	t.Parallel()
	for path, item := range apitest.Document(t).Paths.Map() {
		if item.Post == nil || item.Post.RequestBody == nil || strings.HasPrefix(path, "/api/moderation/") {
			continue
		}
		content := item.Post.RequestBody.Value.Content
		story := map[string][]byte{}
		if media := content["application/json"]; media != nil {
			story = apitest.ExamplesOf(t, media)
		}
		if len(story) == 0 {
			t.Errorf("POST %s has no example", path)
		}
		for name := range story {
			s := apitest.New(t)
			key, recoveryKey := keyFor(t, s, path), ""
			for _, step := range append(slices.Clone(earlier[name]), name) {
				sent := strings.NewReplacer(keyInExample, key, recoveryKeyInExample, recoveryKey).Replace(string(story[step]))
				r := s.Post(path, sent)
				if r.Status != http.StatusOK && r.Status != http.StatusCreated {
					t.Errorf("POST %s, %s of %s: %s: %d %s", path, step, name, sent, r.Status, r.Body)
				}
				if registered := apitest.Decoded[struct {
					EditKey     string `json:"edit_key"`
					RecoveryKey string `json:"recovery_key"`
				}](t, r); registered.EditKey != "" {
					key, recoveryKey = registered.EditKey, registered.RecoveryKey
				}
			}
		}
		s := apitest.New(t)
		key := keyFor(t, s, path)
		if story["post"] != nil { // the form acts on a job
			s.Post(path, string(story["post"])).Must(t, http.StatusCreated)
		}
		if form := content["application/x-www-form-urlencoded"]; form != nil {
			values := url.Values{}
			for name, value := range form.Example.(map[string]any) {
				values.Set(name, strings.ReplaceAll(fmt.Sprint(value), "<the key of ada>", key))
			}
			if r := s.Do(http.MethodPost, path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded"); r.Status != http.StatusCreated && r.Status != http.StatusOK {
				t.Errorf("POST %s, form %s: %d %s", path, values.Encode(), r.Status, r.Body)
			}
		}
		if text := content["text/plain"]; text != nil {
			s.Do(http.MethodPost, path, fmt.Sprint(text.Example), "Content-Type", "text/plain").Want(t, http.StatusCreated)
		}
	}
}

// TestDocumentedParametersWork asks for every list with each example of each of its
// parameters.
func TestDocumentedParametersWork(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"body": "Hello, commons.", "agent": "ada"})
	sent := 0
	for path, item := range apitest.Document(t).Paths.Map() {
		if _, isList := api.QueryParams()[path]; !isList {
			continue
		}
		for _, ref := range item.Get.Parameters {
			p := ref.Value
			values := []any{p.Example}
			for _, example := range p.Examples {
				values = append(values, example.Value.Value)
			}
			if p.In != "query" || p.Name == "action" || p.Name == "confirm" || p.Name == "cursor" {
				continue // publishing has a test of its own, and a cursor is bound to its list
			}
			for _, value := range values {
				if value == nil {
					continue
				}
				query := url.Values{p.Name: {fmt.Sprint(value)}}
				if path == "/api/home" {
					query.Set("for", "ada")
				}
				sent++
				s.Get(path+"?"+query.Encode(), "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusOK)
			}
		}
	}
	const fewest = 25
	if sent < fewest {
		t.Errorf("%d examples found", sent)
	}
}

// TestDocumentedWriteByGetWorks puts the examples of what a GET can publish together.
func TestDocumentedWriteByGetWorks(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello, commons.", "agent": "ada"})
	query := url.Values{"action": {"publish"}, "confirm": {"write"}}
	for _, name := range []string{"request_id", "body", "title", "tags", "supersedes", "relation", "agent", "kind"} {
		p := apitest.Document(t).Paths.Value("/api/entries").Get.Parameters.GetByInAndName("query", name)
		query.Set(name, fmt.Sprint(p.Example))
	}
	s.Get("/api/entries?"+query.Encode()).Want(t, http.StatusCreated)
}

// TestDocumentedNotModified asks again for what is documented to have an ETag.
func TestDocumentedNotModified(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	s.Post("/api/jobs", map[string]any{"agent": "ada", "title": "Count the birds", "body": "All of them."})
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A photo of it", "requested_action": "Please take one."})
	s.Post("/api/agents", map[string]any{"id": "ada", "description": "Counts birds."})
	ids := strings.NewReplacer("/entries/{id}", "/entries/e1", "/jobs/{id}", "/jobs/j2", "/human-requests/{id}", "/human-requests/h3", "/agents/{id}", "/agents/ada")
	for path, item := range apitest.Document(t).Paths.Map() {
		if item.Get == nil || item.Get.Responses.Value("304") == nil {
			continue
		}
		path = strings.Replace(pathParams.Replace(ids.Replace(path))+"?for=ada&format=atom", "/openapi.json?for=ada", "/openapi.json?for=agents", 1)
		first := s.Get(path)
		if first.Status == http.StatusServiceUnavailable {
			continue // there are no keys yet, and there is a test of them
		}
		if path == "/.well-known/security.txt?for=ada&format=atom" {
			continue // there is no contact, which another test sets
		}
		again := s.Get(path, "If-None-Match", first.Header.Get("ETag"))
		if first.Status != http.StatusOK || again.Status != http.StatusNotModified || len(again.Body) > 0 {
			t.Errorf("GET %s: %d, and again %d", path, first.Status, again.Status)
		}
	}
}

// TestOperationsAreDocumented checks that the table of operations and the document agree.
func TestOperationsAreDocumented(t *testing.T) {
	doc := apitest.Document(t)
	documented := 0
	for _, item := range doc.Paths.Map() {
		documented += len(item.Operations())
	}
	table := api.Operations()
	check.Equal(t, documented, len(table), "operations that are documented, as they are served,")
	for _, o := range table {
		item := doc.Paths.Value(o.Path)
		if item == nil || item.GetOperation(o.Method) == nil {
			t.Errorf("%s %s is not documented", o.Method, o.Path)
			continue
		}
		operation := item.GetOperation(o.Method)
		apitest.Equal(t, o.Method+" "+o.Path, operation.OperationID, o.ID)
		if takes := operation.RequestBody != nil && operation.RequestBody.Value.Required; o.Interface && takes != o.TakesBody {
			t.Errorf("%s: it takes a body: %t", o.ID, o.TakesBody)
		}
	}
}
