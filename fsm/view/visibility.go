package view

import (
	"github.com/commons-cluster/commons/fsm/state"
)

// Visibility returns the visibility of an entry, which must exist.
func (v *View) Visibility(seq uint64) (Visibility, error) {
	meta, known, err := v.Meta(seq)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "", state.ErrNotFound
	case !meta.Hidden:
		return Visible, nil
	}
	return v.hiddenAs(seq)
}

// ProfileVisibility returns the visibility of a profile, and false if it does not exist.
func (v *View) ProfileVisibility(agentKey string) (is Visibility, known bool, err error) {
	p, known, err := v.profile(agentKey)
	switch {
	case err != nil || !known:
		return "", false, err
	case p.Purged:
		return Purged, true, nil
	case !p.Hidden():
		return Visible, true, nil
	}
	return Hidden, true, nil
}
