package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// decideFor bounds the search for an order of the calls of one job or request_id.
const decideFor = 10 * time.Second

// operations turns calls into operations of a model. A call that may still take effect
// never returns.
func operations(calls []record.Call) []porcupine.Operation {
	clients := map[string]int{}
	ops := make([]porcupine.Operation, 0, len(calls))
	for i := range calls {
		c := &calls[i]
		if _, known := clients[c.Client]; !known {
			clients[c.Client] = len(clients)
		}
		end := int64(c.End)
		if c.Outcome == record.Unknown {
			end = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: clients[c.Client], Input: c, Call: int64(c.Begin), Output: c, Return: end})
	}
	return ops
}

// decide looks for an order of each group of calls that the model allows.
func decide(v *Verdict, model porcupine.Model, groups map[string][]record.Call) {
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		v.Looked++
		calls := groups[name]
		switch porcupine.CheckOperationsTimeout(model, operations(calls), decideFor) {
		case porcupine.Illegal:
			slices.SortFunc(calls, func(a, b record.Call) int { return cmp.Compare(a.Begin, b.Begin) })
			v.Add(fmt.Sprintf("no order of the calls with %s explains their answers", name), calls...)
		case porcupine.Unknown:
			v.Open++
		case porcupine.Ok:
		}
	}
}

// model is the model of calls by their effect on a state: step returns whether a state
// allows a call's answer, and the state after it.
func model[State comparable](first State, step func(State, *record.Call) (bool, State)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, _, output any) (bool, any) { return step(state.(State), output.(*record.Call)) },
	}
}

// writtenSomewhere is the state of a request_id whose entry exists, but no client has
// got its id.
const writtenSomewhere = "?"

// requestIDs is the model of one request_id: its first write makes an entry, and each
// further write is answered with that entry. A call that was sent twice may get the answer of
// its own repetition. The state is the entry's id.
var requestIDs = model("", func(id string, c *record.Call) (bool, string) {
	switch {
	case c.Outcome == record.Unknown:
		return true, cmp.Or(id, writtenSomewhere)
	case !c.Duplicate:
		return id == "", c.ID
	}
	return id == c.ID || id == writtenSomewhere || id == "" && c.Resent, c.ID
})

func checkRequestIDs(v *Verdict, calls []record.Call, _ *Final) {
	decide(v, requestIDs, grouped(calls, func(c *record.Call) string {
		if c.Outcome == record.Failed || c.Outcome == record.Rejected {
			return ""
		}
		return c.RequestID
	}))
}

// jobState is the state of one job.
type jobState struct {
	status, by string
	extended   int // how often the claim was
}

// The states of a job.
const (
	jobOpen    = "open"
	jobClaimed = "claimed"
	jobDone    = "done"
	jobClosed  = "closed"
)

// maxExtended is how often a claim may be extended.
const maxExtended = 2

// jobs is the model of one job that another client has posted. Runs are too short for the end of a claim.
var jobs = model(jobState{status: jobOpen}, jobState.step)

func (s jobState) step(c *record.Call) (bool, jobState) {
	if c.Kind == record.Look {
		return s.status == c.Status && s.by == c.ClaimedBy, s
	}
	next, allowed := s.after(c)
	switch c.Outcome {
	case record.Done:
		return allowed, next
	case record.Rejected:
		return s.explains(c, allowed), s
	}
	return true, next // unknown: if it takes effect, this is the effect
}

// after returns the state after an action, and whether it is allowed; if not, the state is the same.
func (s jobState) after(c *record.Call) (next jobState, allowed bool) {
	next = s
	holds := s.status == jobClaimed && s.by == c.Agent
	switch c.Kind {
	case record.Claim, record.Take:
		if holds && c.Kind == record.Claim {
			next.extended++
			allowed = s.extended < maxExtended
			break
		}
		next, allowed = jobState{status: jobClaimed, by: c.Agent}, s.status == jobOpen
	case record.Release:
		next, allowed = jobState{status: jobOpen}, holds
	case record.Result:
		next, allowed = jobState{status: jobDone}, holds
	case record.Close:
		next, allowed = jobState{status: jobClosed}, s.status == jobOpen || s.status == jobClaimed && c.Keyed
	}
	if !allowed {
		next = s
	}
	return next, allowed
}

// explains reports whether the state agrees with the error code of an action.
func (s jobState) explains(c *record.Call, allowed bool) bool {
	switch c.Code {
	case "too_many_claims": // the state of one job does not tell
		return c.Kind == record.Claim && s.status == jobOpen
	case "too_many_renewals":
		return c.Kind == record.Claim && s.status == jobClaimed && s.by == c.Agent && !allowed
	case "job_claimed":
		return !allowed && s.status == jobClaimed
	case "job_done":
		return !allowed && s.status == jobDone
	case "job_closed":
		return !allowed && s.status == jobClosed
	case "not_claimed":
		return !allowed && s.status == jobOpen
	}
	return false
}

