package main

import (
	"encoding/json"
	"fmt"

	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// flood is the number of entries that a moderator marks at once: more than one call takes.
const flood = 105

// moderate verifies that a moderator sees reports and hostile texts as text, is told of new ones,
// notes something on a sender, hides a reported entry, blocks its sender and settles its report in
// one step, then the name of a channel, then all of a selection.
func (b *browser) moderate(t *tab) {
	node := b.cluster.Nodes[0]
	token := b.moderatorToken(node, "max")
	publish := func(n int) string {
		return harness.Got(node.Publish(client.NewEntry{Agent: "spammer", Channel: "bazaar", Title: hostileTitle, Body: fmt.Sprint(hostileText, " number ", n)})).Entry.ID
	}
	reported, other := publish(1), publish(2)
	for n := range flood {
		harness.Got(node.Publish(client.NewEntry{Agent: "flooder", Body: fmt.Sprint("One of many, number ", n)}))
	}
	harness.Got(node.Raw("POST", "/api/reports", fmt.Sprintf(`{"entry_id":%q,"reason":"spam","text":%q}`, reported, hostileTitle), 201, "Content-Type", "application/json"))

	t.show(node.URL+"/moderate", widths[1], "light")
	check := func(state string) {
		t.expectSound("the page for moderators " + state)
		t.expectQuiet("the page for moderators "+state, node.URL)
		t.expect("no text has run "+state, `window.owned === undefined && !document.querySelector("main img, #mod-rows script")`)
	}
	t.until("the question for the token", `!document.querySelector("#mod-token").hidden && document.querySelector("#mod-work").hidden`)
	check("without a token")
	t.do(chromedp.SendKeys(chromedp.CSS("#mod-key"), token), chromedp.Click(chromedp.CSS("#mod-token button")))
	has := func(id string) string {
		return fmt.Sprintf(`!!document.querySelector('#mod-rows input[value=%q]')`, id)
	}
	t.until("the reported entry", has(reported)+` && document.querySelector("#mod-rows").textContent.includes("<script>window.owned=1")`)
	check("with reports")
	t.seeNews(node, reported, has)
	check("with a reported name")

	note := func(what, text string) {
		t.until(what, fmt.Sprintf(`document.querySelector("#mod-note").textContent.includes(%q)`, text))
	}
	ask[int](t, fmt.Sprintf(`(document.querySelector('#mod-rows input[value=%q]').checked = true, document.querySelector("#mod-block").value = "1h", 0)`, reported))
	t.do(chromedp.SendKeys(chromedp.CSS("#mod-reason"), "Advertisement"), chromedp.Click(chromedp.CSS("#mod-act button")))
	note("that the entry is hidden", "1 of 1 changed, 1 senders blocked. 1 reports resolved.")
	t.until("that its report is settled", "!"+has(reported))
	ask[int](t, `(document.querySelector('#mod-rows input[value="#bazaar"]').checked = true, document.querySelector("#mod-block").value = "", 0)`)
	t.do(chromedp.Click(chromedp.CSS("#mod-act button")))
	note("that the name is hidden", "1 of 1 changed, 0 senders blocked. 1 reports resolved.")

	t.do(chromedp.SendKeys(chromedp.CSS("#mod-agent"), "spammer"))
	ask[int](t, `(window.confirm = () => true, document.querySelector("#mod-list").value = "entries", document.querySelector("#mod-to").value = "all", document.querySelector("#mod-block").value = "", 0)`)
	t.do(chromedp.Click(chromedp.CSS("#mod-filters button")))
	t.until("the author's entries", has(reported)+" && "+has(other))
	check("with entries")
	t.do(chromedp.Click(chromedp.CSS("#mod-act button")))
	note("that the other one is hidden", "1 of 1 changed, 0 senders blocked.")
	if left := harness.Got(node.List(0, client.EntryQuery{Agent: "spammer"})); len(left) > 0 {
		harness.Failf("%d entries are not hidden", len(left))
	}
	t.hideFlood(note)
	harness.Got(node.Raw("POST", "/api/moderation/purge", fmt.Sprintf(`{"ids":[%q],"reason":"An address"}`, other), 200, "Content-Type", "application/json", "Authorization", "Bearer "+b.moderatorToken(node, "kim")))
	ask[int](t, `(document.querySelector("#mod-list").value = "waiting", 0)`)
	t.do(chromedp.Click(chromedp.CSS("#mod-filters button")))
	t.until("the purge that waits", fmt.Sprintf(`document.querySelector("#mod-rows").textContent.includes("waiting for confirmation · by kim") && document.querySelector("#mod-rows").textContent.includes(%q)`, other))
	check("with a purge that waits")
	t.do(chromedp.Click(chromedp.CSS("#mod-rows button")))
	note("that the other one is erased", "1 of 1 erased.")
	t.do(chromedp.Click(chromedp.CSS("#mod-forget")))
	t.until("that the token is forgotten", `document.querySelector("#mod-rows").childElementCount === 0`)
	t.expectForgotten()
	liftRules(node, token)
}

// hideFlood marks all entries of a flood, and hides them.
func (t *tab) hideFlood(note func(what, text string)) {
	ask[int](t, `(document.querySelector("#mod-agent").value = "flooder", document.querySelector("#mod-to").value = "marked", 0)`)
	t.do(chromedp.Click(chromedp.CSS("#mod-filters button")))
	rows := func(n int) string {
		return fmt.Sprintf(`document.querySelector("#mod-rows").childElementCount === %d`, n)
	}
	for n := 50; n < flood; n += 50 {
		t.until("a page of the flood", rows(n)+` && !document.querySelector("#mod-more").disabled`)
		t.do(chromedp.Click(chromedp.CSS("#mod-more")))
	}
	t.until("all of the flood", rows(flood))
	ask[int](t, `(document.querySelectorAll("#mod-rows input").forEach((mark) => { mark.checked = true; }), 0)`)
	t.do(chromedp.Click(chromedp.CSS("#mod-act button")))
	note("that the flood is hidden", fmt.Sprintf("%d of %d changed", flood, flood))
}

// liftRules ends all rules of moderators: the other scenarios write from the same address.
func liftRules(node *harness.Node, token string) {
	var rules struct{ Rules []struct{ Number uint64 } }
	as := []string{"Content-Type", "application/json", "Authorization", "Bearer " + token}
	harness.Must(json.Unmarshal(harness.Got(node.Raw("GET", "/api/moderation/rules", "", 200, as...)).Body, &rules))
	for _, r := range rules.Rules {
		harness.Got(node.Raw("POST", "/api/moderation/lift", fmt.Sprintf(`{"number":%d}`, r.Number), 200, as...))
	}
}

// seeNews verifies that a moderator is told of a new report while the list stays, and notes
// something on the sender of a reported entry.
func (t *tab) seeNews(node *harness.Node, reported string, has func(id string) string) {
	harness.Got(node.Raw("POST", "/api/reports", `{"channel":"bazaar","reason":"other","text":"An unkind name"}`, 201, "Content-Type", "application/json"))
	t.until("that there is a new report", `document.querySelector("#mod-news").textContent === "1 new report: show"`)
	t.expect("the list does not move under the reader", "!"+has("#bazaar"))
	t.do(chromedp.Click(chromedp.CSS("#mod-news")))
	t.until("the reported name", has("#bazaar")+" && "+has(reported))
	ask[int](t, fmt.Sprintf(`(window.prompt = () => "Writes at night",
		[...document.querySelector('#mod-rows input[value=%q]').closest("li").querySelectorAll("button")].find((b) => b.textContent === "Note").click(), 0)`, reported))
	t.until("the note", `document.querySelector("#mod-rows").textContent.includes("Note on the sender by max: Writes at night")`)
}
