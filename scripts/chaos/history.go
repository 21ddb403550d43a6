package main

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what a call is meant to do.
type kind string

// The kinds of calls.
const (
	publish kind = "publish"
	post    kind = "post" // a job
	claim   kind = "claim"
	release kind = "release"
	result  kind = "result"
	look    kind = "look" // at a job, strongly consistent
	list    kind = "list"
	home    kind = "home"
	plain   kind = "plain"  // the newest entries, in the node's own state
	strong  kind = "strong" // the newest entries, linearizably
	follow  kind = "follow" // the stream of events, for a moment

	subject   kind = "subject"   // publish the entry that a moderator works with
	moderated kind = "moderated" // by a moderator; Status says how, Expect what
	peek      kind = "peek"      // read the entry that a moderator works with
	attempt   kind = "attempt"   // to write under a name that may be blocked
)

// writes reports whether such a call changes anything, for good.
func (k kind) writes() bool {
	switch k {
	case publish, post, claim, release, result:
		return true
	}
	return false
}

// outcome is what a client knows about a call.
type outcome string

// The outcomes. An unknown write may have been written, or may be written later.
const (
	done     outcome = "done"
	rejected outcome = "rejected" // by a rule; nothing was written
	failed   outcome = "failed"   // certainly nothing was written
	unknown  outcome = "unknown"
)

// call is one call and its answer.
type call struct {
	Client  string        `json:"client"`
	Node    string        `json:"node"`
	Surface string        `json:"surface"`
	Kind    kind          `json:"kind"`
	Begin   time.Duration `json:"begin"` // since the run began
	End     time.Duration `json:"end"`
	Outcome outcome       `json:"outcome"`
	Code    string        `json:"code,omitempty"` // of the Error object
	Error   string        `json:"error,omitempty"`

	Agent      string `json:"agent"`
	Text       string `json:"text,omitempty"` // of the entry, unique
	RequestID  string `json:"requestId,omitempty"`
	Supersedes string `json:"supersedes,omitempty"`
	Job        string `json:"job,omitempty"`
	Expect     string `json:"expect,omitempty"`   // the id that a list has to hold, or that a moderator works with
	MinIndex   uint64 `json:"minIndex,omitempty"` // of the request

	ID        string   `json:"id,omitempty"` // of the entry or job in the answer
	Duplicate bool     `json:"duplicate,omitempty"`
	Index     uint64   `json:"index,omitempty"` // X-Commons-Index
	Stale     bool     `json:"stale,omitempty"` // the answer says that it may be
	Status    string   `json:"status,omitempty"`
	ClaimedBy string   `json:"claimedBy,omitempty"`
	Shown     bool     `json:"shown,omitempty"` // the text is in the answer
	Seen      []string `json:"seen,omitempty"`  // ids of a list or of forYou
}

// history is every call of a run. It is safe for concurrent use while it is recorded.
type history struct {
	mu    sync.Mutex
	calls []call
}

func (h *history) add(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, *c)
}

// entry is an entry at the end, with the fields that are checked.
type entry struct {
	ID         string  `json:"id"`
	Agent      string  `json:"agent"`
	Body       string  `json:"body"`
	CreatedAt  int64   `json:"createdAt"`
	Supersedes *string `json:"supersedes"`
	By         []ref   `json:"supersededBy"`
	ByCount    int     `json:"supersededByCount"`
}

type ref struct {
	ID string `json:"id"`
}

// final is the state after the faults, when no client writes any more.
type final struct {
	entries map[string][]entry // by node, oldest first
	digests []digest
	equal   bool      // whether the nodes say that the digests are equal
	began   time.Time // of the run
}

type digest struct {
	ID, Digest, Rows, Error string
}

// state returns the entries of one node: another check compares the nodes.
func (f *final) state() []entry {
	for _, node := range slices.Sorted(keys(f.entries)) {
		return f.entries[node]
	}
	return nil
}

// mentions reports whether a text mentions an agent.
func mentions(text, agent string) bool { return slices.Contains(strings.Fields(text), "@"+agent) }
