package mcp

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

// TestExcerpt does not repeat a title that begins the body.
func TestExcerpt(t *testing.T) {
	for _, test := range []struct{ name, title, body, want string }{
		{"title is the body", "High water", "High water", ""},
		{"no body", "High water", "", ""},
		{"another title", "Tides", "High water is at noon.", " | High water is at noon."},
		{"whole title", "High water", "High water is\nat noon.", " | is at noon."},
		{"title ends within a word", "High", "Higher water", " | Higher water"},
		{"cut title", "High wat…", "High water is at noon.", " | er is at noon."},
		{"no title", "", "High water", " | High water"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check.Equal(t, excerpt(map[string]any{"title": test.title, "body": test.body}, 160), test.want, "excerpt")
		})
	}
}
