package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Entry is what the tests look at of an entry.
type Entry struct {
	ID        string `json:"id"`
	Agent     string `json:"agent"`
	Body      string `json:"body"`
	Channel   string `json:"channel"`
	CreatedAt int64  `json:"createdAt"`
}

// Answer is the answer to a write.
type Answer struct {
	Status    int    `json:"-"`
	Index     uint64 `json:"-"` // X-Commons-Index
	Entry     Entry  `json:"entry"`
	Duplicate bool   `json:"duplicate"`
	Code      string `json:"code"` // of the Error object
	Message   string `json:"error"`
}

// Post is a write.
type Post struct {
	Agent     string `json:"agent,omitempty"`
	Channel   string `json:"channel,omitempty"`
	Body      string `json:"body"`
	RequestID string `json:"request_id,omitempty"`
	ReplyTo   string `json:"reply_to,omitempty"`
}

// URL returns the node's base URL.
func (nd *Node) URL() string { return "http://" + nd.Config.HTTPAddr }

// Publish sends one write and returns its answer; the error is the connection's.
func (nd *Node) Publish(ctx context.Context, p Post) (a Answer, err error) {
	status, header, err := nd.call(ctx, http.MethodPost, "/api/entries", p, &a)
	if err != nil {
		return Answer{}, err
	}
	a.Status = status
	a.Index, err = strconv.ParseUint(header.Get("X-Commons-Index"), 10, 64)
	return a, err
}

// MustPublish is Publish for a write that has to succeed.
func (c *Cluster) MustPublish(i int, p Post) Answer {
	c.t.Helper()
	a, err := c.Nodes[i].Publish(context.Background(), p)
	if err != nil {
		c.t.Fatalf("publish on node %d: %v", i, err)
	}
	if a.Status != http.StatusCreated {
		c.t.Fatalf("publish on node %d: status %d, %s: %s", i, a.Status, a.Code, a.Message)
	}
	return a
}

// Page is one page of a list.
type Page struct {
	Entries    []Entry `json:"entries"`
	NextCursor *string `json:"nextCursor"`
	Code       string  `json:"code"` // of the Error object
}

// List lists entries with the query; the status says whether it is one.
func (nd *Node) List(query url.Values) (page Page, status int, err error) {
	status, err = nd.GetJSON("/api/entries?"+query.Encode(), &page)
	return page, status, err
}

// All lists every entry of a node that matches the query, following the cursor.
func (c *Cluster) All(i int, query url.Values) []Entry {
	c.t.Helper()
	q := url.Values{"limit": {"100"}}
	maps.Copy(q, query)
	var all []Entry
	for {
		page, status, err := c.Nodes[i].List(q)
		if err != nil || status != http.StatusOK {
			c.t.Fatalf("list on node %d: status %d, code %q, error %v", i, status, page.Code, err)
		}
		all = append(all, page.Entries...)
		if page.NextCursor == nil {
			return all
		}
		q.Set("cursor", *page.NextCursor)
	}
}

// Get returns an entry by its id; the status says whether it is there.
func (nd *Node) Get(id string) (e Entry, status int, err error) {
	var body struct {
		Entry Entry `json:"entry"`
	}
	status, err = nd.GetJSON("/api/entries/"+url.PathEscape(id), &body)
	return body.Entry, status, err
}

// GetJSON gets a path and decodes the answer, with any status.
func (nd *Node) GetJSON(path string, into any) (status int, err error) {
	status, _, err = nd.call(context.Background(), http.MethodGet, path, nil, into)
	return status, err
}

// PostJSON posts a body and decodes the answer, with any status.
func (nd *Node) PostJSON(path string, body, into any) (status int, err error) {
	status, _, err = nd.call(context.Background(), http.MethodPost, path, body, into)
	return status, err
}

// call sends a body as JSON and decodes the answer, with any status.
func (nd *Node) call(ctx context.Context, method, path string, body, into any) (status int, header http.Header, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		data = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, nd.URL()+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return nd.Do(req, into)
}

// GetText gets a path and returns the answer as it is.
func (nd *Node) GetText(path string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, nd.URL()+path, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := nd.c.HTTP.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

// Do sends a request and decodes the answer, with any status.
func (nd *Node) Do(req *http.Request, into any) (status int, header http.Header, err error) {
	res, err := nd.c.HTTP.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return 0, nil, fmt.Errorf("%s answered %d %.200q: %w", req.URL, res.StatusCode, data, err)
	}
	return res.StatusCode, res.Header, nil
}

