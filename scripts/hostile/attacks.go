package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// attack is something that strangers do at once and again and again.
type attack struct {
	name    string
	clients int
	step    func(ctx context.Context, b *bench, client *http.Client, from string, n int)
}

var attacks = []attack{
	{"calls whose client has gone", 8, abandonedWait},
	{"calls that wait", 16, held("GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"connections that say nothing", 16, held("")},
	{"requests that never end", 16, held("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")},
	{"answers that nobody reads", 16, held(strings.Repeat("GET /api/entries?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n", 4))},
	{"searches that look at many words", 4, search},
	{"writes that are wrong", 4, wrongWrite},
	{"entries that cost much to index", 4, rareWords},
	{"mentions of one agent", 4, mention},
	{"writes under another's name", 4, impersonate},
	{"invisible text and odd requests", 4, odd},
}

const (
	// heldEach is how many connections each client of an attack keeps open.
	heldEach = 150
	// owner is the agent whose name is not to be written under with its proof.
	owner = "owner"
	// seeded is how many long entries there are before the attacks, and seedAddresses
	// from how many addresses they came: the limit of writes holds for each.
	seeded        = 100
	seedAddresses = 13
	longest       = 4900 // code points of an entry
)

// dial opens a connection from an address; nil where that fails: an attack goes on.
func dial(ctx context.Context, b *bench, from string) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", b.target.HTTP)
	if err != nil {
		return nil
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	return conn
}

// abandonedWait asks for a wait and leaves.
func abandonedWait(ctx context.Context, b *bench, _ *http.Client, from string, _ int) {
	if conn := dial(ctx, b, from); conn != nil {
		_, _ = io.WriteString(conn, "GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.Close()
	}
}

// held opens connections, says something on each, and reads nothing until the attack
// ends.
func held(request string) func(context.Context, *bench, *http.Client, string, int) {
	return func(ctx context.Context, b *bench, _ *http.Client, from string, n int) {
		if n&(1<<20-1) >= heldEach {
			<-ctx.Done()
			return
		}
		if conn := dial(ctx, b, from); conn != nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, request)
		}
	}
}

func search(ctx context.Context, b *bench, client *http.Client, _ string, _ int) {
	_, _ = get(ctx, client, b.target.URL+"/api/entries?q=a&limit=100")
}

// wrongWrite sends a body as long as one may be, full of what a search for
// credentials looks at, and wrong.
func wrongWrite(ctx context.Context, b *bench, client *http.Client, _ string, n int) {
	_, _, _ = post(ctx, client, b.target.URL+"/api/entries", map[string]any{
		"agent": fmt.Sprintf("wrong%d", n), "body": strings.Repeat("api_key secret token password ", 4000),
	})
}

// rareWords publishes bigrams and words that nobody else uses.
func rareWords(ctx context.Context, b *bench, client *http.Client, _ string, n int) {
	publish(ctx, b, client, fmt.Sprintf("rare%d", n), rareHan())
}

func rareHan() string {
	body := make([]rune, longest)
	for i := range body {
		body[i] = 0x20000 + rand.Int32N(40000) //nolint:gosec // no secret
	}
	return string(body)
}

func mention(ctx context.Context, b *bench, client *http.Client, _ string, n int) {
	publish(ctx, b, client, fmt.Sprintf("junk%d", n), fmt.Sprintf("@%s, look at this: %d.", owner, n))
}

// impersonate tries to write with the owner's proof, with keys that are none.
func impersonate(ctx context.Context, b *bench, client *http.Client, _ string, n int) {
	url := b.target.URL
	_, _, _ = post(ctx, client, url+"/api/entries", map[string]any{"agent": owner, "body": fmt.Sprintf("I am the owner, believe me: %d.", n), "edit_key": fmt.Sprintf("ck_%032d", n)})
	_, _, _ = post(ctx, client, url+"/api/entries", map[string]any{"agent": owner, "body": fmt.Sprintf("Still the owner: %d.", n)})
	_, _, _ = post(ctx, client, url+"/api/agents", map[string]any{"id": owner, "description": "Taken over."})
}

// odd sends what proxies and readers see otherwise than we do.
func odd(ctx context.Context, b *bench, client *http.Client, from string, n int) {
	publish(ctx, b, client, fmt.Sprintf("odd%d", n), "Plain \U000e0041\U000e0042 and \u202e turned \x7f text.")
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
		"POST /api/entries HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
		"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	}
	conn := dial(ctx, b, from)
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

func publish(ctx context.Context, b *bench, client *http.Client, agent, body string) {
	_, _, _ = post(ctx, client, b.target.URL+"/api/entries", map[string]any{"agent": agent, "body": body})
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

// prepare registers the owner, and publishes long entries.
func (b *bench) prepare() error {
	client := from(honestAddress)
	defer client.CloseIdleConnections()
	status, answer, err := post(b.Run.Ctx, client, b.target.URL+"/api/agents", map[string]any{"id": owner, "description": "Owns this name."})
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("register the owner: status %d, %s, %w", status, answer, err)
	}
	for i := range seeded {
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
		status, answer, err := post(b.Run.Ctx, seeder, b.target.URL+"/api/entries", map[string]any{"agent": "seed" + address, "body": body})
		seeder.CloseIdleConnections()
		if err != nil || status != http.StatusCreated {
			return fmt.Errorf("publish: status %d, %.300s, %w", status, answer, err)
		}
	}
	return nil
}

// nameIsSafe fails when an entry under the owner's name says that it was proven: the
// owner has published none. It also returns what attacks found wrong.
func (b *bench) nameIsSafe() error {
	client := harness.NewClient(harness.CallTimeout)
	for page := "?limit=100&agent=" + owner; ; {
		var list struct {
			Entries []struct {
				ID           string
				NameVerified bool
			}
			NextCursor *string
		}
		if _, err := client.Call(b.Run.Ctx, http.MethodGet, b.target.URL+"/api/entries"+page, nil, nil, &list, http.StatusOK); err != nil {
			return err
		}
		for _, e := range list.Entries {
			if e.NameVerified {
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
