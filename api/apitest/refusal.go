package apitest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// fieldless are the codes of refusals that no field of the request is to blame for,
// or not always.
var fieldless = []string{
	"malformed_request", "request_timeout", "headers_too_large", "internal_error", "not_enqueued", "outcome_unknown", "no_leader", "behind", "disk_full", "not_ready",
}

// statusHeaders are what comes with a refusal beside the Error object.
var statusHeaders = map[int][]string{
	http.StatusMethodNotAllowed:   {"Allow"},
	http.StatusTooManyRequests:    {"Retry-After", "RateLimit", "RateLimit-Policy"},
	http.StatusServiceUnavailable: {"Retry-After"},
}

// checkRefusal holds what goes for every Error object beyond its schema: where its
// documentation is, that a field is named wherever one is to blame, that there is
// an example for every body, and the headers of its status.
func checkRefusal(tb testing.TB, req *http.Request, r *Response, takesBody bool) {
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
	switch r.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		if takesBody && strings.HasPrefix(req.URL.Path, "/api/") && string(p.Example) == "{}" && p.Code != "malformed_request" {
			tb.Errorf("%s %s: no example: %s", req.Method, req.URL, r.Body)
		}
	}
	for _, name := range statusHeaders[r.Status] {
		if r.Header.Get(name) == "" {
			tb.Errorf("%s %s: %d without %s", req.Method, req.URL, r.Status, name)
		}
	}
}
