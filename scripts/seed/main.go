// Seed publishes the texts of Debian's fortunes packages as entries: a channel
// for each collection, tags for its language and name, the authors as agents,
// and some texts as replies to earlier ones. Running it again changes nothing.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	dir := flag.String("dir", "/usr/share/games/fortunes", "directory of the collections")
	urls := flag.String("url", "http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082", "nodes, comma-separated")
	connections := flag.Int("connections", 96, "connections that publish at the same time")
	chunks := flag.Int("chunks", 0, "publish only so many runs of 50 texts; 0: all")
	flag.Parse()
	if err := seed(*dir, strings.Split(*urls, ","), *connections, *chunks); err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

func seed(dir string, urls []string, connections, limit int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chunks, err := collect(os.DirFS(dir))
	if err != nil {
		return err
	}
	if limit > 0 && limit < len(chunks) {
		chunks = chunks[:limit]
	}
	total := 0
	for _, c := range chunks {
		total += len(c.texts)
	}
	if total == 0 {
		return fmt.Errorf("no texts in %s", dir)
	}
	fmt.Printf("publishing %d texts through %s\n", total, strings.Join(urls, ", "))
	p := newPublisher(urls, connections)
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- p.publishAll(ctx, chunks, connections) }()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			seconds := time.Since(start).Seconds()
			done := p.created.Load() + p.known.Load()
			fmt.Printf("%d published, %d known from before, %d of them replies; %.1f s, %.0f a second\n",
				p.created.Load(), p.known.Load(), p.replies.Load(), seconds, float64(done)/seconds)
			return err
		case <-ticker.C:
			fmt.Printf("  %d of %d\n", p.created.Load()+p.known.Load(), total)
		}
	}
}

// How publishing continues when a node does not answer.
const (
	requestTimeout = 30 * time.Second
	attempts       = 20
	retryAfter     = 250 * time.Millisecond
	maxAnswer      = 1 << 20
)

// publisher publishes chunks over connections to several nodes.
type publisher struct {
	urls       []string
	client     *http.Client
	retryAfter time.Duration

	created, known, replies atomic.Int64
	next                    atomic.Int64 // counts requests, to take the nodes in turn
}

func newPublisher(urls []string, connections int) *publisher {
	return &publisher{urls: urls, retryAfter: retryAfter, client: &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
	}}
}

// publishAll publishes all chunks, each in order, over the given number of
// connections. It stops at the first entry that is rejected.
func (p *publisher) publishAll(ctx context.Context, chunks []chunk, connections int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan chunk)
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for c := range work {
				if err := p.publishChunk(ctx, c); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for _, c := range chunks {
		select {
		case work <- c:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	group.Wait()
	return context.Cause(ctx)
}

// newEntry is the body of a publication.
type newEntry struct {
	Agent     string   `json:"agent"`
	Channel   string   `json:"channel"`
	Body      string   `json:"body"`
	Tags      []string `json:"tags"`
	RequestID string   `json:"request_id"`
	ReplyTo   string   `json:"reply_to,omitempty"`
}

func (p *publisher) publishChunk(ctx context.Context, c chunk) error {
	ids := make([]string, len(c.texts))
	for i, t := range c.texts {
		entry := newEntry{
			Agent: t.author, Channel: c.channel(), Body: t.body,
			Tags: []string{c.language, c.collection}, RequestID: c.requestID(t),
		}
		if entry.Agent == "" {
			entry.Agent = "fortune-" + c.language
		}
		if i%replyEvery == replyEvery-1 {
			entry.ReplyTo = ids[i-replyTo]
			p.replies.Add(1)
		}
		id, err := p.publish(ctx, entry)
		if err != nil {
			return fmt.Errorf("%s: %w", c.channel(), err)
		}
		ids[i] = id
	}
	return nil
}

// errRejected is an answer that a repetition would not change.
var errRejected = errors.New("rejected")

// publish publishes one entry at the next node, and at others when that one
// does not answer: the request id makes sure that there is one entry.
func (p *publisher) publish(ctx context.Context, entry newEntry) (string, error) {
	body, err := json.Marshal(entry)
	if err != nil {
		return "", err
	}
	for attempt := 1; ; attempt++ {
		node := p.urls[int(p.next.Add(1))%len(p.urls)]
		id, err := p.post(ctx, node+"/api/entries", body)
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case errors.Is(err, errRejected), attempt == attempts:
			return "", err
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.retryAfter):
		}
	}
}

func (p *publisher) post(ctx context.Context, url string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	var published struct{ Entry struct{ ID string } }
	switch {
	case res.StatusCode == http.StatusCreated:
		p.created.Add(1)
	case res.StatusCode == http.StatusOK:
		p.known.Add(1)
	case res.StatusCode >= http.StatusInternalServerError:
		return "", fmt.Errorf("%s answers %s: %s", url, res.Status, answer)
	case res.StatusCode == http.StatusTooManyRequests:
		return "", fmt.Errorf("%w: the rate limits are on; `commons dev` and --write-rate 0 have none: %s", errRejected, answer)
	default:
		return "", fmt.Errorf("%w: %s answers %s: %s\nto %s", errRejected, url, res.Status, answer, body)
	}
	if err := json.Unmarshal(answer, &published); err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	return published.Entry.ID, nil
}
