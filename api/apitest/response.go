package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Response is a response, read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// call is the request, for messages.
	call string
}

// Must ends the test unless the response has a status and contains the texts.
func (r *Response) Must(tb testing.TB, status int, texts ...string) *Response {
	tb.Helper()
	if r.Status != status {
		tb.Fatalf("%s: %d, want %d: %s", r.call, r.Status, status, r.Body)
	}
	return r.Has(tb, texts...)
}

// Want fails the test unless the response has a status and contains the texts.
func (r *Response) Want(tb testing.TB, status int, texts ...string) *Response {
	tb.Helper()
	if r.Status != status {
		tb.Errorf("%s: %d, want %d: %s", r.call, r.Status, status, r.Body)
	}
	return r.Has(tb, texts...)
}

// Has fails the test unless the body contains the texts.
func (r *Response) Has(tb testing.TB, texts ...string) *Response {
	tb.Helper()
	for _, text := range texts {
		if !strings.Contains(string(r.Body), text) {
			tb.Errorf("%s: %d without %q: %s", r.call, r.Status, text, r.Body)
		}
	}
	return r
}

// Lacks fails the test if the body contains one of the texts.
func (r *Response) Lacks(tb testing.TB, texts ...string) *Response {
	tb.Helper()
	for _, text := range texts {
		if strings.Contains(string(r.Body), text) {
			tb.Errorf("%s: %d with %q: %s", r.call, r.Status, text, r.Body)
		}
	}
	return r
}

// WantHeader fails the test unless a header has a value. An empty value is an absent header.
func (r *Response) WantHeader(tb testing.TB, name, value string) *Response {
	tb.Helper()
	if got := r.Header.Get(name); got != value {
		tb.Errorf("%s: %d with %s %q, want %q", r.call, r.Status, name, got, value)
	}
	return r
}

// Rejected returns the Error object of a response. It fails the test if the status, the code or
// the fields of the issues differ, or if a text is missing. Fields are separated by spaces; "" stands
// for any.
func (r *Response) Rejected(tb testing.TB, status int, code, fields string, texts ...string) Problem {
	tb.Helper()
	p := CheckError(tb, r.Want(tb, status, texts...))
	if code != "" && p.Code != code {
		tb.Errorf("%s: code %s, want %s: %s", r.call, p.Code, code, r.Body)
	}
	if got := p.Fields(); fields != "" && got != fields {
		tb.Errorf("%s: issues of %q, want %q: %s", r.call, got, fields, r.Body)
	}
	return p
}

// Decode reads a JSON body into v.
func (r *Response) Decode(tb testing.TB, v any) {
	tb.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		tb.Fatalf("%s: %d %s: %v", r.call, r.Status, r.Body, err)
	}
}

// Decoded returns a JSON body as a value of a type.
func Decoded[T any](tb testing.TB, r *Response) (v T) {
	tb.Helper()
	r.Decode(tb, &v)
	return v
}

// Fields returns the fields of the issues, separated by spaces.
func (p *Problem) Fields() string {
	names := make([]string, len(p.Issues))
	for i, issue := range p.Issues {
		names[i] = issue.Field
	}
	return strings.Join(names, " ")
}

// Listed returns the items of all pages of a list. The field of a page that holds them is named after
// the collection.
func Listed[T any](tb testing.TB, s *Server, path, field string, headers ...string) (items []T) {
	tb.Helper()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	for cursor := ""; ; {
		page := Decoded[map[string]json.RawMessage](tb, s.Get(path+cursor, headers...).Must(tb, http.StatusOK))
		var some []T
		var next *string
		if err := json.Unmarshal(page[field], &some); err != nil {
			tb.Fatalf("%s: %s: %v", path, field, err)
		}
		items = append(items, some...)
		if err := json.Unmarshal(page["nextCursor"], &next); err != nil {
			tb.Fatalf("%s: nextCursor: %v", path, err)
		}
		if next == nil {
			return items
		}
		cursor = sep + "cursor=" + *next
	}
}

// Equal fails the test if a value is not the wanted one.
func Equal[T any](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
