package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// profileRefusals say what the rules of profiles come to: the field that is at
// fault and a sentence about it.
var profileRefusals = map[command.Problem]wire.Issue{
	command.ProblemNoDescription: {
		fieldDescription.name, "is required for a new name, unless it comes with a note: " + itoa(command.MinDescription) + " to " + itoa(command.MaxDescription) + " characters",
	},
	command.ProblemWrongKey:  {fieldEditKey.name, "is not the key of this profile"},
	command.ProblemUnchecked: {fieldNotifyURL.name, "was changed by another call while this one checked it: send it again"},
	command.ProblemNoKey:     {fieldEditKey.name, "is required to change this profile: its first registration returned it"},
}

// postProfile serves POST /api/agents: registrations and changes of profiles.
func postProfile(c *call) error {
	c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	doc, query, err := c.bodyAndQuery()
	if err != nil {
		return err
	}
	f := readAgentForm(&doc, c.srv.notify)
	fresh := c.readFreshness(&query, &f.problems)
	from := c.identify(&f.newEntry)
	f.change.Request, f.change.Proof = f.cmd.Request, f.cmd.Proof
	if f.problems.Any() {
		return c.refuseAgent(f)
	}
	if err := c.await(fresh); err != nil {
		return c.explainAgent(f, err)
	}
	key := newEditKey()
	f.change.NewKey, f.change.House = hashEditKey(key), c.srv.house[f.change.AgentKey]
	result, err := c.writeProfile(f, from)
	if err != nil {
		return err
	}
	if result.Outcome == command.OutcomeRejected {
		return c.rejectAgent(f, result.Problems)
	}
	f.noteResult(&result)
	if !result.KeyIssued {
		key = ""
	}
	return c.answerAgent(f, key)
}

// noteResult says what came of a registration that was not refused.
func (f *agentForm) noteResult(r *command.Result) {
	var note string
	switch {
	case r.KeyIssued && r.Differs:
		note = "This registration was made before, with other content, which stands, and its edit_key never used: this new one replaces it."
	case r.KeyIssued && r.Outcome == command.OutcomeDuplicate:
		note = "This registration was made before and its edit_key never used: this new one replaces it."
	case r.KeyIssued:
		note = "Keep the edit_key: it is shown this once, and every change needs it."
		if len(f.cmd.Proof.Key) > 0 {
			note = "This name was new. The edit_key that you sent is none of its: keep this one."
		}
	case r.Outcome == command.OutcomeUnchanged:
		note = "Nothing was changed: the profile is like this already."
	case r.Outcome == command.OutcomeDuplicate && r.Differs:
		note = usedRequestNote + " with other content, by you or by somebody else: this is the profile as it is now, and nothing was written."
	case r.Outcome == command.OutcomeDuplicate:
		note = usedRequestNote + ": this is the profile as it is now."
	default:
		return
	}
	f.notes = append(f.notes, note)
}

const usedRequestNote = "This request_id was used before"

// refuseAgent answers a profile whose shape is wrong. A request_id that was used
// before still gets the profile; else everything wrong that this node can see is
// listed, and nobody else is asked.
func (c *call) refuseAgent(f *agentForm) error {
	view := c.read()
	named := !f.problems.Has(fieldID.name)
	if f.cmd.Request.ID != "" && named {
		if _, known := view.Request(command.OpRegister, f.cmd.Request); known {
			f.noteResult(&command.Result{Outcome: command.OutcomeDuplicate, Differs: true})
			return c.answerAgent(f, "")
		}
	}
	if named {
		found, err := view.RegisterProblems(&f.change)
		if err != nil {
			return fmt.Errorf("look at the profile: %w", err)
		}
		f.reject(slices.DeleteFunc(found, func(p command.Problem) bool {
			return p == command.ProblemUnchecked || // nobody was asked
				p == command.ProblemNoDescription && (f.problems.Has("description") || f.problems.Has("note")) ||
				f.problems.Has(fieldEditKey.name)
		}))
	}
	return c.agentRefusal(f, view, wire.CodeInvalid)
}

// reject adds what the state has against the profile.
func (f *agentForm) reject(found []command.Problem) {
	for _, problem := range found {
		if issue, known := profileRefusals[problem]; known {
			f.problems.List = append(f.problems.List, issue)
			continue
		}
		f.problems.Add(fieldID.name, "was refused by a rule of a newer version (%d)", problem)
	}
}

// rejectAgent answers a profile that the state machine refused: 403, or 422 where
// there is no profile yet.
func (c *call) rejectAgent(f *agentForm, found []command.Problem) error {
	f.reject(found)
	code := wire.CodeInvalid
	if f.problems.Has(fieldEditKey.name) {
		code = wire.CodeWrongKey
	}
	return c.agentRefusal(f, c.reread(), code)
}

// agentRefusal is the error of a profile with problems.
func (c *call) agentRefusal(f *agentForm, view *fsm.View, code command.Code) error {
	example, err := f.example(view, c.srv.now())
	if err != nil {
		return fmt.Errorf("make an example: %w", err)
	}
	refusal := wire.Invalid(f.problems.List, example)
	if code == wire.CodeWrongKey {
		refusal.Code = code
		refusal.Message = "Only who holds the edit_key may change this profile. The example is the profile as it is."
	}
	return refusal
}

// explainAgent adds to an error of the cluster a payload that works.
func (c *call) explainAgent(f *agentForm, err error) error {
	example, failed := f.example(c.read(), c.srv.now())
	if failed != nil {
		return fmt.Errorf("make an example: %w", failed)
	}
	return explained(err, example, f.cmd.Request.ID != "")
}

// answerAgent answers with the profile, and with its key where there is a new one.
func (c *call) answerAgent(f *agentForm, key string) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	c.out.Header.Set(fiber.HeaderLocation, "/api/agents/"+url.PathEscape(f.change.Agent))
	return c.answer(http.StatusCreated, func(dst []byte) ([]byte, error) {
		dst, err := view.AppendProfile(append(dst, `{"agent":`...), f.change.AgentKey)
		if err != nil {
			return nil, fmt.Errorf("show a profile: %w", err)
		}
		if key != "" {
			dst = append(append(append(dst, `,"edit_key":"`...), key...), '"')
		}
		return appendNotes(dst, f.notes), nil
	})
}

// agentParams are the parameters of a list of profiles.
var agentParams = []string{"q", "limit", "cursor", "consistency", "min_index"}

// listProfiles serves GET /api/agents.
func listProfiles(c *call) error {
	l, err := c.listing(agentParams, "agents", func(l *listing, doc *wire.Document) {
		l.query.Q = l.text(doc, "q", command.MaxSearch)
	})
	if err != nil {
		return err
	}
	view := c.read()
	revisions, next, err := view.ListProfiles(fsm.ProfileQuery{Q: l.query.Q, Limit: l.query.Limit, Before: l.query.Before})
	if err != nil {
		return err
	}
	return c.answerPage("agents", revisions, l.nextCursor(next), view.AppendRevisions)
}

// getProfile serves GET /api/agents/{id}.
func getProfile(c *call) error {
	agentKey := text.Fold(text.AgentName(c.param("id")))
	err := c.awaitQueryOf("agent", func(view *fsm.View) (bool, error) {
		_, known, err := view.Profile(agentKey)
		return known, err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst, err := c.read().AppendProfile(append(dst, `{"agent":`...), agentKey)
		if errors.Is(err, fsm.ErrNotFound) {
			return nil, wire.Missing("agent")
		}
		return append(dst, '}'), err
	})
}
