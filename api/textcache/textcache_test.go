package textcache

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

// TestCache holds that what is kept is bounded, and that what is used stays.
func TestCache(t *testing.T) {
	t.Parallel()
	const bound = 64 << 10
	c := New(bound)
	c.Put("kept", "x")
	for i := range 1000 {
		c.Put(strings.Repeat("k", i%50)+string(rune('a'+i)), strings.Repeat("v", 500))
		if _, ok := c.Get([]byte("kept")); !ok {
			t.Fatalf("what is used is gone after %d", i)
		}
	}
	c.Put("big", strings.Repeat("v", bound))
	if _, ok := c.Get([]byte("big")); ok {
		t.Error("one text takes all the room")
	}
	total := 0
	for _, m := range []map[string]string{c.young, c.old} {
		for k, v := range m {
			total += len(k) + len(v)
		}
	}
	if total > bound {
		t.Errorf("%d bytes are kept, of at most %d", total, bound)
	}
}

// TestClear holds that a cleared cache is empty, in both halves, and has room again.
func TestClear(t *testing.T) {
	t.Parallel()
	c := New(4 << 10)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		c.Put(key, strings.Repeat(key, 200))
	}
	c.Clear()
	check.Equal(t, len(c.young)+len(c.old)+c.bytes, 0, "bytes of %v and %v", c.young, c.old)
	c.Put("f", "x")
	if _, ok := c.Get([]byte("f")); !ok {
		t.Error("nothing is kept afterwards")
	}
}

// TestPutAgain holds that a text takes the place of the former one of its key, and its room.
func TestPutAgain(t *testing.T) {
	t.Parallel()
	c := New(4 << 10)
	for range 1000 {
		c.Put("k", "old")
	}
	c.Put("k", "new")
	text, _ := c.Get([]byte("k"))
	check.Equal(t, text, "new", "the text of a key")
	check.Equal(t, c.bytes, len("k")+len("new")+textOverhead, "bytes that are kept")
}
