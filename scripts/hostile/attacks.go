package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

// attack is a step that many strangers repeat at the same time.
type attack struct {
	name    string
	clients int
	step    step

	addresses string // where it comes from; a format
}

// step is the nth step of one of the clients, at a node and from an address.
type step func(ctx context.Context, b *bench, at stranger, n int)

// stranger is a client of an attack.
type stranger struct {
	*http.Client
	node *harness.Node
	from string
}

var attacks = []attack{
	{name: "calls whose client has gone", clients: 8, step: abandonedWait},
	{name: "calls that wait", clients: 16, step: held("GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")},
	{name: "connections that say nothing", clients: 16, step: held("")},
	{name: "requests that never end", clients: 16, step: held("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")},
	{name: "long bodies that never end", clients: 16, step: held("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 131072\r\n\r\n" + strings.Repeat(" ", 60<<10))},
	{name: "answers that nobody reads", clients: 16, step: held(strings.Repeat("GET /api/entries?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n", 4))},
	{name: "TLS handshakes", clients: 16, step: handshakes},
	{name: "searches that look at many words", clients: 8, step: search},
	{name: "filters and searches at their limits", clients: 8, step: wideSearch},
	{name: "writes that are wrong", clients: 8, step: wrongWrite},
	{name: "entries that cost much to index", clients: 8, step: rareWords},
	{name: "mentions of one agent", clients: 8, step: mention},
	{name: "writes under another's name", clients: 8, step: impersonate},
	{name: "undoing and taking what another has", clients: 8, step: takeOver},
	{name: "invisible text and odd requests", clients: 4, step: odd},
	{name: "recovery keys that are guessed", clients: 8, step: guessRecovery},
}

const (
	// heldEach is how many connections each client of an attack keeps open.
	heldEach = 150
	// owner is the agent with a proven name: strangers must not write with its proof.
	owner = "owner"
	// guarded is a name under which only its owner may write.
	guarded = "guarded"
	// seeded is how many long entries there are before the attacks, and seedAddresses
	// from how many addresses they came: each address has its own limit of writes.
	seeded        = 100
	seedAddresses = 13
	longest       = 4900 // code points of an entry
)

// dial opens a connection from an address. It returns nil if that fails: the attack goes on.
func dial(ctx context.Context, at stranger) net.Conn { return dialAt(ctx, at, at.node.HTTP) }

// dialAt is dial for any address of a node.
func dialAt(ctx context.Context, at stranger, address string) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(at.from)}, Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	return conn
}

// abandonedWait asks for a wait and leaves.
func abandonedWait(ctx context.Context, _ *bench, at stranger, _ int) {
	if conn := dial(ctx, at); conn != nil {
		_, _ = io.WriteString(conn, "GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.Close()
	}
}

// held opens connections, sends a request on each, and leaves them open until the attack
// ends, without a read.
func held(request string) step {
	return func(ctx context.Context, _ *bench, at stranger, n int) {
		if n&(1<<20-1) >= heldEach {
			<-ctx.Done()
			return
		}
		if conn := dial(ctx, at); conn != nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, request)
		}
	}
}

func search(ctx context.Context, _ *bench, at stranger, _ int) {
	_, _ = raw.Do(ctx, at.Client, http.MethodGet, at.node.URL+"/api/entries?q=a&limit=100", "")
}

// mostValues is how many values a filter may have.
const mostValues = 8

// widePaths are lists with the most values, words and candidates that a call may have.
var widePaths = func() []string {
	values := func(name string) string { return strings.Repeat("&"+name+"=%s", mostValues) }
	of := func(query string) string {
		for i := 0; strings.Contains(query, "%s"); i++ {
			query = strings.Replace(query, "%s", fmt.Sprintf("value-%d", i), 1)
		}
		return "/api/entries?limit=100" + query
	}
	letters := strings.Join(strings.Split("abcdefghijklmnop", ""), "+")
	return []string{
		of(values("agent") + values("tag") + "&channel=general"),
		of("&mode=any&q=" + letters + "+"),
		of("&q=%22the+a%22+%22a+the%22+-nothing"),
		of("&q=" + strings.Repeat("-x+", 60) + "&unanswered=1"),
		of("&kind=message,knowledge,feature_request&q=%22a+b%22"),
	}
}()

func wideSearch(ctx context.Context, _ *bench, at stranger, n int) {
	_, _ = raw.Do(ctx, at.Client, http.MethodGet, at.node.URL+widePaths[n%len(widePaths)], "")
}

