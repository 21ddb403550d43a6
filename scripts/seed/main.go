// Seed publishes the texts of Debian's fortunes packages as entries: a channel
// for each collection, tags for its language and name, the authors as agents,
// and some texts as replies to earlier ones. Another run publishes no text again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commons-cluster/commons/api/client"
)

func main() {
	dir := flag.String("dir", "/usr/share/games/fortunes", "directory of the collections")
	urls := flag.String("url", "http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082", "nodes, comma-separated")
	flag.Parse()
	if err := seed(*dir, strings.Split(*urls, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

// connections is how many of them publish at the same time.
const connections = 96

func seed(dir string, urls []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chunks, err := collect(os.DirFS(dir))
	if err != nil {
		return err
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

// patience is how long a publication is repeated at one node after the other.
const patience = 5 * time.Second

// publisher publishes chunks over connections to several nodes.
type publisher struct {
	urls   []string
	config client.Config

	created, known, replies atomic.Int64
}

func newPublisher(urls []string, connections int) *publisher {
	return &publisher{urls: urls, config: client.Config{Patience: patience, HTTP: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
	}}}
}

// publishAll publishes all chunks, each in order, over the given number of
// connections. It stops at the first entry that is rejected.
func (p *publisher) publishAll(ctx context.Context, chunks []chunk, connections int) error {
	nodes := make([]*client.Client, len(p.urls))
	for i := range nodes {
		// Each begins at another node, and goes on at the next one if that fails.
		config := p.config
		config.URLs = slices.Concat(p.urls[i:], p.urls[:i])
		node, err := client.New(config)
		if err != nil {
			return err
		}
		nodes[i] = node
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for i, c := range chunks {
		group.Go(func() error { return p.publishChunk(ctx, nodes[i%len(nodes)], c) })
	}
	return group.Wait()
}

func (p *publisher) publishChunk(ctx context.Context, node *client.Client, c chunk) error {
	ids := make([]string, len(c.texts))
	for i, t := range c.texts {
		entry := client.NewEntry{
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
		published, err := node.Publish(ctx, entry)
		if rejection, is := errors.AsType[*client.Error](err); is && rejection.Status == http.StatusTooManyRequests {
			err = fmt.Errorf("the rate limits are on; `commons dev` and --write-rate 0 have none: %w", err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.channel(), err)
		}
		ids[i] = published.Entry.ID
		if published.Duplicate {
			p.known.Add(1)
		} else {
			p.created.Add(1)
		}
	}
	return nil
}
