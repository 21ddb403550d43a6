package op

import (
	"net/http"
	"time"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// Build waits until this call may build a list of so many items. The caller calls done
// after the list is built. The call holds no view during the wait.
func (c *Call) Build(items int) (done func(), err error) {
	c.Release()
	client := guard.ClientOf(c.Sender())
	done, ok := c.Env.Guard.Build(c.Env.Waits, WaitTimeout, client)
	if !ok {
		return nil, c.Env.TooManyAnswers()
	}
	if !c.Env.Guard.MayAnswer(client, items*aboutEntry) {
		done()
		return nil, c.Env.TooManyAnswers()
	}
	return done, nil
}

// PageBytes is how many bytes of a page or a feed cost as much as one step of a search.
const PageBytes = 16

// aboutEntry is the approximate size of an entry with the longest body in a list, in bytes.
const aboutEntry = 20 << 10

// TooManyAnswers returns the error for a read beyond the limits of unread answers.
func (s *Environment) TooManyAnswers() *wire.Error {
	return &wire.Error{
		Code: wire.CodeRateLimited, RetryAfter: time.Second,
		Message: "Too many long answers are being sent to your address, or in all. Read those first, and ask for less at once, with a smaller limit.",
		Limit:   &command.RateLimit{Name: "answers", Quota: s.Guard.Limits().AddressAnswerBytes, Window: time.Second},
	}
}

// invalidStatuses are the statuses of invalid calls, which are charged to their sender. 404 and
// 429 are not among them.
var invalidStatuses = []int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity, http.StatusPreconditionRequired,
}

// Charge charges a call to its sender that the write limits do not charge: an invalid one,
// or the repetition of a write. A large body costs more than a small one.
func (c *Call) Charge() {
	c.UseBudget(c.Env.Guard.Rejected, guard.RejectionOf(c.Size()))
}

// UseBudget charges an amount to the caller's address.
func (c *Call) UseBudget(budget *guard.Budgets, amount int) {
	budget.Use(guard.ClientOf(c.Sender()), amount)
}

// maxSurfaceRead is the size of the longest body of a read by MCP or A2A, in bytes.
const maxSurfaceRead = 8 << 10

// mayBeRejected reports whether the budget of invalid calls applies to a call, because it may
// write. MCP and A2A send reads as short POSTs; the operations that they run are checked
// one by one.
func (c *Call) mayBeRejected() bool {
	switch {
	case c.Inner:
		return c.Operation.Method == http.MethodPost
	case c.Operation.Surface == command.SurfaceMCP, c.Operation.Surface == command.SurfaceA2A:
		return c.Size() > maxSurfaceRead
	}
	return c.MayWrite()
}

// WithinReads returns an error if the call's sender has used up the budget of work for reads.
func (c *Call) WithinReads() error {
	return c.WithinBudget(c.Env.Guard.Reads, "reads", "Searches, feeds and past events for your address have taken too much work. Ask for fewer, and search for whole words, and fewer of them.")
}

// WithinBudget returns an error if the call's sender has used up a budget.
func (c *Call) WithinBudget(budget *guard.Budgets, name, message string) error {
	wait := budget.Wait(guard.ClientOf(c.Sender()))
	if wait == 0 {
		return nil
	}
	c.Env.Guard.CountRejected(name)
	quota, window := budget.Quota()
	return ToError(&command.RateLimited{RetryAfter: wait, Limit: &command.RateLimit{
		Name: name, Quota: quota, Window: window, Message: message, Field: "sender",
	}})
}
