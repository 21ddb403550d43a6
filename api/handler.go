package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// handler is the first half of an operation: it reads a request and collects all
// that is wrong with it. It has no effect and waits for nothing, so that a call can
// be tried. The second half is the task that it returns where nothing is wrong.
type handler func(c *call) (task, error)

// task is what remains to be done of a request in which nothing is wrong.
type task struct {
	fresh freshness // how fresh the local state must be before run
	// builds is how many items a list may have; 0: the task makes none.
	builds int
	// versioned says that the answer is made of nothing but the request and what the
	// version of the view says: it has an entity tag made of these.
	versioned bool
	run       func() error
	// explain adds to an error of the wait what the client can do; nil adds nothing.
	explain func(error) error
}

// simple is the handler of an operation that takes nothing that could be wrong, or
// that finds it while it runs.
func simple(run func(*call) error) handler {
	return func(c *call) (task, error) { return task{run: func() error { return run(c) }}, nil }
}

// private is a handler whose answers are for the client alone.
func private(h handler) handler {
	return func(c *call) (task, error) {
		c.out.Header.Set(fiber.HeaderCacheControl, cachingNever)
		return h(c)
	}
}

// reading is the handler of a read: filters reads its parameters beside those of
// freshness, if there are any, and run answers.
func reading(params []string, filters func(l *listing), run func(c *call, l *listing) error) handler {
	return func(c *call) (task, error) {
		l, err := c.listing(params, filters)
		if err != nil {
			return task{}, err
		}
		return task{fresh: l.fresh, run: func() error { return run(c, l) }}, nil
	}
}

// writing is the handler of a write whose draft is read from the body.
func writing(read func(c *call, doc *wire.Document) draft) handler {
	return func(c *call) (task, error) {
		doc, err := c.body()
		if err != nil {
			return task{}, err
		}
		pairs, err := c.query()
		if err != nil {
			return task{}, err
		}
		query, _ := wire.FoldPairs(pairs)
		return c.write(read(c, &doc), &query)
	}
}

// serve carries a request out. A trial ends after the first half.
func (h handler) serve(c *call) error {
	if c.mayBeRejected() {
		err := c.withinBudget(c.srv.guard.Rejected, "rejections", "Too many calls from your address were wrong, or repeated earlier writes. Read the answers to the last ones.")
		if err != nil {
			return err
		}
	}
	defer c.chargeReads()
	todo, err := h(c)
	if err != nil || c.trial {
		return err
	}
	if err := c.await(todo.fresh); err != nil {
		if todo.explain != nil {
			return todo.explain(err)
		}
		return err
	}
	tagged := todo.versioned && c.rctx != nil
	if tagged && c.unchangedVersion() {
		return nil
	}
	if todo.builds > 0 {
		done, err := c.build(todo.builds)
		if err != nil {
			return err
		}
		defer done()
		if tagged && c.unchangedVersion() { // of the view there is now
			return nil
		}
	}
	if err := todo.run(); err != nil || !tagged {
		return err
	}
	c.hasTag(c.versionTag())
	return nil
}

// draft is a write as it was sent. Those of its methods that have no effect belong to
// the first half of the handler, which ends in call.write.
type draft interface {
	// shared is what all writes have.
	shared() *form
	// inspect returns the problems that a view finds in a draft that already has others.
	inspect(view *fsm.View) ([]command.Problem, error)
	// rejection says what a problem of the state means to the client.
	rejection(view *fsm.View, p command.Problem) rejection
	// example is the caller's own request, corrected; empty where it has to correct it itself.
	example(view *fsm.View, now time.Time) (wire.Object, error)
	// challenge asks others whose agreement is needed, once nothing else is wrong.
	challenge(c *call, from command.Sender) error
	// command is the command of a draft without problems.
	command(s *Server) command.Payload
	// answer answers with what was written. The view holds it.
	answer(c *call, view *fsm.View, r *command.Result) error
}

// rejection is one reason why the state rejects a write, as it is shown to the client.
type rejection struct {
	wire.Issue
	// code and summary are the error's where this is the first reason; "": it is
	// one of the fields that break rules.
	code    command.Code
	summary string
}

// curable are the reasons of the state that an example can do something about.
var curable = []command.Problem{command.ProblemUnknownTarget, command.ProblemUnknownJob, command.ProblemUnchecked, command.ProblemWrongKey}

// newerRule is a rejection that this version does not know.
func newerRule(field string, p command.Problem) rejection {
	return rejection{Issue: wire.Issue{field, fmt.Sprintf("was rejected by a rule of a newer version (%d)", p)}}
}

// write ends the first half of every write.
func (c *call) write(d draft, query *wire.Document) (task, error) {
	f := d.shared()
	fresh := c.readFreshness(query, &f.problems)
	from := c.identify(f)
	run := func() error { return c.carryOut(d, from) }
	if f.problems.Any() {
		run = func() error { return c.decline(d) }
	}
	return task{fresh: fresh, run: run, explain: func(err error) error { return c.explain(d, err) }}, nil
}

