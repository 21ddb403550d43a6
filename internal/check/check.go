// Package check compares values in tests. The test goes on after a difference.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

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

// Diff fails the test with the differences between got and want, unexported fields
// included. The format describes got.
func Diff(tb TB, got, want any, format string, args ...any) {
	tb.Helper()
	unexported := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(want, got, unexported); diff != "" {
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

// Err fails the test unless got is the error want or wraps it. Nil means no error. The
// format describes the step that failed.
func Err(tb TB, got, want error, format string, args ...any) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// ErrText fails the test unless got is an error with a text in its message.
func ErrText(tb TB, got error, text, format string, args ...any) {
	tb.Helper()
	if got == nil || !strings.Contains(got.Error(), text) {
		tb.Errorf("%s: %v, want %q", fmt.Sprintf(format, args...), got, text)
	}
}

// Contains fails the test unless got contains a text. The format describes got.
func Contains(tb TB, got, text, format string, args ...any) {
	tb.Helper()
	if !strings.Contains(got, text) {
		tb.Errorf("%s without %q: %s", fmt.Sprintf(format, args...), text, got)
	}
}

// Lacks fails the test if got contains a text. The format describes got.
func Lacks(tb TB, got, text, format string, args ...any) {
	tb.Helper()
	if strings.Contains(got, text) {
		tb.Errorf("%s with %q: %s", fmt.Sprintf(format, args...), text, got)
	}
}

// Fails returns a function that fails the test if the last result of a call, its error, is nil. The
// format describes the step that has to fail:
//
//	check.Fails(os.Open(path))(t, "open a missing file")
func Fails(results ...any) func(tb TB, format string, args ...any) {
	return func(tb TB, format string, args ...any) {
		tb.Helper()
		if results[len(results)-1] == nil {
			tb.Errorf("%s: no error", fmt.Sprintf(format, args...))
		}
	}
}

// Last returns the last result of a call, its error:
//
//	check.Err(t, check.Last(os.Stat(path)), fs.ErrNotExist, "look for a missing file")
func Last(results ...any) error {
	err, _ := results[len(results)-1].(error)
	return err
}

// Empty fails the test unless a list, a map or a text has no elements. The format describes got.
func Empty(tb TB, got any, format string, args ...any) {
	tb.Helper()
	if reflect.ValueOf(got).Len() > 0 {
		tb.Errorf("%s: %+v, want none", fmt.Sprintf(format, args...), got)
	}
}
