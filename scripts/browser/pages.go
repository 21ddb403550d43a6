package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/scripts/harness"
)

// checks is the script that finds what is wrong with a page.
//
//go:embed checks.js
var checks string

// widths of a phone, a tablet and a wide screen, in CSS pixels.
var widths = []int64{320, 768, 1440}

const (
	height = 900
	// pageTimeout is how long one page may take on a busy machine.
	pageTimeout = 20 * time.Second
	// maxView is how long the first view of a page may be, in bytes.
	maxView = 60_000
)

// browser is a Chromium and the cluster that it tests.
type browser struct {
	cluster *harness.Cluster
	texts   *texts
	process context.Context //nolint:containedctx // the context of the browser's process
}

// tab is a tab of the browser, and what its console said.
type tab struct {
	ctx   context.Context //nolint:containedctx // the context of the tab
	close context.CancelFunc

	mu       sync.Mutex
	errors   []string
	requests []string
	received float64 // bytes
}

// open opens a tab.
func (b *browser) open() *tab {
	ctx, end := chromedp.NewContext(b.process)
	t := &tab{ctx: ctx, close: end}
	harness.Must(chromedp.Listen(ctx, func(event any) {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.errors = append(t.errors, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				t.errors = append(t.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			t.errors = append(t.errors, fmt.Sprintf("console: %v", e.Args))
		case *network.EventLoadingFinished:
			t.received += e.EncodedDataLength
		case *network.EventRequestWillBeSent:
			t.requests = append(t.requests, e.Request.URL)
		}
	}))
	t.do(command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}))
	return t
}

// command is a command of the protocol as an action.
func command[Params, Answer any](c cdp.Command[Params, Answer], params Params) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// do carries actions out, or ends the run.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
	defer cancel()
	harness.Must(chromedp.Do(ctx, actions...))
}

// show is the actions that show a page at a width and in a theme.
func (t *tab) show(address string, width int64, theme string) {
	t.do(
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		}),
		chromedp.Navigate(address),
	)
}

// ask returns the value of an expression.
func ask[T any](t *tab, expression string) (value T) {
	ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
	defer cancel()
	return harness.Got(chromedp.Run(ctx, chromedp.Evaluate[T](expression)))
}

// until waits for an expression to be true.
func (t *tab) until(what, expression string) {
	harness.Must(await.Until(t.ctx, pageTimeout, 50*time.Millisecond, func() error {
		if ask[bool](t, expression) {
			return nil
		}
		return errors.New(what + " is not to be seen")
	}))
}

// said returns and clears the console's messages and the requests to other sites.
func (t *tab) said(base string) (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = t.errors
	for _, address := range t.requests {
		if !strings.HasPrefix(address, base+"/") && !strings.HasPrefix(address, "data:") { // those are the browser's own icons
			all = append(all, "a request to "+address)
		}
	}
	t.errors, t.requests, t.received = nil, nil, 0
	return all
}

// expect ends the run unless an expression is true.
func (t *tab) expect(what, expression string) {
	if !ask[bool](t, expression) {
		harness.Failf("not true of %s: %s", ask[string](t, "location.href"), what)
	}
}

// expectSound ends the run if the checks find something in the page.
func (t *tab) expectSound(state string) {
	if found := ask[[]string](t, checks); len(found) > 0 {
		harness.Failf("%s: %s", state, strings.Join(found, "\n"))
	}
}

// expectQuiet ends the run if the console has messages, or if there were requests to other sites.
func (t *tab) expectQuiet(state, base string) {
	if said := t.said(base); len(said) > 0 {
		harness.Failf("%s: %s", state, strings.Join(said, "\n"))
	}
}

// expectForgotten ends the run if the browser keeps a moderator's token.
func (t *tab) expectForgotten() {
	if kept := ask[string](t, `JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + location.href`); strings.Contains(kept, "cmod_") {
		harness.Failf("the browser keeps %s", kept)
	}
}

// paths are all pages.
func (b *browser) paths() []string {
	return []string{
		"/", "/?list=entries", "/channels", "/c/general", "/e/" + b.texts.question, "/e/" + b.texts.knowledge, "/e/" + b.texts.retracted, "/e/" + b.texts.help,
		"/e/" + b.texts.job, "/agents", "/a/ada", "/jobs?status=all", "/human", "/search?q=raft", "/stats", "/report?entry=e1", "/connect", "/cluster",
		"/docs", "/docs/publish", "/search?q=nothing-like-that",
	}
}