// Load is a number of writers, each with one write under way at any time.
type Load struct {
	c       *Cluster
	channel string // its own
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	acked  map[string]string // entry id by request_id
	failed []string
	lost   bool          // writes with an unknown result may be listed or not
	slow   time.Duration // the longest write
}

// loadPause is between two writes of a writer: load finds mistakes by its variety,
// and other tests need the processors.
const loadPause = 5 * time.Millisecond

// StartLoad starts writers that publish through the given nodes, each write
// through any of them.
func (c *Cluster) StartLoad(writers int, nodes ...int) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	c.loads++
	l := &Load{c: c, channel: fmt.Sprintf("load-%d", c.loads), cancel: cancel, acked: map[string]string{}}
	targets := make([]*Node, len(nodes))
	for k, i := range nodes {
		targets[k] = c.Nodes[i]
	}
	for w := range writers {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.write(targets[rand.IntN(len(targets))], w, n)
				time.Sleep(loadPause)
			}
		})
	}
	return l
}

func (l *Load) write(to *Node, writer, n int) {
	p := Post{
		Agent: fmt.Sprintf("writer-%d", writer), Channel: l.channel,
		Body: fmt.Sprintf("write %d of writer %d", n, writer), RequestID: fmt.Sprintf("%s-%d-%d", l.channel, writer, n),
	}
	start := time.Now()
	a, err := to.Publish(context.Background(), p)
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = max(l.slow, took)
	switch {
	case err != nil:
		l.failed = append(l.failed, fmt.Sprintf("%s on node %d after %v: %v", p.RequestID, to.index, took, err))
	case a.Status != http.StatusCreated:
		l.failed = append(l.failed, fmt.Sprintf("%s on node %d after %v: status %d, %s: %s", p.RequestID, to.index, took, a.Status, a.Code, a.Message))
	default:
		l.acked[p.RequestID] = a.Entry.ID
	}
}

// Acked returns how many writes were acknowledged so far.
func (l *Load) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// WaitMore waits until n more writes were acknowledged.
func (l *Load) WaitMore(n int) {
	l.c.t.Helper()
	target := l.Acked() + n
	l.c.Eventually("writes go on", func() string {
		if got := l.Acked(); got < target {
			return fmt.Sprintf("%d of %d acknowledged", got, target)
		}
		return ""
	})
}

// Stop ends the writers and fails the test when a write failed.
func (l *Load) Stop() {
	l.c.t.Helper()
	l.cancel()
	l.wg.Wait()
	for k, f := range l.failed {
		if k == 10 {
			l.c.t.Errorf("and %d more", len(l.failed)-k)
			break
		}
		l.c.t.Errorf("a client saw an error: %s", f)
	}
	l.c.t.Logf("%d writes acknowledged, the slowest took %v", len(l.acked), l.slow)
}

// Abandon ends the writers when their nodes are down. Of the writes that failed
// nobody knows whether they are in the log.
func (l *Load) Abandon() {
	l.cancel()
	l.wg.Wait()
	l.lost = true
}

// Check compares the acknowledged writes with what every running node holds:
// each is there, once, and nothing else is in the channel.
func (l *Load) Check() {
	l.c.t.Helper()
	l.c.WaitConverged()
	for _, i := range l.c.Running() {
		found := map[string]int{}
		for _, e := range l.c.All(i, url.Values{"channel": {l.channel}}) {
			found[e.ID]++
		}
		for request, id := range l.acked {
			if found[id] != 1 {
				l.c.t.Errorf("node %d: %s was acknowledged as %s, which is listed %d times", i, request, id, found[id])
			}
		}
		if !l.lost && len(l.failed) == 0 && len(found) != len(l.acked) {
			l.c.t.Errorf("node %d lists %d entries, %d were acknowledged", i, len(found), len(l.acked))
		}
	}
	ids := map[string]string{}
	for request, id := range l.acked {
		if other, dup := ids[id]; dup {
			l.c.t.Errorf("%s and %s were both acknowledged as %s", request, other, id)
		}
		ids[id] = request
	}
}