// wrongWrite sends an invalid body of the greatest length, full of text that a search for
// credentials looks at.
func wrongWrite(ctx context.Context, _ *bench, at stranger, n int) {
	at.publish(ctx, fmt.Sprintf("wrong%d", n), strings.Repeat("api_key secret token password ", 4000))
}

// rareWords publishes bigrams that no other entry has.
func rareWords(ctx context.Context, _ *bench, at stranger, n int) {
	at.publish(ctx, fmt.Sprintf("rare%d", n), rareHan())
}

// rareHan returns a text of rare Chinese characters.
func rareHan() string {
	body := make([]rune, longest)
	for i := range body {
		body[i] = 0x20000 + rand.Int32N(40000) //nolint:gosec // no secret
	}
	return string(body)
}

func mention(ctx context.Context, _ *bench, at stranger, n int) {
	at.publish(ctx, fmt.Sprintf("junk%d", n), fmt.Sprintf("@%s, look at this: %d.", owner, n))
}

// impersonate tries to write as the proven owner, with wrong keys.
func impersonate(ctx context.Context, _ *bench, at stranger, n int) {
	at.post(ctx, "/api/entries", map[string]any{"agent": owner, "body": fmt.Sprintf("I am the owner, believe me: %d.", n), "edit_key": fmt.Sprintf("ck_%032d", n)})
	at.publish(ctx, owner, fmt.Sprintf("Still the owner: %d.", n))
	at.post(ctx, "/api/agents", map[string]any{"id": owner, "description": "Taken over."})
}

// takeOver tries to do what needs the owner's proof, in every way that once worked.
func takeOver(ctx context.Context, b *bench, at stranger, n int) {
	try := func(deed, path string, body map[string]any) {
		if status, answer := at.post(ctx, path, body); status/100 == 2 {
			b.wrong(fmt.Errorf("a stranger may %s: %d %.300s", deed, status, answer))
		}
	}
	text := fmt.Sprintf("For the owner, believe me: %d.", n)
	for _, relation := range []string{"retraction", "correction"} {
		try("make a "+relation+" of another's entry", "/api/entries", map[string]any{"agent": owner, "body": text, "supersedes": b.entry, "relation": relation})
	}
	try("erase another's text", "/api/entries", map[string]any{"agent": owner, "supersedes": b.entry, "relation": "retraction", "erase": true, "edit_key": fmt.Sprintf("ck_%032d", n)})
	try("close another's job", "/api/jobs", map[string]any{"action": "close", "job_id": b.job, "agent": owner})
	try("finish a job without a claim", "/api/jobs", map[string]any{"action": "result", "job_id": b.job, "agent": "passer-by", "result": text})
	for _, action := range []string{"claim", "release", "result"} {
		try(action+" a job that another has claimed", "/api/jobs", map[string]any{"action": action, "job_id": b.claimed, "agent": owner, "result": text, "note": text})
	}
	try("write under a protected name", "/api/entries", map[string]any{"agent": guarded, "body": text})
	for _, name := range []string{"0wner", "оwner", "guаrded"} {
		try("register a name that looks like another's", "/api/agents", map[string]any{"id": name, "description": "Not the owner."})
	}
	// A request_id that a stranger has guessed is not used up for the owner.
	id := fmt.Sprintf("daily-%08d", n)
	at.post(ctx, "/api/entries", map[string]any{"agent": owner, "body": text, "request_id": id})
	own := "The owner's own: " + id
	status, answer := at.post(ctx, "/api/entries", map[string]any{"agent": owner, "body": own, "request_id": id, "edit_key": b.key})
	if status == http.StatusOK && !strings.Contains(string(answer), own) { // an attack may be tried again
		b.wrong(fmt.Errorf("a stranger has used up the owner's request_id: %.300s", answer))
	}
}

// guessRecovery brings recovery keys for the owner's name, and another one in the URL.
func guessRecovery(ctx context.Context, b *bench, at stranger, n int) {
	key := fmt.Sprintf("crk_%052d", n)
	status, answer := at.post(ctx, "/api/agents", map[string]any{"id": owner, "recovery_key": key})
	if status/100 == 2 {
		b.wrong(fmt.Errorf("a guessed recovery key was accepted: %d %.300s", status, answer))
	}
	if status, answer := at.post(ctx, "/api/agents?recovery_key="+key, map[string]any{"id": owner}); status/100 == 2 {
		b.wrong(fmt.Errorf("a recovery key in a URL was accepted: %d %.300s", status, answer))
	}
}

