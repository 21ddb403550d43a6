package view

import "github.com/commons-cluster/commons/fsm/state"

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
