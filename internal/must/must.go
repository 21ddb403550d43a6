// Package must ends a test when a step of it fails that is not its subject.
package must

import (
	"os"
	"strings"

	"github.com/commons-cluster/commons/internal/check"
)

// TB is the part of a testing.TB that the functions need.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(tb TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns a function that returns the value, or ends the test if err is not nil:
//
//	file := must.Get(os.Open(path))(t)
func Get[Value any](value Value, err error) func(TB) Value {
	return func(tb TB) Value {
		tb.Helper()
		Do(tb, err)
		return value
	}
}

// Equal ends the test if got is not want. The format describes got.
func Equal[Value comparable](tb TB, got, want Value, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Fatal(check.Unequal(got, want, format, args...))
	}
}

// NoSettings removes the settings of whoever runs the tests.
func NoSettings() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "COMMONS_") {
			_ = os.Unsetenv(name) // it fails for invalid names alone
		}
	}
}
