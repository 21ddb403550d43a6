package moderate_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// ruleAnswer is the answer to a call that sets a rule.
type ruleAnswer struct {
	Number  uint64
	Kind    string
	Subject string
	Until   *int64
}

// setRule sets a rule as mia.
func setRule(t *testing.T, s *apitest.Server, path string, body map[string]any) (answer ruleAnswer) {
	t.Helper()
	body["reason"] = "a good reason"
	r := apitest.AsModerator(s, path, body).Must(t, http.StatusOK)
	r.Decode(t, &answer)
	return answer
}

// policyWrites are writes of every surface, of eve's.
var policyWrites = func() map[string]func(s *apitest.Server) *apitest.Response {
	writes := map[string]func(s *apitest.Server) *apitest.Response{}
	for name, publish := range apitest.Ways {
		writes[name] = func(s *apitest.Server) *apitest.Response {
			return publish(s, map[string]any{"agent": "eve", "body": "Cheap pills here.", "channel": "den"})
		}
	}
	for name, post := range map[string]struct{ path, body string }{
		"job":     {"/api/jobs", `{"agent":"eve","title":"Sell pills","body":"Sell cheap pills."}`},
		"help":    {"/api/human-requests", `{"agent":"eve","goal":"Cheap pills","requested_action":"Buy pills."}`},
		"profile": {"/api/agents", `{"id":"eve","description":"Sells pills."}`},
	} {
		writes[name] = func(s *apitest.Server) *apitest.Response { return s.Post(post.path, post.body) }
	}
	return writes
}()

// TestRulesHoldForEverySurface: a write against a rule is rejected everywhere, with the
// reason and the end, and reading goes on; other writes are accepted.
func TestRulesHoldForEverySurface(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		body   map[string]any
		code   string
		spares string // of the writes, those that the rule is not against
	}{
		"agent":    {"block", map[string]any{"agent": "Eve", "for": "7d"}, "blocked", ""},
		"sender":   {"block", map[string]any{"sender_of": "#E1", "for": "1h"}, "blocked", ""},
		"network":  {"block", map[string]any{"network": "127.0.0.0/8", "for": "1h"}, "blocked", ""},
		"channel":  {"freeze", map[string]any{"channel": "den", "for": "1h"}, "writes_frozen", "job help profile"},
		"unproven": {"freeze", map[string]any{"unproven": true, "for": "1h"}, "writes_frozen", ""},
		"all":      {"freeze", map[string]any{"all": true, "for": "1h"}, "writes_frozen", ""},
		"pattern":  {"watch", map[string]any{"pattern": "(?i)pills", "for": "1h"}, "blocked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.WithModerator(t)
			s.Post("/api/entries", `{"agent":"bob","body":"The first entry."}`)
			rule := setRule(t, s, test.path, test.body)
			if rule.Until == nil || rule.Kind != name {
				t.Errorf("the rule is %+v", rule)
			}
			before := s.Backend.Machine.Applied()
			for surface, write := range policyWrites {
				r := write(s)
				text := string(r.Body)
				rejected := strings.Contains(text, test.code) && strings.Contains(text, "a good reason") && strings.Contains(text, " UTC")
				if spared := strings.Contains(test.spares, surface); rejected == spared {
					t.Errorf("%s: %d %s", surface, r.Status, text)
				}
				if rejected && surface == "post" {
					wait, _ := strconv.Atoi(r.Header.Get("Retry-After"))
					if p := apitest.CheckError(t, r); r.Status != http.StatusForbidden || p.Code != test.code || wait < 3000 || p.Retryable {
						t.Errorf("%s: %d %v %s", surface, r.Status, r.Header, text)
					}
				}
				if name == "network" && strings.Contains(text, "127.") {
					t.Errorf("%s shows the network: %s", surface, text)
				}
			}
			if after := s.Backend.Machine.Applied(); test.spares == "" && after != before {
				t.Errorf("what was rejected is in the log: %d commands", after-before)
			}
			s.Get("/api/entries/e1").Want(t, http.StatusOK)
			apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "spam"}) // moderators go on
			apitest.AsModerator(s, "undo", map[string]any{"number": rule.Number}).Must(t, http.StatusOK)
			policyWrites["post"](s).Want(t, http.StatusCreated)
			apitest.ModerationLog(s).Lacks(t, "127.")
		})
	}
}

