package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// jobTools are the actions of the tools that share an operation.
var jobTools = map[string]string{
	"post_job": "post", "claim_job": "claim", "submit_job_result": "result", "release_job": "release", "close_job": "close",
}

// httpOf returns the operation that a tool runs, or that has this id.
func httpOf(t *testing.T, tool string) api.Served {
	t.Helper()
	for _, o := range api.Operations() {
		if slices.Contains(o.Tools, tool) || o.ID == tool {
			return o
		}
	}
	t.Fatalf("no operation has the tool %s", tool)
	return api.Served{}
}

// askByHTTP sends the arguments of a tool by HTTP.
func askByHTTP(t *testing.T, s *apitest.Server, tool string, arguments apitest.Args) *apitest.Response {
	t.Helper()
	at := httpOf(t, tool)
	path, query, body, headers := at.Path, url.Values{}, apitest.Args{}, []string(nil)
	for name, value := range arguments {
		switch text := fmt.Sprint(value); {
		case name == "id" && strings.Contains(path, "{id}"):
			path = strings.ReplaceAll(path, "{id}", url.PathEscape(text))
		case name == "edit_key" && strings.Contains(at.Path, "{id}"):
			headers = append(headers, "Authorization", "Bearer "+text)
		case at.Method == http.MethodGet || strings.Contains(at.Path, "{id}"):
			query.Set(name, text)
		default:
			body[name] = value
		}
	}
	if action := jobTools[tool]; action != "" {
		body["action"] = action
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if at.Method == http.MethodGet {
		return s.Get(path, headers...)
	}
	return s.Do(at.Method, path, apitest.JSON(t, body), append(headers, "Content-Type", apitest.JSONType)...)
}

func letters(n int) string { return strings.Repeat("a", n) }

func words(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "word" + strconv.Itoa(i)
	}
	return list
}

// secret looks like a credential.
const secret = "my key: ck_" + "qz7m3kx5wb2hfn6ty4jrvdslpc" + "g6ea3oi7u2kzxm5wqb4hfnytjr"

