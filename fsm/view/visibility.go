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
	is, err = v.heldOrHidden(state.HeldProfileKey(agentKey))
	return is, err == nil, err
}

// HeldBack is an entry or profile that was published hidden, for a moderator to review.
type HeldBack struct {
	ID    string // an entry's id, or an agent's name
	Rule  uint64 // number of the rule because of which it is held
	At    int64  // milliseconds since the epoch
	Agent string // folded
	Texts []string
}

// HeldBack returns held entries, newest first: at most limit below before, unless that is
// 0; on the first page also as many profiles, by their names. next is the before of the
// next page, or 0.
func (v *View) HeldBack(before uint64, limit int) (held []HeldBack, next uint64, err error) {
	limit = state.PageLimit(limit)
	if before == 0 {
		if held, err = v.heldProfiles(limit); err != nil {
			return nil, 0, err
		}
	}
	seqs, err := v.SeqsBefore([]byte{state.SpaceHeldBack, state.HeldEntries}, before, limit+1)
	if err != nil {
		return nil, 0, err
	}
	seqs, next = cutPage(seqs, limit)
	s := &viewState{v: v}
	for _, seq := range seqs {
		rule, _ := state.Read(s, state.HeldBackKey(seq), state.DecodeNumber)
		h, found := state.Read(s, state.SeqKey(state.SpaceHidden, seq), state.DecodeHidden)
		if !found {
			continue
		}
		e, err := state.DecodeEntryRow(seq, h.Row)
		s.Must(err)
		texts, err := e.Texts()
		s.Must(err)
		held = append(held, HeldBack{
			ID: state.FormatID(e.Type, seq), Rule: rule, At: e.CreatedAt, Agent: e.AgentKey,
			Texts: append([]string{texts.Title, texts.Body}, texts.Tags...),
		})
	}
	return held, next, s.err
}

func (v *View) heldProfiles(limit int) (held []HeldBack, err error) {
	lower, upper := []byte{state.SpaceHeldBack, state.HeldProfiles}, []byte{state.SpaceHeldBack, state.HeldProfiles + 1}
	err = state.ScanSpace(v.snap, lower, upper, func(key, row []byte) error {
		if len(held) == limit {
			return state.ErrEnough
		}
		rule, err := state.DecodeNumber(row)
		if err != nil {
			return err
		}
		p, _, err := v.profile(string(key[2:]))
		held = append(held, HeldBack{ID: p.ID, Rule: rule, At: p.HiddenAt, Agent: string(key[2:]), Texts: p.Texts()})
		return err
	})
	return held, err
}
