package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// readConversation reads a long conversation with deep replies from its beginning.
func (b *browser) readConversation(t *tab) {
	const replies, deep = 120, 7
	node := b.cluster.Nodes[0]
	post := func(agent, to, body string) string {
		return harness.Got(node.Publish(client.NewEntry{Agent: agent, ReplyTo: to, Body: body})).Entry.ID
	}
	root := harness.Got(node.Publish(client.NewEntry{Agent: "ada", Title: "A long conversation", Body: "Who has something to add?"})).Entry.ID
	last := root
	for i := range deep {
		last = post("bob", last, fmt.Sprintf("Level %d of the conversation.", i+1))
	}
	for i := range replies {
		post(fmt.Sprintf("reader-%d", i%7), root, fmt.Sprintf("Remark %d.", i+1))
	}
	t.show(node.URL+"/e/"+root, pictureWidths[1], "light")
	t.expect("it begins with the first replies", `document.querySelectorAll(".node .body")[0].textContent.includes("Level 1 ")`)
	t.expect("it says which part it shows", `document.querySelector("#conversation-title").textContent.includes("127 replies, entries 1 to 100")`)
	t.expect("replies are indented to four levels", `(() => {
  const left = [...document.querySelectorAll(".node")].slice(1, 8).map((e) => e.getBoundingClientRect().left);
  return left[0] < left[1] && left[1] < left[2] && left[4] === left[6];
})()`)
	t.expect("a reply names its parent in a line", `[...document.querySelectorAll(".node summary")].some((e) => e.textContent.includes("bob: Level 6 of the conversation."))`)
	t.do(chromedp.Click(chromedp.CSS(".node .node summary")))
	t.expect("a reply folds with its own", `!document.querySelectorAll(".node .node .node .body")[0].checkVisibility()`)
	t.do(chromedp.Click(chromedp.CSS(`#conversation a[rel="next"]`)))
	t.until("the next part", `!!document.querySelector("#conversation-title")?.textContent.includes("entries 101 to 128")`)
	t.show(node.URL+"/e/"+last, pictureWidths[0], "light")
	t.expect("a deep reply links to the beginning", fmt.Sprintf(`[...document.querySelectorAll(".entry .meta a")].some((a) => a.pathname === "/e/%s" && a.textContent === "A long conversation")`, root))
	t.show(node.URL+"/e/"+b.texts.job, pictureWidths[0], "light")
	t.expect("a job has a timeline", `document.querySelectorAll(".timeline li").length === 2 && document.querySelector(".timeline li:last-child").textContent.startsWith("claimed by lin-chen")`)
}

// search reads results: their number, marked words, filters to remove, orders, and links where there
// is no result.
func (b *browser) search(t *tab) {
	base := b.cluster.Nodes[0].URL
	t.show(base+"/search?q=small+model&channel=runs", pictureWidths[1], "light")
	t.expect("the number of results", `/^\d+ results$/.test(document.querySelector(".hint").textContent)`)
	t.expect("words are marked", `[...document.querySelectorAll(".rows mark")].some((e) => e.textContent === "small")`)
	t.expect("two orders", `document.querySelectorAll('.tabs[aria-label="Order"] a').length === 2`)
	t.do(chromedp.Click(chromedp.CSS(".chips a")))
	t.until("the search without its filter", `!document.querySelector(".chips") && !location.search.includes("runs") && document.querySelectorAll(".rows li").length > 12`)
	t.show(base+"/search?q=zzz+model&channel=runs", pictureWidths[0], "light")
	t.expect("other searches are proposed", `document.querySelectorAll(".empty a").length === 3`)
}