// TestUnchangedProfileWhileFrozen: a registration that changes no field is accepted while writes
// are frozen, also with the receiver of the profile.
func TestUnchangedProfileWhileFrozen(t *testing.T) {
	s := apitest.WithModerator(t)
	apitest.RegisterAda(s.Backend)
	send := func() *apitest.Response {
		return s.Post("/api/agents", map[string]any{"id": "Ada", "notify_url": "https://example.org/hook"})
	}
	send().Must(t, http.StatusCreated)
	setRule(t, s, "freeze", map[string]any{"all": true, "for": "1h"})
	send().Want(t, http.StatusCreated, "Nothing was changed")
}

// TestPolicyIsCheckedAgain: a write that was checked against an older policy than the state has
// when it is applied is checked again, and the client does not notice.
func TestPolicyIsCheckedAgain(t *testing.T) {
	s := apitest.WithModerator(t)
	order := command.Order{By: command.Operator, Reason: "a good reason"}
	between := func(rules ...*command.SetRule) {
		s.Backend.Reject = func(_ command.Sender, p command.Payload) error {
			if _, signed := command.SignatureOf(p); signed && len(rules) > 0 {
				s.Backend.Apply(rules[0])
				rules = rules[1:]
			}
			return nil
		}
	}
	write := func() *apitest.Response { return policyWrites["post"](s) }
	elsewhere := func(network string) *command.SetRule {
		return &command.SetRule{Order: order, Kind: command.RuleNetwork, Subject: network, For: 3_600_000}
	}
	s.Backend.Senders = nil
	between(elsewhere("192.0.2.0/24"), elsewhere("198.51.100.0/24"))
	write().Want(t, http.StatusCreated)
	charged := 0
	for _, from := range s.Backend.Senders {
		if from.Fingerprint != "" && !from.Charged {
			charged++
		}
	}
	apitest.Equal(t, "charges of one write", charged, 1)
	between(elsewhere("127.0.0.0/8"))
	write().Want(t, http.StatusForbidden)
	s.Backend.Apply(&command.LiftRule{Order: order, Number: 4})
	many := make([]*command.SetRule, 20)
	for i := range many {
		many[i] = elsewhere("192.0.2." + strconv.Itoa(i) + "/32")
	}
	between(many...)
	if p := apitest.CheckError(t, write()); p.Code != "not_enqueued" || !p.Retryable {
		t.Errorf("rules without an end: %+v", p)
	}
	between(&command.SetRule{Order: order, Kind: command.RuleName, Subject: "eve", For: 3_600_000})
	if p := apitest.CheckError(t, write()); p.Code != "blocked" || !strings.Contains(p.Error, "a good reason") {
		t.Errorf("a name that is blocked meanwhile: %+v", p)
	}
}

// TestNoReceiverIsAskedForTheBlocked checks that a blocked write sends no challenge.
func TestNoReceiverIsAskedForTheBlocked(t *testing.T) {
	s := apitest.WithModerator(t)
	asked := 0
	s.Backend.Verify = func(string, string) error { asked++; return nil }
	register := func() *apitest.Response {
		return s.Post("/api/agents", `{"id":"eve","description":"Sells pills.","notify_url":"https://eve.example.org/hook"}`)
	}
	rule := setRule(t, s, "block", map[string]any{"agent": "eve", "for": "1h"})
	if r := register(); r.Status != http.StatusForbidden || asked > 0 {
		t.Errorf("%d %s; %d receivers were asked", r.Status, r.Body, asked)
	}
	apitest.AsModerator(s, "undo", map[string]any{"number": rule.Number})
	if r := register(); r.Status != http.StatusCreated || asked != 1 {
		t.Errorf("once it is lifted: %d %s; %d receivers were asked", r.Status, r.Body, asked)
	}
}

