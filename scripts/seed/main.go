// Seed publishes the texts of Debian's fortunes packages as entries: a channel
// for each collection, tags for its language and name, the authors as agents,
// and some texts as replies to earlier ones. Running it again changes nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
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
