package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	slowConns = 5000
	// slowPause is between two bytes of a request that never comes to its end.
	slowPause = time.Second
	// slowClosed is how long the node may take to close such a connection, and
	// slowPatience what a busy machine may add.
	slowClosed   = 10 * time.Second
	slowPatience = 20 * time.Second
)

// slowClients has thousands of clients that send a request byte by byte, and looks
// at what the others see meanwhile. The node has to close all of them.
func slowClients(c *cluster) error {
	if !c.bench.long {
		return nil
	}
	if !filesFor(slowConns) {
		return nil
	}
	node := c.Nodes[0]
	list := func() (measured, error) {
		return c.measure("list", "--connections", "16", "--duration", "5s", "--url", node.URL)
	}
	alone, err := list()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), slowClosed+slowPatience)
	defer cancel()
	var wg sync.WaitGroup
	lasted, failed := make([]time.Duration, slowConns), make([]error, slowConns)
	for i := range slowConns {
		wg.Go(func() { lasted[i], failed[i] = dribble(ctx, node.HTTP) })
	}
	beside, err := list()
	wg.Wait()
	if err := errors.Join(err, errors.Join(failed...)); err != nil {
		return err
	}
	longest := time.Duration(0)
	for _, d := range lasted {
		longest = max(longest, d)
	}
	fmt.Printf("   %d slow connections, the last closed after %.1f s; lists took %.2f ms (p99), beside them %.2f ms\n",
		slowConns, longest.Seconds(), alone.LatencyMs["list"].P99, beside.LatencyMs["list"].P99)
	return nil
}

// dribble sends a request byte by byte until the other side closes the connection,
// and returns how long that took. It fails when ctx ends first.
func dribble(ctx context.Context, addr string) (time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	start := time.Now()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // to the end of the connection
		close(closed)
	}()
	tick := time.NewTicker(slowPause)
	defer tick.Stop()
	const request = "GET /api/entries HTTP/1.1\r\nX-Long: "
	for sent := 0; ; sent++ {
		if _, err := conn.Write([]byte{(request + "a")[min(sent, len(request))]}); err != nil {
			return time.Since(start), nil
		}
		select {
		case <-tick.C:
		case <-closed:
			return time.Since(start), nil
		case <-ctx.Done():
			return 0, fmt.Errorf("a slow connection was still open after %v", time.Since(start).Round(time.Second))
		}
	}
}
