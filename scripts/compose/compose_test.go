package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/commons-cluster/commons/scripts/harness"
)

func TestLostOnTheWay(t *testing.T) {
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{&harness.RejectedError{Status: http.StatusBadGateway, Code: "outcome_unknown"}, true},
		{&harness.RejectedError{Status: http.StatusServiceUnavailable, Code: "not_enqueued"}, false},
		{&harness.RejectedError{Status: http.StatusUnprocessableEntity, Code: "validation_failed"}, false},
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

func TestCutShort(t *testing.T) {
	l := newLoad(&project{ctx: t.Context()})
	l.cut = []error{io.EOF, io.EOF}
	if err := harness.Try(func() { l.cutShort(1) }); err == nil {
		t.Error("two lost calls passed for one")
	}
	if err := harness.Try(func() { l.cutShort(0) }); err != nil {
		t.Errorf("lost calls were counted twice: %v", err)
	}
}

// TestManualIsRead finds the commands, and nothing but them.
func TestManualIsRead(t *testing.T) {
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
	if err := harness.Try(func() { allFollowed(p) }); err == nil {
		t.Error("no procedure was followed, and none is missed")
	}
}
