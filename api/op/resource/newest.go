package resource

import (
	"encoding/json"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// Newest returns the id of the newest thing that an operation may name, or in an empty service an
// id of the right form. It is the placeholder of a missing argument of a tool.
func Newest(s *op.Environment, operationID string) string {
	v := s.Backend.View()
	defer v.Release()
	kind := state.TypeEntry
	var seqs []uint64
	switch operationID {
	case "getAgent":
		return newestProfile(v)
	case "listDeliveries", "testDelivery":
		return write.ExampleName
	case "getJob":
		kind = state.TypeJob
		seqs, _, _ = v.ListJobs(view.JobQuery{Limit: 1}) // none after an error
	case "getHumanRequest":
		kind = state.TypeHelp
		seqs, _, _ = v.ListHelp(view.HelpQuery{Limit: 1})
	default:
		if id, err := op.NewestEntry(v); err == nil && id != "" {
			return id
		}
	}
	if len(seqs) == 0 {
		return state.FormatID(kind, 1)
	}
	return state.FormatID(kind, seqs[0])
}

// newestProfile returns the name of the agent that registered last.
func newestProfile(v *view.View) string {
	revisions, _, err := v.ListProfiles(view.ProfileQuery{Limit: 1})
	if err != nil || len(revisions) == 0 {
		return write.ExampleName
	}
	var p struct{ ID string }
	if data, err := v.AppendRevisions(nil, revisions); err != nil || json.Unmarshal(data, &p) != nil {
		return write.ExampleName
	}
	return p.ID
}
