package op

import "sync"

// news notifies the followers of events when there are new ones. While there are
// followers, one goroutine watches the state. Calls that wait for jobs count as followers: one
// job wakes them all.
type news struct {
	watch func() (wake <-chan struct{}, stop func())

	mu        sync.Mutex
	followers int
	wake      chan struct{} // is closed with the next news
	done      chan struct{}
}

// Join counts a follower, which calls leave when it stops.
func (n *news) Join() (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.followers++; n.followers == 1 {
		n.wake, n.done = make(chan struct{}), make(chan struct{})
		wake, stop := n.watch()
		go n.run(wake, stop, n.done)
	}
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.followers--; n.followers == 0 {
			close(n.done)
		}
	})
}

func (n *news) run(wake <-chan struct{}, stop func(), done <-chan struct{}) {
	defer stop()
	for {
		select {
		case <-done:
			return
		case <-wake:
			n.mu.Lock()
			close(n.wake)
			n.wake = make(chan struct{})
			n.mu.Unlock()
		}
	}
}

// Next returns a channel that is closed with the next news. A caller that takes it before it
// reads a view misses no news.
func (n *news) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wake
}

func (n *news) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.followers
}
