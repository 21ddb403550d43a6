package admin

import (
	"encoding/json"
	"testing"
	"time"
)

// TestInstantIsANumber: it comes back from JSON as it was, to the millisecond.
func TestInstantIsANumber(t *testing.T) {
	const millis = 1_767_225_600_123
	text, err := json.Marshal(ServerHealth{StableSince: Instant{time.UnixMilli(millis)}})
	if err != nil {
		t.Fatal(err)
	}
	var raw struct{ StableSince int64 }
	if err := json.Unmarshal(text, &raw); err != nil || raw.StableSince != millis {
		t.Errorf("%s has %d, %v", text, raw.StableSince, err)
	}
	var back ServerHealth
	if err := json.Unmarshal(text, &back); err != nil || back.StableSince.UnixMilli() != millis {
		t.Errorf("%s becomes %v, %v", text, back.StableSince, err)
	}
	for _, bad := range []string{`"2026-01-01T00:00:00Z"`, `1.5`, `{}`} {
		if err := json.Unmarshal([]byte(`{"stableSince":`+bad+`}`), &back); err == nil {
			t.Errorf("%s passes for an instant", bad)
		}
	}
}
