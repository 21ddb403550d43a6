// Package golden compares outputs with the files that hold them, and writes those with the
// flag -update.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Compare fails a test if a text is not that of a file.
func Compare(tb testing.TB, path, got string) {
	tb.Helper()
	if diff := cmp.Diff(Read(tb, path, func() string { return got }), got); diff != "" {
		tb.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

// Read returns the text of a file. With -update it first writes what text returns.
func Read(tb testing.TB, path string, text func() string) string {
	tb.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text()), 0o644); err != nil { //nolint:gosec // a file of the repository
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // as above
	if err != nil {
		tb.Fatal(err)
	}
	return string(want)
}
