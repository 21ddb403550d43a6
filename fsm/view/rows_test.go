package view

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/must"
)

func TestStringEnd(t *testing.T) {
	for text, want := range map[string]int{
		``: -1, `"`: -1, `x"`: -1, `"open`: -1, `"open\"`: -1, `"open\\\"`: -1,
		`""`: 2, `"",`: 2, `"a"b"`: 3, `"\""x`: 4, `"\\"x`: 4, `"\\\""x`: 6, `"a\\"",`: 5,
	} {
		if got := stringEnd([]byte(text)); got != want {
			t.Errorf("%s ends at %d, want %d", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a\\\"é\n<"))).Draw(t, "text")
		quoted := must.Get(json.Marshal(text))(t)
		behind := rapid.SampledFrom([]string{``, `,"title":"x"`, `"`, `\"`}).Draw(t, "behind")
		must.Equal(t, stringEnd(append(quoted, behind...)), len(quoted), "%s ends", quoted)
	})
}

// FuzzSummary holds that rows of any bytes are rejected, or have a summary.
func FuzzSummary(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x000000")) // an entry whose JSON begins in its head
	f.Fuzz(func(_ *testing.T, row []byte) { _, _ = summaryOf(row) })
}
