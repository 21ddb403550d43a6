package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
)

// TestVerify compares lists of entries with what was acknowledged.
func TestVerify(t *testing.T) {
	listed := []client.Entry{{ID: "e2", Body: "body of two"}, {ID: "e1", Body: "body of one"}}
	for _, test := range []struct {
		name string
		acks map[string]string // ids by request id
		list []client.Entry
		want string
	}{
		{"all", map[string]string{"one": "e1", "two": "e2"}, listed, ""},
		{"lost", map[string]string{"one": "e1", "two": "e2", "three": "e3"}, listed, "three was acknowledged as e3"},
		{"another id", map[string]string{"one": "e1", "two": "e9"}, listed, "two was acknowledged as e9"},
		{"another entry", map[string]string{"one": "e1"}, listed, "2 entries, 1 acknowledged"},
		{"twice", map[string]string{"two": "e2"}, []client.Entry{{ID: "e3", Body: "body of two"}, listed[0]}, "2 entries for request id two"},
		{"order", nil, []client.Entry{{ID: "e1", CreatedAt: 1}, {ID: "e2", CreatedAt: 2}}, "e1 is older than e2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := New(t.Context(), "any")
			for requestID, id := range test.acks {
				l.acknowledged(requestID, client.Published{Entry: client.Entry{ID: id}}, time.Now())
			}
			err := l.Verify(test.list)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestKeepsErrors ends a writer whose publication fails, and returns why.
func TestKeepsErrors(t *testing.T) {
	broken := errors.New("broken")
	l := New(t.Context(), "any")
	l.Start(2, 0, func(_ int, e client.NewEntry) (p client.Published, err error) {
		if e.RequestID == "any-1-1-3" {
			err = broken
		}
		p.Entry.ID = e.RequestID
		return p, err
	})
	check.Err(t, l.WaitForMore(1<<40), broken, "waiting for more")
	l.Stop()
	acks, _ := l.Acks()
	if err := l.Failed(); !errors.Is(err, broken) || slices.ContainsFunc(acks, func(a Ack) bool { return a.RequestID == "any-1-1-4" }) {
		t.Errorf("%v, and the writer went on: %v", err, acks)
	}
}