// readDocuments checks contents and examples of the documents, and that the navigation does not shift.
func (b *browser) readDocuments(t *tab) {
	base := b.cluster.Nodes[0].URL
	t.show(base+"/docs/publish", pictureWidths[1], "light")
	t.expect("contents", `[...document.querySelectorAll(".contents a")].every((a) => document.getElementById(decodeURIComponent(a.hash.slice(1)))) && document.querySelectorAll(".contents a").length > 2`)
	t.expect("examples can be copied", `document.querySelectorAll(".copied button").length === document.querySelectorAll(".document pre").length`)
	const bar = `JSON.stringify([...document.querySelectorAll(".top nav a, .top .find")].map((e) => Math.round(e.getBoundingClientRect().left)))`
	want := ask[string](t, bar)
	for _, path := range []string{"/", "/channels", "/e/" + b.texts.question, "/search?q=nothing-like-that", "/cluster"} {
		t.show(base+path, pictureWidths[1], "light")
		if got := ask[string](t, bar); got != want {
			harness.Failf("the navigation of %s shifts: %s, want %s", path, got, want)
		}
	}
}

// sendForms writes by the forms as people do: again after going back, under a name that needs a key,
// and from a page of another site.
func (b *browser) sendForms(t *tab) {
	node := b.cluster.Nodes[2]
	written := func(want int) {
		if got := len(harness.Got(node.List(0, client.EntryQuery{Channel: "forms"}))); got != want {
			harness.Failf("%d entries were published by forms, want %d", got, want)
		}
	}
	fill := func(body string) {
		t.do(chromedp.SetValue(chromedp.CSS("#channel"), "forms"), chromedp.SetValue(chromedp.CSS("#body"), body), chromedp.Click(chromedp.CSS("#form .buttons button:last-child")))
	}
	const key = `document.querySelector("[name=request_id]").value`
	t.show(node.URL+"/connect", pictureWidths[0], "light")
	first := ask[string](t, key)
	fill("The first text of a person.")
	t.until("the first text", `!!document.querySelector(".entry")?.textContent.includes("The first text of a person.")`)
	t.show(node.URL+"/connect", pictureWidths[0], "light")
	ask[string](t, fmt.Sprintf("%s = %q", key, first)) // as after going back
	fill("Another text of the same person.")
	t.until("the second text", `!!document.querySelector(".entry")?.textContent.includes("Another text of the same person.")`)
	written(2)

	harness.Must(node.Do("POST", "/api/agents", map[string]any{"id": "keeper-of-keys", "description": "Has a key.", "protected": true}, nil))
	t.show(node.URL+"/connect", pictureWidths[0], "light")
	t.do(chromedp.SetValue(chromedp.CSS("#agent"), "keeper-of-keys"))
	fill("A text under a name that has an owner.")
	t.until("the problem at the field of the key", `document.querySelector("#edit_key")?.getAttribute("aria-invalid") === "true"`)
	t.expect("the text is kept", `document.querySelector("#body").value === "A text under a name that has an owner."`)
	t.expect("the field of the key is proposed, and no header", `!document.querySelector("[role=alert]").textContent.includes("Authorization")`)
	written(2)

	foreign := fmt.Sprintf(`<form method="post" action="%s/publish"><input name="channel" value="forms"><input name="body" value="Written by another site."><button>Win</button></form>`, node.URL)
	t.show("data:text/html,"+url.PathEscape(foreign), pictureWidths[1], "light")
	t.do(chromedp.Click(chromedp.CSS("button")))
	t.until("that it asks first", `document.querySelector("h1")?.textContent === "Did you want to write this?"`)
	written(2)

	for path, want := range map[string]string{"/e/ezzzzz": "Not found", "/nowhere": "Not found", "/jobs?status=none": "This needs a correction"} {
		t.show(node.URL+path, pictureWidths[0], "light")
		text := ask[string](t, `document.querySelector("main").innerText`)
		for _, never := range []string{"/api/", "Unprocessable", "The example"} {
			if !strings.HasPrefix(text, want) || strings.Contains(text, never) {
				harness.Failf("%s says %q", path, text)
			}
		}
	}
}
