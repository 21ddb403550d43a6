package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/internal/must"
)

// document loads the OpenAPI document once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // routes are found by path alone, whatever the test's port is
	return doc, nil
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc, openapi3.DisableExamplesValidation()) // a test of api has it
})

// compiler compiles schemas of the document, which are JSON Schema 2020-12. It keeps compiled
// schemas, and is not safe for several goroutines.
var compiler = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(api.OpenAPI()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	return c, c.AddResource(documentURL, value)
})

const documentURL = "https://commons.invalid/openapi.json"

var compiling sync.Mutex

// conforms returns an error unless the value is as the schema at the JSON pointer says.
func conforms(value any, pointer ...string) error {
	compiling.Lock()
	defer compiling.Unlock()
	c, err := compiler()
	if err != nil {
		return err
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1")
	for i, part := range pointer {
		pointer[i] = "/" + url.PathEscape(escaped.Replace(part))
	}
	schema, err := c.Compile(documentURL + "#" + strings.Join(pointer, ""))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// Document returns the OpenAPI document.
func Document(tb testing.TB) *openapi3.T {
	tb.Helper()
	return must.Get(document())(tb)
}

// Check checks a response against the OpenAPI document, and for the headers of every response.
// Responses to undocumented paths must be Error objects, and below /a2a/ errors of the message
// protocol.
func Check(tb testing.TB, req *http.Request, r *Response) {
	tb.Helper()
	for _, name := range []string{"X-Commons-Node", "X-Commons-Index", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"} {
		if r.Header.Get(name) == "" {
			tb.Errorf("%s %s: %d without %s", req.Method, req.URL.Path, r.Status, name)
		}
	}
	if req.Method == http.MethodHead || req.Method == http.MethodOptions {
		if len(r.Body) > 0 {
			tb.Errorf("%s %s: a body: %s", req.Method, req.URL.Path, r.Body)
		}
		return
	}
	media := r.Header.Get("Content-Type")
	isJSON := strings.HasPrefix(media, "application/json") || media == "application/a2a+json" && strings.HasPrefix(req.URL.Path, "/a2a/")
	if !isJSON && r.Status >= http.StatusBadRequest && req.URL.Path != "/readyz" {
		tb.Errorf("%s %s: %d of type %q", req.Method, req.URL.Path, r.Status, media)
	}
	found, params, err := must.Get(router())(tb).FindRoute(req)
	if r.Status >= http.StatusBadRequest {
		checkRejection(tb, req, r)
	}
	if err != nil && strings.HasPrefix(req.URL.Path, "/a2a/") {
		CheckValue(tb, r.Body, "RPCStatus")
		return
	}
	if err != nil {
		CheckError(tb, r)
		return
	}
	answered.Store(answer{found.Method, found.Path, r.Status}, true)
	if strings.HasPrefix(found.Path, "/api/") && slices.Contains(named, r.Status) && found.Operation.Responses.Value(strconv.Itoa(r.Status)) == nil {
		tb.Errorf("%s %s: the document does not name the status %d: %s", req.Method, found.Path, r.Status, r.Body)
	}
	simple := *found.Spec // the schemas of headers are the same in both versions, and those of 3.1 are compiled anew each time
	simple.OpenAPI = "3.0.3"
	err = openapi3filter.ValidateResponse(tb.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: &routers.Route{
			Spec: &simple, Path: found.Path, PathItem: found.PathItem, Method: found.Method, Operation: found.Operation,
		}},
		Status: r.Status, Header: r.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: true},
	})
	if err == nil {
		err = checkBody(found, media, r)
	}
	if err != nil {
		tb.Errorf("%s %s: %d is not as documented: %v\n%s", req.Method, req.URL, r.Status, err, r.Body)
	}
}

// checkBody returns an error unless the body is of a documented type, and as its schema says.
func checkBody(route *routers.Route, media string, r *Response) error {
	code := strconv.Itoa(r.Status)
	response := route.Operation.Responses.Value(code)
	if response == nil {
		code, response = "default", route.Operation.Responses.Default()
	}
	content := response.Value.Content
	if len(content) == 0 || r.Status == http.StatusNotModified {
		return nil
	}
	documented := content.Get(media)
	if documented == nil {
		return fmt.Errorf("the type %q is not documented", media)
	}
	if documented.Schema == nil {
		return nil
	}
	var value any = string(r.Body)
	if !documented.Schema.Value.Type.Is(openapi3.TypeString) {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(r.Body)); err != nil {
			return err
		}
	}
	pointer := []string{"paths", route.Path, strings.ToLower(route.Method), "responses", code}
	if response.Ref != "" {
		pointer = strings.Split(strings.TrimPrefix(response.Ref, "#/"), "/")
	}
	for name, mediaType := range content {
		if mediaType == documented {
			pointer = append(pointer, "content", name, "schema")
		}
	}
	return conforms(value, pointer...)
}

