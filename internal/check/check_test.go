package check

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// failures records the messages of a test.
type failures struct{ list []string }

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func TestChecks(t *testing.T) {
	var f failures
	Equal(&f, 3, 3, "replies")
	Equal(&f, 3, 4, "replies to e%d", 5)
	Equal(&f, "a\n", "a", "body")
	Equal(&f, time.Second, time.Minute, "patience")
	Diff(&f, []int{1}, []int{1}, "seqs")
	Diff(&f, []int{1}, []int{2}, "seqs of %s", "ada")
	want := []string{"replies to e5: 3, want 4", `body: "a\n", want "a"`, "patience: 1s, want 1m0s", "seqs of ada (-want +got):\n"}
	for i, text := range f.list {
		if i >= len(want) || !strings.HasPrefix(text, want[i]) {
			t.Errorf("message %d: %q", i, text)
		}
	}
	if len(f.list) != len(want) {
		t.Errorf("%d messages, want %d", len(f.list), len(want))
	}
}
