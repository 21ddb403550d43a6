// Package textcache caches texts that are costly to make.
package textcache

import "sync"

// Cache keeps a limited number of bytes of texts: those that were used since the older half was
// dropped.
type Cache struct {
	mu    sync.Mutex
	bound int
	bytes int // of young
	young map[string]string
	old   map[string]string
}

// textOverhead is the memory of an item beside its bytes.
const textOverhead = 128

// New makes a cache of so many bytes.
func New(bound int) *Cache {
	return &Cache{bound: bound, young: map[string]string{}}
}

// Get returns the text of a key, if it is kept.
func (c *Cache) Get(key []byte) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := c.young[string(key)]; ok {
		return text, true
	}
	text, ok := c.old[string(key)]
	if ok {
		c.add(string(key), text)
	}
	return text, ok
}

// Put keeps a text, unless it takes more than a 16th of the room.
func (c *Cache) Put(key, text string) {
	if len(key)+len(text) > c.bound/16 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, text)
}

// Clear drops all that is kept.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old, c.bytes = map[string]string{}, nil, 0
}

// add keeps a text among the young ones, which become the old ones when they are half
// of what may be kept.
func (c *Cache) add(key, text string) {
	if former, again := c.young[key]; again {
		c.bytes -= len(key) + len(former) + textOverhead
	}
	size := len(key) + len(text) + textOverhead
	if c.bytes+size > c.bound/2 {
		c.old, c.young, c.bytes = c.young, map[string]string{}, 0
	}
	c.young[key] = text
	c.bytes += size
}
