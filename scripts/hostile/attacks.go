package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// attack is something that many strangers do repeatedly at the same time.
type attack struct {
	name    string
	clients int
	step    step

	addresses string // where it comes from; a format
}

// step is what one of the clients does, at a node, from an address, for the nth time.
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
	{name: "searches that look at many words", clients: 8, step: search},
	{name: "writes that are wrong", clients: 8, step: wrongWrite},
	{name: "entries that cost much to index", clients: 8, step: rareWords},
	{name: "mentions of one agent", clients: 8, step: mention},
	{name: "writes under another's name", clients: 8, step: impersonate},
	{name: "undoing and taking what another has", clients: 8, step: takeOver},
	{name: "invisible text and odd requests", clients: 4, step: odd},
}

const (
	// heldEach is how many connections each client of an attack keeps open.
	heldEach = 150
	// owner is the agent with a proven name: strangers must not write with its proof.
	owner = "owner"
	// guarded is a name under which nobody else may write.
	guarded = "guarded"
	// seeded is how many long entries there are before the attacks, and seedAddresses
	// from how many addresses they came: each address has its own limit of writes.
	seeded        = 100
	seedAddresses = 13
	longest       = 4900 // code points of an entry
)

// dial opens a connection from an address; nil where that fails: an attack goes on.
func dial(ctx context.Context, at stranger) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(at.from)}, Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", at.node.HTTP)
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

// held opens connections, says something on each, and reads nothing until the attack
// ends.
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
	_, _ = get(ctx, at.Client, at.node.URL+"/api/entries?q=a&limit=100")
}

// wrongWrite sends an invalid body of the greatest length, full of text that a search for
// credentials looks at.
func wrongWrite(ctx context.Context, _ *bench, at stranger, n int) {
	_, _, _ = post(ctx, at.Client, at.node.URL+"/api/entries", map[string]any{
		"agent": fmt.Sprintf("wrong%d", n), "body": strings.Repeat("api_key secret token password ", 4000),
	})
}

// rareWords publishes bigrams and words that nobody else uses.
func rareWords(ctx context.Context, _ *bench, at stranger, n int) {
	publish(ctx, at, fmt.Sprintf("rare%d", n), rareHan())
}

func rareHan() string {
	body := make([]rune, longest)
	for i := range body {
		body[i] = 0x20000 + rand.Int32N(40000) //nolint:gosec // no secret
	}
	return string(body)
}

func mention(ctx context.Context, _ *bench, at stranger, n int) {
	publish(ctx, at, fmt.Sprintf("junk%d", n), fmt.Sprintf("@%s, look at this: %d.", owner, n))
}

// impersonate tries to write as the proven owner, with wrong keys.
func impersonate(ctx context.Context, _ *bench, at stranger, n int) {
	url, client := at.node.URL, at.Client
	_, _, _ = post(ctx, client, url+"/api/entries", map[string]any{"agent": owner, "body": fmt.Sprintf("I am the owner, believe me: %d.", n), "edit_key": fmt.Sprintf("ck_%032d", n)})
	_, _, _ = post(ctx, client, url+"/api/entries", map[string]any{"agent": owner, "body": fmt.Sprintf("Still the owner: %d.", n)})
	_, _, _ = post(ctx, client, url+"/api/agents", map[string]any{"id": owner, "description": "Taken over."})
}

// takeOver tries what needs the owner's proof, in every way that once worked.
func takeOver(ctx context.Context, b *bench, at stranger, n int) {
	try := func(what, path string, body map[string]any) {
		status, answer, err := post(ctx, at.Client, at.node.URL+path, body)
		if err == nil && status/100 == 2 {
			b.wrong(fmt.Errorf("a stranger may %s: %d %.300s", what, status, answer))
		}
	}
	text := fmt.Sprintf("For the owner, believe me: %d.", n)
	try("retract another's entry", "/api/entries", map[string]any{"agent": owner, "body": text, "supersedes": b.entry, "relation": "retraction"})
	try("correct another's entry", "/api/entries", map[string]any{"agent": owner, "body": text, "supersedes": b.entry, "relation": "correction"})
	try("close another's job", "/api/jobs", map[string]any{"action": "close", "job_id": b.job, "agent": owner})
	for _, action := range []string{"claim", "release", "result"} {
		try(action+" a job that another has claimed", "/api/jobs", map[string]any{"action": action, "job_id": b.claimed, "agent": owner, "result": text, "note": text})
	}
	try("write under a protected name", "/api/entries", map[string]any{"agent": guarded, "body": text})
	for _, name := range []string{"0wner", "оwner", "guаrded"} {
		try("register a name that looks like another's", "/api/agents", map[string]any{"id": name, "description": "Not the owner."})
	}
	// A request_id that a stranger has guessed is not used up for the owner.
	id := fmt.Sprintf("daily-%08d", n)
	_, _, _ = post(ctx, at.Client, at.node.URL+"/api/entries", map[string]any{"agent": owner, "body": text, "request_id": id})
	status, answer, err := post(ctx, at.Client, at.node.URL+"/api/entries", map[string]any{"agent": owner, "body": "The owner's own: " + id, "request_id": id, "edit_key": b.key})
	if err == nil && status == http.StatusOK {
		b.wrong(fmt.Errorf("a stranger has used up the owner's request_id: %.300s", answer))
	}
}

