package resource_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
)

// TestVersionTags: what has no tag, what any tag means, and of whom a tag is.
func TestVersionTags(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b, func(c *api.Config) { c.Build = "one" })
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	for _, path := range []string{"/api/entries?q=hello", "/api/jobs?q=x", "/api/entries/e9", "/api/channels", "/api/stats"} {
		if r := s.Get(path, "If-None-Match", "*"); r.Header.Get("ETag") != "" || r.Status == http.StatusNotModified {
			t.Errorf("%s: %d, tag %s", path, r.Status, r.Header.Get("ETag"))
		}
	}
	tag := s.Get("/api/entries/e1").Header.Get("ETag")
	for _, sent := range []string{tag, "*", `W/"x", ` + tag, strings.TrimPrefix(tag, "W/")} {
		if r := s.Get("/api/entries/e1", "If-None-Match", sent); r.Status != http.StatusNotModified || r.Header.Get("ETag") != tag || len(r.Body) > 0 {
			t.Errorf("If-None-Match %s: %d %s", sent, r.Status, r.Body)
		}
	}
	s.Do(http.MethodHead, "/api/entries/e1", "", "If-None-Match", tag).Want(t, http.StatusNotModified)
	same := apitest.Start(t, b, func(c *api.Config) { c.Build = "one" })
	same.Get("/api/entries/e1", "If-None-Match", tag).Want(t, http.StatusNotModified)
	for _, build := range []string{"two", "", ""} {
		other := apitest.Start(t, b, func(c *api.Config) { c.Build = build })
		other.Get("/api/entries/e1", "If-None-Match", tag).Want(t, http.StatusOK)
	}
}
