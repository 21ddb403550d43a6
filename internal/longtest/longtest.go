// Package longtest sets how long tests run. `go test ./...` is short enough to wait for.
// With the variable TEST_LONG=1, as every night, tests with random input and tests that
// need many rounds do more of them, and those that are left out with the race detector run
// with it, too. Importing the package lowers the number of checks of rapid, most with the race
// detector; -rapid.checks still sets it.
package longtest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // its flags
)

// Variable names the variable of the environment. It is no setting of a node.
const Variable = "TEST_LONG"

func init() {
	if Wanted() {
		return
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err) //nolint:forbidigo // there is no such flag: every test is wrong
	}
}

// Wanted reports whether tests are to run long.
func Wanted() bool { return os.Getenv(Variable) == "1" }

// Beside lets so many tests for each processor run beside each other, where they
// mostly wait. TestMain calls it; -parallel sets the number as ever.
func Beside(perProcessor int) {
	if err := flag.Set("test.parallel", strconv.Itoa(perProcessor*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) //nolint:forbidigo // it is not called by TestMain
	}
}

// Rounds returns how often something is repeated.
func Rounds(usual, long int) int {
	if Wanted() {
		return long
	}
	return usual
}

// SkipShort skips a test with -short. The reason is why it takes long.
func SkipShort(tb testing.TB, reason string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip(reason)
	}
}

// OneGoroutine is the reason to skip a test with the race detector if only one of its goroutines
// runs at a time.
const OneGoroutine = "one goroutine has no race"

// SkipRaced skips a test with the race detector, unless tests are to run long: it would take about
// ten times as long. The reason is why the detector would report no further race.
func SkipRaced(tb testing.TB, reason string) {
	tb.Helper()
	if raced && !Wanted() {
		tb.Skip("skipped with the race detector: " + reason + "; " + Variable + "=1 runs it")
	}
}