// checkJobs checks the calls of each job. A Take of unknown outcome may have got any job of its
// poster.
func checkJobs(v *Verdict, calls []record.Call, _ *Final) {
	groups := grouped(calls, func(c *record.Call) string {
		if c.Kind == record.Look && c.Outcome != record.Done || c.Outcome == record.Failed {
			return ""
		}
		return c.Job
	})
	posters := postersOf(calls)
	for _, c := range calls {
		if c.Kind != record.Take || c.Outcome != record.Unknown {
			continue
		}
		for job, group := range groups {
			if posters[job] == c.Poster {
				groups[job] = append(group, c)
			}
		}
	}
	decide(v, jobs, groups)
}

// postersOf returns the posters of the jobs whose post was answered.
func postersOf(calls []record.Call) map[string]string {
	posters := map[string]string{}
	for _, c := range calls {
		if c.Kind == record.Post && c.Outcome == record.Done {
			posters[c.ID] = c.Agent
		}
	}
	return posters
}

// checkTakes checks that an agent takes jobs that fit, and each of them only once.
func checkTakes(v *Verdict, calls []record.Call, _ *Final) {
	held := grouped(calls, func(c *record.Call) string {
		if c.Outcome != record.Done || c.Kind != record.Claim && c.Kind != record.Take {
			return ""
		}
		return c.Job + " " + c.Agent
	})
	posters := postersOf(calls)
	for _, c := range calls {
		if c.Kind != record.Take || c.Outcome != record.Done || c.Job == "" {
			continue
		}
		v.Looked++
		if poster, known := posters[c.Job]; known && poster != c.Poster {
			v.Add(fmt.Sprintf("%s asked for a job of %s and got %s of %s", c.Agent, c.Poster, c.Job, poster), c)
		}
		for _, earlier := range held[c.Job+" "+c.Agent] {
			if earlier.End < c.Begin {
				v.Add(fmt.Sprintf("%s got %s again, which it had held", c.Agent, c.Job), earlier, c)
			}
		}
	}
}

// standing is the state of an entry or a name after the actions of moderators.
type standing struct{ hidden, purged, blocked bool }

// moderation is the model of one entry or name that a moderator works with.
var moderation = model(standing{}, standing.step)

func (s standing) step(c *record.Call) (bool, standing) {
	switch c.Kind {
	case record.Peek:
		return c.Shown != (s.hidden || s.purged), s
	case record.Attempt:
		return c.Outcome == record.Unknown || s.blocked == (c.Outcome == record.Rejected && c.Code == "blocked"), s
	}
	if c.Outcome == record.Rejected {
		return true, s // such as taking back a block that an earlier call took back
	}
	switch c.Status {
	case record.DoHide:
		s.hidden = true
	case record.DoUnhide:
		s.hidden = false
	case record.DoPurge:
		s.purged = true
	case record.DoBlock, record.DoUndo:
		s.blocked = c.Status == record.DoBlock
	}
	return true, s
}

// checkModerated: what was hidden or purged is visible at no node once the command has
// returned, also at the end, and is visible again after it was shown; no write under a
// blocked name succeeds.
func checkModerated(v *Verdict, calls []record.Call, f *Final) {
	groups := grouped(calls, func(c *record.Call) string {
		switch {
		case c.Outcome == record.Failed, c.Kind == record.Peek && c.Outcome != record.Done:
			return ""
		case c.Kind == record.Moderated, c.Kind == record.Peek, c.Kind == record.Attempt:
			return c.Expect
		}
		return ""
	})
	end := time.Duration(0)
	for i := range calls {
		end = max(end, calls[i].End)
	}
	for i := range calls {
		c := &calls[i]
		if c.Kind != record.Subject || c.Outcome != record.Done || len(groups[c.ID]) == 0 {
			continue
		}
		for node, entries := range f.Entries {
			last := record.Call{Client: node, Node: node, Kind: record.Peek, Outcome: record.Done, Expect: c.ID, Text: c.Text, Begin: end + 1, End: end + 2}
			for _, e := range entries {
				last.Shown = last.Shown || e.Body == c.Text
			}
			groups[c.ID] = append(groups[c.ID], last)
		}
	}
	decide(v, moderation, groups)
}

// moderatedIDs are the ids of what moderators work with.
func moderatedIDs(calls []record.Call) map[string]bool {
	ids := map[string]bool{}
	for i := range calls {
		if c := &calls[i]; c.Kind == record.Subject && c.ID != "" {
			ids[c.ID] = true
		}
	}
	return ids
}