// decline is the second half of a write whose draft has problems: the answer also lists
// those that the state finds. If the request_id was used before, the answer is what it
// wrote then.
func (c *call) decline(d draft) error {
	f, view := d.shared(), c.read()
	if f.repeats != 0 && f.author.Request.ID != "" && !f.problems.Has(f.signed) {
		standing, err := view.Standing(f.author.Signature())
		if err != nil {
			return fmt.Errorf("look at the name: %w", err)
		}
		if seq, known := view.Request(f.repeats, standing, f.author.Signature()); known && !standing.WrongKey {
			earlier := command.Result{Outcome: command.OutcomeDuplicate, Entry: seq, Differs: true}
			return c.answerWrite(d, &earlier)
		}
	}
	found, err := d.inspect(view)
	if err != nil {
		return fmt.Errorf("look for problems: %w", err)
	}
	reject(d, view, found)
	return c.invalid(d, view)
}

// identify finds the sender of a write, and the scope of its request_id.
func (c *call) identify(f *form) command.Sender {
	from := command.Sender{Fingerprint: c.srv.backend.Fingerprint(c.sender()), AgentKey: f.author.AgentKey}
	f.author.House = c.srv.house[from.AgentKey]
	c.house = f.author.House
	c.notes = append(c.notes, f.notes...)
	scope := from.AgentKey
	if scope == anonymous {
		from.AgentKey, scope = "", command.AnonymousScope
	}
	if f.doc.MessageID != "" {
		scope = messageScope + scope
	}
	if f.author.Request.ID != "" {
		f.author.Request.Scope = scope
	}
	c.prove(f, from)
	return from
}

// reject adds to a draft the problems that the state finds, and returns the first one.
func reject(d draft, view *fsm.View, found []command.Problem) (first rejection) {
	for i, p := range found {
		r, isName := nameRejections[p]
		if _, isProfile := d.(*profileForm); !isName || isProfile {
			r = d.rejection(view, p)
		}
		if i == 0 {
			first = r
		}
		f := d.shared()
		f.problems.Add(r.Field, "%s", r.Message)
		f.lost = f.lost || !slices.Contains(curable, p)
	}
	return first
}

// invalid is the error of a draft with problems.
func (c *call) invalid(d draft, view *fsm.View) error {
	example, err := d.example(view, c.srv.now())
	if err != nil {
		return fmt.Errorf("make an example: %w", err)
	}
	f := d.shared()
	rejection := wire.Invalid(f.problems.List, example)
	if f.reason.code != "" {
		rejection.Code, rejection.Message = f.reason.code, f.reason.summary
		if len(example) > 0 && f.reason.summary != onlyOwner {
			rejection.Message += wire.ExampleWorks
		}
	}
	if f.keyInBody && len(example) > 0 && f.reason.code != wire.CodeWrongKey {
		c.notes = append(c.notes, "The example leaves your edit_key out: add it.")
	}
	return rejection
}

// explain adds to an error of the cluster the request itself, and whether it may be
// repeated: with a request_id always.
func (c *call) explain(d draft, err error) error {
	rejection := toError(err)
	if rejection == nil {
		return err
	}
	if rejection.Code == wire.CodeBlocked || rejection.Code == wire.CodeFrozen {
		return rejection
	}
	example, err := d.example(c.read(), c.srv.now())
	if err != nil {
		return fmt.Errorf("make an example: %w", err)
	}
	rejection.Example = example
	if rejection.Code != command.CodeOutcomeUnknown {
		return rejection
	}
	f := d.shared()
	if f.harmless {
		rejection.Repeatable = true
		rejection.Message += " It may have been written. Send it again as it is: nothing is written twice."
		return rejection
	}
	if rejection.Repeatable = f.author.Request.ID != ""; rejection.Repeatable {
		rejection.Message += " It may have been written. Send it again as it is: its key keeps it from being written twice, and the answer contains the result."
		return rejection
	}
	look := "GET /api/entries?agent=" + url.QueryEscape(f.author.Agent)
	if f.signed == fieldID.name {
		look = "GET /api/agents/" + url.PathEscape(f.author.Agent)
	}
	rejection.Message += " It may have been written. Look first: " + look + ". Send it again only if it is not there, with a request_id, which makes that safe."
	rejection.Example = wire.Object{}
	return rejection
}

// maxChallenges is how often a write is proposed if others withdraw their agreement each
// time before it is written.
const maxChallenges = 3

// carryOut is the second half of every write.
func (c *call) carryOut(d draft, from command.Sender) error {
	var result command.Result
	for range maxChallenges {
		err := d.challenge(c, from)
		if err != nil {
			return err
		}
		if result, err = c.propose(from, d.command(c.srv)); err != nil {
			return c.explain(d, err)
		}
		if !slices.Contains(result.Problems, command.ProblemUnchecked) {
			break
		}
	}
	if result.Outcome != command.OutcomeRejected {
		if f := d.shared(); c.held && result.Outcome == command.OutcomeDone {
			f.notes = append(f.notes, heldNote)
		}
		return c.answerWrite(d, &result)
	}
	view := c.reread()
	d.shared().reason = reject(d, view, result.Problems)
	return c.invalid(d, view)
}

