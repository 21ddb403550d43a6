package view

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Settings returns the replicated settings.
func (v *View) Settings() (command.Settings, error) {
	s := &viewState{v: v}
	set := state.SettingsOf(s)
	return set, s.err
}
