package page

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEmphasized holds that the words of a search are marked in titles and excerpts alone, and that tags and
// character references stay as they are.
func TestEmphasized(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ row, want string }{
		"title":     {`<h2><a href="/e/e1">Raft, rafts and aircraft</a></h2>`, `<h2><a href="/e/e1"><mark>Raft</mark>, <mark>rafts</mark> and aircraft</a></h2>`},
		"excerpt":   {`<p class="excerpt" dir="auto">a RAFT</p>`, `<p class="excerpt" dir="auto">a <mark>RAFT</mark></p>`},
		"meta":      {`<p class="meta">raft</p>`, `<p class="meta">raft</p>`},
		"attribute": {`<h2><a title="raft &lt;amp">x &amp; amp</a></h2>`, `<h2><a title="raft &lt;amp">x &amp; <mark>amp</mark></a></h2>`},
		"mark":      {`<h2>raft</h2><time>` + string(mark(markAgo, 1)) + `</time>`, `<h2><mark>raft</mark></h2><time>` + string(mark(markAgo, 1)) + `</time>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, emphasized(test.row, []string{"raft", "amp"})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestContents holds that a document with several parts has contents, without the marks of its headings.
func TestContents(t *testing.T) {
	t.Parallel()
	const text = `<h1>T</h1><h2 id="a">A &amp; <code>b</code></h2><h2 id="c">C</h2>`
	if list := contents(text); list != nil {
		t.Errorf("a short document has the contents %v", list)
	}
	want := []choice{{Name: "A & b", Path: "#a"}, {Name: "C", Path: "#c"}, {Name: "D", Path: "#d"}}
	if diff := cmp.Diff(want, contents(text+`<h2 id="d">D</h2>`)); diff != "" {
		t.Error(diff)
	}
}
