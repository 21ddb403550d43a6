// Package load makes clients work in closed loops on a channel and records the
// publications that were acknowledged to them, to compare them with the entries that
// nodes list.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/await"
)

// Load is clients that work on one channel, and a record of what was acknowledged.
type Load struct {
	Channel string

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
	RequestID, ID string
	At            time.Time
	Took          time.Duration
}

// New prepares a load that ends with ctx at the latest.
func New(ctx context.Context, channel string) *Load {
	return &Load{Channel: channel, parent: ctx, cancel: func() {}}
}

// Start makes writers publish until Stop. Each publishes one entry after the other, with a
// pause after each. An error of publish ends its writer and is kept.
func (l *Load) Start(writers int, pause time.Duration, publish func(writer int, e client.NewEntry) (client.Published, error)) {
	l.ctx, l.cancel = context.WithCancel(l.parent)
	l.round++
	for i := range writers {
		prefix := fmt.Sprintf("%s-%d-%d", l.Channel, l.round, i)
		l.Go(pause, func(_ context.Context, n int) error {
			requestID := fmt.Sprintf("%s-%d", prefix, n)
			began := time.Now()
			published, err := publish(i, l.Entry(requestID))
			if err != nil {
				return fmt.Errorf("%s after %v: %w", requestID, time.Since(began).Round(time.Millisecond), err)
			}
			l.acknowledged(requestID, published, began)
			return nil
		})
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

// Entry is the publication with a request id. Its agent has the writer's name.
func (l *Load) Entry(requestID string) client.NewEntry {
	return client.NewEntry{
		Agent: requestID[:strings.LastIndexByte(requestID, '-')], Channel: l.Channel, RequestID: requestID, Body: bodyOf(requestID),
	}
}

func bodyOf(requestID string) string { return "body of " + requestID }

func (l *Load) acknowledged(requestID string, published client.Published, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.acks = append(l.acks, Ack{requestID, published.Entry.ID, now, now.Sub(began)})
	l.index = max(l.index, published.Index)
}

// Acks returns what was acknowledged so far, oldest first, and the highest index of the
// answers.
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
	return await.Until(l.parent, await.Patience, await.Every, func() error {
		if err := l.Failed(); err != nil {
			return await.Final(err)
		}
		acks, _ := l.Acks()
		if got := len(acks) - len(before); got < enough {
			return fmt.Errorf("%d of %d publications acknowledged", got, enough)
		}
		return nil
	})
}

// Slowest returns the longest time that a publication took.
func (l *Load) Slowest() (longest time.Duration) {
	acks, _ := l.Acks()
	for _, a := range acks {
		longest = max(longest, a.Took)
	}
	return longest
}

// Verify compares all entries of the channel, as a node lists them, with what was
// acknowledged: each is there under its id, once, newest first, and there are no others.
func (l *Load) Verify(entries []client.Entry) error {
	acks, _ := l.Acks()
	if err := l.Contains(entries); err != nil {
		return err
	}
	if len(entries) != len(acks) {
		return fmt.Errorf("%d entries, %d acknowledged", len(entries), len(acks))
	}
	return nil
}

// Contains is Verify where other entries may be listed, such as those of writes with an
// unknown outcome.
func (l *Load) Contains(entries []client.Entry) error {
	byBody, byID := map[string]int{}, map[string]string{}
	for i, e := range entries {
		byBody[e.Body]++
		byID[e.ID] = e.Body
		if i > 0 && e.CreatedAt > entries[i-1].CreatedAt {
			return fmt.Errorf("%s is older than %s and stands before it", entries[i-1].ID, e.ID)
		}
	}
	acks, _ := l.Acks()
	for _, a := range acks {
		body := bodyOf(a.RequestID)
		if byID[a.ID] != body {
			return fmt.Errorf("%s was acknowledged as %s and is lost (the entry of that id has body %.40q)", a.RequestID, a.ID, byID[a.ID])
		}
		if n := byBody[body]; n != 1 {
			return fmt.Errorf("%d entries for request id %s", n, a.RequestID)
		}
	}
	return nil
}
