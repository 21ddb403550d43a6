package view

import (
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

// Policy returns the rules.
func (v *View) Policy() *state.Policy { return v.at.Policy }

// SenderRule returns the rule against the sender of an entry, or nil.
func (v *View) SenderRule(seq uint64) (*state.Rule, error) {
	from, err := v.SenderFingerprint(seq)
	return v.at.Policy.OfSender(from), err
}

// Watched returns how many of the newest entries have texts, at most last, and which of these a
// pattern is found in, newest first.
func (v *View) Watched(w state.WatchedPattern, last int) (tested int, found []uint64, err error) {
	for seq := v.at.Head.LastSeq; seq > 0 && tested < last && err == nil; seq-- {
		err = v.originalRow(seq, func(row []byte) error {
			e, err := state.DecodeEntryRow(seq, row)
			if err != nil || e.Hidden { // it is erased
				return err
			}
			texts, err := e.Outline.Texts()
			tested++
			all := append([]string{texts.Agent, e.Channel, texts.Title, texts.Body}, texts.Tags...)
			if w.Finds(all, text.Plain(all)) {
				found = append(found, seq)
			}
			return err
		})
	}
	return tested, found, err
}
