package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/commons-cluster/commons/api"
)

// document loads the OpenAPI document once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	for _, contentType := range []string{"text/markdown", "text/html"} {
		openapi3filter.RegisterBodyDecoder(contentType,
			func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
				data, err := io.ReadAll(body)
				return string(data), err
			})
	}
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
	return legacy.NewRouter(doc)
})

// Document returns the OpenAPI document.
func Document(tb testing.TB) *openapi3.T {
	tb.Helper()
	doc, err := document()
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// Check holds an answer against the OpenAPI document, and against what every
// answer must have. Answers to undocumented paths must be Error objects, and below
// /a2a/ errors of the message protocol.
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
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && r.Status >= http.StatusBadRequest && req.URL.Path != "/readyz" {
		tb.Errorf("%s %s: %d of type %q", req.Method, req.URL.Path, r.Status, r.Header.Get("Content-Type"))
	}
	paths, err := router()
	if err != nil {
		tb.Fatal(err)
	}
	found, params, err := paths.FindRoute(req)
	if r.Status >= http.StatusBadRequest {
		checkRefusal(tb, req, r, err == nil && found.Operation.RequestBody != nil)
	}
	if err != nil && strings.HasPrefix(req.URL.Path, "/a2a/") {
		checkSchema(tb, r, "RPCStatus")
		return
	}
	if err != nil {
		CheckError(tb, r)
		return
	}
	answered.Store(answer{found.Method, found.Path, r.Status}, true)
	err = openapi3filter.ValidateResponse(tb.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: found},
		Status:                 r.Status, Header: r.Header,
		Body:    io.NopCloser(bytes.NewReader(r.Body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		tb.Errorf("%s %s: %d is not as documented: %v\n%s", req.Method, req.URL, r.Status, err, r.Body)
	}
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

// CheckError holds an answer against the Error object's schema and returns it.
func CheckError(tb testing.TB, r *Response) Problem {
	tb.Helper()
	checkSchema(tb, r, "Error")
	var p Problem
	r.Decode(tb, &p)
	return p
}

// checkSchema holds an answer that refuses a request against a schema by name.
func checkSchema(tb testing.TB, r *Response, name string) {
	tb.Helper()
	var value any
	if err := json.Unmarshal(r.Body, &value); err != nil {
		tb.Fatalf("%d is no %s: %v: %q", r.Status, name, err, r.Body)
	}
	schema := Document(tb).Components.Schemas[name].Value
	if err := schema.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
		tb.Errorf("%d is no %s: %v: %s", r.Status, name, err, r.Body)
	}
}