// named are the statuses of errors that the document has to name with each operation of the
// interface that answers them. It may describe the others by its default.
var named = []int{
	http.StatusForbidden, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusPreconditionRequired,
}

// answer is a status of an operation.
type answer struct {
	method, path string
	status       int
}

// answered holds what Check has seen, by answer.
var answered sync.Map

// Unanswered returns the statuses that the OpenAPI document promises and that no
// answer of this process had, such as "GET /api/entries 200".
func Unanswered() ([]string, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	var missing []string
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				code, err := strconv.Atoi(status)
				if err != nil {
					continue // default
				}
				if _, seen := answered.Load(answer{method, path, code}); !seen {
					missing = append(missing, method+" "+path+" "+status)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// answersFile lists the answers of the document that the tests of a package have to have, a line
// each as Unanswered names them. Those of package api have all others.
const answersFile = "testdata/answers.txt"

// Answers returns the answers that the tests of the package in a directory have to have.
func Answers(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, answersFile)) //nolint:gosec // a test's own directory
	return strings.Split(strings.TrimSpace(string(data)), "\n"), err
}

// Main is TestMain of a package with answers of its own.
func Main(m *testing.M) {
	promised, err := Unanswered() // nothing is answered yet
	want, errWant := Answers(".")
	code := m.Run()
	if code == 0 && RanAll() {
		missing, errMissing := Unanswered()
		err = errors.Join(err, errWant, errMissing)
		for _, answer := range want {
			if !slices.Contains(promised, answer) || slices.Contains(missing, answer) {
				err = errors.Join(err, fmt.Errorf("%s: %s is not documented, or no test has it", answersFile, answer))
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// RanAll reports whether the command line left no test out.
func RanAll() bool {
	if testing.Short() {
		return false
	}
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// CheckError holds an answer against the Error object's schema and returns it.
func CheckError(tb testing.TB, r *Response) Problem {
	tb.Helper()
	CheckValue(tb, r.Body, "Error")
	return Decoded[Problem](tb, r)
}

// CheckValue holds JSON against a schema by name.
func CheckValue(tb testing.TB, data []byte, name string) {
	tb.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		tb.Fatalf("it is no %s: %v: %q", name, err, data)
	}
	if err := conforms(value, "components", "schemas", name); err != nil {
		tb.Errorf("it is no %s: %v: %s", name, err, data)
	}
}

// fieldless are the codes of rejections that need not name a field of the request.
var fieldless = []string{
	"malformed_request", "request_timeout", "headers_too_large", "internal_error", "not_enqueued", "outcome_unknown", "no_leader", "behind", "disk_full", "not_ready",
}

// statusHeaders are the required headers of rejections, by status.
var statusHeaders = map[int][]string{
	http.StatusMethodNotAllowed:   {"Allow"},
	http.StatusTooManyRequests:    {"Retry-After", "RateLimit", "RateLimit-Policy"},
	http.StatusServiceUnavailable: {"Retry-After"},
}

// checkRejection checks the rules of every Error object beyond its schema: the address of its
// documentation, the named field, and the headers of its status.
func checkRejection(tb testing.TB, req *http.Request, r *Response) {
	tb.Helper()
	var p Problem
	if err := json.Unmarshal(r.Body, &p); err != nil || p.Code == "" {
		return // another surface's own form
	}
	if want := "/docs/errors#" + p.Code; p.Docs != want {
		tb.Errorf("%s %s: docs are %s, want %s", req.Method, req.URL, p.Docs, want)
	}
	if len(p.Issues) == 0 && !slices.Contains(fieldless, p.Code) {
		tb.Errorf("%s %s: no field is named: %s", req.Method, req.URL, r.Body)
	}
	for _, name := range statusHeaders[r.Status] {
		if r.Header.Get(name) == "" && p.Code != "outcome_unknown" {
			tb.Errorf("%s %s: %d without %s", req.Method, req.URL, r.Status, name)
		}
	}
}

// ExamplesOf returns the examples of a body by name, as JSON.
func ExamplesOf(t *testing.T, media *openapi3.MediaType) map[string][]byte {
	t.Helper()
	values := map[string]any{}
	if media.Example != nil {
		values["example"] = media.Example
	}
	for name, ref := range media.Examples {
		values[name] = ref.Value.Value
	}
	examples := make(map[string][]byte, len(values))
	for name, value := range values {
		examples[name] = must.Get(json.Marshal(value))(t)
	}
	return examples
}
