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

// HiddenBy returns at most limit entries that an order hides, newest first and below before, unless
// that is 0. next is the before of the next part, which may be short, or 0 after the last one.
func (v *View) HiddenBy(order, before uint64, limit int) (seqs []uint64, next uint64, err error) {
	lower, upper := state.SpaceBounds(state.SpaceHidden)
	if before > 0 {
		upper = state.SeqKey(state.SpaceHidden, before)
	}
	scanned := 0
	err = state.ScanBack(v.snap, lower, upper, func(key, row []byte) error {
		if len(seqs) == limit || scanned == maxSelectScan {
			next = state.SeqOfKey(key) + 1
			return state.ErrEnough
		}
		scanned++
		h, err := state.Decode[state.HiddenEntry](row)
		if h.Order == order {
			seqs = append(seqs, state.SeqOfKey(key))
		}
		return err
	})
	return seqs, next, err
}

// ProfilesHiddenBy returns the folded names of the profiles that an order hides.
func (v *View) ProfilesHiddenBy(order uint64) (names []string, err error) {
	lower, upper := state.SpaceBounds(state.SpaceProfile)
	err = state.ScanSpace(v.snap, lower, upper, func(key, row []byte) error {
		p, err := state.Decode[state.ProfileRow](row)
		if p.HiddenBy == order {
			names = append(names, string(key[1:]))
		}
		return err
	})
	return names, err
}

// Changes returns rows of the record of changes in the cluster, as Records does.
func (v *View) Changes(before uint64, limit int) (records []state.Record, next uint64, err error) {
	return v.journal(state.ChangeRecord, before, limit)
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
	lower, upper := state.SpaceBounds(state.SpaceModerator)
	err = state.ScanSpace(v.snap, lower, upper, func(key, row []byte) error {
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

// NextTokenEnd returns when the next token ends, in milliseconds since the epoch, if one ends.
func (v *View) NextTokenEnd() (at int64, ok bool) {
	list, err := v.Moderators()
	for _, m := range list {
		if m.Until > v.at.Head.Now && (!ok || m.Until < at) {
			at, ok = m.Until, true
		}
	}
	return at, ok && err == nil
}

// Policy returns the rules.
func (v *View) Policy() *state.Policy { return v.at.Policy }

// NextRuleEnd returns when the next rule ends, in milliseconds since the epoch, if one
// ends.
func (v *View) NextRuleEnd() (at int64, ok bool) {
	return v.at.Policy.NextEnd, v.at.Policy.NextEnd != state.NoEnd
}

// Purged is the number of the newest purge, or 0.
func (v *View) Purged() (number uint64, err error) {
	return state.LoadOrZero(v.snap, state.KeyPurged, state.DecodeNumber)
}

// Purges calls f for the purges after a number, in their order, until f returns an error.
func (v *View) Purges(after uint64, f func(state.Purge) error) error {
	_, upper := state.SpaceBounds(state.SpacePurge)
	return state.ScanSpace(v.snap, state.SeqKey(state.SpacePurge, after+1), upper, func(key, row []byte) error {
		p, err := state.Decode[state.Purge](row)
		if err != nil {
			return err
		}
		p.Number = state.SeqOfKey(key)
		return f(p)
	})
}

// Erased is the newest purge up to which texts are erased from all files of the state, or
// 0.
func (v *View) Erased() (number uint64, err error) {
	return state.LoadOrZero(v.snap, state.KeyErased, state.DecodeNumber)
}

// PurgedUpTo is the number of the newest purge by a log entry up to an index, or 0.
func (v *View) PurgedUpTo(index uint64) (number uint64, err error) {
	lower, upper := state.SpaceBounds(state.SpacePurge)
	err = state.ScanBack(v.snap, lower, upper, func(key, row []byte) error {
		p, err := state.Decode[state.Purge](row)
		if err == nil && p.Index <= index {
			number, err = state.SeqOfKey(key), state.ErrEnough
		}
		return err
	})
	return number, err
}
