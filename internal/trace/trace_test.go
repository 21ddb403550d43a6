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
		values []string
		want   Parent
	}{
		"valid":                           {[]string{valid}, valid},
		"not sampled":                     {[]string{valid[:53] + "00"}, Parent(valid[:53] + "00")},
		"unknown flags":                   {[]string{valid[:53] + "ff"}, Parent(valid[:53] + "ff")},
		"a later version":                 {[]string{"cc" + valid[2:]}, valid},
		"a later version with more":       {[]string{"cc" + valid[2:] + "-what-comes"}, valid},
		"a later version, not separated":  {[]string{"cc" + valid[2:] + ".what-comes"}, ""},
		"version ff":                      {[]string{"ff" + valid[2:]}, ""},
		"version 00 with more":            {[]string{valid + "-more"}, ""},
		"too short":                       {[]string{valid[:54]}, ""},
		"empty":                           {[]string{""}, ""},
		"upper case in the trace":         {[]string{strings.Replace(valid, "0af7", "0AF7", 1)}, ""},
		"upper case in the span":          {[]string{strings.Replace(valid, "b7ad", "B7ad", 1)}, ""},
		"no hexadecimal digit in flags":   {[]string{valid[:54] + "x"}, ""},
		"no hexadecimal digit in version": {[]string{"0g" + valid[2:]}, ""},
		"a space":                         {[]string{" " + valid[1:]}, ""},
		"trace of zeros":                  {[]string{"00-" + strings.Repeat("0", 32) + valid[35:]}, ""},
		"span of zeros":                   {[]string{valid[:36] + strings.Repeat("0", 16) + "-01"}, ""},
		"another separator":               {[]string{strings.Replace(valid, "-b7", "_b7", 1)}, ""},
		"absent":                          {nil, ""},
		"twice":                           {[]string{valid, valid}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, Parse(tc.values...), tc.want, "parse")
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