// TestProvenNamesOnly: the setting keeps writes out that prove no name.
func TestProvenNamesOnly(t *testing.T) {
	s := apitest.WithModerator(t)
	on := true
	s.Backend.Apply(&command.SetSettings{ProvenOnly: &on})
	if r := policyWrites["post"](s); r.Status != http.StatusForbidden || apitest.CheckError(t, r).Code != "writes_frozen" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	profile := apitest.Decoded[client.Registered](t, policyWrites["profile"](s))
	s.Post("/api/entries", `{"agent":"eve","body":"Some text."}`, "Authorization", "Bearer "+profile.EditKey).Want(t, http.StatusCreated)
}

// checkOrderExample sends the example of a moderator's write: it is accepted as a dry run.
func checkOrderExample(t *testing.T, s *apitest.Server, path string, example []byte) {
	t.Helper()
	r := s.Post("/api/moderation/"+path, string(example), "Authorization", "Bearer "+apitest.ModToken)
	if r.Status != http.StatusOK || !strings.HasSuffix(string(example), `"dry_run":true}`) {
		t.Errorf("%s: the example %s: %d %s", path, example, r.Status, r.Body)
	}
}

// TestRulesAreForModerators: other callers cannot set, lift or see rules, and an invalid rule is
// rejected with a valid example.
func TestRulesAreForModerators(t *testing.T) {
	s := apitest.WithModerator(t)
	for path, body := range map[string]string{
		"block": `{"agent":"eve","for":"1h"}`, "freeze": `{"all":true,"for":"1h"}`, "watch": `{"pattern":"pills"}`, "undo": `{"number":1}`,
	} {
		s.Post("/api/moderation/"+path, body).Rejected(t, http.StatusForbidden, "moderators_only", "")
	}
	for _, path := range []string{"rules"} {
		s.Get("/api/moderation/"+path).Want(t, http.StatusForbidden)
	}
	for _, test := range []struct{ path, body, field string }{
		{"block", `{"for":"1h"}`, "agent"},
		{"block", `{"agent":"eve","network":"192.0.2.0/24","for":"1h"}`, "network"},
		{"block", `{"agent":"eve","for":"2y"}`, "for"},
		{"block", `{"agent":"eve","for":"400d"}`, "for"},
		{"block", `{"network":"192.0.2.1","for":"1h"}`, "network"},
		{"block", `{"network":"192.0.2.1/24","for":"1h"}`, "network"},
		{"block", `{"sender_of":"e9","for":"1h"}`, "sender_of"},
		{"freeze", `{"for":"1h"}`, "channel"},
		{"freeze", `{"all":false,"for":"1h"}`, "all"},
		{"freeze", `{"channel":"!","for":"1h"}`, "channel"},
		{"watch", `{"for":"1h"}`, "pattern"},
		{"watch", `{"pattern":"("}`, "pattern"},
		{"watch", `{"pattern":"x*"}`, "pattern"},
		{"undo", `{}`, "number"},
		{"undo", `{"number":99}`, "number"},
	} {
		p := s.Post("/api/moderation/"+test.path, test.body, "Authorization", "Bearer "+apitest.ModToken).Rejected(t, http.StatusUnprocessableEntity, "", test.field)
		checkOrderExample(t, s, test.path, p.Example)
	}
	before := s.Backend.Machine.Applied()
	for path, body := range map[string]string{
		"block": `{"sender_of":"e1","for":"1h"}`, "freeze": `{"all":true,"for":"1h"}`, "watch": `{"pattern":"pills"}`, "undo": `{"number":1}`,
		"hide": `{"idz":["e1"]}`, "unhide": `{"ids":["x"]}`, "resolve": `{"ids":["e1"],"outcome":"gone"}`,
	} {
		dry := strings.TrimSuffix(body, "}") + `,"dry_run":"perhaps"}`
		r := s.Post("/api/moderation/"+path, dry, "Authorization", "Bearer "+apitest.ModToken)
		checkOrderExample(t, s, path, apitest.CheckError(t, r).Example)
	}
	apitest.Equal(t, "index after examples and dry runs", s.Backend.Machine.Applied(), before)
	for _, agent := range []string{"eve", "mallory"} {
		apitest.Moderate(t, s, "block", map[string]any{"agent": agent, "for": "1h", "reason": "spam"})
	}
	var rules struct{ Rules []ruleAnswer }
	r := s.Get("/api/moderation/rules?limit=1", "Authorization", "Bearer "+apitest.ModToken)
	if r.Decode(t, &rules); len(rules.Rules) != 1 || !strings.Contains(string(r.Body), `"by":"mia"`) || !strings.Contains(string(r.Body), `"nextCursor":"`) {
		t.Errorf("the rules are %s", r.Body)
	}
}

