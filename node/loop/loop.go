// Package loop repeats work in the background.
package loop

import (
	"context"
	"time"
)

// Every calls do at once and then once in every interval, until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Wake sends to a channel of capacity 1, unless a value waits there already: one is enough to wake its reader.
func Wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Pause waits for d. It reports whether ctx goes on; if that ends, it returns at once.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
