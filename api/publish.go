package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// queryRules are the rules of publishing by GET (interface, 4.1).
var queryRules = entryRules{
	maxBody:         maxQueryBody,
	strictRequestID: true,
	keyless:         true,
	control:         map[string]bool{"action": true, "confirm": true, "min_index": true, "consistency": true},
}

// postEntry serves POST /api/entries.
func postEntry(c *call) error {
	doc, query, err := c.bodyAndQuery()
	if err != nil {
		return err
	}
	rules := &postRules
	if doc.MessageID != "" {
		rules = &messageRules
	}
	e := readNewEntry(&doc, rules)
	fresh := c.readFreshness(&query, &e.problems)
	return c.publish(e, rules, fresh)
}

// publishByGet serves GET /api/entries?action=publish.
func publishByGet(c *call, doc *wire.Document, twice []string) error {
	c.action = callPublish
	c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	e := readNewEntry(doc, &queryRules)
	for _, name := range twice {
		if entryNames[name] || queryRules.control[name] {
			e.problems.Add(name, "may be given once")
		}
	}
	if doc.Get("confirm") != "write" {
		e.problems.Add("confirm", "must be write: this GET publishes an entry, for everybody to read")
		e.unconfirmed = true
	}
	fresh := c.readFreshness(doc, &e.problems)
	return c.publish(e, &queryRules, fresh)
}

// publish replicates an entry and answers with it.
func (c *call) publish(e *newEntry, rules *entryRules, fresh freshness) error {
	from := c.identify(e)
	if e.problems.Any() {
		return c.refuse(e, rules)
	}
	if err := c.await(fresh); err != nil {
		return e.explain(err, rules, c.srv)
	}
	e.cmd.House = c.srv.house[e.cmd.AgentKey]
	result, err := c.propose(from, &e.cmd)
	if err != nil {
		return e.explain(err, rules, c.srv)
	}
	switch result.Outcome {
	case command.OutcomeDuplicate:
		return c.answerDuplicate(e, result.Entry, result.Differs)
	case command.OutcomeRejected:
		e.reject(result.Problems)
		e.conflict = slices.Equal(result.Problems, []command.Problem{command.ProblemJobClaimed})
		return e.refusal(rules, c.srv)
	default:
		if err := c.noteKey(e); err != nil {
			return err
		}
		return c.answerEntry(http.StatusCreated, result.Entry, e.notes)
	}
}

