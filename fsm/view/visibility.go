package view

import (
	"bytes"
	"slices"

	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// Visibility is the visibility of an entry or a profile.
type Visibility string

// The visibilities. Expired and purged texts are erased.
const (
	Visible Visibility = "visible"
	Hidden  Visibility = "hidden"  // by a moderator
	Expired Visibility = "expired" // older than the retention
	Purged  Visibility = "purged"
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

// hiddenAs returns the visibility of a hidden entry.
func (v *View) hiddenAs(seq uint64) (Visibility, error) {
	for _, gone := range [...]struct {
		bits byte
		is   Visibility
	}{{state.SpacePurgedBits, Purged}, {state.SpaceSweptBits, Expired}} { // an expired entry may be purged, too
		row, _, err := state.GetRow(v.snap, state.SeqKey(gone.bits, seq/state.HiddenEntries))
		if err != nil {
			return "", err
		}
		if index.Bitmap(row).Has(seq) {
			return gone.is, nil
		}
	}
	return Hidden, nil
}

// explained returns a stub with the visibility of the entry: stored rows only have purged. It names
// no channel without shown entries.
func (v *View) explained(seq uint64, row []byte, o *state.Outline) ([]byte, error) {
	is, err := v.hiddenAs(seq)
	if err != nil {
		return nil, err
	}
	if is == Expired {
		row = slices.Concat(bytes.TrimSuffix(row, []byte(state.PurgedMark+"}")), []byte(`,"`+string(Expired)+`":true}`))
	}
	name, err := o.Text(state.PartChannel)
	if err != nil {
		return nil, err
	}
	c, err := state.LoadOrZero(v.snap, state.ChannelKey(name), state.Decode[state.ChannelRow])
	if err != nil || c.Entries > 0 {
		return row, err
	}
	return state.ReplacePart(row, state.PartChannel, []byte(`""`))
}
