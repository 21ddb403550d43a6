package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// Simple returns the handler of an operation whose first half has no work.
func Simple(run func(*Call) error) Handler {
	return func(c *Call) (Task, error) { return Task{Run: func() error { return run(c) }}, nil }
}

// Private is a handler whose answers are for the client alone.
func Private(h Handler) Handler {
	return func(c *Call) (Task, error) {
		c.Out.Set(HeaderCacheControl, CachingNever)
		return h(c)
	}
}

// Serve carries a request out. With CheckOnly it ends after the first half.
func (h Handler) Serve(c *Call) error {
	if c.mayBeRejected() {
		err := c.WithinBudget(c.Env.Guard.Rejected, "rejections", "Too many calls from your address were wrong, or repeated earlier writes. Read the answers to the last ones.")
		if err != nil {
			return c.overBudget(h, err)
		}
	}
	defer func() { c.UseBudget(c.Env.Guard.Reads, c.Work) }()
	todo, err := h(c)
	if err != nil || c.CheckOnly {
		return err
	}
	if err := c.Await(todo.Fresh); err != nil {
		if todo.Explain != nil {
			return todo.Explain(err)
		}
		return err
	}
	tagged := todo.Versioned && !c.Inner
	if tagged && c.unchangedVersion() {
		return nil
	}
	if todo.Builds > 0 {
		done, err := c.Build(todo.Builds)
		if err != nil {
			return err
		}
		defer done()
		if tagged && c.unchangedVersion() { // of the view there is now
			return nil
		}
	}
	if err := todo.Run(); err != nil || !tagged {
		return err
	}
	c.HasTag(c.versionTag())
	return nil
}

// FreshnessParams are the parameters of a read without other parameters.
var FreshnessParams = []string{"consistency", "min_index"}

// ReadFreshness takes X-Commons-Min-Index and the parameters min_index and consistency.
func (c *Call) ReadFreshness(doc *wire.Document, p *wire.Problems) (f Freshness) {
	index := func(field, s string) {
		i, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			p.Add(field, "must be a log index: a whole number, as X-Commons-Index gives it")
		}
		f.MinIndex = max(f.MinIndex, i)
	}
	if h := c.Header(HeaderMinIndex); h != "" {
		index(HeaderMinIndex, h)
	}
	if s, given := doc.Get("min_index").(string); given {
		index("min_index", s)
	}
	if s, given := doc.Get("consistency").(string); given {
		f.Strong = s == "strong"
		if !f.Strong {
			p.Add("consistency", "must be strong, or be left out")
		}
	}
	return f
}

// Await waits until the local state is as fresh as asked.
func (c *Call) Await(f Freshness) error {
	if f.MinIndex == 0 && !f.Strong {
		return nil
	}
	ctx, done := c.Wait(c.Env.Patience)
	defer done()
	if f.Strong {
		index, err := c.Env.Backend.ReadIndex(ctx)
		if err != nil {
			return OrUnavailable(err, command.CodeNoLeader, "no leader confirmed the read in time")
		}
		f.MinIndex = max(f.MinIndex, index)
	}
	if err := c.Env.Backend.WaitIndex(ctx, f.MinIndex); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			if ahead := c.ahead(f.MinIndex); ahead != nil {
				return ahead
			}
		}
		return OrUnavailable(err, command.CodeBehind, "this node has not applied the index yet")
	}
	return nil
}

// ahead asks the leader about an index that this node has not reached. It returns a final error if
// the log of this cluster has no such index, as after a restore of an older backup, and nil if it
// has, or if no leader answers. An index that a node has shown is at most that of a strong read, so a
// greater one is foreign.
func (c *Call) ahead(index uint64) error {
	ctx, done := c.Wait(aheadTimeout)
	defer done()
	newest, err := c.Env.Backend.ReadIndex(ctx)
	if err != nil || index <= newest {
		return nil
	}
	field, example := "min_index", slices.DeleteFunc(c.ownRequest(), func(m wire.Field) bool { return m.Name == "min_index" })
	if given := c.Header(HeaderMinIndex); given == strconv.FormatUint(index, 10) {
		field = HeaderMinIndex
	}
	if len(example) == 0 {
		example = wire.Object{{"min_index", 0}}
	}
	return &wire.Error{
		Code: command.CodeBehind, Final: true,
		Message: fmt.Sprintf("The log index %d is not of this cluster, whose newest is %d. A backup was restored since, or another cluster gave it. "+
			"Drop the index that you stored, and send the same request without it.", index, newest),
		Issues:  []wire.Issue{{field, fmt.Sprintf("must be at most %d: leave it out", newest)}},
		Example: example,
	}
}

// OrUnavailable returns an error that a client may see as it is, and any other one, such as the end
// of a context, as a 503.
func OrUnavailable(err error, code command.Code, reason string) error {
	if ToError(err) != nil {
		return err
	}
	return &command.Unavailable{Code: code, Reason: reason}
}

// overBudget adds the request itself to the error of a call whose sender has used up a budget.
func (c *Call) overBudget(h Handler, err error) error {
	return c.WithExample(h, ToError(err))
}

// WithExample adds the request itself to an error, and to one of an invalid request its other problems.
// For a write it runs the first half of the handler, as with CheckOnly.
func (c *Call) WithExample(h Handler, rejection *wire.Error) error {
	defer func(trial bool) { c.CheckOnly = trial }(c.CheckOnly)
	c.CheckOnly = true
	if _, errTrial := h(c); c.Complete == nil {
		if invalid, is := errors.AsType[*wire.Error](errTrial); is {
			if rejection.Code == wire.CodeInvalid && invalid.Code == wire.CodeInvalid {
				return wire.Invalid(append(rejection.Issues, invalid.Issues...), invalid.Example)
			}
			rejection.Example = invalid.Example
		}
		return rejection
	}
	if err := c.Complete(rejection); err != nil {
		return err
	}
	return rejection
}
