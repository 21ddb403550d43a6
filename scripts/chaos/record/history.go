package record

import (
	"sync"
	"time"
)

// Kind is the purpose of a call.
type Kind string

// The kinds of calls.
const (
	Publish Kind = "publish"
	Post    Kind = "post" // a job
	Claim   Kind = "claim"
	Release Kind = "release"
	Result  Kind = "result"
	Take    Kind = "take"  // the oldest open job that fits
	Close   Kind = "close" // by the poster
	Look    Kind = "look"  // at a job, strongly consistent
	List    Kind = "list"
	Home    Kind = "home"
	Plain   Kind = "plain"  // the newest entries, in the node's own state
	Strong  Kind = "strong" // the newest entries, linearizably
	Follow  Kind = "follow" // the stream of events, for a moment
	Poll    Kind = "poll"   // the entries since the last poll

	Subject   Kind = "subject"   // publish the entry that a moderator works with
	Moderated Kind = "moderated" // by a moderator; Status says how, Expect what
	Peek      Kind = "peek"      // read the entry that a moderator works with
	Attempt   Kind = "attempt"   // to write under a name that may be blocked
)

// Writes reports whether such a call changes anything, for good.
func (k Kind) Writes() bool {
	switch k {
	case Publish, Post, Claim, Release, Result, Take, Close:
		return true
	}
	return false
}

// Patient reports whether the client of such a call waits longer than the cluster may take
// to get another leader.
func (k Kind) Patient() bool {
	return k.Writes() || k == Look || k == List || k == Home || k == Poll
}

// Outcome is the result of a call, as far as its client can know.
type Outcome string

// The outcomes. An unknown write may have been written, or may be written later.
const (
	Done     Outcome = "done"
	Rejected Outcome = "rejected" // by a rule, so without effect
	Failed   Outcome = "failed"   // certainly without effect
	Unknown  Outcome = "unknown"
)

// Call is one call and its answer.
type Call struct {
	Client  string        `json:"client"`
	Node    string        `json:"node"`
	Surface string        `json:"surface"`
	Kind    Kind          `json:"kind"`
	Begin   time.Duration `json:"begin"` // since the run began
	End     time.Duration `json:"end"`
	Outcome Outcome       `json:"outcome"`
	Code    string        `json:"code,omitempty"` // of the Error object
	Error   string        `json:"error,omitempty"`
	// Resent: net/http or the balancer may have sent the call more than once, so the answer may
	// be that to a repetition.
	Resent bool `json:"resent,omitempty"`

	Agent      string `json:"agent"`
	Text       string `json:"text,omitempty"` // of the entry, unique
	RequestID  string `json:"requestId,omitempty"`
	Supersedes string `json:"supersedes,omitempty"`
	Job        string `json:"job,omitempty"`
	Poster     string `json:"poster,omitempty"`   // of the jobs that a Take may get
	Keyed      bool   `json:"keyed,omitempty"`    // Close: with the edit_key of the poster
	Expect     string `json:"expect,omitempty"`   // the id that a list has to hold, or that a moderator works with
	MinIndex   uint64 `json:"minIndex,omitempty"` // of the request

	ID        string   `json:"id,omitempty"` // of the entry or job in the answer
	Duplicate bool     `json:"duplicate,omitempty"`
	Index     uint64   `json:"index,omitempty"` // X-Commons-Index
	Status    string   `json:"status,omitempty"`
	ClaimedBy string   `json:"claimedBy,omitempty"`
	Shown     bool     `json:"shown,omitempty"` // the text is in the answer
	Seen      []string `json:"seen,omitempty"`  // ids of a list or of forYou
}

// History is every call of a run. It is safe for concurrent use while it is recorded.
type History struct {
	mu    sync.Mutex
	Calls []Call
}

func (h *History) add(c *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Calls = append(h.Calls, *c)
}
