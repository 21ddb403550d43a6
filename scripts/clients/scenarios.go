package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

const patience = 60 // seconds

// scenarios are played for every language.
var scenarios = []harness.Scenario[*language]{
	{Name: "first call", Run: firstCall},
	{Name: "repetition", Run: repetition},
	{Name: "addresses", Run: addresses},
	{Name: "silent node", Run: silentNode},
	{Name: "errors", Run: rejections},
	{Name: "pages", Run: pages},
	{Name: "own writes", Run: ownWrites},
	{Name: "foreign index", Run: foreignIndex},
	{Name: "dry run", Run: dryRun},
	{Name: "keys", Run: keys},
	{Name: "a lost key", Run: lostKey},
	{Name: "killed leaders", Run: killedLeaders},
}

// tryPublish publishes an entry, and returns it with MinIndex of the client.
func tryPublish(c *process, body string, fields map[string]any) (client.Published, uint64, error) {
	items, index, err := c.do(call{Method: "publish", Args: []any{body}, Fields: fields})
	if err != nil {
		return client.Published{}, index, err
	}
	return decode[client.Published](items[0]), index, nil
}

// publish is tryPublish for a publication that has to work.
func publish(c *process, body string, fields map[string]any) (client.Published, uint64) {
	published, index, err := tryPublish(c, body, fields)
	harness.Must(err)
	return published, index
}

// list returns the bodies of the newest entries that a client finds, the oldest first.
func list(c *process, fields map[string]any, newest int) (bodies []string) {
	items, _, err := c.do(call{Method: "entries", Fields: fields, Take: newest})
	harness.Must(err)
	for _, item := range slices.Backward(items) {
		bodies = append(bodies, decode[client.Entry](item).Body)
	}
	return bodies
}

// wantSame fails unless two lists are equal.
func wantSame(subject string, got, want []string) {
	if !slices.Equal(got, want) {
		harness.Failf("%s: %d %.2000q, want %d %.2000q", subject, len(got), got, len(want), want)
	}
}

// numbered returns texts that end with a number.
func numbered(text string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s %03d", text, i))
	}
	return all
}

// firstCall runs the example at the top of the client, the file that /docs/clients names.
func firstCall(l *language) {
	node := l.env.cluster.Nodes[1]
	page := string(harness.Got(node.Raw(http.MethodGet, "/docs/clients.md", "", http.StatusOK)).Body)
	file := harness.Got(os.ReadFile(filepath.Join(l.dir, l.file)))
	if sum := fmt.Sprintf("%x", sha256.Sum256(file)); !strings.Contains(page, sum) {
		harness.Failf("the page does not show %s", sum)
	}
	top := regexp.MustCompile(`(?m)^ \* ?`).ReplaceAllString(string(file), "")
	example := "\n" + regexp.MustCompile(`(?m)^    .*\n(?:(?:    .*)?\n)*`).FindString(top)
	example = strings.NewReplacer("\n    ", "\n", "https://commons.example", node.URL).Replace(example)
	name := "example" + filepath.Ext(l.file)
	harness.Must(os.WriteFile(filepath.Join(l.dir, name), []byte(example), 0o600))
	cmd := exec.CommandContext(l.env.run.Ctx, l.command[0], append(l.command[1:], name)...)
	cmd.Dir = l.dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": When is high water at Brest?\n422 validation_failed: ") {
		harness.Failf("%v\n%s\n%s", err, example, out)
	}
}

