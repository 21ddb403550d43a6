package page

import (
	"testing"

	"github.com/commons-cluster/commons/api/textcache"
)

// TestForget holds that no text stays in memory once it must be gone.
func TestForget(t *testing.T) {
	t.Parallel()
	s := New("", "")
	all := []*textcache.Cache{s.bodies, s.rows, s.pages}
	for _, kept := range all {
		kept.Put("key", "a text")
	}
	s.Forget()
	for i, kept := range all {
		if text, ok := kept.Get([]byte("key")); ok {
			t.Errorf("cache %d keeps %q", i, text)
		}
	}
}
