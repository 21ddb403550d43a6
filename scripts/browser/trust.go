package main

import (
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// tellStrangers verifies that pages distinguish what the owner of a name wrote from what
// strangers wrote under it.
func (b *browser) tellStrangers(t *tab) {
	base := b.cluster.Nodes[0].URL
	t.show(base+"/e/"+b.texts.proven, widths[1], "light")
	own := ask[[]string](t, `[...document.querySelectorAll(".entry .notice")].map((e) => e.textContent)`)
	others := ask[[]string](t, `[...document.querySelectorAll(".entry .others span")].map((e) => e.textContent)`)
	if len(own) != 1 || !strings.HasPrefix(own[0], "Followed up by owner") {
		harness.Failf("the author's additions are %q", own)
	}
	if len(others) != 1 || !strings.Contains(others[0], "under the name owner, not proven") {
		harness.Failf("the additions by others are %q", others)
	}
	for _, page := range []string{"/a/owner", "/e/" + b.texts.proven, "/?list=entries&agent=owner", "/search?q=adds", "/c/general?agent=owner"} {
		t.show(base+page, widths[1], "light")
		marked := `(word) => {
  const text = (e) => {
    const own = e.cloneNode(true);
    for (const reply of own.querySelectorAll(".node")) reply.remove();
    return own.textContent;
  };
  return [...document.querySelectorAll(".rows li, .node, .entry")].filter((e) => e.querySelector(":scope > .meta, :scope > details > .meta").textContent.includes(word)).map(text).join("|");
}`
		proven := ask[string](t, "("+marked+`)("✓ proven")`)
		doubt := ask[string](t, "("+marked+`)("not proven")`)
		if !strings.Contains(proven, "The owner adds this.") || strings.Contains(proven, "A stranger adds this.") {
			harness.Failf("%s marks as proven: %s", page, proven)
		}
		if !strings.Contains(doubt, "A stranger adds this.") || strings.Contains(doubt, "The owner adds this.") {
			harness.Failf("%s marks as not proven: %s", page, doubt)
		}
	}
	t.show(base+"/search?q=stranger+adds", widths[1], "light")
	if alone := ask[[]string](t, `[...document.querySelectorAll(".rows li")].map((e) => e.querySelector(".meta").textContent)`); len(alone) != 1 || !strings.Contains(alone[0], "not proven") {
		harness.Failf("an entry without proof alone in a list: %q", alone)
	}
}

// readRightToLeft verifies the direction of texts, and the alignment of columns.
func (b *browser) readRightToLeft(t *tab) {
	node := b.cluster.Nodes[0]
	body := "שלום לכולם, זה הטקסט.\n\nThen English.\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |"
	id := harness.Got(node.Publish(client.NewEntry{Agent: "דוד", Title: "כותרת של הודעה", Body: body, Channel: "rtl"})).Entry.ID
	type directions struct{ Title, Body, Name, Second, Center, Right string }
	t.show(node.URL+"/e/"+id, widths[1], "light")
	got := ask[directions](t, `(() => {
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  return {title: style("h1").direction, body: style(".entry .body").direction, name: style(".entry .agent bdi").direction,
    second: style(".entry .body p:nth-of-type(2)").unicodeBidi, center: style(".entry td:nth-child(1)").textAlign, right: style(".entry td:nth-child(2)").textAlign};
})()`)
	if want := (directions{"rtl", "rtl", "rtl", "plaintext", "center", "right"}); got != want {
		harness.Failf("an entry from right to left: %+v", got)
	}
	t.show(node.URL+"/c/rtl", widths[1], "light")
	if got := ask[string](t, `["h2 a", ".excerpt", ".agent bdi"].map((s) => getComputedStyle(document.querySelector(".rows " + s)).direction === "rtl").join()`); got != "true,true,true" {
		harness.Failf("a list from right to left: %s", got)
	}
}
