package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // joined by |
	}{
		{"", ""},
		{" \t\n", ""},
		{"Hello, World!", "hello|world"},
		{"hello, hello", "hello|hello"},
		// Accents and case.
		{"Ärger café CAFÉ cafe\u0301", "arger|cafe|cafe|cafe"},
		{"Straße STRASSE STRAẞE", "strasse|strasse|strasse"},
		{"İstanbul ISTANBUL", "istanbul|istanbul"},
		{"ΟΔΟΣ οδός οδοσ", "οδοσ|οδοσ|οδοσ"},
		{"Ёлка елка", "елка|елка"},
		{"שָׁלוֹם שלום", "שלום|שלום"},
		{"المُعَلِّم المعلم", "المعلم|المعلم"},
		{"Ǆ ﬁnd", "dz|find"},
		// Compatibility forms.
		{"Ｆｕｌｌ　Ｗｉｄｔｈ １２", "full|width|12"},
		{"①② ½ ㎏ x²", "12|1⁄2|kg|x2"},
		// Apostrophes, connectors, numbers, addresses.
		{"don't don’t 'quoted' dogs'", "don't|don't|quoted|dogs"},
		{"snake_case __init__ _it_ _ __", "snake_case|snake|case|init|it"},
		{"3.14 3,14 1,000.5 1. .5 10:30", "3.14|3|14|3,14|1,000.5|1,000|5|1|5|10|30"},
		{"v1.2 v1.2.3-rc1 x86_64", "v1.2|v|1|2|1.2|v1.2.3|v|1|2|3|1.2.3|2.3|rc1|x86_64|x86|64"},
		{"https://example.com/a/b?q=1&r=two#frag", "https|example.com|example|com|a|b|q|1|r|two|frag"},
		{"ada@example.com key:value well-known C++ a/b", "ada|example.com|example|com|key|value|well|known|c|a|b"},
		{"end.Start end. Start", "end.start|end|start|end|start"},
		{"fullwidth：colon", "fullwidth|colon"},
		{"/etc/hosts.allow a.b_c.d", "etc|hosts.allow|hosts|allow|a.b_c.d|a|b|c|d|b_c.d|c.d"},
		{"über_Größe‿x", "uber_grosse‿x|uber|grosse|x|grosse‿x"},
		// Invisible characters.
		{"co\u00adoperate zero\u200bwidth joi\u200dned \ufeffbom", "cooperate|zero|width|joined|bom"},
		{"می\u200cخواهم", "میخواهم"},
		// Emoji are not words.
		{"👍 hi👍🏽there ❤️ 👩‍💻 1️⃣", "hi|there|1"},
		// Unspaced scripts.
		{"日本語", "日|日本|本|本語|語"},
		{"日 本", "日|本"},
		{"ひらカナ", "ひ|ひら|ら|らカ|カ|カナ|ナ"},
		{"が か ｶﾞ", "が|か|ガ"},
		{"コーヒー", "コ|コー|ー|ーヒ|ヒ|ヒー|ー"},
		{"カ・ナ", "カ|ナ"},
		{"ภาษา", "ภ|ภา|า|าษ|ษ|ษา|า"},
		{"กิน", "กิ|กิน|น"},
		{"hello日本v1.2だ", "hello|日|日本|本|v1.2|v|1|2|1.2|だ"},
		{"人々 二〇", "人|人々|々|二|二〇|〇"},
		{"𠮷野", "𠮷|𠮷野|野"},
		// Other scripts are words.
		{"한국어 검색", "한국어|검색"},
		{"हिन्दी में", "हिन्दी|में"},
		{"ⴰⵎⴰⵣⵉⵖ", "ⴰⵎⴰⵣⵉⵖ"},
		// Broken text.
		{"a\xffb \xff", "a|b"},
		{"a\x00b", "a|b"},
	} {
		got := strings.Join(Words(nil, c.in), "|")
		check.Equal(t, got, c.want, "Words(%q)", c.in)
	}
}

func TestWordsAppends(t *testing.T) {
	dst := Words([]string{"first"}, "é two")
	check.Diff(t, dst, []string{"first", "e", "two"}, "list")
}

