package harness

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	never := errors.New("never")
	tries := 0
	if err := Until(t.Context(), time.Minute, time.Nanosecond, func() error {
		if tries++; tries < 3 {
			return never
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if err := Until(t.Context(), 0, time.Minute, func() error { return never }); !errors.Is(err, never) {
		t.Errorf("after the deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ctx, time.Hour, time.Hour, func() error { return never }); !errors.Is(err, never) || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestOneVoterEach(t *testing.T) {
	for _, test := range []struct {
		voters string
		good   bool
	}{
		{"node1-aa node2-bb node3-cc", true},
		{"node3-cc node1-aa node2-bb", true},
		{"node1-aa node2-bb", false},
		{"node1-aa node1-dd node2-bb", false},
		{"node1-aa node2-bb node4-cc", false},
		{"node1-aa node2-bb node3-cc node4-dd", false},
	} {
		if err := OneVoterEach(strings.Fields(test.voters), []string{"node1", "node2", "node3"}); (err == nil) != test.good {
			t.Errorf("%s: %v", test.voters, err)
		}
	}
}

// TestVerify reads two pages and compares them with what was acknowledged.
func TestVerify(t *testing.T) {
	type page struct {
		Entries    []Entry `json:"entries"`
		NextCursor *string `json:"nextCursor"`
	}
	next := "next"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := page{[]Entry{{ID: "e2", Body: "body of two"}}, &next}
		if r.URL.Query().Get("cursor") == next {
			answer = page{[]Entry{{ID: "e1", Body: "body of one"}}, nil}
		}
		_ = json.NewEncoder(w).Encode(answer) // a broken connection fails the test by itself
	}))
	defer server.Close()
	for _, test := range []struct {
		acks map[string]string
		want string
	}{
		{map[string]string{"one": "e1", "two": "e2"}, ""},
		{map[string]string{"one": "e1", "two": "e2", "three": "e3"}, "three was acknowledged as e3"},
		{map[string]string{"one": "e1", "two": "e9"}, "two was acknowledged as e9"},
		{map[string]string{"one": "e1"}, "2 entries, 1 acknowledged"},
	} {
		l := NewLoad(t.Context(), "any")
		for requestID, id := range test.acks {
			l.Acknowledged(requestID, Published{Entry: Entry{ID: id}})
		}
		entries, err := NewClient(CallTimeout).List(t.Context(), server.URL, nil, nil)
		if err == nil {
			err = l.Verify(entries)
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, want %q", test.acks, err, test.want)
		}
	}
}

// TestLoadKeepsErrors ends a writer whose publication fails, and says why.
func TestLoadKeepsErrors(t *testing.T) {
	broken := errors.New("broken")
	l := NewLoad(t.Context(), "any")
	l.Start(2, 0, func(_ int, requestID string) error {
		l.Acknowledged(requestID, Published{Entry: Entry{ID: requestID}})
		if requestID == "any-1-1-3" {
			return broken
		}
		return nil
	})
	if err := l.WaitForMore(1 << 40); !errors.Is(err, broken) {
		t.Errorf("waiting for more: %v", err)
	}
	l.Stop()
	acks, _ := l.Acks()
	if err := l.Failed(); !errors.Is(err, broken) || slices.ContainsFunc(acks, func(a Ack) bool { return a.RequestID == "any-1-1-4" }) {
		t.Errorf("%v, and the writer went on: %v", err, acks)
	}
}

func TestExamples(t *testing.T) {
	got := Examples("text\n\n    one \\\n      two\n\nmore text\n    three\n")
	if want := []string{"one \\\n  two\n", "three\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPlay(t *testing.T) {
	var ran []string
	step := func(name string, err error) Scenario[*[]string] {
		return Scenario[*[]string]{name, func(ran *[]string) {
			*ran = append(*ran, name)
			Must(err)
		}}
	}
	broken := errors.New("broken")
	scenarios := []Scenario[*[]string]{step("a", nil), step("b", broken), step("c", nil)}
	if err := Play(t.Context(), &ran, "", scenarios...); !errors.Is(err, broken) || !slices.Equal(ran, []string{"a", "b"}) {
		t.Errorf("%v, %v", ran, err)
	}
	if err := Play(t.Context(), &ran, "c", scenarios...); err != nil || !slices.Equal(ran, []string{"a", "b", "c"}) {
		t.Errorf("%v, %v", ran, err)
	}
}

func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here")
	}
	m, err := readMemory(os.Getpid())
	if err != nil || m.Anonymous == 0 || m.Resident <= m.Anonymous || m.Peak < m.Resident {
		t.Errorf("%+v, %v", m, err)
	}
}
