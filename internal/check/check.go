// Package check compares values in tests. The test goes on after a difference.
package check

import (
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// TB is the part of a testing.TB that the functions need.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal fails the test if got is not want. The format describes got.
func Equal[Value comparable](tb TB, got, want Value, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s", Unequal(got, want, format, args...))
	}
}

// Diff fails the test with the differences between got and want, which cmp.Diff finds.
// The format describes got.
func Diff(tb TB, got, want any, format string, args ...any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Unequal returns the message of a test that got another value than it wants.
func Unequal(got, want any, format string, args ...any) string {
	verb := "%+v"
	if reflect.ValueOf(want).Kind() == reflect.String {
		verb = "%q"
	}
	return fmt.Sprintf(format, args...) + fmt.Sprintf(": "+verb+", want "+verb, got, want)
}
