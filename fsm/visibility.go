package fsm

import (
	"bytes"
	"slices"

	"github.com/commons-cluster/commons/fsm/index"
)

// Visibility says whether an entry or a profile is shown, and if not, why.
type Visibility string

// The visibilities. Of what expired or was purged nothing is left.
const (
	Visible Visibility = "visible"
	Hidden  Visibility = "hidden"  // by a moderator
	Held    Visibility = "held"    // until a moderator has looked at it
	Expired Visibility = "expired" // older than the retention of its channel
	Purged  Visibility = "purged"
)

// Visibility returns that of an entry that exists.
func (v *View) Visibility(seq uint64) (Visibility, error) {
	meta, known, err := v.Meta(seq)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "", ErrNotFound
	case !meta.Hidden:
		return Visible, nil
	}
	return v.hiddenAs(seq)
}

// hiddenAs returns what a hidden entry is.
func (v *View) hiddenAs(seq uint64) (Visibility, error) {
	for _, gone := range [...]struct {
		bits byte
		is   Visibility
	}{{spacePurgedBits, Purged}, {spaceSweptBits, Expired}} { // what expired may be purged, too
		row, _, err := getRow(v.snap, seqKey(gone.bits, seq/hiddenEntries))
		if err != nil {
			return "", err
		}
		if index.Bitmap(row).Has(seq) {
			return gone.is, nil
		}
	}
	return v.heldOrHidden(heldBackKey(seq))
}

// explained returns the row of a stub with what became of the entry: rows themselves
// only distinguish what is gone and what is hidden.
func (v *View) explained(seq uint64, row []byte) ([]byte, error) {
	is, err := v.hiddenAs(seq)
	switch {
	case err != nil || is == Hidden || is == Purged:
		return row, err
	case is == Expired:
		row = bytes.TrimSuffix(row, []byte(purgedMark+"}"))
	default:
		row = bytes.TrimSuffix(row, []byte("}"))
	}
	return slices.Concat(row, []byte(`,"`+string(is)+`":true}`)), nil
}

// ProfileVisibility returns that of a profile; false when there is none.
func (v *View) ProfileVisibility(agentKey string) (is Visibility, known bool, err error) {
	p, known, err := v.profile(agentKey)
	switch {
	case err != nil || !known:
		return "", false, err
	case p.purged:
		return Purged, true, nil
	case !p.hidden():
		return Visible, true, nil
	}
	is, err = v.heldOrHidden(heldProfileKey(agentKey))
	return is, err == nil, err
}

// heldOrHidden distinguishes what is held and what is hidden by a moderator.
func (v *View) heldOrHidden(key []byte) (Visibility, error) {
	_, held, err := getRow(v.snap, key)
	if held {
		return Held, err
	}
	return Hidden, err
}