// repetition compares the attempts and the outcome of a publication for sequences of steps.
func repetition(l *language) {
	elsewhere := newFront(l.env.cluster.Nodes[1])
	defer elsewhere.stop()
	for i, test := range []struct {
		name     string
		steps    []string
		once     bool // patience 0
		attempts int
		outcome  string // empty, or kind and code of the failure
		entries  int
		longest  time.Duration // at least, between attempts
	}{
		{name: "accepted", attempts: 1, entries: 1},
		{name: "lost answer", steps: []string{lose}, attempts: 2, entries: 1},
		{name: "two lost answers", steps: []string{lose, lose}, attempts: 3, entries: 1},
		{name: "broken connection", steps: []string{hangUp}, attempts: 2, entries: 1},
		{name: "not written at first", steps: []string{"503 not_enqueued", "503 not_enqueued"}, attempts: 3, entries: 1},
		{name: "balancer without a node", steps: []string{"502"}, attempts: 2, entries: 1},
		{name: "balancers of ours", steps: []string{"502 " + unknown, "504 " + unknown, "503 " + unknown}, attempts: 4, entries: 1},
		{name: "too many writes", steps: []string{"429 rate_limited 1"}, attempts: 2, entries: 1, longest: time.Second},
		{name: "node that asks to wait", steps: []string{"503 not_ready 1"}, attempts: 2, entries: 1, longest: time.Second},
		{name: "too many writes for long", steps: []string{"429 rate_limited 3600"}, attempts: 1, outcome: "Rejected rate_limited"},
		{name: "redirect", steps: []string{"307 " + elsewhere.url}, attempts: 1, outcome: "Rejected "},
		{name: "lost answer, then a redirect", steps: []string{lose, "307 " + elsewhere.url}, attempts: 2, outcome: "UnknownOutcome ", entries: 1},
		{name: "internal error", steps: []string{"500 internal_error"}, attempts: 1, outcome: "UnknownOutcome "},
		{name: "once, not written", steps: []string{"503 not_enqueued"}, once: true, attempts: 1, outcome: "Rejected not_enqueued"},
		{name: "once, lost", steps: []string{lose}, once: true, attempts: 1, outcome: "UnknownOutcome ", entries: 1},
		{name: "once, broken", steps: []string{hangUp}, once: true, attempts: 1, outcome: "UnknownOutcome "},
	} {
		f := newFront(l.env.cluster.Nodes[0], test.steps...)
		o := options{URLs: []string{f.url}, Patience: patience}
		if test.once {
			o.Patience = 0
		}
		c, agent := l.client(o), fmt.Sprintf("%s-repetition-%d", l.name, i)
		_, _, err := tryPublish(c, "Number one", map[string]any{"agent": agent})
		outcome := ""
		failed, isFailed := errors.AsType[*failure](err)
		if isFailed {
			outcome = failed.Kind + " " + failed.Code
		} else if err != nil {
			harness.Must(err)
		}
		seen := f.attempts()
		if len(seen) != test.attempts || outcome != test.outcome {
			harness.Failf("%s: %d attempts, %q (%v), want %d, %q", test.name, len(seen), outcome, err, test.attempts, test.outcome)
		}
		longest := time.Duration(0)
		for i, a := range seen {
			longest = max(longest, a.at.Sub(seen[max(i-1, 0)].at))
			if a.requestID == "" || a.requestID != seen[0].requestID {
				harness.Failf("%s: request_id %q after %q", test.name, a.requestID, seen[0].requestID)
			}
			if key := a.header.Get("Idempotency-Key"); key != a.requestID {
				harness.Failf("%s: Idempotency-Key %q, request_id %q", test.name, key, a.requestID)
			}
		}
		if longest < test.longest {
			harness.Failf("%s: a pause of %v, want at least %v", test.name, longest, test.longest)
		}
		if entries := harness.Got(l.env.cluster.Nodes[0].List(0, client.EntryQuery{Agent: agent})); len(entries) != test.entries {
			harness.Failf("%s: %d entries, want %d", test.name, len(entries), test.entries)
		}
		if outcome == "UnknownOutcome " {
			again, _, err := tryPublish(c, "Number one", map[string]any{"agent": agent, "request_id": failed.RequestID})
			if err != nil || again.Duplicate != (test.entries == 1) {
				harness.Failf("%s: again: %+v, %v", test.name, again, err)
			}
		}
		f.stop()
	}
	if n := len(elsewhere.attempts()); n > 0 {
		harness.Failf("%d requests followed a redirect", n)
	}
}

