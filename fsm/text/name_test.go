package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestFold(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"Ada", "ada"},
		{"ADA", "aDa"},
		{"É", "e\u0301"},
		{"Straße", "STRASSE"},
		{"ΟΔΟΣ", "οδος"},
		{"οδοσ", "οδος"},
		{"K", "k"}, // the Kelvin sign
		{"ﬀ", "FF"},
	} {
		check.Equal(t, Fold(c.a), Fold(c.b), "Fold(%q), and Fold(%q)", c.a, c.b)
	}
	for _, c := range []struct{ a, b string }{
		{"ada", "adá"}, {"a-b", "a_b"}, {"а", "a"}, {"ada", "ada1"},
	} {
		if Fold(c.a) == Fold(c.b) {
			t.Errorf("Fold(%q) == Fold(%q): want two keys", c.a, c.b)
		}
	}
}

func TestFoldTag(t *testing.T) {
	check.Equal(t, FoldTag("\t Straße  Bau "), "strasse  bau", "FoldTag")
	for in, want := range map[string]string{
		"Café": "cafe", "cafe": "cafe", "ÉTÉ": "ete", "ｃａｆｅ\u0301": "cafe", "日本": "日本", "が": "が", "a\xffb": "a\ufffdb",
	} {
		t.Run(in, func(t *testing.T) { check.Equal(t, FoldTag(in), want, "FoldTag") })
	}
}

func TestAgentName(t *testing.T) {
	for in, want := range map[string]string{
		"Ada":                   "Ada",
		"ada.b_c-d":             "ada.b_c-d",
		"ada lovelace":          "ada-lovelace",
		"  ada \t lovelace  ":   "ada-lovelace",
		"a--b":                  "a--b",
		"a - b":                 "a---b",
		"--ada--":               "ada",
		".ada.":                 ".ada.",
		"ada/#!bob":             "ada-bob",
		"e\u0301a":              "éa",
		"Ünï":                   "Ünï",
		"数字٣":                   "数字٣",
		"हिन्दी":                "हिन्दी",
		"x\u0302y":              "x\u0302y",
		"!\u0301ada":            "ada",
		"a-\u0301b":             "a--b",
		"ada \u0301b":           "ada-b",
		"❤\ufe0fada":            "ada",
		"ada👍🏽bob":              "ada-bob",
		"a\u200db":              "a-b",
		"\xffada\xff\xfebob":    "ada-bob",
		"":                      "",
		"!!!":                   "",
		"...":                   "",
		"._.-_":                 "",
		"_\u0301.":              "",
		"_1":                    "_1",
		"a\x00b":                "a-b",
		"①ada":                  "ada",
		strings.Repeat("a", 99): strings.Repeat("a", 99),
	} {
		check.Equal(t, AgentName(in), want, "AgentName(%q)", in)
	}
}

func TestChannelName(t *testing.T) {
	for in, want := range map[string]string{
		"General":    "general",
		"my ROOM":    "my-room",
		"ÄÖ":         "äö",
		"A\u030a":    "å",
		"-x-":        "x",
		"İstanbul":   "istanbul",
		"human-help": "human-help",
		"...":        "",
		"_-_":        "",
	} {
		check.Equal(t, ChannelName(in), want, "ChannelName(%q)", in)
	}
}

// names draws strings of which many come close to names.
func names() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ -@A-Ca-cß\-._é\x{301}\x{345}ΣςσİK日ी]{0,12}`),
		rapid.String(),
	)
}

func TestNameProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkNames(t, names().Draw(t, "s")) })
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"Ada", "@ada @b", "ſ\u0345İ", "a\u0301\u0345\u0301", "ẞ\u0323\u0307", "-\u0338-", "\xff@\xff", "\xf4ʹ", "_½"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkNames(t, s) })
}

type fataler interface {
	must.TB
	Fatalf(format string, args ...any)
}

func checkNames(t fataler, s string) {
	t.Helper()
	must.Equal(t, Fold(Fold(s)), Fold(s), "the fold of Fold(%q)", s)
	name := AgentName(s)
	must.Equal(t, AgentName(name), name, "the name of AgentName(%q)", s)
	if !norm.NFC.IsNormalString(name) {
		t.Fatalf("AgentName(%q) = %+q is not in NFC", s, name)
	}
	for _, r := range name {
		if !IsNameRune(r) {
			t.Fatalf("AgentName(%q) = %q contains %q", s, name, r)
		}
	}
	channel := ChannelName(s)
	must.Equal(t, ChannelName(channel), channel, "the name of ChannelName(%q)", s)
	if n := utf8.RuneCountInString(name); n >= command.MinName && n <= command.MaxName {
		registered := func(key string) bool { return key == Fold(name) }
		if got := Mentions(registered, "hello @"+name+", you"); !slices.Equal(got, []string{Fold(name)}) {
			t.Fatalf("mention of %q gives %q", name, got)
		}
		if got := Mentions(registered, "hello x@"+name+", you"); got != nil {
			t.Fatalf("mail address with %q gives the mention %q", name, got)
		}
	}
	for _, key := range Mentions(unregistered, s) {
		must.Equal(t, Fold(key), key, "the fold of a key in Mentions(%q)", s)
	}
}

// TestNearest holds which unknown names are near a known one.
func TestNearest(t *testing.T) {
	names := []string{"entries", "threads", "channels", "human-requests", "jobs", "job_id", "reply_to", "post_job"}
	for name, want := range map[string]string{
		"entries": "entries", "Threads": "threads", "thraeds": "threads", "chanels": "channels", "human_requests": "human-requests",
		"job": "jobs", "jobId": "job_id", "jbos": "jobs", "replies": "", "in-reply-to": "reply_to", "replyToEntry": "reply_to", "post": "post_job",
		"messages": "", "me": "", "o": "", "": "", "finish_job": "", "entries" + strings.Repeat("x", 64): "",
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, Nearest(name, names), want, "the nearest name") })
	}
}