// propose replicates a command that the policy allows. Its result says that the command
// was carried out, now or before, or rejected. Errors: *wire.Error if the policy rejects
// it, *Unavailable, *RateLimited, or what the backend cannot explain.
func (c *call) propose(from command.Sender, cmd command.Payload) (command.Result, error) {
	return c.proposeUnderPolicy(cmd, func() (command.Result, error) {
		result, err := c.replicate(from, cmd)
		from.Charged = true // what is checked again is charged once
		return result, err
	})
}

func (c *call) replicate(from command.Sender, cmd command.Payload) (command.Result, error) {
	ctx, cancel := context.WithTimeout(c.srv.writes, proposeTimeout)
	defer cancel()
	result, index, err := c.srv.backend.Propose(ctx, from, cmd)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return result, &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "the write was not confirmed in time"}
	case err != nil:
		return result, err
	case result.Outcome == command.OutcomeDropped:
		return result, &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "the write was answered elsewhere"}
	}
	c.index = index
	return result, nil
}

// readBack returns a view that holds the write.
func (c *call) readBack() (*fsm.View, error) {
	view := c.reread()
	if view.Index() < c.index {
		return nil, fmt.Errorf("the backend answered index %d ahead of its view at %d", c.index, view.Index())
	}
	return view, nil
}

// answerWrite answers with the result of a write.
func (c *call) answerWrite(d draft, r *command.Result) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	return d.answer(c, view, r)
}

// written is how the answer to a write shows what was written: 201 where that is new,
// 200 where the same request_id wrote it before.
type written struct {
	location string
	// same and differs are what the request_id wrote before, as a note calls it: with
	// the same content, and with other content.
	same, differs string
	show          func(dst []byte) ([]byte, error) // appends its members
}

func (c *call) answerWritten(f *form, view *fsm.View, r *command.Result, w *written) error {
	status := http.StatusCreated
	if r.Outcome == command.OutcomeDuplicate {
		status = http.StatusOK
		f.noteRepeated(r.Differs, w)
		c.charge()
	} else if err := f.noteName(view); err != nil {
		return err
	}
	c.out.Header.Set(fiber.HeaderLocation, w.location)
	return c.answer(status, func(dst []byte) ([]byte, error) {
		dst, err := w.show(append(appendNotes(dst, f.notes), ','))
		if err != nil {
			return nil, fmt.Errorf("show what %d wrote: %w", r.Entry, err)
		}
		dst = strconv.AppendBool(append(dst, `,"duplicate":`...), status == http.StatusOK)
		return append(dst, '}'), nil
	})
}

// noteRepeated notes that a request_id was used before.
func (f *form) noteRepeated(differs bool, w *written) {
	note := "This " + fieldRequestID.name + " was used before"
	if f.doc.MessageID != "" {
		note = "This messageId was used before"
	}
	if differs {
		note += " with other content: this is " + w.differs + ", and nothing new was written."
	} else {
		note += ": this is " + w.same + "."
	}
	f.notes = append(f.notes, note)
}

// appendNotes begins the answer to a write with its notes.
func appendNotes(dst []byte, notes []string) []byte {
	dst = append(dst, `{"notes":`...)
	if len(notes) == 0 {
		return append(dst, `[]`...)
	}
	return wire.AppendJSON(dst, notes)
}

// freshness is how fresh the local state must be.
type freshness struct {
	minIndex uint64
	strong   bool
}

// freshnessParams are the parameters of a read that takes no others.
var freshnessParams = []string{"consistency", "min_index"}

// readFreshness takes X-Commons-Min-Index and the parameters min_index and
// consistency.
func (c *call) readFreshness(doc *wire.Document, p *wire.Problems) (f freshness) {
	index := func(field, s string) {
		i, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			p.Add(field, "must be a log index: a whole number, as X-Commons-Index gives it")
		}
		f.minIndex = max(f.minIndex, i)
	}
	if h := c.header(headerMinIndex); h != "" {
		index(headerMinIndex, h)
	}
	if s, given := doc.Get("min_index").(string); given {
		index("min_index", s)
	}
	if s, given := doc.Get("consistency").(string); given {
		f.strong = s == "strong"
		if !f.strong {
			p.Add("consistency", "must be strong, or be left out")
		}
	}
	return f
}

// await waits until the local state is as fresh as asked.
func (c *call) await(f freshness) error {
	if f.minIndex == 0 && !f.strong {
		return nil
	}
	ctx, done := c.wait(waitTimeout)
	defer done()
	if f.strong {
		index, err := c.srv.backend.ReadIndex(ctx)
		if err != nil {
			return orUnavailable(err, command.CodeNoLeader, "no leader confirmed the read in time")
		}
		f.minIndex = max(f.minIndex, index)
	}
	if err := c.srv.backend.WaitIndex(ctx, f.minIndex); err != nil {
		return orUnavailable(err, command.CodeBehind, "this node has not applied the index yet")
	}
	return nil
}

// orUnavailable keeps what a client may see and turns the rest, the end of a
// context, into a 503.
func orUnavailable(err error, code command.Code, reason string) error {
	if toError(err) != nil {
		return err
	}
	return &command.Unavailable{Code: code, Reason: reason}
}
