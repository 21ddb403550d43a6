package page

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestBody holds what of Markdown is shown, and that the rest is text.
func TestBody(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	const link = `<a rel="nofollow ugc noopener" href="https://x.example/?a=1&amp;b=2">`
	for text, want := range map[string]string{
		"**b** *i* ~~d~~ `c`":                                              "<p><strong>b</strong> <em>i</em> <del>d</del> <code>c</code></p>",
		"# Title\ntext":                                                    `<p class="h1">Title</p>` + "\n<p>text</p>",
		"见：https://x.example/?a=1&b=2。":                                    "<p>见：" + link + "https://x.example/?a=1&amp;b=2</a>。</p>",
		"（https://x.example/?a=1&b=2）":                                     "<p>（" + link + "https://x.example/?a=1&amp;b=2</a>）</p>",
		"“https://x.example/?a=1&b=2” a_b_":                                "<p>“" + link + "https://x.example/?a=1&amp;b=2</a>” a_b_</p>",
		"xhttps://x.example/ 1http://x.example [a：https://x.example/](/b)": "<p>xhttps://x.example/ 1http://x.example a：https://x.example/</p>",
		"https://x.example/wiki/日本語_版?é=ü. x":                              `<p><a rel="nofollow ugc noopener" href="https://x.example/wiki/%E6%97%A5%E6%9C%AC%E8%AA%9E_%E7%89%88?%C3%A9=%C3%BC">https://x.example/wiki/日本語_版?é=ü</a>. x</p>`,
		"https://x.example/api/entries?action=publish&body=x":              "<p>https://x.example/api/entries?action=publish&amp;body=x</p>",
		"[l](https://x.example//API/%65ntries?b&%61ction=publish)":         "<p>l</p>",
		"[l](https://x.example/api/entries?q=action)":                      `<p><a rel="nofollow ugc noopener" href="https://x.example/api/entries?q=action">l</a></p>`,
		"a:b : http: https:// （http:（http://":                              "<p>a:b : http: https:// （http:（http://</p>",
		"[l](https://x.example/?a=1&b=2)":                                  "<p>" + link + "l</a></p>",
		"![l](https://x.example/?a=1&b=2)":                                 "<p>" + link + "l</a></p>",
		"https://x.example/?a=1&b=2":                                       "<p>" + link + "https://x.example/?a=1&amp;b=2</a></p>",
		"[l](javascript:alert)":                                            "<p>l</p>",
		"[l](JaVaScRiPt:alert)":                                            "<p>l</p>",
		"[l](data:text/html,x) [m](//x.test)":                              "<p>l m</p>",
		"[l](/api/entries?action=publish)":                                 "<p>l</p>",
		"<javascript:alert>":                                               "<p>javascript:alert</p>",
		"a@b.example":                                                      "<p>a@b.example</p>",
		"<b onclick=x>t</b>":                                               "<p>&lt;b onclick=x&gt;t&lt;/b&gt;</p>",
		"<script>\nalert(1)\n</script>":                                    "<p>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</p>",
		"| a | b |\n|---|:-:|\n| 1 | 2 |":                                  `<table tabindex="0">` + "\n<thead>\n<tr>\n<th>a</th>\n" + `<th align="center">b</th>`,
		"[l.example](https://x.example/?a=1&b=2)":                          "<p>" + link + "l.example</a> (x.example)</p>",
		"[https&#58;//bank&#46;example](https://x.example/?a=1&b=2)":       "<p>" + link + "https://bank.example</a> (x.example)</p>",
		"[at x.example, yes](https://x.example/?a=1&b=2)":                  "<p>" + link + "at x.example, yes</a></p>",
		"[**https://bank.example/x.example**](https://x.example/?a=1&b=2)": "<p>" + link + "<strong>https://bank.example/x.example</strong></a> (x.example)</p>",
		"![www.X.example](https://x.example/?a=1&b=2)":                     "<p>" + link + "www.X.example</a></p>",
		"```js\n<x>\n```":                                                  `<pre tabindex="0"><code>&lt;x&gt;` + "\n</code></pre>",
		"- a\n- b":                                                         "<ul>\n<li>a</li>\n<li>b</li>\n</ul>",
	} {
		if got := strings.TrimSpace(string(m.body(text))); !strings.HasPrefix(got, want) {
			t.Errorf("%q is shown as\n%s\nwant\n%s", text, got, want)
		}
	}
}

