// Package await waits for conditions.
package await

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// Every is the usual pause between two tries.
	Every = 10 * time.Millisecond
	// Patience is how long tests wait for a condition, with room for a busy machine.
	Patience = 3 * time.Minute
)

// Until tries until it works, the timeout passes, the error is Final, or ctx ends.
func Until(ctx context.Context, timeout, every time.Duration, try func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if final, is := errors.AsType[finalError](err); is {
			return final.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", timeout, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(every):
		}
	}
}

// finalError makes Until stop trying.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final marks an error after which Until does not try again.
func Final(err error) error { return finalError{err} }

// TB is the part of a testing.TB that Eventually needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

var errNotYet = errors.New("it does not hold")

// Eventually fails a test unless a condition holds within Patience.
func Eventually(tb TB, what string, condition func() bool) {
	tb.Helper()
	err := Until(context.Background(), Patience, Every, func() error {
		if condition() {
			return nil
		}
		return errNotYet
	})
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// Buffer is a log that can be read while it is written. The zero value is empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the log.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the log so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