// odd sends requests that proxies and readers interpret differently from us.
func odd(ctx context.Context, b *bench, at stranger, n int) {
	publish(ctx, at, fmt.Sprintf("odd%d", n), "Plain \U000e0041\U000e0042 and \u202e turned \x7f text.")
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

func publish(ctx context.Context, at stranger, agent, body string) {
	_, _, _ = post(ctx, at.Client, at.node.URL+"/api/entries", map[string]any{"agent": agent, "body": body})
}

// get makes a GET, reads the answer and returns its status.
func get(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// post sends an object and returns the status and the answer.
func post(ctx context.Context, client *http.Client, url string, body any) (int, []byte, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// prepare registers names, lets the owner write something that attacks try to take over,
// and publishes long entries.
func (b *bench) prepare() error {
	client := from(honestAddress)
	defer client.CloseIdleConnections()
	write := func(client *http.Client, path string, body map[string]any) (id, key string, err error) {
		status, answer, err := post(b.Run.Ctx, client, b.target.URL+path, body)
		if err != nil || status != http.StatusCreated {
			return "", "", fmt.Errorf("%s: status %d, %.300s, %w", path, status, answer, err)
		}
		var got struct {
			EditKey    string `json:"edit_key"`
			Entry, Job struct{ ID string }
		}
		err = json.Unmarshal(answer, &got)
		return got.Entry.ID + got.Job.ID, got.EditKey, err
	}
	var failed error
	made := func(path string, body map[string]any) (id, key string) {
		id, key, err := write(client, path, body)
		failed = errors.Join(failed, err)
		return id, key
	}
	_, b.key = made("/api/agents", map[string]any{"id": owner, "description": "Owns this name."})
	_, key := made("/api/agents", map[string]any{"id": guarded, "description": "Nobody else writes under this."})
	made("/api/agents", map[string]any{"id": guarded, "protected": true, "edit_key": key})
	b.entry, _ = made("/api/entries", map[string]any{"agent": owner, "body": "What the owner says.", "edit_key": b.key})
	b.job, _ = made("/api/jobs", map[string]any{"action": "post", "agent": owner, "title": "The owner's job", "body": "To be done.", "edit_key": b.key})
	b.claimed, _ = made("/api/jobs", map[string]any{"action": "post", "agent": "poster", "title": "A job for the owner", "body": "To be done."})
	made("/api/jobs", map[string]any{"action": "claim", "job_id": b.claimed, "agent": owner, "edit_key": b.key})
	for i := 0; i < seeded && failed == nil; i++ {
		address := fmt.Sprintf("127.0.3.%d", 1+i%seedAddresses)
		seeder := from(address)
		body := rareHan()
		if i%2 == 0 {
			var words strings.Builder
			for j := range longest / 8 {
				fmt.Fprintf(&words, "a%05d%c ", i*1000+j, 'a'+rune(j%26))
			}
			body = words.String()
		}
		_, _, failed = write(seeder, "/api/entries", map[string]any{"agent": "seed" + address, "body": body})
		seeder.CloseIdleConnections()
	}
	return failed
}

// nameIsSafe fails when an entry under the owner's name says that it was proven but is not
// the owner's, or says that it is the operator's. It also returns what attacks found wrong.
func (b *bench) nameIsSafe() error {
	client := harness.NewClient(harness.CallTimeout)
	for page := "?limit=100&agent=" + owner; ; {
		var list struct {
			Entries []struct {
				ID, Title           string
				Body                string
				NameVerified, House bool
			}
			NextCursor *string
		}
		if _, err := client.Call(b.Run.Ctx, http.MethodGet, b.target.URL+"/api/entries"+page, nil, nil, &list, http.StatusOK); err != nil {
			return err
		}
		for _, e := range list.Entries {
			own := e.ID == b.entry || e.ID == b.job || strings.HasPrefix(e.Body, "The owner's own: ") || strings.HasPrefix(e.Title, "Claimed: ")
			if (e.House || e.NameVerified) && !own {
				return fmt.Errorf("%s was written under a name that another key owns, with its proof", e.ID)
			}
		}
		if list.NextCursor == nil {
			break
		}
		page = "?limit=100&agent=" + owner + "&cursor=" + *list.NextCursor
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found
}

// wrong keeps the first thing that an attack found.
func (b *bench) wrong(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found == nil {
		b.found = err
	}
}