func TestWordsCutsLongWords(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{strings.Repeat("a", MaxTerm), strings.Repeat("a", MaxTerm)},
		{strings.Repeat("a", MaxTerm+1), strings.Repeat("a", MaxTerm)},
		{strings.Repeat("я", 50), strings.Repeat("я", MaxTerm/2)},
		{"a" + strings.Repeat("я", 50), "a" + strings.Repeat("я", (MaxTerm-1)/2)},
		{"___" + strings.Repeat("b", 70), strings.Repeat("b", MaxTerm)},
	} {
		check.Diff(t, Words(nil, c.in), []string{c.want}, "Words(%q)", c.in)
	}
}

// TestWordsOfLongCompounds checks that the terms of a text are bounded by its length, and that the
// last parts of a long name are found.
func TestWordsOfLongCompounds(t *testing.T) {
	long := "org.example." + strings.Repeat("long", MaxTerm/4) + ".LastPart"
	terms := Words(nil, long)
	for _, want := range []string{"lastpart", "org", strings.ToLower(long)[:MaxTerm]} {
		check.Equal(t, slices.Contains(terms, want), true, "%q among the terms", want)
	}
	many := strings.Repeat("a.", 1000) + "b"
	bytes := 0
	for _, term := range Words(nil, many) {
		bytes += len(term)
	}
	if bytes > len(many) {
		t.Errorf("%d bytes of terms for a text of %d", bytes, len(many))
	}
}

func TestQueryWords(t *testing.T) {
	for _, c := range []struct {
		q      string
		words  string // joined by |
		prefix string
	}{
		{"", "", ""},
		{"!?", "", ""},
		{"hello", "", "hello"},
		{"hello ", "hello", ""},
		{"hello.", "hello", ""},
		{"he", "he", ""},
		{"hel", "", "hel"},
		{"Two Wörds", "two", "words"},
		{"foo, foo bar foo", "foo|bar", "foo"},
		{"x y z", "x|y|z", ""},
		{"v1.2", "", "v1.2"},
		{"3.1", "3.1", ""},
		{"a.b", "a.b", ""},
		{"snake_", "", "snake"},
		{"snake_ca", "", "snake_ca"},
		{"日本語", "日本|本語", ""},
		{"本", "本", ""},
		{"日本 語", "日本|語", ""},
		{"日本 test", "日本", "test"},
		{"test日本", "test|日本", ""},
		{"한", "한", ""},
		{"한국", "", "한국"},
		{strings.Repeat("a", MaxTerm) + "b", strings.Repeat("a", MaxTerm), ""},
	} {
		words, prefix := QueryWords(c.q)
		if got := strings.Join(words, "|"); got != c.words || prefix != c.prefix {
			t.Errorf("QueryWords(%q) = %q, %q, want %q, %q", c.q, got, prefix, c.words, c.prefix)
		}
	}
}

// phrases draws texts that mix scripts, connectors and white space.
func phrases() *rapid.Generator[string] {
	atoms := rapid.SampledFrom([]string{
		" ", " ", "\n", "\t", "\x00", ".", "'", "’", ",", ";", ":", "_", "__", "-", "@", "/", "　",
		"a", "B", "word", "Word", "é", "e\u0301", "ß", "ẞ", "İ", "ı", "Σ", "ς", "ﬁ", "ǰ", "ŉ", "K", "Ω",
		"1", "23", "½", "①", "٣", "๓", "日", "本", "語", "々", "〇", "ひ", "カ", "ー", "ｶﾞ", "ゝ", "ก", "ิ", "่", "ำ", "ລ", "က", "្", "ខ",
		"한", "국", "ᄒ", "ᅡ", "ᆫ", "हि", "न्", "ु", "ش", "ُ", "ש", "ָ", "״", "׳",
		"\u0301", "\u0345", "\u3099", "\u200b", "\u200d", "\u00ad", "\ufe0f", "\u20e3", "👍", "🇩🇪", "‿", "＿", "．", "：", "\xff", "·",
	})
	return rapid.OneOf(
		rapid.Map(rapid.SliceOfN(atoms, 0, 24), func(parts []string) string { return strings.Join(parts, "") }),
		rapid.String(),
	)
}

func TestWordsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkWords(t, phrases().Draw(t, "s")) })
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"Hello it's 3.14 v1.2 a_b", "日本語カタカナ", "กิ่น ำ", "\u0301a\u0345ᾳ", "ｶﾞﾞ", "\xff\xfe", "ก\u0e33\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkWords(t, s) })
}

