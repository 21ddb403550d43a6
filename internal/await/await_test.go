package await

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

func TestUntil(t *testing.T) {
	never := errors.New("never")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name    string
		ctx     context.Context
		timeout time.Duration
		fails   int // tries
		err     error
		tries   int
		want    []error
	}{
		{"at last", t.Context(), time.Minute, 2, never, 3, nil},
		{"after the timeout", t.Context(), 0, 10, never, 1, []error{never}},
		{"final", t.Context(), time.Minute, 10, Final(never), 1, []error{never}},
		{"interrupted", ended, time.Hour, 10, never, 1, []error{never, context.Canceled}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tries := 0
			every := time.Nanosecond
			if test.ctx == ended {
				every = time.Hour
			}
			err := Until(test.ctx, test.timeout, every, func() error {
				if tries++; tries <= test.fails {
					return test.err
				}
				return nil
			})
			check.Equal(t, tries, test.tries, "tries")
			check.Equal(t, err == nil, test.want == nil, "error %v", err)
			for _, want := range test.want {
				check.Err(t, err, want, "error")
			}
		})
	}
}

type recorder struct{ failed bool }

func (*recorder) Helper()                 {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestEventually(t *testing.T) {
	n := 0
	r := &recorder{}
	if Eventually(r, "three", func() bool { n++; return n == 3 }); r.failed || n != 3 {
		t.Errorf("failed %v after %d tries", r.failed, n)
	}
}