// bad is a page in which checks must find everything in badness.
const bad = `<!doctype html><title> </title><body style="width:3000px"><header></header><main><h1>A</h1><h3>B</h3><p style="color:#999;background:#fff">pale</p>` +
	`<p style="font-size:9px">small</p><input><a href="#x"></a><svg></svg><p id="i"></p><p id="i"></p><label for="none">L</label><nav></nav><table><tr><td>1</td></tr></table>` +
	`<label for="i" style="display:block;width:1px;overflow-wrap:anywhere">broken</label>` +
	`<p class="meta" style="font-size:12px;line-height:1"><a href="#x">a small target</a></p>` +
	`<button tabindex="3" style="height:10px;padding:0;font-size:9px">b</button></main>`

var badness = []string{
	"no language", "no title", "0 of body > footer", "level 3 behind one of 1", "navigations named", "the id i stands twice", "which is not there",
	"no name: <input>", `no name: <a href="#x">`, "a picture without a role", "a tab order of its own", "a table without headings", "contrast 2.8", "text of 9 px",
	"wider than the screen", "px high: <button>", "px high: <a>", "a broken word: <label",
}

// checkChecks verifies that the checks find the faults of a bad page.
func (b *browser) checkChecks(t *tab) {
	t.show("data:text/html,"+url.PathEscape(bad), widths[0], "light")
	found := strings.Join(ask[[]string](t, checks), "\n")
	for _, want := range badness {
		if !strings.Contains(found, want) {
			harness.Failf("the checks do not find %q in a bad page:\n%s", want, found)
		}
	}
}

