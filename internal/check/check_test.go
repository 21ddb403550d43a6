package check

import (
	"fmt"
	"io"
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
	Err(&f, nil, nil, "close")
	Err(&f, fmt.Errorf("close: %w", io.EOF), io.EOF, "close")
	Err(&f, io.EOF, nil, "close")
	Err(&f, nil, io.EOF, "read")
	ErrText(&f, io.ErrUnexpectedEOF, "unexpected", "read")
	ErrText(&f, io.EOF, "unexpected", "read of %d", 7)
	ErrText(&f, nil, "EOF", "read")
	Err(&f, Last(3, io.EOF), io.EOF, "read")
	Err(&f, Last(3, nil), io.EOF, "read again")
	Fails(io.EOF)(&f, "read")
	Fails(3, nil)(&f, "read of %d", 7)
	Empty(&f, []int(nil), "entries")
	Empty(&f, []int{3}, "entries of %s", "ada")
	Contains(&f, "a page", "page", "body")
	Contains(&f, "a page", "line", "body of %s", "e1")
	Lacks(&f, "a page", "line", "body")
	Lacks(&f, "a page", "page", "body of %s", "e1")
	want := []string{
		"replies to e5: 3, want 4", `body: "a\n", want "a"`, "patience: 1s, want 1m0s", "seqs of ada (-want +got):\n",
		"close: EOF, want <nil>", "read: <nil>, want EOF", `read of 7: EOF, want "unexpected"`, `read: <nil>, want "EOF"`,
		"read again: <nil>, want EOF",
		"read of 7: no error",
		"entries of ada: [3], want none",
		`body of e1 without "line": a page`, `body of e1 with "page": a page`,
	}
	for i, text := range f.list {
		if i >= len(want) || !strings.HasPrefix(text, want[i]) {
			t.Errorf("message %d: %q", i, text)
		}
	}
	if len(f.list) != len(want) {
		t.Errorf("%d messages, want %d", len(f.list), len(want))
	}
}
