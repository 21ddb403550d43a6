package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

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
		if err := oneVoterEach(strings.Fields(test.voters), three); (err == nil) != test.good {
			t.Errorf("%s: %v", test.voters, err)
		}
	}
}

func TestLostOnTheWay(t *testing.T) {
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{&refusal{status: http.StatusBadGateway, code: "outcome_unknown"}, true},
		{&refusal{status: http.StatusServiceUnavailable, code: "not_enqueued"}, false},
		{&refusal{status: http.StatusUnprocessableEntity, code: "validation_failed"}, false},
		{&url.Error{Op: "Post", Err: io.EOF}, true},
		{&url.Error{Op: "Post", Err: fmt.Errorf("read: %w", syscall.ECONNRESET)}, true},
		{&url.Error{Op: "Post", Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, false},
		{errors.New("anything else"), false},
	} {
		if got := lostOnTheWay(test.err); got != test.lost {
			t.Errorf("%#v: %v", test.err, got)
		}
	}
}

// TestVerify reads two pages and compares them with what was acknowledged.
func TestVerify(t *testing.T) {
	type entry struct{ ID, Body string }
	type page struct {
		Entries    []entry `json:"entries"`
		NextCursor *string `json:"nextCursor"`
	}
	next := "next"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := page{[]entry{{"e2", "body of two"}}, &next}
		if r.URL.Query().Get("cursor") == next {
			answer = page{[]entry{{"e1", "body of one"}}, nil}
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
		l := newLoad(&project{ctx: t.Context()})
		l.acks = test.acks
		err := l.verify(server.URL)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, want %q", test.acks, err, test.want)
		}
	}
}

func TestCutShort(t *testing.T) {
	l := newLoad(&project{ctx: t.Context()})
	l.cut = []error{io.EOF, io.EOF}
	if err := l.cutShort(1); err == nil {
		t.Error("two lost calls passed for one")
	}
	if err := l.cutShort(0); err != nil {
		t.Errorf("lost calls were counted twice: %v", err)
	}
}

// TestManualIsRead finds the commands, and nothing but them.
func TestManualIsRead(t *testing.T) {
	if got, want := indented("text\n\n    one \\\n      two\n\nmore text\n    three\n"), "one \\\n  two\nthree\n"; got != want {
		t.Errorf("commands %q, want %q", got, want)
	}
	t.Chdir("../..")
	m, err := readManual()
	if err != nil {
		t.Fatal(err)
	}
	for title, script := range m.scripts {
		if !strings.HasPrefix(script, "docker compose ") && !strings.HasPrefix(script, "for node in ") {
			t.Errorf("%s begins with %.40q", title, script)
		}
	}
	p := &project{manual: m}
	if err := allFollowed(p, nil); err == nil {
		t.Error("no procedure was followed, and none is missed")
	}
}