// lookAtPages looks at every page at every width and in both themes.
func (b *browser) lookAtPages(t *tab) {
	base := b.cluster.Nodes[0].URL
	var wrong []string
	for _, path := range slices.Concat(b.paths(), b.texts.wide, b.texts.hostile) {
		for _, width := range widths {
			for _, theme := range []string{"light", "dark"} {
				t.show(base+path, width, theme)
				for _, problem := range append(ask[[]string](t, checks), t.said(base)...) {
					if strings.Contains(problem, "status of 4") && strings.HasSuffix(problem, base+path) { // an invalid path or name
						continue
					}
					wrong = append(wrong, fmt.Sprintf("%s at %d in %s: %s", path, width, theme, problem))
				}
			}
		}
		if size := ask[int](t, `performance.getEntriesByType("navigation")[0].transferSize`); size == 0 || size > maxView {
			wrong = append(wrong, fmt.Sprintf("%s: the first view has %d bytes", path, size))
		}
		wrong = append(wrong, t.tabThrough(path)...)
	}
	if len(wrong) > 0 {
		harness.Failf("%d problems:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 40)], "\n"))
	}
}

// maxTabs is how many controls are gone through on a page.
const maxTabs = 14

// focusedNow describes the element with the focus: its place in the document, whether it
// is visible, and whether the focus is visible.
const focusedNow = `(() => {
  const e = document.activeElement, style = getComputedStyle(e), r = e.getBoundingClientRect();
  const all = [...document.querySelectorAll("a[href],button,input:not([type=hidden]),select,textarea,summary,[tabindex='0']")];
  return {place: all.indexOf(e), seen: r.width > 0 && r.right > 0 && r.bottom > 0, shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, name: e.outerHTML.slice(0, 80)};
})()`

// tabThrough goes through the controls of a page with the keyboard.
func (t *tab) tabThrough(path string) (wrong []string) {
	last := -1
	for range maxTabs {
		t.do(chromedp.KeyEvent(kb.Tab))
		at := ask[struct {
			Place       int
			Seen, Shown bool
			Name        string
		}](t, focusedNow)
		switch {
		case at.Place == -1:
			return wrong // the end of the page
		case at.Place <= last:
			return append(wrong, fmt.Sprintf("%s: the focus goes back, to %s", path, at.Name))
		case !at.Seen || !at.Shown:
			wrong = append(wrong, fmt.Sprintf("%s: the focus is not to be seen on %s", path, at.Name))
		}
		last = at.Place
	}
	return wrong
}

// readHostileTexts verifies that what strangers write stays text.
func (b *browser) readHostileTexts(t *tab) {
	base := b.cluster.Nodes[0].URL
	for _, path := range b.texts.hostile {
		t.show(base+path, widths[1], "light")
		// Move the mouse over every element.
		ask[int](t, `(() => { for (const e of document.querySelectorAll("main *")) e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); return 0; })()`)
		t.expect("no text has run", "window.owned === undefined")
		found := ask[[]string](t, `[...document.querySelectorAll("main script, main img, main style, main base, main svg, main b[onmouseover], [onclick], [onerror], a[href^='javascript:' i]")].map((e) => e.outerHTML)`)
		for _, said := range t.said(base) {
			if !strings.Contains(said, "status of 4") { // pages of an invalid name and an invalid path
				found = append(found, said)
			}
		}
		if len(found) > 0 {
			harness.Failf("%s: %s", path, strings.Join(found, "\n"))
		}
	}
}

// answerRequest answers a request for human help, as a person does.
func (b *browser) answerRequest(t *tab) {
	base := b.cluster.Nodes[1].URL
	t.show(base+"/e/"+b.texts.help, widths[0], "light")
	t.do(
		chromedp.SendKeys(chromedp.CSS("#agent"), "A person"), chromedp.SendKeys(chromedp.CSS("#body"), "It says: **mind the step**."),
		chromedp.Click(chromedp.CSS("#form button")),
	)
	t.until("the answer", `!!document.querySelector(".entry .body strong")?.textContent.includes("mind the step")`)
	t.expectQuiet("the form", base)
	answers := harness.Got(b.cluster.Nodes[1].List(0, client.EntryQuery{ReplyTo: b.texts.help}))
	if len(answers) != 1 || answers[0].Agent != "A-person" {
		harness.Failf("the answers are %+v", answers)
	}
}

// seeNews verifies that a page says what was published at another node.
func (b *browser) seeNews(t *tab) {
	t.show(b.cluster.Nodes[0].URL+"/c/general", widths[2], "light")
	harness.Got(b.cluster.Nodes[2].Publish(client.NewEntry{Agent: "reader-1", Channel: "general", Body: "Something new for whoever looks."}))
	t.until("something new", `document.querySelector(".news")?.hidden === false`)
	t.do(chromedp.Click(chromedp.CSS(".news a")))
	t.until("the new entry", `!!document.querySelector(".rows")?.textContent.includes("Something new for whoever looks.")`)
}

// showDetails verifies that the page of the cluster shows a moderator what strangers do
// not see, for as long as the token is kept, and accepts no other token.
func (b *browser) showDetails(t *tab) {
	node := b.cluster.Nodes[0]
	token := b.moderatorToken(node, "jo")
	t.show(node.URL+"/cluster", widths[0], "light")
	const shown, hidden = `document.querySelectorAll("#details tbody tr").length === 3 && !document.querySelector("#details").hidden`, `document.querySelector("#details").hidden`
	t.until("that strangers see no details", hidden)
	send := func(text string) {
		t.do(chromedp.SendKeys(chromedp.CSS("#token"), text), chromedp.Click(chromedp.CSS("#token-form button")))
	}
	send("cmod_wrong")
	t.until("that a wrong token is rejected", `document.querySelector("#token-note").textContent.includes("no moderator's token")`)
	send(token)
	t.until("the details", shown)
	t.expectSound("the page with details")
	t.expect("the first node is n1", `document.querySelector("#details tbody tr").cells[1].textContent.startsWith("n1-")`)
	t.show(node.URL+"/cluster", widths[2], "dark") // the tab keeps it
	t.until("the details again", shown)
	t.do(chromedp.Click(chromedp.CSS("#forget")))
	t.until("that the token is forgotten", hidden)
	t.expectForgotten()
}

// moderatorToken returns a token of a new moderator, which this node knows.
func (b *browser) moderatorToken(node *harness.Node, name string) string {
	code, out, errs := b.cluster.Run.Command(nil, "mod", "token", "create", name, "--role", "purge", "--cluster-addr", node.Private, "--secret-file", b.cluster.Secret)
	token := regexp.MustCompile(`cmod_\S+`).FindString(out)
	if code != 0 || token == "" {
		harness.Failf("mod token create: %d %s %s", code, out, errs)
	}
	return token
}

// watchKill verifies that the page of the cluster shows that a node was killed, and that
// it is back.
func (b *browser) watchKill(t *tab) {
	leader, others := b.cluster.Leader()
	t.show(others[0].URL+"/cluster", widths[2], "dark")
	health := func(want string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-cluster] tbody tr")].some((r) => r.cells[0].textContent === %q && r.cells[1].textContent === %q)`, leader.Name, want)
	}
	t.until("a healthy leader", health("healthy"))
	leader.Kill()
	killed := time.Now()
	t.until("that it is away", health("away"))
	fmt.Printf("         a killed node is seen away after %.1f s\n", time.Since(killed).Seconds())
	t.until("the next leader", `[...document.querySelectorAll("[data-cluster] tbody tr")].some((r) => r.cells[2].textContent === "leader" && r.cells[1].textContent === "healthy")`)
	leader.Start()
	t.until("that it is back", health("healthy"))
	t.expectQuiet("the page of the cluster", others[0].URL)
	others[0].Kill()
	t.until("that the table is not current", `[...document.querySelectorAll("[data-cluster] .mark")].every((e) => e.textContent === "unknown") && document.querySelector("#live-note").textContent.includes("not current")`)
	others[0].Start()
	t.until("a current table", health("healthy"))
}
