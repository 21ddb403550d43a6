package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// padding makes entries as long as real entries.
var padding = strings.Repeat("the quick brown fox jumps over the lazy dog and ", 25)

// Load is clients that work in closed loops on one channel, and a record of their
// acknowledged publications.
type Load struct {
	Channel string
	Padding int // bytes of text in each entry beside its request id, at most 1,200

	parent context.Context
	ctx    context.Context // of the clients
	cancel context.CancelFunc
	group  sync.WaitGroup
	round  int // publications after another Start have other request ids

	mu    sync.Mutex
	acks  []Ack
	index uint64
	errs  []error
}

// Ack is an acknowledged publication.
type Ack struct {
	RequestID string
	ID        string
	At        time.Time
}

// NewLoad prepares a load that ends with ctx at the latest.
func NewLoad(ctx context.Context, channel string) *Load {
	return &Load{Channel: channel, parent: ctx, cancel: func() {}}
}

// Start makes writers publish until Stop. Each publishes one request id after the other,
// with a pause after each. An error of publish ends its writer and is kept.
func (l *Load) Start(writers int, pause time.Duration, publish func(writer int, requestID string) error) {
	l.ctx, l.cancel = context.WithCancel(l.parent)
	l.round++
	for i := range writers {
		prefix := fmt.Sprintf("%s-%d-%d", l.Channel, l.round, i)
		l.Go(pause, func(_ context.Context, n int) error { return publish(i, fmt.Sprintf("%s-%d", prefix, n)) })
	}
}

// Go adds a client to a started load. It repeats a step, with a pause after each. The
// step's context ends with Stop.
func (l *Load) Go(pause time.Duration, step func(ctx context.Context, n int) error) {
	ctx := l.ctx
	l.group.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := step(ctx, n); err != nil {
				l.mu.Lock()
				l.errs = append(l.errs, err)
				l.mu.Unlock()
				return
			}
			time.Sleep(pause)
		}
	})
}

// Stop ends the clients after their current calls are answered.
func (l *Load) Stop() {
	l.cancel()
	l.group.Wait()
}

// Fields are the fields of a publication. Its agent has the writer's name.
func (l *Load) Fields(requestID string) map[string]any {
	return map[string]any{
		"agent": requestID[:strings.LastIndexByte(requestID, '-')], "channel": l.Channel, "request_id": requestID,
		"body": l.body(requestID),
	}
}

func (l *Load) body(requestID string) string {
	return strings.TrimSpace("body of " + requestID + " " + padding[:l.Padding])
}

// Acknowledged records the answer to a publication.
func (l *Load) Acknowledged(requestID string, answer Published) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, Ack{requestID, answer.Entry.ID, time.Now()})
	l.index = max(l.index, answer.Index)
}

// Acks returns what was acknowledged so far, oldest first, and the highest index of
// the answers.
func (l *Load) Acks() (acks []Ack, index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.acks), l.index
}

// Failed returns the errors of the clients.
func (l *Load) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// WaitForMore waits for so many more acknowledgements, without an error of a client.
func (l *Load) WaitForMore(enough int) error {
	before, _ := l.Acks()
	return Until(l.parent, ReadyTimeout, PollEvery, func() error {
		if err := l.Failed(); err != nil {
			return Final(err)
		}
		acks, _ := l.Acks()
		if got := len(acks) - len(before); got < enough {
			return fmt.Errorf("%d of %d publications acknowledged", got, enough)
		}
		return nil
	})
}

// Gap returns the longest time without an acknowledgement since a moment.
func (l *Load) Gap(since time.Time) time.Duration {
	var longest time.Duration
	last := since
	acks, _ := l.Acks()
	for _, a := range acks {
		if a.At.After(since) {
			longest = max(longest, a.At.Sub(last))
			last = a.At
		}
	}
	return longest
}

// Verify compares all entries of the channel, as a node lists them, with what was
// acknowledged: each is there under its id, once, newest first, and nothing else.
func (l *Load) Verify(entries []Entry) error {
	byBody := map[string]int{}
	byID := map[string]string{}
	for i, e := range entries {
		byBody[e.Body]++
		byID[e.ID] = e.Body
		if i > 0 && e.CreatedAt > entries[i-1].CreatedAt {
			return fmt.Errorf("%s is older than %s and stands before it", entries[i-1].ID, e.ID)
		}
	}
	acks, _ := l.Acks()
	for _, a := range acks {
		body := l.body(a.RequestID)
		if byID[a.ID] != body {
			return fmt.Errorf("%s was acknowledged as %s and is lost (the entry of that id has body %.40q)", a.RequestID, a.ID, byID[a.ID])
		}
		if n := byBody[body]; n != 1 {
			return fmt.Errorf("%d entries for request id %s", n, a.RequestID)
		}
	}
	if len(entries) != len(acks) {
		return fmt.Errorf("%d entries, %d acknowledged", len(entries), len(acks))
	}
	return nil
}