// TestPatternIsTested: a dry run of a watch shows in which of the newest entries the pattern is
// found, also in hidden ones, and changes no state.
func TestPatternIsTested(t *testing.T) {
	s := apitest.WithModerator(t)
	for _, p := range []*command.Publish{
		{Agent: "eve", Title: "Pills", Body: "They are cheap"},
		{Agent: "eve", Title: "Pills", Body: "They are chеap, with a letter of another script"},
		{Agent: "Cheap Eve", Title: "Greetings", Body: "Good morning"},
		{Agent: "ann", Title: "A question", Body: "Does somebody know a bakery?"},
	} {
		p.AgentKey, p.Kind, p.Channel = strings.ToLower(p.Agent), command.KindMessage, "general"
		s.Backend.Apply(p)
	}
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e2"}, "reason": "Spam"})
	before := s.Backend.Machine.Applied()
	type found struct {
		Tested, Matched int
		Entries         []struct {
			EntryState string
			Entry      struct{ ID string }
		}
		Notes []string
	}
	for name, test := range map[string]struct {
		body         map[string]any
		tested, n    int
		newest, with string
	}{
		"all":          {map[string]any{"pattern": "cheap"}, 4, 3, "e3", "visible"},
		"the newest":   {map[string]any{"pattern": "cheap", "last": 1}, 1, 0, "", ""},
		"a hidden one": {map[string]any{"pattern": "another script", "last": 100}, 4, 1, "e2", "hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			test.body["dry_run"] = true
			got := apitest.Decoded[found](t, apitest.AsModerator(s, "watch", test.body).Must(t, http.StatusOK))
			check.Equal(t, got.Tested, test.tested, "tested entries")
			check.Equal(t, got.Matched, test.n, "matched entries")
			if test.n > 0 {
				check.Equal(t, got.Entries[0].Entry.ID+" "+got.Entries[0].EntryState, test.newest+" "+test.with, "the newest match")
			}
		})
	}
	apitest.AsModerator(s, "watch", map[string]any{"pattern": "cheap", "last": 5}).Rejected(t, http.StatusUnprocessableEntity, "", "last")
	apitest.AsModerator(s, "watch", map[string]any{"pattern": "cheap", "last": 10_001, "dry_run": true}).Rejected(t, http.StatusUnprocessableEntity, "", "last")
	check.Equal(t, s.Backend.Machine.Applied(), before, "the applied index after tests of patterns")
}

// TestAnonymousIsBlocked: a block of the name anonymous keeps out all writes without a name.
func TestAnonymousIsBlocked(t *testing.T) {
	s := apitest.WithModerator(t)
	block := map[string]any{"agent": "Anonymous", "for": "1h", "reason": "Flood"}
	block["dry_run"] = true
	apitest.AsModerator(s, "block", block).Must(t, http.StatusOK)
	s.Publish(map[string]any{"body": "Good morning"})
	delete(block, "dry_run")
	apitest.AsModerator(s, "block", block).Must(t, http.StatusOK)
	s.Post("/api/entries", `{"body":"Good evening"}`).Rejected(t, http.StatusForbidden, "blocked", "")
}
