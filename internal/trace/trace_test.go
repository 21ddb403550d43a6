package trace

import (
	"context"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  Parent
	}{
		"valid":                           {valid, valid},
		"not sampled":                     {valid[:53] + "00", Parent(valid[:53] + "00")},
		"unknown flags":                   {valid[:53] + "ff", Parent(valid[:53] + "ff")},
		"a later version":                 {"cc" + valid[2:], valid},
		"a later version with more":       {"cc" + valid[2:] + "-what-comes", valid},
		"a later version, not separated":  {"cc" + valid[2:] + ".what-comes", ""},
		"version ff":                      {"ff" + valid[2:], ""},
		"version 00 with more":            {valid + "-more", ""},
		"too short":                       {valid[:54], ""},
		"empty":                           {"", ""},
		"upper case in the trace":         {strings.Replace(valid, "0af7", "0AF7", 1), ""},
		"upper case in the span":          {strings.Replace(valid, "b7ad", "B7ad", 1), ""},
		"no hexadecimal digit in flags":   {valid[:54] + "x", ""},
		"no hexadecimal digit in version": {"0g" + valid[2:], ""},
		"a space":                         {" " + valid[1:], ""},
		"trace of zeros":                  {"00-" + strings.Repeat("0", 32) + valid[35:], ""},
		"span of zeros":                   {valid[:36] + strings.Repeat("0", 16) + "-01", ""},
		"another separator":               {strings.Replace(valid, "-b7", "_b7", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, Parse(tc.value), tc.want, "parse")
		})
	}
}

func TestContext(t *testing.T) {
	p := Parse(valid)
	if got := From(With(t.Context(), p)); got != p || got.TraceID() != valid[3:35] || got.SpanID() != valid[36:52] {
		t.Errorf("got %q", got)
	}
	check.Equal(t, From(With(context.Background(), "")), "", "got without a parent")
}

func FuzzParse(f *testing.F) {
	f.Add(valid)
	f.Add("cc" + valid[2:] + "-more")
	f.Fuzz(func(t *testing.T, value string) {
		p := Parse(value)
		if p != "" && (len(p) != length || Parse(string(p)) != p) {
			t.Errorf("%q gives %q", value, p)
		}
	})
}