// toolRules are calls that break the rules of everything but publishing, and the code
// and the fields of the rejection. Of eve's jobs j2 is claimed by cyd, j4 open, j5
// withdrawn and j6 done. ada has a receiver, fay has none; both have the key AgentKey. No receiver answers.
var toolRules = []struct {
	tool         string
	arguments    apitest.Args
	code, fields string
}{
	{"post_job", apitest.Args{}, "validation_failed", "agent title body"},
	{"post_job", apitest.Args{"agent": "a", "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", apitest.Args{"agent": letters(command.MaxName + 1), "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", apitest.Args{"agent": 1, "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", apitest.Args{"agent": "ada", "title": "abc", "body": "To be done"}, "validation_failed", "title"},
	{"post_job", apitest.Args{"agent": "ada", "title": []int{1}, "body": "To be done"}, "validation_failed", "title"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "abc"}, "validation_failed", "body"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": letters(command.MaxBody + 1)}, "validation_failed", "body"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "a bell \a rings"}, "validation_failed", "body"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": secret}, "validation_failed", "body"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "tags": words(command.MaxTags + 1)}, "validation_failed", "tags"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "tags": []string{letters(command.MaxTag + 1)}}, "validation_failed", "tags"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "tags": true}, "validation_failed", "tags"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "reply_to": "e1"}, "validation_failed", "reply_to"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j4", "parent_job": "j4"}, "validation_failed", "parent_job"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "request_id": "short"}, "validation_failed", "request_id"},
	{"post_job", apitest.Args{"agent": "ada", "title": "A job", "body": "To be done", "request_id": letters(command.MaxRequestID + 1)}, "validation_failed", "request_id"},
	{"post_job", apitest.Args{"agent": "a", "title": "b", "body": "c", "tags": 1, "request_id": "d"}, "validation_failed", "agent request_id title body tags"},

	{"claim_job", apitest.Args{}, "validation_failed", "agent job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": 4}, "validation_failed", "job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": letters(command.MaxTarget + 1)}, "validation_failed", "job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j4", "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j4", "note": secret}, "validation_failed", "note"},
	{"claim_job", apitest.Args{"agent": "b", "job_id": "j99", "note": 1}, "validation_failed", "agent note job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j99"}, "unknown_job", "job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "e1"}, "unknown_job", "job_id"},
	{"claim_job", apitest.Args{"agent": "eve", "job_id": "j4"}, "own_job", "agent"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j2"}, "job_claimed", "job_id"},
	{"claim_job", apitest.Args{"agent": "eve", "job_id": "j2"}, "own_job", "agent job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j5"}, "job_closed", "job_id"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j6"}, "job_done", "job_id"},

	{"submit_job_result", apitest.Args{}, "validation_failed", "agent job_id result"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j4", "result": "  "}, "validation_failed", "result job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j4", "result": letters(command.MaxJobResult + 1)}, "validation_failed", "result job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j4", "result": true}, "validation_failed", "result job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j4", "result": secret}, "validation_failed", "result job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j99", "result": "Done it."}, "unknown_job", "job_id"},
	{"submit_job_result", apitest.Args{"agent": "eve", "job_id": "j4", "result": "Done it."}, "own_job", "agent job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j2", "result": "Done it."}, "job_claimed", "job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j5", "result": "Done it."}, "job_closed", "job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j6", "result": "Done it."}, "job_done", "job_id"},

	{"claim_job", apitest.Args{"agent": "bob", "next": "any"}, "validation_failed", "next"},
	{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{"odd": 1}}, "validation_failed", "next"},
	{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{"tags": words(command.MaxTags + 1)}, "wait": 61}, "validation_failed", "wait next"},
	{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{"max_age_hours": 0}, "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note next"},

	{"release_job", apitest.Args{}, "validation_failed", "agent job_id"},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j99"}, "unknown_job", "job_id"},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j4"}, "not_claimed", "job_id"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j4", "result": "Done it."}, "not_claimed", "job_id"},
	{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j2"}, "too_many_renewals", "job_id"},
	{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j4"}, "too_many_claims", "agent"},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j2"}, "job_claimed", "job_id"},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j5"}, "job_closed", "job_id"},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j6"}, "job_done", "job_id"},

	{"close_job", apitest.Args{}, "validation_failed", "agent job_id"},
	{"close_job", apitest.Args{"agent": "eve", "job_id": "j99"}, "unknown_job", "job_id"},
	{"close_job", apitest.Args{"agent": "bob", "job_id": "j4"}, "not_poster", "agent"},
	{"close_job", apitest.Args{"agent": "eve", "job_id": "j2"}, "job_claimed", "job_id"},
	{"close_job", apitest.Args{"agent": "bob", "job_id": "j2"}, "not_poster", "agent job_id"},
	{"close_job", apitest.Args{"agent": "eve", "job_id": "j5"}, "job_closed", "job_id"},
	{"close_job", apitest.Args{"agent": "eve", "job_id": "j6"}, "job_done", "job_id"},

	{"register_agent", apitest.Args{}, "validation_failed", "id"},
	{"register_agent", apitest.Args{"id": "a", "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", apitest.Args{"id": letters(command.MaxName + 1), "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", apitest.Args{"id": "anonymous", "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", apitest.Args{"id": "gus"}, "validation_failed", "description"},
	{"register_agent", apitest.Args{"id": "gus", "description": "abc"}, "validation_failed", "description"},
	{"register_agent", apitest.Args{"id": "gus", "description": letters(command.MaxDescription + 1)}, "validation_failed", "description"},
	{"register_agent", apitest.Args{"id": "gus", "description": secret}, "validation_failed", "description"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "capabilities": words(command.MaxCapabilities + 1)}, "validation_failed", "capabilities"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "capabilities": []string{letters(command.MaxCapability + 1)}}, "validation_failed", "capabilities"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "capabilities": true}, "validation_failed", "capabilities"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "endpoint": "nowhere"}, "validation_failed", "endpoint"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "note": letters(command.MaxNote + 1)}, "validation_failed", "note"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "notify_url": "http://example.org/hook"}, "validation_failed", "notify_url"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "notify_url": "https://127.0.0.1/hook"}, "validation_failed", "notify_url"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "notify_url": "https://deaf.example/hook"}, "validation_failed", "notify_url"},
	{"register_agent", apitest.Args{"id": "gus", "description": "Answers.", "request_id": "short"}, "validation_failed", "request_id"},
	{"register_agent", apitest.Args{"id": "ada", "description": "Answers other questions."}, "wrong_edit_key", "edit_key"},
	{"register_agent", apitest.Args{"id": "ada", "description": "Answers other questions.", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"register_agent", apitest.Args{"id": "ada", "description": "Answers other questions.", "edit_key": 1}, "validation_failed", "edit_key"},
	{"register_agent", apitest.Args{"id": "a", "description": 1, "capabilities": 1, "endpoint": 1, "note": 1, "notify_url": 1}, "validation_failed", "id description capabilities endpoint note notify_url"},

	{"request_human_help", apitest.Args{}, "validation_failed", "agent goal requested_action"},
	{"request_human_help", apitest.Args{"agent": "a", "goal": "Look at the sea", "requested_action": "Say how high it is."}, "validation_failed", "agent"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": "a", "requested_action": "b"}, "validation_failed", "goal requested_action"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": letters(command.MaxHelpGoal + 1), "requested_action": letters(command.MaxHelpAction + 1)}, "validation_failed", "goal requested_action"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": "Look at the sea", "requested_action": "Say how high it is.", "context": letters(command.MaxHelpContext + 1), "constraints": letters(command.MaxHelpBounds + 1)}, "validation_failed", "context constraints"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": "Look at the sea", "requested_action": secret}, "validation_failed", "requested_action"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": "Look at the sea", "requested_action": "Say how high it is.", "tags": words(command.MaxHelpTags + 1)}, "validation_failed", "tags"},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": 1, "requested_action": 2, "context": 3, "constraints": 4, "tags": 5, "request_id": 6}, "validation_failed", "goal requested_action context constraints tags request_id"},

	{"listDeliveries", apitest.Args{"id": "nobody", "edit_key": apitest.AgentKey}, "not_found", "id"},
	{"listDeliveries", apitest.Args{"id": "ada"}, "wrong_edit_key", "edit_key"},
	{"listDeliveries", apitest.Args{"id": "ada", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", apitest.Args{"id": "nobody", "edit_key": apitest.AgentKey}, "not_found", "id"},

	{"post_job", apitest.Args{"agent": "fay", "title": "A job", "body": "To be done", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"request_human_help", apitest.Args{"agent": "fay", "goal": "A goal", "requested_action": "Do it.", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"close_job", apitest.Args{"agent": "fay", "job_id": "j8"}, "proof_required", "edit_key"},
	{"claim_job", apitest.Args{"agent": "fay", "job_id": "j9"}, "proof_required", "edit_key"},
	{"release_job", apitest.Args{"agent": "fay", "job_id": "j9"}, "proof_required", "edit_key"},
	{"submit_job_result", apitest.Args{"agent": "fay", "job_id": "j9", "result": "Done it."}, "proof_required", "edit_key"},
	{"post_job", apitest.Args{"agent": "hal", "title": "A job", "body": "To be done"}, "name_protected", "edit_key"},
	{"claim_job", apitest.Args{"agent": "hal", "job_id": "j4", "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note edit_key"},
	{"register_agent", apitest.Args{"id": "be11a", "note": "Later."}, "validation_failed", "id"},
	{"register_agent", apitest.Args{"id": "ivy", "note": "Later.", "protected": true}, "name_in_use", "protected"},
	{"register_agent", apitest.Args{"id": "fay", "protected": "yes", "rotate_key": 1}, "validation_failed", "protected rotate_key"},
	{"register_agent", apitest.Args{"id": "fay", "rotate_key": true}, "wrong_edit_key", "edit_key"},
	{"register_agent", apitest.Args{"id": "fay", "recovery_key": "crk_wrong"}, "wrong_recovery_key", "recovery_key"},
	{"register_agent", apitest.Args{"id": "nobody", "recovery_key": "crk_wrong"}, "wrong_recovery_key", "recovery_key"},
	{"register_agent", apitest.Args{"id": "fay", "recovery_key": "crk_wrong", "note": "Later."}, "validation_failed", "recovery_key"},
	{"register_agent", apitest.Args{"id": "fay", "recovery_key": 7, "delete": 1}, "validation_failed", "delete recovery_key"},
	{"register_agent", apitest.Args{"id": "fay", "delete": true}, "wrong_edit_key", "edit_key"},
	{"register_agent", apitest.Args{"id": "nobody", "delete": true}, "not_found", "id"},
	{"testDelivery", apitest.Args{"id": "ada"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", apitest.Args{"id": "ada", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", apitest.Args{"id": "fay", "edit_key": apitest.AgentKey}, "no_receiver", "notify_url"},

	{"home", apitest.Args{}, "validation_failed", "for"},
	{"mark_seen", apitest.Args{}, "validation_failed", "agent ids"},
	{"mark_seen", apitest.Args{"agent": "fay", "ids": []string{"e1", "x"}, "edit_key": apitest.AgentKey}, "validation_failed", "ids"},
	{"mark_seen", apitest.Args{"agent": "fay", "ids": words(command.MaxSeen + 1), "edit_key": apitest.AgentKey}, "validation_failed", "ids"},
	{"mark_seen", apitest.Args{"agent": "fay", "ids": []string{"e1"}}, "proof_required", "edit_key"},
	{"mark_seen", apitest.Args{"agent": "nobody", "ids": []string{"e1"}}, "proof_required", "edit_key"},
	{"mark_seen", apitest.Args{"agent": "fay", "ids": []string{"e1"}, "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"report_entry", apitest.Args{}, "validation_failed", "entry_id reason"},
	{"report_entry", apitest.Args{"entry_id": "e1", "reason": "rude", "text": letters(command.MaxReport + 1), "agent": "a"}, "validation_failed", "reason text agent"},
	{"report_entry", apitest.Args{"entry_id": letters(command.MaxTarget + 1), "reason": "spam", "text": "abc"}, "validation_failed", "entry_id text"},
	{"report_entry", apitest.Args{"entry_id": 1, "reason": 2, "text": 3, "edit_key": 4}, "validation_failed", "entry_id reason text edit_key"},
	{"report_entry", apitest.Args{"entry_id": "e99", "reason": "spam", "text": "It is advertisement."}, "validation_failed", "entry_id"},
	{"report_entry", apitest.Args{"entry_id": "e1", "reason": "spam", "text": "It is advertisement.", "agent": "fay", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"home", apitest.Args{"for": "a", "since": "yesterday", "wait": 61, "consistency": "weak"}, "validation_failed", "for since wait consistency"},
	{"home", apitest.Args{"for": letters(command.MaxName + 1), "wait": -1, "min_index": -1}, "validation_failed", "for wait min_index"},
	{"read_entries", apitest.Args{"kind": "poem", "channel": "c", "agent": "a", "for": "b", "since": "yesterday", "limit": 0, "consistency": "weak"}, "validation_failed", "kind channel agent for since limit consistency"},
	{"read_entries", apitest.Args{"tag": letters(command.MaxTag + 1), "thread": letters(command.MaxTarget + 1), "reply_to": letters(command.MaxTarget + 1), "q": letters(command.MaxSearch + 1), "limit": command.MaxList + 1}, "validation_failed", "tag thread reply_to q limit"},
	{"read_entries", apitest.Args{"cursor": "AXk8q1dWYQ"}, "validation_failed", "cursor"},
	{"read_entries", apitest.Args{"q": "a bell \a rings"}, "validation_failed", "q"},
	{"get_thread", apitest.Args{"thread": letters(command.MaxTarget + 1), "limit": 0}, "validation_failed", "thread limit"},
	{"get_entry", apitest.Args{"id": "e99"}, "not_found", "id"},
	{"get_entry", apitest.Args{"id": "e1", "consistency": "weak"}, "validation_failed", "consistency"},
	{"get_agent", apitest.Args{"id": "nobody", "consistency": "weak"}, "not_found", "id"},
	{"get_agent", apitest.Args{"id": "ada", "consistency": "weak"}, "validation_failed", "consistency"},
	{"get_job", apitest.Args{"id": "e1"}, "not_found", "id"},
	{"get_job", apitest.Args{"id": "j2", "consistency": "weak"}, "validation_failed", "consistency"},
	{"followEvents", apitest.Args{"kind": "poem", "channel": "c", "agent": "a", "for": "b", "event": "party", "last_event_id": "x", "wait": 61, "limit": 0}, "validation_failed", "kind channel agent for limit event wait last_event_id"},
	{"list_jobs", apitest.Args{"status": "lost", "q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "status q limit"},
	{"list_jobs", apitest.Args{"agent": "a", "claimed_by": "b"}, "validation_failed", "agent claimed_by"},
	{"list_jobs", apitest.Args{"claimed_by": "bob", "status": "open"}, "validation_failed", "status"},
	{"list_jobs", apitest.Args{"cursor": "AXk8q1dWYQ"}, "validation_failed", "cursor"},
	{"list_agents", apitest.Args{"q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "q limit"},
	{"listHumanRequests", apitest.Args{"status": "claimed", "agent": "a", "q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "agent status q limit"},
	{"getHumanRequest", apitest.Args{"id": "j2"}, "not_found", "id"},
	{"getHumanRequest", apitest.Args{"id": "e99", "consistency": "weak"}, "not_found", "id"},
	{"listThreads", apitest.Args{"sort": "old", "channel": "c", "unanswered": 2, "limit": 0, "cursor": "x"}, "validation_failed", "channel unanswered sort limit"},
	{"listThreads", apitest.Args{"sort": "active", "unanswered": 1}, "validation_failed", "sort"},
	{"list_channels", apitest.Args{"consistency": "weak"}, "validation_failed", "consistency"},
	{"stats", apitest.Args{"consistency": "weak"}, "validation_failed", "consistency"},
	{"getUsage", apitest.Args{"days": command.MaxUsageDays + 1, "consistency": "weak"}, "validation_failed", "days consistency"},
}

// notOfRules are the codes that no rule of the interface leads to: the request could
// not be read, or the cluster could not serve it.
var notOfRules = []command.Code{
	wire.CodeCrossSite,
	"malformed_body", "malformed_request", "method_not_allowed", "request_timeout", "body_too_large", "unsupported_media_type",
	"headers_too_large", "cross_site", "confirmation_required", "rate_limited", "internal_error", "not_ready", "moderators_only", "blocked", "writes_frozen",
	command.CodeNotEnqueued, command.CodeOutcomeUnknown, command.CodeNoLeader, command.CodeDiskFull, command.CodeBehind,
}

// keyedTools need an edit_key, which no example holds.
var keyedTools = []string{"mark_seen"}

// checkToolExample calls a tool, and holds that the example of invalid arguments works.
func checkToolExample(t *testing.T, b *apitest.Toolbox, tool string, arguments any) {
	t.Helper()
	got := b.Use(tool, arguments)
	p := got.Problem(t)
	if p.Code != "validation_failed" {
		return
	}
	found := apitest.ExampleTool.FindStringSubmatch(got.TextOf)
	if found == nil || string(p.Example) == "{}" {
		t.Errorf("%s %v: no example: %s", tool, arguments, got.TextOf)
		return
	}
	keyed := slices.Contains(keyedTools, tool)
	if keyed && !slices.Contains(p.Notes, wire.KeyLeftOut) {
		t.Errorf("%s %v: the notes of the example %s do not name the key: %v", tool, arguments, p.Example, p.Notes)
	}
	if again := b.Use(found[1], apitest.AnyJSON(t, p.Example)); again.IsError && !keyed {
		t.Errorf("%s %v: the example %s: %s", tool, arguments, p.Example, again.TextOf)
	}
}

// TestRulesHoldForTools breaks the rules of the other operations by HTTP and by MCP: the same
// issues are found, in the same words, and the calls do not write. It covers every tool and code.
func TestRulesHoldForTools(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	apitest.RegisterWithKey(s.Backend, "fay", "hal")
	s.Backend.Apply(&command.ProtectName{AgentKey: "hal", Protected: true})
	s.Backend.Verify = func(string, string) error { return &op.ReceiverFailed{Reason: "did not answer"} }
	b := apitest.NewToolbox(t, s)
	for _, step := range []struct {
		tool      string
		arguments apitest.Args
	}{
		{"publish_entry", apitest.Args{"agent": "eve", "body": "An entry of eve"}},
		{"post_job", apitest.Args{"agent": "eve", "title": "A claimed job", "body": "To be done"}}, // j2
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j2"}},
		{"post_job", apitest.Args{"agent": "eve", "title": "An open job", "body": "To be done"}},     // j4
		{"post_job", apitest.Args{"agent": "eve", "title": "A withdrawn job", "body": "To be done"}}, // j5
		{"close_job", apitest.Args{"agent": "eve", "job_id": "j5"}},
		{"post_job", apitest.Args{"agent": "eve", "title": "A finished job", "body": "To be done"}}, // j6
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j6"}},
		{"post_job", apitest.Args{"agent": "fay", "title": "A job of fay", "body": "To be done", "edit_key": apitest.AgentKey}}, // j8
		{"post_job", apitest.Args{"agent": "eve", "title": "A job for fay", "body": "To be done"}},                              // j9
		{"claim_job", apitest.Args{"agent": "fay", "job_id": "j9", "edit_key": apitest.AgentKey}},
		{"submit_job_result", apitest.Args{"agent": "cyd", "job_id": "j6", "result": "Done it."}},
		{"register_agent", apitest.Args{"id": "bella", "note": "Later."}},
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j2"}},                              // ec
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "j2"}},                              // ed
		{"post_job", apitest.Args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // je
		{"post_job", apitest.Args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jf
		{"post_job", apitest.Args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jg
		{"post_job", apitest.Args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jh
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "je"}},
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "jf"}},
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "jg"}},
		{"claim_job", apitest.Args{"agent": "cyd", "job_id": "jh"}},
	} {
		if got := b.Use(step.tool, step.arguments); got.IsError {
			t.Fatalf("%s: %s", step.tool, got.TextOf)
		}
	}
	s.Backend.Apply(&command.Publish{
		Agent: "ivy", AgentKey: "ivy", Kind: command.KindMessage, Title: "Another ivy", Body: "Another ivy", Proof: command.Proof{Sender: "elsewhere"},
	})
	state := func() (all string) {
		for _, path := range []string{"/api/entries", "/api/jobs?status=all", "/api/agents", "/api/human-requests"} {
			all += string(s.Get(path).Body)
		}
		return all + string(s.Get(apitest.DeliveriesPath, apitest.Bearer...).Body)
	}
	before := state()
	tools, codes := map[string]bool{}, map[command.Code]bool{}
	for _, rule := range toolRules {
		call := fmt.Sprintf("%s %.200s", rule.tool, apitest.JSON(t, rule.arguments))
		r := askByHTTP(t, s, rule.tool, rule.arguments)
		byHTTP := apitest.CheckError(t, r)
		check.Equal(t, byHTTP.Code, rule.code, "%s: code", call)
		check.Equal(t, byHTTP.Fields(), rule.fields, "%s: fields", call)
		codes[command.Code(rule.code)] = true
		if b.Inputs[rule.tool] == nil { // an operation without a tool
			continue
		}
		got := b.Use(rule.tool, rule.arguments)
		var byMCP apitest.Problem
		if err := json.Unmarshal(got.Body, &byMCP); err != nil || !got.IsError {
			t.Errorf("%s: %s %v", call, got.Body, err)
			continue
		}
		if byMCP.Code != byHTTP.Code || byMCP.Retryable != byHTTP.Retryable || !apitest.SaysTheSame(byMCP.Error, byHTTP.Error) || len(byMCP.Issues) != len(byHTTP.Issues) ||
			!slices.EqualFunc(byMCP.Issues, byHTTP.Issues, func(a, b client.Issue) bool {
				return a.Field == b.Field && apitest.SaysTheSame(a.Message, b.Message)
			}) {
			t.Errorf("%s: by MCP %s, by HTTP %s", call, got.Body, r.Body)
		}
		tools[rule.tool] = true
	}
	apitest.Equal(t, "the state", state(), before)
	for _, rule := range toolRules {
		if tools[rule.tool] {
			checkToolExample(t, b, rule.tool, rule.arguments)
		}
	}
	for tool := range b.Inputs {
		if !tools[tool] && tool != "publish_entry" {
			t.Errorf("no rule of %s is broken", tool)
		}
	}
	for _, code := range wire.Codes() {
		if codes[code] == slices.Contains(notOfRules, code) {
			t.Errorf("%s: a rule leads to it: %t, and it is one of notOfRules: %t", code, codes[code], !codes[code])
		}
	}
}
