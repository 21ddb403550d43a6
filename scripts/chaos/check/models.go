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
// further write is answered with that entry. The state is the entry's id.
var requestIDs = model("", func(id string, c *record.Call) (bool, string) {
	switch {
	case c.Outcome == record.Unknown:
		return true, cmp.Or(id, writtenSomewhere)
	case !c.Duplicate:
		return id == "", c.ID
	}
	return id == c.ID || id == writtenSomewhere, c.ID
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

// maxExtended is how often a claim may be extended.
const maxExtended = 2

// jobs is the model of one job that another client has posted.
var jobs = model(jobState{status: "open"}, jobState.step)

func (s jobState) step(c *record.Call) (bool, jobState) {
	if c.Kind == record.Look {
		return s.status == c.Status && s.by == c.ClaimedBy, s
	}
	holds := s.status == "claimed" && s.by == c.Agent
	var allowed bool
	next := s
	switch c.Kind {
	case record.Claim:
		allowed, next = s.status == "open", jobState{status: "claimed", by: c.Agent}
		if holds {
			allowed, next.extended = s.extended < maxExtended, s.extended+1
		}
	case record.Release:
		allowed, next = holds, jobState{status: "open"}
	case record.Result:
		allowed, next = holds, jobState{status: "done"}
	}
	if !allowed {
		next = s
	}
	switch c.Outcome {
	case record.Done:
		return allowed, next
	case record.Rejected:
		switch c.Code {
		case "too_many_claims": // the state of one job does not tell
			return c.Kind == record.Claim && s.status == "open", s
		case "too_many_renewals":
			return c.Kind == record.Claim && holds && !allowed, s
		}
		return !allowed && s.explains(c.Code), s
	}
	return true, next // unknown: if it takes effect, this is the effect
}

// explains reports whether the state agrees with an error code.
func (s jobState) explains(code string) bool {
	switch code {
	case "job_claimed":
		return s.status == "claimed"
	case "job_done":
		return s.status == "done"
	}
	return code == "not_claimed" // also where another agent holds it
}

func checkJobs(v *Verdict, calls []record.Call, _ *Final) {
	decide(v, jobs, grouped(calls, func(c *record.Call) string {
		if c.Kind == record.Look && c.Outcome != record.Done || c.Outcome == record.Failed {
			return ""
		}
		return c.Job
	}))
}