// TestBodyIsBounded holds that the HTML of a text is not much larger than the text, and has allowed
// elements only.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	const longest = 5000
	for _, unit := range []string{
		">", "> ", "- ", "* ", "1. ", "[", "![", "](", "*a ", "**", "_a_", "`", "~~~\n", "<", "<a ", "<!--", "&", "&amp;", "|", "|-", "\\", "\n\n",
		"> - ", "[a](b", "[a]: b\n", "a\n=\n", "# \n", "http://a.b ", "：http://a.b", "http:", "www.", "\"", "- a\n  ", "    a\n\n", "<x>\n\n", "| a |\n|---|\n", "]", "***a",
	} {
		text := strings.Repeat(unit, longest/len(unit))
		got := string(m.body(text))
		// Escaping alone makes one byte five.
		if most := max(maxGrowth*len(text)+growthBase, len(html.EscapeString(text))+64); len(got) > most {
			t.Errorf("%d bytes of %q make %d", len(text), unit, len(got))
		}
		root := must.Get(html.Parse(strings.NewReader(got)))(t)
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && (n.Data == "script" || n.Data == "img" || n.Data == "x") {
				t.Errorf("%q makes <%s>", unit, n.Data)
			}
		}
	}
}

// TestBodyTakesLittleWork holds that what would take goldmark much time and memory is
// shown as it was typed, and that what people write is not.
func TestBodyTakesLittleWork(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	row := strings.Repeat("|a", 10) + "|\n"
	for text, plainly := range map[string]bool{
		strings.Repeat("1. ", 500) + "a" + strings.Repeat("\n", 3000):                                   true,
		strings.Repeat("1) ", 500) + "a" + strings.Repeat("\n", 3000):                                   true,
		strings.Repeat("|", 800) + "\n" + strings.Repeat("|-", 800) + "\n" + strings.Repeat("a\n", 800): true,
		"> ||||\n> " + strings.Repeat("|-", 800) + "\n" + strings.Repeat("> a\n", 800):                  true,
		strings.Repeat("\t", maxNesting+1) + "- a":                                                      true,
		"1. a\n   1. b\n      1. c\n\n10. It was 3.14. (No.) 15.9.26.":                                  false,
		row + strings.Repeat("|-", 10) + "|\n" + strings.Repeat(row, 200):                               false,
		strings.Repeat("a\n---\n", 800):                                                                 false,
	} {
		check.Equal(t, nesting(text) > maxNesting || cells(text) > maxCells, plainly, "%.60q is parsed", text)
		check.Equal(t, strings.HasPrefix(string(m.body(text)), `<p class="plain">`), plainly, "%.60q is shown as", text)
	}
}

// TestLongTargetsAreNotRendered: a reference repeats its target wherever it is used.
func TestLongTargetsAreNotRendered(t *testing.T) {
	m, text := newMarkdown(), "[a]: http://x.y/"+strings.Repeat("𠀀", 2000)+"\n\n"+strings.Repeat("[a] ", 600)
	allocations := testing.AllocsPerRun(1, func() { m.body(text) })
	check.Equal(t, allocations < 100_000, true, "%v allocations are few", allocations)
	check.Contains(t, string(m.body(text)), `<p class="plain">`, "body")
}

func FuzzBody(f *testing.F) {
	f.Add("# a\n> - [x](https://y) ![z](javascript:1) <script>\n\n| a |\n|---|\n")
	f.Add("[0](https://)0 [1](https:x)")
	m := newMarkdown()
	f.Fuzz(func(t *testing.T, text string) {
		root := must.Get(html.Parse(strings.NewReader(string(m.body(text)))))(t)
		for n := range root.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if slices.Contains([]string{"script", "style", "iframe", "img", "svg", "form", "input", "object", "embed", "base", "link", "meta"}, n.Data) {
				t.Errorf("%q makes <%s>", text, n.Data)
			}
			for _, a := range n.Attr {
				ok := a.Key == "class" || a.Key == "tabindex" || a.Key == "rel" || a.Key == "align" ||
					a.Key == "href" && (strings.HasPrefix(strings.ToLower(a.Val), "http://") || strings.HasPrefix(strings.ToLower(a.Val), "https://"))
				if !ok {
					t.Errorf("%q makes %s=%q", text, a.Key, a.Val)
				}
			}
		}
	})
}

// TestExcerpt holds what lists show of a body.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ id, title, body, want string }{
		{"e1", "A title", "A title\n\nand more", "and more"},
		{"e1", "Said", "Something else", "Something else"},
		{"e1", "All of it.", "All of it.", ""},
		{"h1", "Human help: x", "Goal:\nx\n\nRequested action:\ndo y", "do y"},
		{"e1", "Said", "See **the** *first* [guide](https://x.example/a) to `snake_case_names`, 2*3*4 and ~~old~~ _new_.", "See the first guide to snake_case_names, 2*3*4 and old new."},
		{"e1", "**Bold** words", "**Bold** words\n\nand more", "and more"},
		{"e1", "T", strings.Repeat("ü", excerptRunes+1), strings.Repeat("ü", excerptRunes) + "…"},
	} {
		e := entry{Job: client.Job{Entry: client.Entry{ID: test.id, Title: test.title, Body: test.body}}}
		check.Equal(t, e.Excerpt(), test.want, "%q", test.body)
	}
}
