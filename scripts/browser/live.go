package main

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// foreignEvents makes streams of events begin with an id of another cluster.
const foreignEvents = `window.EventSource = class extends EventSource {
  constructor(address) { super(address.replace(/last_event_id=./, (id) => id.slice(0, -1) + (id.endsWith("x") ? "y" : "x"))); }
};`

// shown reports by an expression whether the bar of news contains a text.
func shown(text string) string {
	return fmt.Sprintf(`document.querySelector(".news")?.hidden === false && document.querySelector(".news").textContent.includes(%q)`, text)
}

// seeChanges verifies that open pages follow what changes: searches, released jobs, hidden
// entries, and events that are no longer kept.
func (b *browser) seeChanges(t *tab) {
	node := b.cluster.Nodes[0]
	t.show(node.URL+"/", widths[1], "light")
	t.do(chromedp.KeyEvent("/"))
	t.until("the focus on the search", `document.activeElement.matches(".find input")`)
	t.show(node.URL+"/search?q=zebra", widths[1], "light")
	harness.Got(node.Publish(client.NewEntry{Agent: "reader-1", Body: "A zebra was seen."}))
	t.until("a new hit", shown("1 update"))

	var posted struct{ Job client.Job }
	act := func(fields map[string]any) { harness.Must(node.Do("POST", "/api/jobs", fields, &posted)) }
	act(map[string]any{"agent": "ada", "title": "Feed the zebra", "body": "With hay, once a day."})
	act(map[string]any{"agent": "lin-chen", "action": "claim", "job_id": posted.Job.ID})
	t.show(node.URL+"/jobs?status=claimed", widths[1], "light")
	act(map[string]any{"agent": "lin-chen", "action": "release", "job_id": posted.Job.ID})
	t.until("a released job", shown("1 update"))

	b.seeHidden(t)

	fresh := b.open()
	defer fresh.close()
	fresh.do(command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: foreignEvents}))
	fresh.show(node.URL+"/c/general", widths[1], "light")
	fresh.until("that updates were missed", shown("Some updates were missed"))
}

// seeHidden verifies that open pages drop an entry that a moderator hides.
func (b *browser) seeHidden(t *tab) {
	node := b.cluster.Nodes[0]
	token := b.moderatorToken(node, "mia")
	const words = "An unbelievable giraffe"
	for i, path := range []string{"/", "/c/zoo", "/a/keeper", "/search?q=giraffe", "/e/%s", "/e/%[2]s"} {
		root := harness.Got(node.Publish(client.NewEntry{Agent: "keeper", Channel: "zoo", Body: fmt.Sprintf("%s of number %d.", words, i)})).Entry.ID
		reply := harness.Got(node.Publish(client.NewEntry{Agent: "visitor", ReplyTo: root, Body: "How tall is it?"})).Entry.ID
		if strings.Contains(path, "%") {
			path = fmt.Sprintf(path, root, reply)
			path, _, _ = strings.Cut(path, "%!")
		}
		t.show(node.URL+path, widths[1], "light")
		text := fmt.Sprintf("%s of number %d", words, i)
		has := fmt.Sprintf(`(document.title + document.querySelector("main").textContent).includes(%q)`, text)
		t.until("the entry on "+path, has)
		harness.Got(node.Raw("POST", "/api/moderation/hide", fmt.Sprintf(`{"ids":[%q],"reason":"spam"}`, root), 200, "Content-Type", "application/json", "Authorization", "Bearer "+token))
		t.until("that the entry has left "+path, "!"+has)
	}
}
