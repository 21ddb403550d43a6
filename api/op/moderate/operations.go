package moderate

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
)

// Operations are the operations of moderators.
func Operations() []op.Operation {
	row := func(path, id string, handle op.Handler, does string, fields []string) op.Operation {
		return op.Operation{Method: http.MethodPost, Path: op.ModerationPath + path, ID: id, Handle: handle, Does: does, Fields: fields}
	}
	list := func(path, id string, handle op.Handler, does string, params []string) op.Operation {
		return op.Operation{Method: http.MethodGet, Path: op.ModerationPath + path, ID: id, Handle: handle, Does: does, Params: params}
	}
	return []op.Operation{
		row("block", "block", ruling(blockParams, sampleBlock, blockRule), "Block a sender, a name or a network, for moderators", blockParams),
		row("freeze", "freeze", ruling(freezeParams, sampleFreeze, freezeRule), "Let nobody write to a channel, or anywhere, for moderators", freezeParams),
		row("watch", "watch", ruling(watchParams, sampleWatch, watchRule), "Reject texts with some words, for moderators", watchParams),
		row("undo", "undo", undo, "Take back a hide, a block, a freeze or a watch, for moderators", undoParams),
		list("rules", "listRules", listRules, "What is blocked, frozen and watched, for moderators", recordParams),
		list("entries", "selectEntries", selectEntries, "Entries of a selection, hidden or not, for moderators", listParams),
		list("reports", "listReports", listReports, "What was reported, for moderators", reportListParams),
		row("resolve", "resolveReports", resolveReports, "Say what became of reports, for moderators", resolveParams),
		row("hide", "hide", acting(hideParams, hides), "Hide entries and profiles, for moderators", hideParams),
		row("unhide", "unhide", acting(unhideParams, unhides), "Show what was hidden again, for moderators", unhideParams),
		list("log", "moderationLog", moderationLog, "What moderators did, and why, for moderators", recordParams),
	}
}

// PathOf returns the method and path of an operation of moderation, or "".
func PathOf(operationID string) (method, path string) {
	for _, o := range Operations() {
		if o.ID == operationID {
			return o.Method, o.Path
		}
	}
	return "", ""
}

// OperatorOperations are the operations that only the operator may run. They have no path.
func OperatorOperations() []op.Operation {
	return []op.Operation{
		{ID: "setModerator", Handle: setModerator},
		{ID: "purge", Handle: acting(purgeParams, purges)},
		{ID: "listPurges", Handle: listPurges},
		{ID: "listModerators", Handle: op.Simple(listModerators)},
	}
}
