package view

import (
	"fmt"

	"github.com/commons-cluster/commons/fsm/state"
)

// AppendHelp appends the request's JSON to dst, or returns ErrNotFound for another entry.
func (v *View) AppendHelp(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendHelps(dst, []uint64{seq})
}

// AppendHelps appends the JSON of requests, with commas between them.
func (v *View) AppendHelps(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, state.SpaceHelp, func(dst, stored []byte) ([]byte, error) {
		h, err := state.Decode[state.HelpRow](stored)
		dst = append(append(dst, ','), h.JSON...)
		dst = append(append(dst, `,"status":"`...), h.Status.String()...)
		return append(dst, '"'), err
	})
}

// HelpQuery selects requests for human help. Zero values select everything.
type HelpQuery struct {
	Status   state.HelpStatus
	AgentKey string // by this agent (text.Fold), or by one of several, see Or
	Q        string // matching this search text (text.ParseQuery)
	Limit    int    // at most MaxList; 0 means DefaultList
	Before   uint64 // seq < Before; 0 means from the newest
	Work     *int   // grows by the steps of the search, unless nil
}

// ListHelp returns the seqs of the requests that match q, newest first, and the Before of
// the next page; 0 on the last page. A page of one status may be short, and yet not the
// last one.
func (v *View) ListHelp(q HelpQuery) (seqs []uint64, next uint64, err error) {
	search, phrases, some := searchOf(state.TypeHelp, q.AgentKey, q.Q)
	if !some {
		return nil, 0, nil
	}
	search.Before, search.Limit, search.Work = q.Before, state.PageLimit(q.Limit), q.Work
	switch {
	case q.Status != 0:
		seqs, next, err = v.filter(search, phrases, nil, v.rowCheck(state.SpaceHelp, func(row []byte) (bool, error) {
			h, err := state.Decode[state.HelpRow](row)
			return h.Status == q.Status, err
		}))
	case len(phrases) > 0:
		seqs, next, err = v.filter(search, phrases, nil, nil)
	default:
		seqs, next, err = v.search(search)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list requests for help: %w", err)
	}
	return seqs, next, nil
}
