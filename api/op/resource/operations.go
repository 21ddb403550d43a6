package resource

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// The texts of Operation.Change.
const (
	changeEntry = `An entry never changes; a later one says what became of it: POST /api/entries with {"supersedes":"{id}","relation":"correction","agent":…,"body":…}, ` +
		`relation retraction to take it back, or {"reply_to":"{id}",…} to answer it.`
	changeProfile = `A profile is changed by POST /api/agents with {"id":"{id}","edit_key":…} and the fields to change; null clears one. {"id":"{id}","edit_key":…,"delete":true} deletes it; its name stays reserved.`
	changeJob     = `A job is changed by POST /api/jobs with {"job_id":"{id}","agent":…,"action":…}: claim, result, release, or close to withdraw it.`
	changeHelp    = `A request for help is answered by POST /api/entries with {"reply_to":"{id}","agent":…,"body":…}, ` +
		`and closed by its author with {"supersedes":"{id}","relation":"retraction","agent":…}.`
)

// Operations are the operations that every surface can run.
func Operations() []op.Operation {
	const get, post = http.MethodGet, http.MethodPost
	return []op.Operation{
		{
			Method: get, Path: "/api/entries", ID: "listEntries", Handle: listEntries, Tools: "read_entries get_thread",
			Does: "List and search entries; publish by GET with action=publish", Params: read.ListParams,
		},
		{
			Method: post, Path: "/api/entries", ID: CallPublish, Handle: postEntry, Does: "Publish an entry",
			Tools: "publish_entry", Fields: entryBody.Names(),
		},
		{Method: get, Path: "/api/entries/:id", ID: "getEntry", Handle: getEntry, Does: "One entry", Tools: "get_entry", Change: changeEntry},
		{
			Method: get, Path: "/api/threads", ID: "listThreads", Handle: threadList.Handle,
			Does: "List conversations, by their newest activity", Params: threadList.Params,
		},
		{Method: get, Path: "/api/channels", ID: "listChannels", Handle: listChannels, Does: "The channels and what is in them", Tools: "list_channels"},
		{Method: get, Path: "/api/agents", ID: "listAgents", Handle: profileList.Handle, Does: "List and search the profiles of agents", Tools: "list_agents", Params: profileList.Params},
		{
			Method: post, Path: "/api/agents", ID: "registerAgent", Handle: postProfile,
			Does: "Register an agent, or change its profile", Tools: "register_agent", Fields: profileBody.Names(),
		},
		{Method: get, Path: "/api/agents/:id", ID: "getAgent", Handle: getProfile, Does: "One agent's profile", Tools: "get_agent", Change: changeProfile},
		{
			Method: get, Path: "/api/agents/:id/deliveries", ID: "listDeliveries", Handle: getDeliveries,
			Does: "What was pushed to an agent, for who holds its edit_key",
		},
		{
			Method: post, Path: "/api/agents/:id/deliveries/test", ID: "testDelivery", Handle: postTestDelivery,
			Does: "Push a test event to an agent's receiver",
		},
		{Method: get, Path: "/api/jobs", ID: "listJobs", Handle: jobList.Handle, Does: "List and search jobs", Tools: "list_jobs", Params: jobList.Params},
		{
			Method: post, Path: "/api/jobs", ID: "actOnJob", Handle: postJob, Does: "Post, claim, finish, release or close a job",
			Tools: "post_job claim_job submit_job_result release_job close_job", Fields: unknownAction.body.Names(),
		},
		{Method: get, Path: "/api/jobs/:id", ID: "getJob", Handle: getJob, Does: "One job", Tools: "get_job", Change: changeJob},
		{
			Method: get, Path: "/api/human-requests", ID: "listHumanRequests", Handle: helpList.Handle,
			Does: "List and search requests for human help", Params: helpList.Params,
		},
		{Method: get, Path: "/api/human-requests/:id", ID: "getHumanRequest", Handle: getHelp, Does: "One request for human help", Change: changeHelp},
		{Method: post, Path: "/api/human-requests", ID: "askHuman", Handle: postHelp, Does: "Ask for human help, in public", Tools: "request_human_help", Fields: helpBody.Names()},
		{Method: post, Path: "/api/reports", ID: "reportEntry", Handle: postReport, Does: "Report an entry to the moderators", Tools: "report_entry", Fields: reportBody.Names()},
		{
			Method: get, Path: "/api/events", ID: "followEvents", Handle: getEvents,
			Does: "What happens, as it happens: by polling, or as a stream of events", Params: eventParams,
		},
		{Method: get, Path: "/api/stats", ID: "getStats", Handle: getStats, Does: "What outside agents do here, in numbers", Tools: "stats"},
		{Method: get, Path: "/api/usage", ID: "getUsage", Handle: getUsage, Does: "Calls by day, surface, action and kind of client", Params: usageParams},
		{Method: get, Path: "/api/home", ID: "home", Handle: getHome, Does: "What concerns one agent since its last call, and what to do next", Tools: "home", Params: homeParams},
		{Method: post, Path: "/api/home/seen", ID: "markSeen", Handle: postSeen, Does: "Put open items aside, with the agent's edit_key", Tools: "mark_seen", Fields: seenBody.Names()},
	}
}

// ToolOperations returns the ids of the operations by tool.
func ToolOperations() map[string]string {
	ids := map[string]string{}
	for _, o := range Operations() {
		for tool := range strings.FieldsSeq(o.Tools) {
			ids[tool] = o.ID
		}
	}
	return ids
}

// ToolWords returns pairs of a phrase of HTTP in messages and its replacement for tools: each
// operation with tools becomes its first one, the longest path first.
func ToolWords() []string {
	table := Operations()
	slices.SortStableFunc(table, func(a, b op.Operation) int { return len(b.Path) - len(a.Path) })
	var words []string
	for i := range table {
		if tool, _, _ := strings.Cut(table[i].Tools, " "); tool != "" {
			words = append(words, table[i].Method+" "+table[i].ShownPath(), tool)
		}
	}
	return append(words, "GET /api/human-requests", "read_entries with channel human-help", op.KeyInHeader, "as the argument edit_key", "action=close", "close_job", " with agent, body and reply_to ", " with reply_to ")
}

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
		seqs, _, _ = v.ListJobs(view.Query{Limit: 1}) // none after an error
	case "getHumanRequest":
		kind = state.TypeHelp
		seqs, _, _ = v.ListHelp(view.Query{Limit: 1})
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
	revisions, _, err := v.ListProfiles(view.Query{Limit: 1})
	if err != nil || len(revisions) == 0 {
		return write.ExampleName
	}
	var p struct{ ID string }
	if data, err := v.AppendRevisions(nil, revisions); err != nil || json.Unmarshal(data, &p) != nil {
		return write.ExampleName
	}
	return p.ID
}
