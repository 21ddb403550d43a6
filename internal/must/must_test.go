package must_test

import (
	"errors"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// recorder is a test that records its end.
type recorder struct{ ended []any }

func (*recorder) Helper()             {}
func (r *recorder) Fatal(args ...any) { r.ended = append(r.ended, args...) }

func TestMust(t *testing.T) {
	var r recorder
	if must.Do(&r, nil); must.Get(7, nil)(&r) != 7 || len(r.ended) > 0 {
		t.Errorf("without an error: %v", r.ended)
	}
	failed := errors.New("failed")
	must.Do(&r, failed)
	must.Get(7, failed)(&r)
	check.Equal(t, len(r.ended), 2, "with an error: %v", r.ended)
}
