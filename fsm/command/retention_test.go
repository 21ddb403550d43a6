package command

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestParseRetention(t *testing.T) {
	const day = 24 * HourMillis
	for text, want := range map[string]map[string]int64{
		"":                        {"den": 0},
		"den=30d":                 {"den": 30 * day, "dens": 0, "de": 0},
		"test-*=12h":              {"test-": 12 * HourMillis, "test-a": 12 * HourMillis, "test": 0, "a-test-": 0},
		"knowledge=keep,*=90d":    {"knowledge": 0, "knowledge-a": 90 * day, "den": 90 * day},
		"*=36500d":                {"den": 36500 * day},
		"a*=1h,ab=2h,*=3h":        {"ab": HourMillis, "b": 3 * HourMillis},
		"größe=1d,zwei*=876000h":  {"größe": day, "zweig": 36500 * day},
		"ab=1d,ab=2d,ab*=3d,*=4d": {"ab": day, "abc": 3 * day, "x": 4 * day},
	} {
		rules, err := ParseRetention(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for channel, millis := range want {
			check.Equal(t, rules.Of(channel), millis, "%q: milliseconds that %s is kept", text, channel)
		}
	}
	for _, text := range []string{
		"den", "den=", "=1d", "den=0d", "den=0h", "den=1", "den=d", "den=1w", "den=-1d", "den=1.5d", "den=1dd", "den=1hd", "den=36501d", "den=99999999999999999999h",
		"d*n=1d", "**=1d", "*den=1d", "den=1d,", ",den=1d", "den=1d ab=1d", "a b=1d", "den=KEEP", "\xff=1d", strings.Repeat("x", MaxChannel+1) + "=1d",
		strings.Repeat("den=1d,", MaxRetentionRules) + "den=1d",
	} {
		if rules, err := ParseRetention(text); err == nil {
			t.Errorf("%q is read as %+v", text, rules)
		}
		if err := Check(&SetSettings{Retention: &text}); err == nil {
			t.Errorf("a command sets %q", text)
		}
	}
	_, err := ParseRetention("den,ab=1w")
	if err == nil || !strings.Contains(err.Error(), `"den"`) || !strings.Contains(err.Error(), `"ab=1w"`) {
		t.Errorf("not all problems are listed: %v", err)
	}
}
