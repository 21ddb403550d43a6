package view

import (
	"bytes"
	"crypto/subtle"

	"github.com/commons-cluster/commons/fsm/state"
)

// Records returns rows of the record of moderators and operators, newest first: at most
// limit below before, unless that is 0. next is the before of the next page; 0 on the last
// page.
func (v *View) Records(before uint64, limit int) (records []state.Record, next uint64, err error) {
	return v.journal(state.ModerationRecord, before, limit)
}

// Record returns a row of the record of moderators and operators, and whether it is kept.
func (v *View) Record(number uint64) (r state.Record, known bool, err error) {
	r, known, err = state.Load(v.snap, state.SeqKey(state.SpaceRecord, number), state.Decode[state.Record])
	r.Number = number
	return r, known, err
}

func (v *View) journal(of state.Journal, before uint64, limit int) (records []state.Record, next uint64, err error) {
	numbers, err := v.SeqsBefore([]byte{of.Space}, before, state.PageLimit(limit)+1)
	if err != nil {
		return nil, 0, err
	}
	numbers, next = cutPage(numbers, state.PageLimit(limit))
	for _, number := range numbers {
		r, _, err := state.Load(v.snap, state.SeqKey(of.Space, number), state.Decode[state.Record])
		if err != nil {
			return nil, 0, err
		}
		r.Number = number
		records = append(records, r)
	}
	return records, next, nil
}

// Moderators returns those who have a token, sorted by name, also if it has ended.
func (v *View) Moderators() (list []state.Moderator, err error) {
	err = state.ScanAll(v.snap, state.SpaceModerator, func(key, row []byte) error {
		m, err := state.Decode[state.Moderator](bytes.Clone(row))
		m.Name = string(key[1:])
		list = append(list, m)
		return err
	})
	return list, err
}

// Moderator returns the moderator whose token has a hash, and whether the token has ended. The
// name is empty for an unknown token.
func (v *View) Moderator(token []byte) (found state.Moderator, ended bool, err error) {
	list, err := v.Moderators()
	for _, m := range list {
		if subtle.ConstantTimeCompare(m.Token, token) == 1 {
			found, ended = m, m.Until <= v.at.Head.Now
		}
	}
	return found, ended, err
}