// addresses holds that an address that is down costs one attempt.
func addresses(l *language) {
	f := newFront(l.env.cluster.Nodes[0])
	defer f.stop()
	down := newFront(l.env.cluster.Nodes[0])
	down.stop()
	c := l.client(options{URLs: []string{down.url, f.url}, Patience: patience})
	for range 2 {
		publish(c, "Although one is down", map[string]any{})
	}
	if n := len(f.attempts()); n != 2 {
		harness.Failf("%d attempts at the second address", n)
	}
}

// silentNode holds that a call that waits is repeated elsewhere although its attempt at a node
// that says nothing took longer than the patience.
func silentNode(l *language) {
	f := newFront(l.env.cluster.Nodes[0], hang)
	defer f.stop()
	c := l.client(options{URLs: []string{f.url, l.env.cluster.Nodes[0].URL}, Key: l.register(l.name + "-silent"), Patience: 0.9, Timeout: 0.5})
	_, _, err := c.do(call{Method: "home", Fields: map[string]any{"wait": 1}})
	if n := len(f.attempts()); err != nil || n != 1 {
		harness.Failf("%d attempts at the silent node: %v", n, err)
	}
}

// rejections publishes the example of a rejected publication.
func rejections(l *language) {
	c := l.client(options{URLs: l.env.cluster.URLs(), Patience: patience})
	_, _, err := tryPublish(c, "no", map[string]any{"tags": strings.Split("abcdefghi", "")})
	f, is := errors.AsType[*failure](err)
	if !is || f.Kind != "Rejected" || f.Status != http.StatusUnprocessableEntity || f.Code != "validation_failed" || !strings.Contains(f.Text, "\n- tags ") {
		harness.Failf("%+v", err)
	}
	if len(f.Issues) != 2 || f.Issues[0].Field != "body" || f.Issues[1].Field != "tags" || f.Issues[1].Message == "" {
		harness.Failf("issues %+v", f.Issues)
	}
	body, _ := f.Example["body"].(string)
	delete(f.Example, "body")
	if _, _, err := tryPublish(c, body, f.Example); err != nil || body == "" {
		harness.Failf("the example %v is rejected: %v", f.Example, err)
	}
}

// pages reads a list of seven pages to its end, and the beginning of it.
func pages(l *language) {
	want := numbered("Page", 25)
	agent := l.name + "-pages"
	for _, body := range want {
		harness.Got(l.env.cluster.Nodes[0].Publish(client.NewEntry{Body: body, Agent: agent}))
	}
	c := l.client(options{URLs: []string{l.env.cluster.Nodes[0].URL}, Patience: patience})
	for _, n := range []int{100, 6} {
		wantSame("entries", list(c, map[string]any{"agent": agent, "limit": 4}, n), want[max(0, len(want)-n):])
	}
}

// ownWrites holds that reads ask for the index of the client's newest write, also in a
// client that gets it.
func ownWrites(l *language) {
	f := newFront(l.env.cluster.Nodes[0])
	defer f.stop()
	agent := map[string]any{"agent": l.name + "-own"}
	_, index := publish(l.client(options{URLs: []string{l.env.cluster.Nodes[1].URL}, Patience: patience}), "Written elsewhere", agent)
	c := l.client(options{URLs: []string{f.url}, Patience: patience, MinIndex: index})
	wantSame("entries", list(c, agent, 100), []string{"Written elsewhere"})
	_, own := publish(c, "Written here", agent)
	wantSame("entries", list(c, agent, 100), []string{"Written elsewhere", "Written here"})
	seen := f.attempts()
	for i, want := range []uint64{index, index, own} {
		if got := seen[i].header.Get("X-Commons-Min-Index"); got != strconv.FormatUint(want, 10) || want == 0 {
			harness.Failf("request %d asks for index %q, want %d", i, got, want)
		}
	}
}