// odd sends requests that proxies and readers interpret differently from us.
func odd(ctx context.Context, b *bench, at stranger, n int) {
	at.publish(ctx, fmt.Sprintf("odd%d", n), "Plain \U000e0041\U000e0042 and \u202e turned \x7f text.")
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
		"POST /api/entries HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
		"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	}
	conn := dial(ctx, at)
	if conn == nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, requests[n%len(requests)])
	answer := make([]byte, len("HTTP/1.1 400"))
	if _, err := io.ReadFull(conn, answer); err == nil && !strings.HasSuffix(string(answer), " 400") && !strings.HasSuffix(string(answer), " 503") {
		b.wrong(fmt.Errorf("%q was answered %q", requests[n%len(requests)], answer))
	}
}

// post sends an object and returns the status, 0 if the call failed, and the answer.
func (at stranger) post(ctx context.Context, path string, body map[string]any) (status int, answer []byte) {
	res, err := raw.Do(ctx, at.Client, http.MethodPost, at.node.URL+path, string(harness.Got(json.Marshal(body))))
	if err != nil {
		return 0, nil
	}
	return res.Status, res.Body
}

func (at stranger) publish(ctx context.Context, agent, body string) {
	at.post(ctx, "/api/entries", map[string]any{"agent": agent, "body": body})
}

// clientFrom returns a client of a node that calls from an address, each time on a new
// connection.
func clientFrom(address, key string, n *harness.Node) *client.Client {
	h := from(address)
	h.Transport.(*http.Transport).DisableKeepAlives = true
	return harness.Got(client.New(client.Config{URLs: []string{n.URL}, HTTP: h, Key: key, Patience: -1}))
}

// prepare registers names, lets the owner write something that attacks try to take over,
// and publishes long entries.
func (b *bench) prepare() {
	ctx := b.Run.Ctx
	anyone := clientFrom(honestAddress, "", b.target)
	b.key = harness.Got(anyone.Register(ctx, client.NewProfile{ID: owner, Description: "Owns this name."})).EditKey
	key := harness.Got(anyone.Register(ctx, client.NewProfile{ID: guarded, Description: "Nobody else writes under this."})).EditKey
	protected := true
	harness.Got(clientFrom(honestAddress, key, b.target).Register(ctx, client.NewProfile{ID: guarded, Protected: &protected}))
	own := clientFrom(honestAddress, b.key, b.target)
	b.entry = harness.Got(own.Publish(ctx, client.NewEntry{Agent: owner, Body: "What the owner says."})).Entry.ID
	b.job = harness.Got(own.ActOnJob(ctx, client.JobAction{Action: client.PostJob, Agent: owner, Title: "The owner's job", Body: "To be done."})).Job.ID
	b.claimed = harness.Got(anyone.ActOnJob(ctx, client.JobAction{Action: client.PostJob, Agent: "poster", Title: "A job for the owner", Body: "To be done."})).Job.ID
	harness.Got(own.ActOnJob(ctx, client.JobAction{Action: client.ClaimJob, Agent: owner, JobID: b.claimed}))
	for i := range seeded {
		address := fmt.Sprintf("127.0.3.%d", 1+i%seedAddresses)
		body := rareHan()
		if i%2 == 0 {
			var words strings.Builder
			for j := range longest / 8 {
				fmt.Fprintf(&words, "a%05d%c ", i*1000+j, 'a'+rune(j%26))
			}
			body = words.String()
		}
		harness.Got(clientFrom(address, "", b.target).Publish(ctx, client.NewEntry{Agent: "seed" + address, Body: body}))
	}
}

// nameIsSafe fails when an entry under the owner's name says that it was proven but is not
// the owner's, or says that it is the operator's, or when an attack found something wrong.
func (b *bench) nameIsSafe() {
	for _, e := range harness.Got(b.target.List(0, client.EntryQuery{Agent: owner})) {
		own := e.ID == b.entry || e.ID == b.job || strings.HasPrefix(e.Body, "The owner's own: ") || strings.HasPrefix(e.Title, "Claimed: ")
		if (e.House || e.NameVerified) && !own {
			harness.Failf("%s was written under a name that another key owns, with its proof", e.ID)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	harness.Must(b.found)
}

// wrong keeps the first thing that an attack found.
func (b *bench) wrong(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found == nil {
		b.found = err
	}
}
