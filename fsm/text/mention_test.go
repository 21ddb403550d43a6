package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// unregistered is the answer for every name.
func unregistered(string) bool { return false }

func TestMentions(t *testing.T) {
	long := strings.Repeat("x", command.MaxName)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"@ada", []string{"ada"}},
		{"hi @Ada, and @BOB.", []string{"ada", "bob"}},
		{"@ada @Ada @ADA", []string{"ada"}},
		{"mail a@b.c and x.@yy and z-@yy", nil},
		{"é@bob e\u0301@bob x\u0302@bob 7@bob", nil},
		{"(@ada)[@bob]@@cy:@dee", []string{"ada", "bob", "cy", "dee"}},
		{"@ada@bob", []string{"ada"}},
		{"@ada.smith... @bob-_. @c_d_", []string{"ada.smith", "bob", "c_d"}},
		{"@a @é @... @ @-ada @__", nil},
		{"@.ada @_bob", []string{".ada", "_bob"}},
		{"@ada's", []string{"ada"}},
		{"@Stra\u00dfe @e\u0301ve", []string{"strasse", "éve"}},
		{"@" + long, []string{long}},
		{"@" + long + "x", nil},
		{"@" + long + ".", []string{long}},
		// Emphasis.
		{"**@ada** _@bob_ *@cy*, (_@dee_)", []string{"ada", "bob", "cy", "dee"}},
		{"foo_@ada foo*@ada", nil},
		// Other scripts.
		{"＠Scout", []string{"scout"}},
		{"交给@Scout处理", []string{"scout"}},
		{"日@bob กิ@cy", []string{"bob", "cy"}},
		{"@数字さん、", []string{"数字さん"}},
		{"@数字bot", []string{"数字"}},
		// Registered names.
		{"@bot_", []string{"bot_"}},
		{"@bot_.", []string{"bot"}},
		{"@bot-", []string{"bot"}},
		{"@Agent小明", []string{"agent小明"}},
		{"@Agent小明_", []string{"agent小明"}},
		{"@Agent小王", []string{"agent"}},
		{"@adam", []string{"adam"}},
		// Code.
		{"`@dataclass` and ``a ` @b1`` @ada", []string{"ada"}},
		{"```python\n@dataclass\n```\n@ada", []string{"ada"}},
		{"  ~~~\n@dataclass\n```\n@two\n~~~~\n@ada", []string{"ada"}},
		{"> ```\n> @dataclass", nil},
		{"```\n@dataclass", nil},
		{"```inline @dataclass``` @ada", []string{"ada"}},
		{"a ` b @ada", []string{"ada"}},
		{"a ` b\n\n@ada ` c", []string{"ada"}},
		{"a ` b\n@bob ` c", nil},
		{"\\`@ada\\`", []string{"ada"}},
		// Addresses and packages.
		{"https://x.example/@name", nil},
		{"https://x.example/?by=@name @ada", []string{"ada"}},
		{"<https://x.example/?@name>@ada", []string{"ada"}},
		{"请看 https://x.example/＠name。@Scout 处理（https://x.example）＠bob", []string{"scout", "bob"}},
		{"@scope/pkg @ada/ @bob", []string{"bob"}},
	} {
		t.Run(c.text, func(t *testing.T) {
			registered := func(key string) bool {
				return slices.Contains([]string{"bot", "bot_", "ada", "agent小明", "agent"}, key)
			}
			check.Diff(t, Mentions(registered, c.text), c.want, "the mentions")
		})
	}
	check.Diff(t, Mentions(unregistered, "@bob", "ada", "@ada @bob"), []string{"bob", "ada"}, "the mentions of several texts")
}

func TestMentionsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 3 * command.MaxMentions {
		b.WriteString(" @agent")
		b.WriteString(strings.Repeat("a", i%60+1))
		b.WriteByte(byte('a' + i/60))
	}
	check.Equal(t, len(Mentions(unregistered, b.String(), b.String())), command.MaxMentions, "mentions")
	lookups := 0
	registered := func(string) bool { lookups++; return false }
	Mentions(registered, strings.Repeat("@ab_ @ab. @ab._ ", 200))
	check.Equal(t, lookups, maxLookups, "lookups")
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"`@a1` @b1_ https://x/@c1", "```\n@ada\n```", "＠日本ada/", "*@ada* _@b1_", "``` ` `` @ada"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, key := range Mentions(unregistered, s) {
			if Fold(key) != key || !utf8.ValidString(key) {
				t.Errorf("%q is not a key", key)
			}
		}
		check.Equal(t, len(withoutCode(nfc(s))), len(nfc(s)), "the length of %q without code", s)
	})
}
