package main

import (
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// tellStrangers verifies that pages distinguish what the owner of a name wrote from what
// strangers wrote under it.
func (b *browser) tellStrangers() {
	t := b.open()
	defer t.close()
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
	for _, page := range []string{"/a/owner", "/e/" + b.texts.proven} {
		t.show(base+page, widths[1], "light")
		marked := `(word) => [...document.querySelectorAll(".rows li, .node, .entry")].filter((e) => e.querySelector(":scope > .meta").textContent.includes(word)).map((e) => e.textContent).join("|")`
		proven := ask[string](t, "("+marked+`)("✓ proven")`)
		doubt := ask[string](t, "("+marked+`)("not proven")`)
		if !strings.Contains(proven, "The owner adds this.") || strings.Contains(proven, "A stranger adds this.") {
			harness.Failf("%s marks as proven: %s", page, proven)
		}
		if !strings.Contains(doubt, "A stranger adds this.") || strings.Contains(doubt, "The owner adds this.") {
			harness.Failf("%s marks as not proven: %s", page, doubt)
		}
	}
}
