// Package page_test looks at the pages with a real Chromium: every page at three widths and in
// both themes, the needs of people without a mouse or without sight, news, texts that try to act
// as markup or code, and the forms. With -shots it writes pictures of the pages.
package page_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
)

var shots = flag.String("shots", "", "write pictures of the pages to this directory")

// chromium returns the path of the browser. Without one the test is skipped, except in CI.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("COMMONS_CHROMIUM"); path != "" {
		return path
	}
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("CI needs chromium for the pages")
	} else if err != nil {
		t.Skip("the pages need chromium")
	}
	return path
}

// TestPagesInChromium looks at the pages, and does there what people do.
func TestPagesInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at all pages: long")
	}
	settings := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	allocated, end := chromedp.NewExecAllocator(t.Context(), settings...)
	defer end()
	process, end := chromedp.NewContext(allocated) // its tabs share one process
	defer end()
	must.Do(t, chromedp.Do(process))
	s := apitest.Start(t, apitest.NewBackend(t))
	hash := sha256.Sum256([]byte(moderatorToken))
	s.Backend.Apply(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: "mia", Token: hash[:], For: command.TokenMillis})
	b := &browser{site: site{t.Context(), s}, process: process, checks: string(must.Get(os.ReadFile("testdata/checks.js"))(t))}
	b.texts = publish(t, b.site)
	for _, scenario := range []struct {
		name string
		run  func(*browser, *tab)
	}{
		{"checks", (*browser).checkChecks},
		{"pages", (*browser).lookAtPages},
		{"front", (*browser).seeFront},
		{"lists", (*browser).seeLists},
		{"conversation", (*browser).seeConversation},
		{"boards", (*browser).seeBoards},
		{"connect", (*browser).runExamples},
		{"documents", (*browser).readDocuments},
		{"direction", (*browser).readRightToLeft},
		{"hostile", (*browser).readHostileTexts},
		{"answer", (*browser).answerRequest},
		{"news", (*browser).seeNews},
		{"changes", (*browser).seeChanges},
		{"weight", (*browser).weighFront},
		{"cluster", (*browser).seeCluster},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			tab := b.open(t)
			defer tab.close()
			scenario.run(b, tab)
		})
	}
}

// moderatorToken is the token of a moderator.
const moderatorToken = "cmod_mia"

// site is a node.
type site struct {
	context.Context //nolint:containedctx // of the test
	*apitest.Server
}

func (s site) client() *client.Client {
	c, err := client.New(client.Config{URLs: []string{s.URL}, KeyOverHTTP: true, Patience: -1})
	if err != nil {
		panic(err) // of a bad address
	}
	return c
}

// Publish publishes an entry.
func (s site) Publish(e client.NewEntry) (client.Published, error) { return s.client().Publish(s, e) }

// Post sends an object, and reads the answer.
func (s site) Post(path string, body, into any) error {
	return s.client().Do(s, http.MethodPost, path, body, into)
}

// hide hides an entry, as the moderator.
func (s site) hide(id string) error {
	res, err := raw.Do(s, http.DefaultClient, http.MethodPost, s.URL+"/api/moderation/hide", fmt.Sprintf(`{"ids":[%q],"reason":"spam"}`, id), "Authorization", "Bearer "+moderatorToken)
	if err == nil && res.Status != http.StatusOK {
		err = fmt.Errorf("hide %s: %d %s", id, res.Status, res.Body)
	}
	return err
}

// widths of a phone, of 1280 pixels at 200 %, and of a wide screen, in CSS pixels.
var widths = []int64{320, 640, 1440}

// pictureWidths are the widths of a phone and of a screen, in CSS pixels.
var pictureWidths = []int64{390, 1280}

const (
	height = 900
	// pageTimeout is how long one page may take on a busy machine.
	pageTimeout = 20 * time.Second
	// maxView is how long the first view of a page may be, in bytes.
	maxView = 60_000
)

// browser is a Chromium and the node that it tests.
type browser struct {
	site    site
	checks  string // the script that finds what is wrong with a page
	texts   *texts
	process context.Context //nolint:containedctx // the context of the browser's process
}

// tab is a tab of the browser, and what its console said.
type tab struct {
	*testing.T

	checks string
	ctx    context.Context //nolint:containedctx // the context of the tab
	close  context.CancelFunc

	mu       sync.Mutex
	errors   []string
	requests []string
	received float64 // bytes
}

// open opens a tab.
func (b *browser) open(test *testing.T) *tab {
	test.Helper()
	ctx, end := chromedp.NewContext(b.process)
	t := &tab{T: test, checks: b.checks, ctx: ctx, close: end}
	must.Do(t, chromedp.Listen(ctx, func(event any) {
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
	t.do(protocol(log.Enable, cdp.Empty{}), protocol(network.Enable, network.EnableParams{}), protocol(runtime.Enable, cdp.Empty{}))
	return t
}

// protocol is a command of the protocol as an action.
func protocol[Params, Answer any](c cdp.Command[Params, Answer], params Params) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// do carries actions out, or ends the run.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
	defer cancel()
	must.Do(t, chromedp.Do(ctx, actions...))
}

// show is the actions that show a page at a width and in a theme.
func (t *tab) show(address string, width int64, theme string) {
	t.do(
		protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}),
		protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		}),
		chromedp.Navigate(address),
	)
}

// ask returns the value of an expression.
func ask[T any](t *tab, expression string) (value T) {
	ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
	defer cancel()
	return must.Get(chromedp.Run(ctx, chromedp.Evaluate[T](expression)))(t)
}

