package text_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/internal/check"
)

func TestPlain(t *testing.T) {
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"case":               {[]string{"CHEAP Pills"}, "cheap pills"},
		"accents":            {[]string{"chèap pílls", "che\u0301ap"}, "cheap pills cheap"},
		"width":              {[]string{"ｃｈｅａｐ　ｐｉｌｌｓ"}, "cheap pills"},
		"styles":             {[]string{"𝐜𝐡𝐞𝐚𝐩 𝓹𝓲𝓵𝓵𝓼"}, "cheap pills"},
		"invisible":          {[]string{"ch\u00adeap pi\u200dl\u200bls\ufe0f"}, "cheap pills"},
		"look-alikes":        {[]string{"сhеар ріllѕ", "СНЕАР"}, "cheap pills cheap"},
		"line breaks":        {[]string{"cheap\r\n\t pills\u2028here"}, "cheap pills here"},
		"title and body":     {[]string{"Cheap", "pills"}, "cheap pills"},
		"other scripts":      {[]string{"Привет, 世界"}, ""},
		"digits and letters": {[]string{"rn m 1 l I 0"}, "rn m 1 l i 0"},
	} {
		t.Run(name, func(t *testing.T) {
			got := text.Plain(test.texts)
			if test.want == "" {
				t.Logf("%q", got)
				return
			}
			check.Equal(t, got, test.want, "the plain form of %q", test.texts)
		})
	}
}