// foreignIndex holds that a client forgets an index of another history, as from before a
// restored backup, also if it makes each call once.
func foreignIndex(l *language) {
	const foreign = 1 << 40
	agent := map[string]any{"agent": l.name + "-foreign"}
	for _, seconds := range []float64{patience, 0} {
		c := l.client(options{URLs: []string{l.env.cluster.Nodes[0].URL}, Patience: seconds, MinIndex: foreign})
		_, index := publish(c, "Written after a restore", agent)
		if index == 0 || index >= foreign {
			harness.Failf("after a foreign index the client asks for index %d", index)
		}
	}
	c := l.client(options{URLs: []string{l.env.cluster.Nodes[1].URL}, Patience: patience, MinIndex: foreign})
	wantSame("entries", list(c, agent, 100), []string{"Written after a restore", "Written after a restore"})
}

// dryRun checks a publication without making it.
func dryRun(l *language) {
	c := l.client(options{URLs: l.env.cluster.URLs(), Patience: patience})
	agent := l.name + "-dry"
	answer, _ := publish(c, "Only a try", map[string]any{"agent": agent, "dry_run": true})
	if would := decode[client.Entry](answer.Would); would.Body != "Only a try" || answer.Entry.ID != "" || len(answer.Notes) == 0 {
		harness.Failf("%+v", answer)
	}
	if entries := harness.Got(l.env.cluster.Nodes[0].List(0, client.EntryQuery{Agent: agent})); len(entries) != 0 {
		harness.Failf("it was written: %+v", entries)
	}
}

// lostKey holds that a client without a key recovers a name by its recovery key and goes on with the
// new edit_key, and that a wrong recovery key is an error.
func lostKey(l *language) {
	name := l.name + "-lost"
	register := call{Method: "register", Args: []any{name}, Fields: map[string]any{"description": "Loses keys."}}
	items, _, err := l.client(options{URLs: l.env.cluster.URLs(), Patience: patience}).do(register)
	harness.Must(err)
	c := l.client(options{URLs: l.env.cluster.URLs(), Patience: patience})
	_, _, err = c.do(call{Method: "recover_key", Args: []any{name, "crk_wrong"}})
	if f, is := errors.AsType[*failure](err); !is || f.Code != "wrong_recovery_key" {
		harness.Failf("a wrong recovery key: %v", err)
	}
	recovery := call{Method: "recover_key", Args: []any{name, decode[client.Registered](items[0]).RecoveryKey}}
	_, _, err = c.do(recovery)
	harness.Must(err)
	register.Fields = map[string]any{"delete": true}
	_, _, err = c.do(register)
	harness.Must(err)
	err = l.env.cluster.Nodes[0].Do(http.MethodGet, "/api/agents/"+name, nil, nil)
	if rejected, is := errors.AsType[*client.Error](err); !is || rejected.Status != http.StatusNotFound {
		harness.Failf("the deleted profile: %v", err)
	}
}

// keys holds that a key goes to https and this machine only, and that a new name is protected, unless
// others wrote under it, which the client says, or the program wants it so.
func keys(l *language) {
	f := newFront(l.env.cluster.Nodes[0])
	defer f.stop()
	c := l.client(options{URLs: []string{f.url}, Patience: patience})
	name := l.name + "-keys"
	items, _, err := c.do(call{Method: "register", Args: []any{name}, Fields: map[string]any{"description": "Has a key."}})
	harness.Must(err)
	registered := decode[client.Registered](items[0])
	key := registered.EditKey
	published, _ := publish(c, "With a key", map[string]any{})
	seen := f.attempts()
	if got := seen[0].header.Get("Authorization") + seen[1].header.Get("Authorization"); got != "Bearer "+key || key == "" {
		harness.Failf("headers %q", got)
	}
	if published.Entry.Agent != name || !published.Entry.NameVerified || !registered.Agent.Protected {
		harness.Failf("%+v of %+v", published.Entry, registered.Agent)
	}
	other := exec.CommandContext(l.env.run.Ctx, "curl", "-sf", "--interface", "127.0.0.2", l.env.cluster.Nodes[0].URL+"/api/entries", "-d", "agent="+name+"-used", "-d", "body=I was here.")
	harness.Must(other.Run())
	for suffix, fields := range map[string]map[string]any{"-used": {}, "-open": {"protected": false}} {
		fields["description"] = "Is not protected."
		items, _, err := l.client(options{URLs: []string{f.url}, Patience: patience}).do(call{Method: "register", Args: []any{name + suffix}, Fields: fields})
		harness.Must(err)
		said := strings.Contains(string(harness.Got(os.ReadFile(l.stderr.Name()))), "others wrote under "+name+suffix+" ")
		if agent := decode[client.Registered](items[0]).Agent; agent.Protected || said != (suffix == "-used") {
			harness.Failf("%+v; the client said so: %v", agent, said)
		}
	}
	for _, url := range []string{"http://commons.invalid", "http://192.0.2.1:8080", "http://127.0.0.1.commons.invalid", "http://127.commons.invalid"} {
		start := time.Now()
		_, _, err := tryPublish(l.client(options{URLs: []string{url}, Key: key, Patience: patience}), "With a key", map[string]any{})
		f, is := errors.AsType[*failure](err)
		if !is || !strings.Contains(f.Text, "the key is not sent to "+url) || time.Since(start) > patience*time.Second/2 {
			harness.Failf("%s: %v after %v", url, err, time.Since(start))
		}
	}
}