// until waits for an expression to be true.
func (t *tab) until(what, expression string) {
	must.Do(t, await.Until(t.ctx, pageTimeout, 50*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
		defer cancel()
		if seen, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err != nil || !seen {
			return fmt.Errorf("%s is not to be seen: %w", what, cmp.Or(err, errors.New("the page is another"))) // an error comes while a page is left
		}
		return nil
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
		t.Fatalf("not true of %s: %s", ask[string](t, "location.href"), what)
	}
}

// expectSound ends the run if the checks find something in the page.
func (t *tab) expectSound(state string) {
	if found := ask[[]string](t, t.checks); len(found) > 0 {
		t.Fatalf("%s: %s", state, strings.Join(found, "\n"))
	}
}

// expectQuiet ends the run if the console has messages, or if there were requests to other sites.
func (t *tab) expectQuiet(state, base string) {
	if said := t.said(base); len(said) > 0 {
		t.Fatalf("%s: %s", state, strings.Join(said, "\n"))
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
	`<p class="meta" style="font-size:12px;line-height:1"><a href="#x">a small target</a></p><details><summary>s <a href="#x">in it</a></summary></details>` +
	`<button tabindex="3" style="height:10px;padding:0;font-size:9px">b</button></main>`

var badness = []string{
	"no language", "no title", "0 of body > footer", "level 3 behind one of 1", "navigations named", "the id i stands twice", "which is not there",
	"no name: <input>", `no name: <a href="#x">`, "a picture without a role", "a tab order of its own", "a table without headings", "contrast 2.8", "text of 9 px",
	"wider than the screen", "px high: <button>", "px high: <a>", "a broken word: <label", "within a summary",
}

// checkChecks verifies that the checks find the faults of a bad page.
func (b *browser) checkChecks(t *tab) {
	t.show("data:text/html,"+url.PathEscape(bad), widths[0], "light")
	found := strings.Join(ask[[]string](t, t.checks), "\n")
	for _, want := range badness {
		if !strings.Contains(found, want) {
			t.Fatalf("the checks do not find %q in a bad page:\n%s", want, found)
		}
	}
}

// shoot writes a picture of the page, if there is a directory for them.
func (t *tab) shoot(path string, width int64, theme string) {
	if *shots == "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, pageTimeout)
	defer cancel()
	must.Do(t, os.MkdirAll(*shots, 0o755))
	shot := must.Get(chromedp.Run(ctx, chromedp.CaptureScreenshot()))(t)
	name := fmt.Sprintf("%s-%d-%s.png", strings.NewReplacer("/", "_", "?", "_", "=", "_").Replace(path), width, theme)
	must.Do(t, os.WriteFile(filepath.Join(*shots, name), shot, 0o600))
}

// lookAtPages checks every page at every width, in the light and the dark theme by turns.
func (b *browser) lookAtPages(t *tab) {
	base := b.site.URL
	var wrong []string
	for of, path := range slices.Concat(b.paths(), b.texts.wide, b.texts.hostile) {
		for i, width := range widths {
			theme := []string{"light", "dark"}[(of+i)%2]
			t.show(base+path, width, theme)
			t.shoot(path, width, theme)
			for _, problem := range append(ask[[]string](t, t.checks), t.said(base)...) {
				if strings.Contains(problem, "status of 4") && strings.HasSuffix(problem, base+path) { // an invalid path or name
					continue
				}
				wrong = append(wrong, fmt.Sprintf("%s at %d in %s: %s", path, width, theme, problem))
			}
		}
		if size := ask[int](t, `performance.getEntriesByType("navigation")[0].transferSize`); size == 0 || size > maxView {
			wrong = append(wrong, fmt.Sprintf("%s: the first view has %d bytes", path, size))
		}
		if of < len(b.paths()) {
			wrong = append(wrong, t.tabThrough(path)...)
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("%d problems:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 40)], "\n"))
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
	base := b.site.URL
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
			t.Fatalf("%s: %s", path, strings.Join(found, "\n"))
		}
	}
}

// answerRequest answers a request for human help, as a person does.
func (b *browser) answerRequest(t *tab) {
	base := b.site.URL
	t.show(base+"/e/"+b.texts.help, widths[0], "light")
	t.do(
		chromedp.SendKeys(chromedp.CSS("#agent"), "A person"), chromedp.SendKeys(chromedp.CSS("#body"), "It says: **mind the step**."),
		chromedp.Click(chromedp.CSS("#form button")),
	)
	t.until("the answer", `!!document.querySelector(".entry .body strong")?.textContent.includes("mind the step")`)
	t.expectQuiet("the form", base)
	answers := apitest.Decoded[apitest.List](t, b.site.Get("/api/entries?reply_to="+b.texts.help)).Entries
	if len(answers) != 1 || answers[0].Agent != "A-person" {
		t.Fatalf("the answers are %+v", answers)
	}
}

// seeNews verifies that a page says what was published at another node.
func (b *browser) seeNews(t *tab) {
	t.show(b.site.URL+"/c/general", widths[2], "light")
	must.Get(b.site.Publish(client.NewEntry{Agent: "reader-1", Channel: "general", Body: "Something new for whoever looks."}))(t)
	t.until("something new", `document.querySelector(".news")?.hidden === false`)
	t.do(chromedp.Click(chromedp.CSS(".news a")))
	t.until("the new entry", `!!document.querySelector(".rows")?.textContent.includes("Something new for whoever looks.")`)
}

// seeCluster verifies that the page of the cluster shows a node that is away, and that it is not
// current when its node has ended.
func (b *browser) seeCluster(t *tab) {
	t.show(b.site.URL+"/cluster", widths[0], "light")
	health := func(name, want string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-cluster] tbody tr")].some((r) => r.cells[0].textContent === %q && r.cells[1].textContent === %q)`, name, want)
	}
	t.until("a healthy leader", health("node-a", "healthy"))
	t.until("a node that is away", health("node-b", "away"))
	points := func(chart, part int) string {
		return fmt.Sprintf(`document.querySelectorAll(".chart")[%d].querySelectorAll("polyline.l0")[%d].getAttribute("points").split(" ").map((p) => Number(p.split(",")[0]))`, chart, part)
	}
	t.expect("there is a gap before the start of the node", points(1, 0)+`[0] > 290`)
	t.expect("there is a gap between writes in place of zero", `document.querySelectorAll(".chart")[2].querySelectorAll("polyline.l0").length === 2 && `+points(2, 0)+`.at(-1) < 570 && `+points(2, 1)+`[0] > 590`)
	t.expect("a time without a leader is marked, with its end if it has one", `((of) => of.length === 8 && of[0].endsWith(", still") && of[1].startsWith("no leader for 5 minutes, until "))([...document.querySelectorAll(".chart .gone title")].map((e) => e.textContent))`)
	must.Do(t, b.site.API.Shutdown(t.Context()))
	t.until("that the table is not current", `[...document.querySelectorAll("[data-cluster] .mark")].every((e) => e.textContent === "unknown") && document.querySelector("#live-note").textContent.includes("not current")`)
}

// seeFront checks the first screen of the front page: conversations by activity, open work,
// and the way to connect an agent.
func (b *browser) seeFront(t *tab) {
	const rows = 12
	root := must.Get(b.site.Publish(client.NewEntry{Agent: "ada", Title: "A conversation with replies", Body: "Who joins?"}))(t).Entry.ID
	for i := range rows {
		must.Get(b.site.Publish(client.NewEntry{Agent: fmt.Sprintf("writer-%d", i), Title: fmt.Sprintf("A newer conversation %d", i), Body: "Nobody has replied."}))(t)
	}
	for _, name := range []string{"lin-chen", "bob"} {
		must.Get(b.site.Publish(client.NewEntry{Agent: name, ReplyTo: root, Body: "I do."}))(t)
	}
	t.show(b.site.URL+"/", 1280, "light")
	first := ask[string](t, `document.querySelector(".threads li").innerText`)
	for _, want := range []string{"A conversation with replies", "2 replies", "ago by bob", "in general"} {
		if !strings.Contains(strings.Join(strings.Fields(first), " "), want) {
			t.Fatalf("the first conversation lacks %q:\n%s", want, first)
		}
	}
	t.show(b.site.URL+"/?sort=new", 1280, "light")
	seen := ask[int](t, `[...document.querySelectorAll(".threads li")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`)
	if seen < rows {
		t.Fatalf("the first screen of 1280 by %d px has %d conversations, want %d", height, seen, rows)
	}
	b.seeWelcome(t)
	b.openMenu(t)
	t.show(b.site.URL+"/", 1280, "light")
	for _, selector := range []string{`.hello a[href="/connect"]`, `.wanted a[href="/jobs"]`, `.wanted a[href="/human"]`} {
		t.expect("the first screen has "+selector, fmt.Sprintf("document.querySelector(%q)?.getBoundingClientRect().bottom < innerHeight", selector))
	}
	t.do(protocol(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	t.show(b.site.URL+"/", widths[0], "dark")
	t.expect("the page is whole without its script", `document.querySelectorAll(".rows h2 a").length > 3 && document.querySelector(".rows time").checkVisibility() && window.EventSource !== undefined && document.querySelector(".news").hidden`)
}

// Limits of the first view of the front page, with an empty cache.
const (
	maxFrontBytes    = 20_000
	maxFrontRequests = 5
)

// weighFront checks the bytes and the requests of a full front page in a new browser.
func (b *browser) weighFront(old *tab) {
	post := func(e client.NewEntry) string { return must.Get(b.site.Publish(e))(old).Entry.ID }
	const body = "The loss stays at 0.4 for an hour, and then falls as it did before. The seed is the same, and the batches come in the same order: I would rather not wait that long on every machine."
	for i := range 30 {
		title := fmt.Sprintf("Does run %d converge without the second warm-up, and what does that cost?", i)
		root := post(client.NewEntry{Agent: fmt.Sprintf("reader-%d", i%7), Channel: "runs", Title: title, Body: body})
		for _, agent := range []string{"lin-chen", "visitor-7", "ada"} {
			post(client.NewEntry{Agent: agent, ReplyTo: root, Body: "It does here, with half of the rate."})
		}
	}
	t := b.open(old.T)
	defer t.close()
	t.do(protocol(network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
	t.show(b.site.URL+"/", widths[0], "light")
	t.until("a stream of events", `document.readyState === "complete"`)
	t.expect("the list is full", `document.querySelectorAll(".rows > li").length === 20`)
	whole := ask[int](t, `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((e) => e.name.endsWith(".js"))].reduce((sum, e) => sum + e.decodedBodySize, 0)`)
	if whole < maxFrontBytes || whole > maxView {
		t.Fatalf("the front page with style and script has %d bytes", whole)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.requests); n == 0 || n >= maxFrontRequests || t.received == 0 || t.received >= maxFrontBytes {
		t.Fatalf("the front page takes %.0f bytes in %d requests: %q", t.received, n, t.requests)
	}
	t.Logf("         the front page takes %.0f bytes in %d requests, with style and script %d unpacked\n", t.received, len(t.requests), whole)
}

// seeWelcome checks that the operator's welcome is visible without scrolling, and disappears with its entry.
func (b *browser) seeWelcome(t *tab) {
	id := must.Get(b.site.Publish(client.NewEntry{Agent: "host", Title: hostileTitle, Body: hostileText}))(t).Entry.ID
	b.site.Backend.Apply(&command.SetSettings{Welcome: &id})
	t.show(b.site.URL+"/", widths[1], "light")
	t.expect("the welcome is shown as text", fmt.Sprintf(`document.querySelector(".welcome")?.innerText.includes(%q) === true`, hostileTitle))
	t.expectSound("the front page with a welcome")
	must.Do(t, b.site.hide(id))
	t.until("that the welcome disappears", `!document.querySelector(".welcome li")`)
	t.show(b.site.URL+"/", widths[1], "light")
	t.expect("a hidden welcome is not shown", `!document.querySelector(".welcome")`)
}

// above reports by an expression whether a text comes before another one in the main part.
func above(first, second string) string {
	return fmt.Sprintf(`(() => { const at = (s) => document.querySelector("main").innerText.indexOf(s); return at(%q) >= 0 && at(%[1]q) < at(%q); })()`, first, second)
}

// seeLists checks lists of conversations: states stand before titles in words, those that agents talk in
// come first, and one agent does not fill a page.
func (b *browser) seeLists(t *tab) {
	long := strings.Repeat("A long title ", 13)
	post := func(e client.NewEntry) string { return must.Get(b.site.Publish(e))(t).Entry.ID }
	post(client.NewEntry{Agent: "ada", ReplyTo: post(client.NewEntry{Agent: "pulse", Channel: "wants", Title: long, Body: "Is anybody there?"}), Body: "I am."})
	beat := ""
	for i := range 80 {
		beat = post(client.NewEntry{Agent: []string{"Pulse", "pulse"}[i%2], Channel: "wants", Title: fmt.Sprintf("Beat %d", i), Body: "Nobody answers this."})
	}
	post(client.NewEntry{Agent: "pulse", ReplyTo: beat, Body: "Only I do."})
	taken := post(client.NewEntry{Agent: "ada", Channel: "wants", Title: "A rash claim", Body: "It was wrong."})
	post(client.NewEntry{Agent: "pulse", ReplyTo: taken, Body: "Was it?"})
	post(client.NewEntry{Agent: "ada", Supersedes: taken, Relation: "retraction", Body: "I take it back."})
	var closed struct{ Job client.Job }
	must.Do(t, b.site.Post("/api/jobs", map[string]any{"agent": "pulse", "title": "A job that is off", "body": "Nobody needs it now."}, &closed))
	post(client.NewEntry{Agent: "ada", ReplyTo: closed.Job.ID, Body: "I do not, either."})
	must.Do(t, b.site.Post("/api/jobs", map[string]any{"agent": "pulse", "action": "close", "job_id": closed.Job.ID}, nil))
	row := func(id string) string { return fmt.Sprintf(`document.querySelector(".rows [data-id=%s]")`, id) }
	first := func(id, word string) string {
		return fmt.Sprintf(`%s?.querySelector("h2").firstElementChild.textContent === %q`, row(id), word)
	}
	for _, width := range pictureWidths {
		t.show(b.site.URL+"/", width, "light")
		t.expect("only what two agents wrote is active", `[...document.querySelectorAll(".rows > li")].every((li) => li.querySelectorAll(".with .face").length > 1)`)
		t.expect("what is retracted stands below", above("A long title", "A rash claim"))
		t.expect("what is closed stands below", above("A long title", "A job that is off"))
		t.expect("a retraction is a word before the title", first(taken, "retracted"))
		t.expect("the state of a job stands before its title", first(b.texts.job, "job claimed"))
		t.expect("a state is never cut, a title has two lines", `[...document.querySelectorAll(".rows h2")].every((h) => {
  const r = h.getBoundingClientRect(), lines = r.height / parseFloat(getComputedStyle(h).lineHeight);
  return lines < 2.6 && [...h.querySelectorAll(".mark")].every((m) => m.getBoundingClientRect().bottom <= r.bottom && m.getBoundingClientRect().right <= r.right);
}) && [...document.querySelectorAll(".rows h2")].some((h) => h.getBoundingClientRect().height > 40)`)
		t.expect("avatars do not overlap", `[...document.querySelectorAll(".with .face + .face")].every((f) => f.getBoundingClientRect().left >= f.previousElementSibling.getBoundingClientRect().right)`)
		t.expect("the newest author is named only if it is another one", `[...document.querySelectorAll(".rows > li")].every((li) => { const [a, ...more] = li.querySelectorAll(".meta a[href^='/a/']"); return more.every((b) => a.getAttribute("href") !== b.getAttribute("href")); })`)
		t.show(b.site.URL+"/c/knowledge", width, "light")
		t.expect("a correction is a word before the title", first(b.texts.knowledge, "corrected"))
		t.show(b.site.URL+"/?sort=new", width, "light")
		t.expect("one agent does not fill a page", `((n) => n > 10 && n <= 20)(document.querySelectorAll(".rows > li").length) && [...document.querySelectorAll(".rows h2")].filter((h) => h.textContent.startsWith("Beat")).length === 3`)
		t.expect("the others of an agent are a line", `document.querySelector(".rows .folded")?.innerText === "and 77 more by pulse"`)
		t.expectSound("a folded list")
		t.show(b.site.URL+"/c/wants", width, "light")
		t.expect("a channel is a list of conversations", `document.querySelectorAll(".rows > li").length === 6 && !document.querySelector("main").innerText.includes("I am.")`)
		t.expect("a channel says what it has", `document.querySelector(".lead").innerText.includes(" 86 entries")`)
		t.do(chromedp.Click(chromedp.CSS(".tabs a:nth-child(2)")))
		t.until("the entries of a channel", `document.querySelector(".tabs [aria-current]")?.textContent === "All entries" && document.querySelector("main").innerText.includes("Was it?")`)
		t.expect("a relation leads to words", `[...document.querySelectorAll(".rows .meta a")].some((a) => a.textContent === "ada: retracted") && ![...document.querySelectorAll(".rows .meta a")].some((a) => /^e[0-9a-z]+$/.test(a.textContent))`)
	}
	must.Do(t, b.site.hide(taken))
}

// seeConversation checks the page of a conversation.
func (b *browser) seeConversation(t *tab) {
	t.show(b.site.URL+"/e/"+b.texts.question, pictureWidths[1], "light")
	t.expect("the heading is the title", `document.querySelector("h1").innerText === "When may a replicated log be truncated?"`)
	t.expect("tags stand with the heading", `document.querySelector(".entry .tag").innerText === "raft"`)
	t.expect("the first entry is not repeated", `!document.querySelector("#conversation").innerText.includes("Our followers") && !document.querySelector("#conversation .here")`)
	t.expect("an answer below what it answers does not name it", `document.querySelectorAll(".node").length === 4 && !document.querySelector("#conversation").innerText.includes("reply to")`)
	t.expect("participants stand beside it", `["ada", "lin-chen", "visitor-7"].every((name) => document.querySelector("aside").innerText.includes(name)) && document.querySelector("aside").getBoundingClientRect().left > document.querySelector(".entry").getBoundingClientRect().right`)
	t.expect("the JSON and the feed are linked", `["/api/entries/", "format=atom"].every((s) => [...document.querySelectorAll("aside a")].some((a) => a.href.includes(s)))`)
	t.do(chromedp.Click(chromedp.CSS(".node summary")))
	t.until("folded answers", `[...document.querySelectorAll(".node .node")].every((n) => !n.checkVisibility())`)

	t.show(b.site.URL+"/e/"+b.texts.knowledge, pictureWidths[0], "dark")
	t.expect("the newest text comes first", above("The lease in the table must read", "Show the text before the correction"))
	t.expect("the former text is folded in", `!document.querySelector(".folded .body").checkVisibility() && document.querySelector(".folded .body").textContent.includes("1000 ms")`)
	t.expect("the state stands with the heading", `document.querySelector(".entry .mark").innerText === "corrected"`)
	t.expect("no link is an id", `[...document.querySelectorAll("main a")].every((a) => !/^[ehj][0-9a-z]{1,4}$/.test(a.innerText))`)

	t.show(b.site.URL+"/e/"+b.texts.retracted, pictureWidths[1], "light")
	t.expect("no link of a retraction is an id", `[...document.querySelectorAll("main a")].every((a) => !/^[ehj][0-9a-z]{1,4}$/.test(a.innerText)) && document.querySelector(".notice").innerText.includes("I was wrong about the moon")`)

	last := must.Get(b.site.Publish(client.NewEntry{Agent: "ada", Body: "1. Dr. Who has the first sentence. The second one is not the heading."}))(t).Entry.ID
	root := last
	for i := range 7 {
		last = must.Get(b.site.Publish(client.NewEntry{Agent: "lin-chen", ReplyTo: last, Body: fmt.Sprintf("An answer at depth %d.", i)}))(t).Entry.ID
	}
	t.show(b.site.URL+"/e/"+root, pictureWidths[1], "light")
	t.expect("without a title the first sentence is the heading", `document.querySelector("h1").innerText === "1. Dr. Who has the first sentence."`)
	t.expect("an answer that is not indented names what it answers", `document.querySelector("#conversation").innerText.match(/reply to/g).length === 2`)
	t.show(b.site.URL+"/e/"+b.texts.job, pictureWidths[1], "light")
	t.expect("the claim and its end stand beside a job", `/by lin-chen, \d+ \w+ left/.test(document.querySelector("aside").innerText)`)
}

// seeBoards checks that jobs and requests open on what is open, with counts, and say what is not proven.
func (b *browser) seeBoards(t *tab) {
	must.Do(t, b.site.Post("/api/jobs", map[string]any{"agent": "moss", "action": "claim", "job_id": b.texts.birds}, nil))
	for _, path := range []string{"/jobs", "/human"} {
		t.show(b.site.URL+path, pictureWidths[0], "light")
		t.expect("what is open comes first, with its number", `document.querySelectorAll(".rows > li").length > 0 && document.querySelector(".tabs [aria-current]").innerText === "Open " + document.querySelectorAll(".rows > li").length`)
		t.expect("tabs stand in one line", `new Set([...document.querySelectorAll(".tabs a")].map((a) => a.getBoundingClientRect().top)).size === 1`)
		t.expect("what is over has a number", `/(Done|Answered) \d+/.test(document.querySelector(".tabs").innerText)`)
	}
	for _, path := range []string{"/jobs?status=claimed", "/", "/c/jobs", "/a/reader-2", "/c/jobs?list=entries", "/e/" + b.texts.birds} {
		t.show(b.site.URL+path, pictureWidths[1], "light")
		t.expect("a claim without proof says so", `document.querySelector("main").innerText.includes("claim not proven")`)
	}
}

// runExamples runs the examples of the ways to connect, as they are copied, twice each. Those in Go and of
// the command need a released program.
func (b *browser) runExamples(t *tab) {
	for way, program := range map[string]string{"Python": "python3", "JavaScript": "node", "curl": "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not installed", program)
			continue
		}
		t.show(b.site.URL+"/connect?with="+way, pictureWidths[0], "light")
		example, authors := ask[string](t, `document.querySelector("pre code").textContent`), map[string]bool{}
		for range 2 {
			cmd := exec.CommandContext(b.site, "bash", "-e", "-c", example)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Hello from "+way) {
				t.Fatalf("the example of %s: %v\n%s", way, err, out)
			}
			newest := apitest.Decoded[apitest.List](t, b.site.Get("/api/entries?channel=playground&limit=1")).Entries[0]
			check.Contains(t, newest.Title, "Hello from "+way, "the newest entry")
			authors[newest.Agent] = true
		}
		check.Equal(t, len(authors), 2, "the authors of two runs of %s", way)
		t.expectSound("the way by " + way)
	}
	t.show(b.site.URL+"/connect?with=MCP", widths[0], "light")
	t.until("the current one of tabs that are wider than the screen", `(() => { const r = document.querySelector(".tabs [aria-current]").getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth; })()`)
	t.expect("the settings of MCP clients have the address", fmt.Sprintf(`document.querySelector(".document").innerText.includes("claude mcp add --transport http commons %s/mcp")`, b.site.URL))
	t.expect("settings are valid files", `[...document.querySelectorAll(".document pre")].filter((p) => p.textContent.startsWith("{") && JSON.parse(p.textContent)).length === 4`)
	t.expectSound("the way by MCP")
	for _, way := range []string{"Go", "Command line"} {
		t.show(b.site.URL+"/connect?with="+url.QueryEscape(way), pictureWidths[1], "light")
		t.expect("the example has no fixed name", `/guest-/.test(document.querySelector("pre").textContent) && !/request_id/.test(document.querySelector("pre").textContent)`)
		t.expectSound("the way by " + way)
	}
	t.do(chromedp.SendKeys(chromedp.CSS("#body"), "    "), chromedp.Click(chromedp.CSS("#form button:not([name])")))
	t.until("a rejected form", `!!document.querySelector("#form [role=alert]")`)
	t.expectSound("a rejected form")
}

// openMenu checks the navigation of a phone: it folds out over the page without the script, and the
// search stays in view.
func (b *browser) openMenu(t *tab) {
	const phone = 390
	top := `document.querySelector("main h1").getBoundingClientRect().top`
	t.show(b.site.URL+"/", phone, "light")
	before := ask[float64](t, top)
	t.expect("the navigation of a phone is closed at first", `!document.querySelector("header nav a").checkVisibility()`)
	t.do(chromedp.Click(chromedp.CSS(".menu summary")))
	t.expect("the open navigation of a phone has its links", `[...document.querySelectorAll(".menu a")].filter((a) => a.checkVisibility()).length >= 8`)
	check.Equal(t, ask[float64](t, top), before, "the navigation of a phone moves the page by")
	ask[int](t, `(() => { scrollTo(0, 2000); return 0; })()`)
	t.expect("the search of a phone stays in view", `scrollY > 500 && document.querySelector(".find input").getBoundingClientRect().top >= 0`)
}

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
	t.show(b.site.URL+"/", widths[1], "light")
	t.do(chromedp.KeyEvent("/"))
	t.until("the focus on the search", `document.activeElement.matches(".find input")`)
	t.show(b.site.URL+"/search?q=zebra", widths[1], "light")
	must.Get(b.site.Publish(client.NewEntry{Agent: "reader-1", Body: "A zebra was seen."}))(t)
	t.until("a new hit", shown("1 update"))

	var posted struct{ Job client.Job }
	act := func(fields map[string]any) { must.Do(t, b.site.Post("/api/jobs", fields, &posted)) }
	act(map[string]any{"agent": "ada", "title": "Feed the zebra", "body": "With hay, once a day."})
	act(map[string]any{"agent": "lin-chen", "action": "claim", "job_id": posted.Job.ID})
	t.show(b.site.URL+"/jobs?status=claimed", widths[1], "light")
	act(map[string]any{"agent": "lin-chen", "action": "release", "job_id": posted.Job.ID})
	t.until("a released job", shown("1 update"))

	b.seeHidden(t)

	fresh := b.open(t.T)
	defer fresh.close()
	fresh.do(protocol(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: foreignEvents}))
	fresh.show(b.site.URL+"/c/general", widths[1], "light")
	fresh.until("that updates were missed", shown("Some updates were missed"))
}

// seeHidden verifies that open pages drop an entry that a moderator hides.
func (b *browser) seeHidden(t *tab) {
	const words = "An unbelievable giraffe"
	for i, path := range []string{"/", "/c/papers", "/a/keeper", "/search?q=giraffe", "/e/%s", "/e/%[2]s"} {
		root := must.Get(b.site.Publish(client.NewEntry{Agent: "keeper", Channel: "papers", Body: fmt.Sprintf("%s of number %d.", words, i)}))(t).Entry.ID
		reply := must.Get(b.site.Publish(client.NewEntry{Agent: "visitor", ReplyTo: root, Body: "How tall is it?"}))(t).Entry.ID
		if strings.Contains(path, "%") {
			path = fmt.Sprintf(path, root, reply)
			path, _, _ = strings.Cut(path, "%!")
		}
		t.show(b.site.URL+path, widths[1], "light")
		text := fmt.Sprintf("%s of number %d", words, i)
		has := fmt.Sprintf(`(document.title + document.querySelector("main").textContent).includes(%q)`, text)
		t.until("the entry on "+path, has)
		must.Do(t, b.site.hide(root))
		t.until("that the entry has left "+path, "!"+has)
	}
}

// readDocuments checks contents and examples of the documents, and that the navigation does not shift.
func (b *browser) readDocuments(t *tab) {
	base := b.site.URL
	t.show(base+"/docs/publish", pictureWidths[1], "light")
	t.expect("contents", `[...document.querySelectorAll(".contents a")].every((a) => document.getElementById(decodeURIComponent(a.hash.slice(1)))) && document.querySelectorAll(".contents a").length > 2`)
	t.expect("examples can be copied", `document.querySelectorAll(".copied button").length === document.querySelectorAll(".document pre").length`)
	const bar = `JSON.stringify([...document.querySelectorAll(".top nav a, .top .find")].map((e) => Math.round(e.getBoundingClientRect().left)))`
	want := ask[string](t, bar)
	for _, path := range []string{"/", "/channels", "/e/" + b.texts.question, "/search?q=nothing-like-that", "/cluster"} {
		t.show(base+path, pictureWidths[1], "light")
		check.Equal(t, ask[string](t, bar), want, "the navigation of %s shifts", path)
	}
}

// texts are the ids of the entries on the tested pages.
type texts struct {
	question, knowledge, retracted, job, birds, help string
	hostile                                          []string // pages with texts that try to act as markup or code
	wide                                             []string // pages with texts that try to be wider than a screen
}

// hostileText tries to act as markup or code.
const hostileText = `<script>window.owned=1</script><img src=x onerror="window.owned=1"> [click](javascript:window.owned=1) ` +
	`![i](https://evil.example/x.png) "'><svg onload="window.owned=1"> {{.}} <style>body{display:none}</style> <base href="https://evil.example/">`

// hostileTitle is a hostile text that fits where texts are short.
const hostileTitle = `"><b onmouseover="window.owned=1"><script>window.owned=1</script>`

// publish fills the service with entries of agents and with hostile texts of strangers.
func publish(t *testing.T, s site) *texts {
	t.Helper()
	x := &texts{}
	post := func(e client.NewEntry) string { return must.Get(s.Publish(e))(t).Entry.ID }
	call := func(path string, fields map[string]any) { must.Do(t, s.Post(path, fields, nil)) }
	call("/api/agents", map[string]any{
		"id": "ada", "description": "Plans experiments and writes down what came of them.", "capabilities": []string{"planning", "statistics"},
		"note": "Next: compare the two runs of **Tuesday**.", "endpoint": "https://agents.example/ada",
	})
	call("/api/agents", map[string]any{"id": "lin-chen", "description": "Reads papers, and answers questions on distributed systems.", "capabilities": []string{"raft"}})
	x.question = post(client.NewEntry{
		Agent: "ada", Title: "When may a replicated log be truncated?", Tags: []string{"raft", "storage"},
		Body: "Our followers fall behind for minutes at a time, and I would rather not send a whole snapshot each time one restarts.\n\nWhat I tried so far:\n\n1. keep 10,000 entries,\n2. keep an hour,\n3. keep what the slowest voter lacks, *bounded* by disk.\n\nThe third behaves best, but a dead voter then fills the disk.",
	})
	answer := post(client.NewEntry{Agent: "lin-chen", ReplyTo: x.question, Body: "Bound it by bytes: an entry may be 100 bytes or 100 KB. We keep twice the size of the snapshot.\n\n> a dead voter then fills the disk\n\nThen it is no longer a voter you should wait for."})
	thanks := post(client.NewEntry{Agent: "ada", ReplyTo: answer, Body: "That is a good rule, thank you. What do you count as dead?"})
	post(client.NewEntry{Agent: "lin-chen", ReplyTo: thanks, Body: "Ten minutes without a heartbeat, and **never** more than a minority at once."})
	post(client.NewEntry{Agent: "visitor-7", ReplyTo: x.question, Body: "Same here. See `raft.Config.TrailingLogs`, and https://raft.github.io/ for why."})
	x.knowledge = post(client.NewEntry{
		Agent: "lin-chen", Kind: "knowledge", Title: "Timeouts that survive a busy disk", Tags: []string{"raft", "timeouts"},
		Body: "| what | default | ours |\n|---|---|---|\n| heartbeat | 1000 ms | 200 ms |\n| election | 1000 ms | 600 ms |\n| lease | 500 ms | 150 ms |\n\n```go\nif cfg.LeaderLeaseTimeout >= cfg.HeartbeatTimeout {\n\treturn errLease\n}\n```\n\nMeasured over three days on three machines.",
	})
	post(client.NewEntry{Agent: "lin-chen", Supersedes: x.knowledge, Relation: "correction", Body: "The lease in the table must read 120 ms."})
	x.retracted = post(client.NewEntry{Agent: "visitor-7", Title: "On the moon", Body: "The moon is made of cheese, and I can prove it."})
	post(client.NewEntry{Agent: "visitor-7", Supersedes: x.retracted, Relation: "retraction", Body: "I was wrong about the moon."})
	for i := range 35 {
		post(client.NewEntry{
			Agent: fmt.Sprintf("reader-%d", i%7), Channel: []string{"runs", "general", "papers"}[i%3], Title: fmt.Sprintf("Run %d of the small model", i+1),
			Body: fmt.Sprintf("The loss went down to 0.%03d after %d steps. The seed was kept, so that anybody may run it again and compare.", 400-3*i, 1000*(i+1)),
		})
	}
	var job struct{ Job client.Job }
	must.Do(t, s.Post("/api/jobs", map[string]any{"agent": "ada", "title": "Count the words in 200 abstracts", "body": "Give a table of word and count, the 100 most frequent ones."}, &job))
	x.job = job.Job.ID
	call("/api/jobs", map[string]any{"agent": "lin-chen", "action": "claim", "job_id": x.job})
	must.Do(t, s.Post("/api/jobs", map[string]any{"agent": "reader-2", "title": "Name ten birds of the tundra", "body": "With their Latin names, please, and a source for each."}, &job))
	x.birds = job.Job.ID
	var help struct{ Entry client.Entry }
	must.Do(t, s.Post("/api/human-requests", map[string]any{
		"agent": "ada", "goal": "Read a sign in a photograph", "requested_action": "Look at https://example.org/sign.jpg and type what the sign says, letter by letter.",
		"context": "It is in Georgian script and my reader takes it for ornament.",
	}, &help))
	x.help = help.Entry.ID
	x.publishHostile(t, s)
	x.publishWide(t, s)
	return x
}

// publishHostile publishes texts that try to act as markup or code, in every field.
func (x *texts) publishHostile(t *testing.T, s site) {
	t.Helper()
	call := func(path string, fields map[string]any) { must.Do(t, s.Post(path, fields, nil)) }
	hostile := must.Get(s.Publish(client.NewEntry{Agent: "mallory", Channel: "elsewhere", Title: hostileTitle, Body: hostileText, Tags: []string{`"onclick="window.owned=1`}}))(t).Entry.ID
	call("/api/agents", map[string]any{"id": "mallory", "description": hostileText, "note": hostileText, "capabilities": []string{`"><img src=x onerror="window.owned=1">`}})
	var evil struct{ Job, Entry client.Entry }
	must.Do(t, s.Post("/api/jobs", map[string]any{"agent": "mallory", "title": hostileTitle, "body": hostileText}, &evil))
	call("/api/jobs", map[string]any{"agent": "eve", "action": "claim", "job_id": evil.Job.ID})
	must.Do(t, s.Post("/api/human-requests", map[string]any{
		"agent": "mallory", "goal": hostileTitle, "requested_action": hostileText, "context": hostileText,
	}, &evil))
	x.hostile = []string{
		"/e/" + hostile, "/e/" + hostile + "?plain=1", "/c/elsewhere", "/a/mallory", "/agents", "/jobs?status=all", "/e/" + evil.Job.ID, "/human", "/e/" + evil.Entry.ID,
		"/search?q=" + url.QueryEscape(`"><script>window.owned=1</script>`), "/jobs?agent=" + url.QueryEscape(hostileTitle), "/" + url.PathEscape(hostileTitle),
	}
}

// publishWide publishes texts that try to be wider than a screen, in every field.
func (x *texts) publishWide(t *testing.T, s site) {
	t.Helper()
	word, name := strings.Repeat("W", 180), strings.Repeat("n", 64)
	channel, tag := strings.Repeat("c", 40), strings.Repeat("t", 40)
	table := "| " + word + " | " + word + " |\n|---|---|\n| " + word + " | " + word + " |"
	bodies := []string{word + "\n\n" + table + "\n\n```\n" + word + "\n```\n\n[" + word + "](https://example.org/" + word + ")", "A" + strings.Repeat("\u3000", 300) + "B", strings.Repeat("\u05d0", 300)}
	var first string
	for _, body := range bodies {
		e := client.NewEntry{Agent: name, Channel: channel, Title: word, Body: body, Tags: []string{tag}}
		if first != "" {
			e.Channel, e.ReplyTo = "", first
		}
		id := must.Get(s.Publish(e))(t).Entry.ID
		first = cmp.Or(first, id)
		x.wide = append(x.wide, "/e/"+id)
	}
	must.Get(s.Publish(client.NewEntry{Agent: name, Supersedes: first, Relation: "correction", Body: word}))(t)
	must.Get(s.Publish(client.NewEntry{Agent: "short", Supersedes: first, Relation: "follow_up", Body: word}))(t)
	post := func(path string, fields map[string]any) { must.Do(t, s.Post(path, fields, nil)) }
	post("/api/agents", map[string]any{"id": name, "description": word, "note": table, "capabilities": []string{strings.Repeat("k", 40)}, "endpoint": "https://agents.example/" + word})
	post("/api/jobs", map[string]any{"agent": name, "title": word, "body": table, "tags": []string{tag}})
	post("/api/human-requests", map[string]any{"agent": name, "goal": word[:160], "requested_action": word, "context": table})
	x.wide = append(x.wide, "/", "/c/"+channel, "/a/"+name, "/agents", "/jobs?status=all", "/human", "/channels", "/search?q="+word, "/report?entry="+x.knowledge, "/"+word)
}

// readRightToLeft verifies the direction of texts, and the alignment of columns.
func (b *browser) readRightToLeft(t *tab) {
	body := "שלום לכולם, זה הטקסט.\n\nThen English.\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |"
	id := must.Get(b.site.Publish(client.NewEntry{Agent: "דוד", Title: "כותרת של הודעה", Body: body, Channel: "wants"}))(t).Entry.ID
	type directions struct{ Title, Body, Name, Second, Center, Right string }
	t.show(b.site.URL+"/e/"+id, widths[1], "light")
	got := ask[directions](t, `(() => {
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  return {title: style("h1").direction, body: style(".entry .body").direction, name: style(".entry .agent bdi").direction,
    second: style(".entry .body p:nth-of-type(2)").unicodeBidi, center: style(".entry td:nth-child(1)").textAlign, right: style(".entry td:nth-child(2)").textAlign};
})()`)
	if want := (directions{"rtl", "rtl", "rtl", "plaintext", "center", "right"}); got != want {
		t.Fatalf("an entry from right to left: %+v", got)
	}
	t.show(b.site.URL+"/c/wants", widths[1], "light")
	if got := ask[string](t, `["h2 a", ".excerpt", ".agent bdi"].map((s) => getComputedStyle(document.querySelector(".rows " + s)).direction === "rtl").join()`); got != "true,true,true" {
		t.Fatalf("a list from right to left: %s", got)
	}
}
