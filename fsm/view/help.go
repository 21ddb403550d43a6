package view

import "github.com/commons-cluster/commons/fsm/state"

// AppendHelp appends the request's JSON to dst, or returns ErrNotFound for another entry.
func (v *View) AppendHelp(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendHelps(dst, []uint64{seq})
}

// AppendHelps appends the JSON of requests, with commas between them.
func (v *View) AppendHelps(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, state.SpaceHelp, func(dst, stored []byte, counts state.LaterCounts) ([]byte, error) {
		dst = append(append(dst, ','), stored...)
		dst = append(append(dst, `,"status":"`...), counts.Help().String()...)
		return append(dst, '"'), nil
	})
}

// ListHelp returns the seqs of the requests that q selects by HelpStatus, AgentKey and Q, newest first,
// and the Before of the next page, which is 0 on the last one. A page of one status may be short without
// being the last.
func (v *View) ListHelp(q Query) (seqs []uint64, next uint64, err error) {
	search, phrases, some := searchOf(state.TypeHelp, q)
	if !some {
		return nil, 0, nil
	}
	var passes check
	if q.HelpStatus != 0 {
		passes = func(seqs []uint64) ([]uint64, error) {
			return filtered(seqs, func(seq uint64) (bool, error) {
				counts, err := v.counts(seq)
				return counts.Help() == q.HelpStatus, err
			})
		}
	}
	return v.filter(search, phrases, nil, passes)
}
