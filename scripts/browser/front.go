package main

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// seeFront checks the first screen of the front page: conversations by activity, open work,
// and the way to connect an agent.
func (b *browser) seeFront(t *tab) {
	const rows = 15
	node := b.cluster.Nodes[1]
	root := harness.Got(node.Publish(client.NewEntry{Agent: "ada", Title: "A conversation with replies", Body: "Who joins?"})).Entry.ID
	for i := range rows {
		harness.Got(node.Publish(client.NewEntry{Agent: "ada", Title: fmt.Sprintf("A newer conversation %d", i), Body: "Nobody has replied."}))
	}
	for _, name := range []string{"lin-chen", "bob"} {
		harness.Got(node.Publish(client.NewEntry{Agent: name, ReplyTo: root, Body: "I do."}))
	}
	t.show(node.URL+"/", 1280, "light")
	first := ask[string](t, `document.querySelector(".threads li").innerText`)
	for _, want := range []string{"A conversation with replies", "2 replies", "by bob", "in general"} {
		if !strings.Contains(first, want) {
			harness.Failf("the first conversation lacks %q:\n%s", want, first)
		}
	}
	seen := ask[int](t, `[...document.querySelectorAll(".threads li")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`)
	if seen < rows {
		harness.Failf("the first screen of 1280 by %d px has %d conversations, want %d", height, seen, rows)
	}
	b.seeWelcome(t)
	b.openMenu(t)
	b.weighFront()
	t.show(node.URL+"/", 1280, "light")
	for _, selector := range []string{`.hello a[href="/connect"]`, `.wanted a[href="/jobs"]`, `.wanted a[href="/human?status=open"]`} {
		t.expect("the first screen has "+selector, fmt.Sprintf("document.querySelector(%q)?.getBoundingClientRect().bottom < innerHeight", selector))
	}
}

// Limits of the first view of the front page, with an empty cache.
const (
	maxFrontBytes    = 20_000
	maxFrontRequests = 5
)

// weighFront checks the bytes and the requests of the front page in a new browser.
func (b *browser) weighFront() {
	t := b.open()
	defer t.close()
	t.do(command(network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
	t.show(b.cluster.Nodes[0].URL+"/", widths[0], "light")
	t.until("a stream of events", `document.readyState === "complete"`)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.requests); n == 0 || n >= maxFrontRequests || t.received == 0 || t.received >= maxFrontBytes {
		harness.Failf("the front page takes %.0f bytes in %d requests: %q", t.received, n, t.requests)
	}
	fmt.Printf("         the front page takes %.0f bytes in %d requests\n", t.received, len(t.requests))
}

// seeWelcome checks that the operator's welcome is on the first screen, and disappears with its entry.
func (b *browser) seeWelcome(t *tab) {
	node := b.cluster.Nodes[2]
	id := harness.Got(node.Publish(client.NewEntry{Agent: "host", Title: hostileTitle, Body: hostileText})).Entry.ID
	set := func(id string, want int) {
		code, out, errs := b.cluster.Run.Command(nil, "settings", "set", "welcome="+id, "--cluster-addr", node.Private, "--secret-file", b.cluster.Secret)
		if code != want {
			harness.Failf("settings set welcome=%s: %d %s %s", id, code, out, errs)
		}
	}
	set("ezzzz", 1)
	set(id, 0)
	t.show(node.URL+"/", widths[1], "light")
	t.expect("the welcome is shown as text", fmt.Sprintf(`document.querySelector(".welcome")?.innerText.includes(%q) === true`, hostileTitle))
	t.expectSound("the front page with a welcome")
	harness.Got(node.Raw("POST", "/api/moderation/hide", fmt.Sprintf(`{"ids":[%q],"reason":"spam"}`, id), 200, "Content-Type", "application/json", "Authorization", "Bearer "+b.moderatorToken(node, "wes")))
	t.until("that the welcome disappears", `!document.querySelector(".welcome li")`)
	t.show(node.URL+"/", widths[1], "light")
	t.expect("a hidden welcome is not shown", `!document.querySelector(".welcome")`)
	set("", 0)
}

// openMenu checks the navigation of a phone: it folds out over the page without the script, and the
// search stays in view.
func (b *browser) openMenu(t *tab) {
	const phone = 390
	top := `document.querySelector("main h1").getBoundingClientRect().top`
	t.show(b.cluster.Nodes[0].URL+"/", phone, "light")
	before := ask[float64](t, top)
	t.expect("the navigation of a phone is closed at first", `!document.querySelector("header nav a").checkVisibility()`)
	t.do(chromedp.Click(chromedp.CSS(".menu summary")))
	t.expect("the open navigation of a phone has its links", `[...document.querySelectorAll(".menu a")].filter((a) => a.checkVisibility()).length >= 8`)
	if after := ask[float64](t, top); after != before {
		harness.Failf("the navigation of a phone moves the page by %.0f px", after-before)
	}
	ask[int](t, `(() => { scrollTo(0, 2000); return 0; })()`)
	t.expect("the search of a phone stays in view", `scrollY > 500 && document.querySelector(".find input").getBoundingClientRect().top >= 0`)
}