// propose replicates a command. Its result is one that the command came to: it
// was carried out, or before, or refused. Errors: *Unavailable, *RateLimited, or
// what the backend cannot explain.
func (c *call) propose(from command.Sender, body command.Payload) (command.Result, error) {
	ctx, cancel := context.WithTimeout(c.srv.writes, proposeTimeout)
	defer cancel()
	result, index, err := c.srv.backend.Propose(ctx, from, body)
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

// identify works out whose write this is, and the scope of its request_id.
func (c *call) identify(e *newEntry) command.Sender {
	from := command.Sender{Fingerprint: c.srv.backend.Fingerprint(c.sender()), AgentKey: e.cmd.AgentKey}
	c.house = c.srv.house[from.AgentKey]
	c.notes = append(c.notes, e.notes...)
	scope := e.cmd.AgentKey
	if scope == anonymous {
		// No agent name holds an @, so no name can pose as a fingerprint.
		from.AgentKey, scope = "", "@"+from.Fingerprint
	}
	if e.messageID != "" {
		scope = messageScope + scope
	}
	if e.cmd.Request.ID != "" {
		e.cmd.Request.Scope = scope
	}
	e.cmd.Proof.Sender = from.Fingerprint
	if from.AgentKey == "" {
		e.cmd.Proof.Key = nil
	}
	return from
}

// refuse answers an entry whose shape is wrong. A request_id that was used before
// still gets the first write; else everything wrong that this node can see is
// listed, and nobody else is asked.
func (c *call) refuse(e *newEntry, rules *entryRules) error {
	view := c.read()
	if e.cmd.Request.ID != "" && !e.problems.Has("agent") && !e.unconfirmed {
		if seq, known := view.Request(command.OpPublish, e.cmd.Request); known {
			return c.answerDuplicate(e, seq, true)
		}
	}
	if e.cmd.Target == "" || e.targetBad {
		return e.refusal(rules, c.srv)
	}
	seq, known := view.Resolve(e.cmd.Target)
	if !known {
		e.reject([]command.Problem{command.ProblemUnknownTarget})
		return e.refusal(rules, c.srv)
	}
	if e.cmd.Relation != command.RelationRetraction || e.problems.Has("agent") {
		return e.refusal(rules, c.srv)
	}
	target, found, err := view.Meta(seq)
	if err != nil {
		return fmt.Errorf("look at the entry to retract: %w", err)
	}
	if found && target.AgentKey != e.cmd.AgentKey {
		e.reject([]command.Problem{command.ProblemRetractionOther})
	}
	job, isJob, err := view.Job(seq)
	if err != nil {
		return fmt.Errorf("look at the job to retract: %w", err)
	}
	if isJob && job.Status == fsm.JobClaimed {
		e.reject([]command.Problem{command.ProblemJobClaimed})
	}
	return e.refusal(rules, c.srv)
}

// reject adds what the state has against the entry.
func (e *newEntry) reject(found []command.Problem) {
	for _, problem := range found {
		switch problem {
		case command.ProblemUnknownTarget:
			e.problems.Add(e.targetField(), "names no entry that exists")
			e.targetBad = true
		case command.ProblemRetractionOther:
			e.problems.Add("relation", "only the author of an entry may retract it; correction, follow_up and reply are open to all")
		case command.ProblemJobClaimed:
			e.problems.Add("relation", "a job cannot be retracted while somebody holds its claim")
		default:
			e.problems.Add("body", "was refused by a rule of a newer version (%d)", problem)
		}
	}
}

// refusal is the error of an entry with problems.
func (e *newEntry) refusal(rules *entryRules, s *Server) *wire.Error {
	refusal := wire.Invalid(e.problems.List, e.example(rules, s))
	if e.conflict {
		refusal.Code, refusal.Message = wire.CodeJobClaimed, "The job is claimed."
	}
	if e.unconfirmed {
		refusal.Code = wire.CodeConfirm
		refusal.Message = "Publishing by GET needs confirm=write. The example would have worked."
	}
	return refusal
}

// explain adds to an error of the cluster what its receiver can do.
func (e *newEntry) explain(err error, rules *entryRules, s *Server) error {
	return explained(err, e.example(rules, s), e.cmd.Request.ID != "")
}

// explained adds to an error of the cluster the request itself, and whether it
// may be repeated: with a request_id always.
func explained(err error, example wire.Object, hasRequestID bool) error {
	refusal := toError(err)
	if refusal == nil {
		return err
	}
	refusal.Example = example
	refusal.Repeatable = refusal.Code == command.CodeOutcomeUnknown && hasRequestID
	return refusal
}

// example is the repaired entry in the form that the endpoint takes.
func (e *newEntry) example(rules *entryRules, s *Server) wire.Object {
	o := e.repair(rules, s.now())
	if !rules.strictRequestID {
		return o
	}
	params := wire.Object{{"action", "publish"}, {"confirm", "write"}}
	for _, m := range o {
		if tags, isList := m.Value.([]any); isList {
			if len(tags) == 0 {
				continue
			}
			names := make([]string, len(tags))
			for i, tag := range tags {
				names[i], _ = tag.(string)
			}
			m.Value = strings.Join(names, ",")
		}
		params = append(params, m)
	}
	return params
}

// answerDuplicate answers with the entry that the request_id wrote before.
func (c *call) answerDuplicate(e *newEntry, seq uint64, differs bool) error {
	id := fieldRequestID.name
	if e.messageID != "" {
		id = "messageId"
	}
	note := "This " + id + " was used before: this is the entry that it published."
	if differs {
		note = "This " + id + " was used before with other content: this is the entry that it published, and nothing new was written."
	}
	return c.answerEntry(http.StatusOK, seq, append(e.notes, note))
}

// readBack returns a view that holds the write.
func (c *call) readBack() (*fsm.View, error) {
	view := c.reread()
	if view.Index() < c.index {
		return nil, fmt.Errorf("the backend answered index %d ahead of its view at %d", c.index, view.Index())
	}
	return view, nil
}

// answerEntry answers a write: 201 with the new entry, 200 with an older one.
func (c *call) answerEntry(status int, seq uint64, notes []string) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	c.out.Header.Set(fiber.HeaderLocation, "/api/entries/"+fsm.EntryID(seq))
	return c.answer(status, func(dst []byte) ([]byte, error) {
		dst = append(dst, `{"entry":`...)
		dst, err := view.AppendEntry(dst, seq)
		if err != nil {
			return nil, fmt.Errorf("show entry %d: %w", seq, err)
		}
		return appendOutcome(dst, status, notes), nil
	})
}

// appendOutcome ends the answer to a write: whether it was made before, and notes.
func appendOutcome(dst []byte, status int, notes []string) []byte {
	return appendNotes(strconv.AppendBool(append(dst, `,"duplicate":`...), status == http.StatusOK), notes)
}

// appendNotes ends the answer to a write with its notes.
func appendNotes(dst []byte, notes []string) []byte {
	dst = append(dst, `,"notes":`...)
	if len(notes) == 0 {
		return append(dst, `[]}`...)
	}
	return append(wire.AppendJSON(dst, notes), '}')
}