// register registers a name at a node, and returns its key.
func (l *language) register(name string) string {
	var registered client.Registered
	body := map[string]string{"id": name, "description": "Reads its home."}
	harness.Must(l.env.cluster.Nodes[0].Do(http.MethodPost, "/api/agents", body, &registered))
	return registered.EditKey
}

// killedLeaders publishes, follows events and reads home, each in a client of its own, while
// two leaders are killed one after the other. All clients begin at the first of them.
func killedLeaders(l *language) {
	const writes, mentionEach = 300, 10
	cluster, agent, name := l.env.cluster, l.name+"-writer", l.name+"-watcher"
	o := options{URLs: append([]string{cluster.Leader().URL}, cluster.URLs()...), Patience: patience}
	keyed := o
	keyed.Key = l.register(name)
	var position struct{ LastEventID string }
	harness.Must(cluster.Nodes[0].Do(http.MethodGet, "/api/events", nil, &position))
	want := numbered("Write", writes)
	var mentions []string
	for i := range want {
		if i%mentionEach == 0 {
			want[i] += " for @" + name
			mentions = append(mentions, want[i])
		}
	}

	var events, items []json.RawMessage
	answered, followed, ids := make([]string, 0, writes), make([]string, 0, writes), make([]string, 0, writes)
	var readers errgroup.Group
	readers.Go(func() (err error) {
		events, _, err = l.client(o).do(call{
			Method: "events", Fields: map[string]any{"agent": agent, "after": position.LastEventID}, Take: writes,
		})
		return err
	})
	readers.Go(func() (err error) {
		items, _, err = l.client(keyed).do(call{Method: "watch", Take: len(mentions)})
		return err
	})
	writer := l.client(o)
	var killed *harness.Node
	var index uint64
	for i, body := range want {
		if i == writes/3 || i == writes*2/3 {
			if killed != nil {
				killed.Start()
				harness.Must(cluster.WaitReady(harness.ReadyTimeout, killed))
			}
			killed = cluster.Leader()
			killed.Kill()
		}
		published, newest := publish(writer, body, map[string]any{"agent": agent})
		index = newest
		answered = append(answered, published.Entry.ID)
	}
	harness.Must(readers.Wait())
	cluster.Start()

	for _, item := range events {
		e := decode[client.Event](item)
		followed, ids = append(followed, e.Entry.Body), append(ids, e.Entry.ID)
	}
	seen := make([]string, len(items))
	for i, item := range items {
		seen[i] = decode[client.Item](item).Body
	}
	for _, n := range cluster.Nodes {
		c := l.client(options{URLs: []string{n.URL}, Patience: patience, MinIndex: index})
		wantSame("entries of "+n.Name, list(c, map[string]any{"agent": agent}, writes+1), want)
	}
	wantSame("events", followed, want)
	wantSame("ids in events", ids, answered)
	wantSame("items of home", seen, mentions)
	fmt.Fprintf(os.Stdout, "%s: %d publications, %d events and %d items of home, each once and in order; 2 leaders killed\n", l.name, len(want), len(followed), len(seen))
}