// checkWords holds what is true of every text.
func checkWords(t fataler, s string) {
	t.Helper()
	terms := Words(nil, s)
	have := make(map[string]bool, len(terms))
	for _, term := range terms {
		have[term] = true
		if term == "" || len(term) > MaxTerm || !utf8.ValidString(term) || strings.ContainsFunc(term, unicode.IsControl) {
			t.Fatalf("Words(%q) holds %q", s, term)
		}
		if !slices.Contains(Words(nil, term), term) {
			t.Fatalf("Words(%q) holds %q, whose words are %q", s, term, Words(nil, term))
		}
		// A term asked for is found, whether it becomes a word or a prefix.
		for _, q := range []string{term, term + " "} {
			words, prefix := QueryWords(q)
			if first, _ := utf8.DecodeRuneInString(term); isUnspaced(first) {
				continue
			}
			if prefix != term && !slices.Contains(words, term) {
				t.Fatalf("QueryWords(%q) = %q, %q", q, words, prefix)
			}
		}
	}
	for _, q := range append(strings.Fields(s), s) {
		checkMatches(t, s, have, terms, q)
	}
	checkRuns(t, s, have, terms)
	if ascii := isASCII(s); ascii {
		checkFastPath(t, s)
	}
}

// checkMatches checks that the text s, which has the given terms, matches q.
func checkMatches(t fataler, s string, have map[string]bool, terms []string, q string) {
	t.Helper()
	words, prefix := QueryWords(q)
	for i, w := range words {
		if !have[w] {
			t.Fatalf("%q does not match %q: no word %q", s, q, w)
		}
		if slices.Contains(words[:i], w) {
			t.Fatalf("QueryWords(%q) repeats %q", q, w)
		}
	}
	if prefix != "" && !slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(term, prefix) }) {
		t.Fatalf("%q does not match %q: no word that begins with %q", s, q, prefix)
	}
}

// checkRuns checks that a text is found by each part of its unspaced runs.
func checkRuns(t fataler, s string, have map[string]bool, terms []string) {
	t.Helper()
	n := normalizers.Get().(*normalizer)
	defer n.release()
	for _, run := range strings.FieldsFunc(n.normalize(s), func(r rune) bool { return !isUnspaced(r) && !unicode.IsMark(r) }) {
		var characters []string
		for len(run) > 0 && len(characters) < 8 {
			size := characterLen(run)
			characters, run = append(characters, run[:size]), run[size:]
		}
		for i := range characters {
			for j := i + 1; j <= len(characters); j++ {
				checkMatches(t, s, have, terms, strings.Join(characters[i:j], ""))
			}
		}
	}
}

// TestEveryLetter puts every letter and number of Unicode through the properties.
func TestEveryLetter(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	rangetable.Visit(rangetable.Merge(unicode.L, unicode.N), func(r rune) {
		s := string(r)
		checkWords(t, s)
		checkNames(t, s)
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			if unicode.IsMark(other) {
				continue // the iota subscript, which is an accent here
			}
			if !slices.Equal(Words(nil, s), Words(nil, string(other))) || Fold(s) != Fold(string(other)) {
				t.Errorf("%q and %q differ in more than case", r, other)
			}
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// checkFastPath compares the path for ASCII with the one for all of Unicode.
func checkFastPath(t fataler, s string) {
	t.Helper()
	n := normalizers.Get().(*normalizer)
	defer n.release()
	general := scanner{norm: n, text: strings.ToLower(s), whole: true, parts: true}
	general.unicodePiece(general.text)
	if fast := Words(nil, s); !slices.Equal(fast, general.dst) {
		t.Fatalf("%q: fast %q, general %q", s, fast, general.dst)
	}
}

func TestFastPathProperty(t *testing.T) {
	ascii := rapid.StringOfN(rapid.RuneFrom([]rune("aB1_.,;:'\" -\t\n@\x00")), 0, 16, -1)
	rapid.Check(t, func(t *rapid.T) { checkWords(t, ascii.Draw(t, "s")) })
}

// TestCasesAndAccentsDoNotMatter checks that spelling variants are one word.
func TestCasesAndAccentsDoNotMatter(t *testing.T) {
	letters := rapid.StringMatching(`[a-zäéßñøžα-ωа-я]{1,10}`)
	rapid.Check(t, func(t *rapid.T) {
		word := letters.Draw(t, "word")
		want := Words(nil, word)
		for _, variant := range []string{strings.ToUpper(word), word + "\u0301", "\u200d" + word} {
			if got := Words(nil, variant); !slices.Equal(got, want) {
				t.Fatalf("Words(%q) = %q, Words(%q) = %q", word, want, variant, got)
			}
		}
	})
}
