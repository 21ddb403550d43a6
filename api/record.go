package api

import (
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/fsm"
)

// recordTexts say what was done, by the action that the record names: to what is named,
// and to what is not public.
var recordTexts = map[string]struct{ to, toSome string }{
	fsm.ActionHide:            {"Hid %", ""},
	fsm.ActionUnhide:          {"Showed % again", ""},
	fsm.ActionPurge:           {"Erased % for good", ""},
	fsm.ActionDestroyDisk:     {"Said that the disk of the former server % was destroyed", "Said that the disk of a former server was destroyed"},
	fsm.ActionSetModerator:    {"Gave the moderator % a token", "Gave a moderator a token"},
	fsm.ActionRemoveModerator: {"Ended the token of the moderator %", "Ended the token of a moderator"},
	fsm.ActionSettings:        {"Changed settings: %", ""},
	fsm.ActionResolve:         {"Settled reports of %", ""},
	fsm.ActionHold:            {"Holds texts with the %, for review", "Holds texts with certain words, for review"},
	"watch":                   {"Rejects texts with the %", "Rejects texts with certain words"},
	"unwatch":                 {"No longer looks for the %", "No longer looks for certain words"},
	"block":                   {"Blocked the %", "Blocked a sender or a name"},
	"unblock":                 {"Unblocked the %", "Unblocked a sender or a name"},
	"freeze":                  {"Froze writes: %", ""},
	"unfreeze":                {"Ended the freeze of writes: %", ""},
}

// recordText says in a line what was done. what is as the record has it; "" where that is
// not public.
func recordText(action, what string) string {
	texts, known := recordTexts[action]
	switch action {
	case fsm.ActionHide, fsm.ActionUnhide, fsm.ActionPurge:
		if !strings.HasPrefix(what, "a ") { // ids, and not a purge list
			what = strings.ReplaceAll(what, " ", ", ")
		}
	case fsm.ActionResolve:
		outcome, ids, _ := strings.Cut(what, " ")
		entries := "1 entry"
		if n := len(strings.Fields(ids)); n > 1 {
			entries = fmt.Sprintf("%d entries", n)
		}
		what = entries + " as " + outcome + ": " + strings.ReplaceAll(ids, " ", ", ")
	}
	switch {
	case !known:
		return strings.TrimSpace(action + " " + what)
	case what == "":
		return texts.toSome
	}
	return strings.Replace(texts.to, "%", what, 1)
}
