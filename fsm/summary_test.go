package fsm

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
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
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		behind := rapid.SampledFrom([]string{``, `,"title":"x"`, `"`, `\"`}).Draw(t, "behind")
		if got := stringEnd(append(quoted, behind...)); got != len(quoted) {
			t.Fatalf("%s ends at %d", quoted, got)
		}
	})
}
