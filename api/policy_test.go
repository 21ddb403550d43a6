package api_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// ruleAnswer is what a call answers that sets a rule.
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
	r := asMia(s, path, body)
	if r.Status != http.StatusOK {
		t.Fatalf("%s %v: %d %s", path, body, r.Status, r.Body)
	}
	r.Decode(t, &answer)
	return answer
}

// policyWrites are writes of every surface, of eve's.
var policyWrites = map[string]func(s *apitest.Server) *apitest.Response{
	"publish": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/api/entries", `{"agent":"eve","body":"Cheap pills here.","channel":"den"}`, "Content-Type", jsonType)
	},
	"get": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodGet, "/api/entries?action=publish&confirm=write&agent=eve&body=Cheap+pills+here.&channel=den&request_id=request-get", "")
	},
	"job": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/api/jobs", `{"agent":"eve","title":"Sell pills","body":"Sell cheap pills."}`, "Content-Type", jsonType)
	},
	"help": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/api/human-requests", `{"agent":"eve","goal":"Cheap pills","requested_action":"Buy pills."}`, "Content-Type", jsonType)
	},
	"profile": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/api/agents", `{"id":"eve","description":"Sells pills."}`, "Content-Type", jsonType)
	},
	"a2a": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m1","role":"user","parts":[{"kind":"text","text":"Cheap pills"},{"kind":"data","data":{"agent":"eve","channel":"den"}}]}}}`, "Content-Type", jsonType)
	},
	"a2a http": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/a2a/v1/message:send", `{"message":{"messageId":"m2","role":"ROLE_USER","content":[{"text":"Cheap pills"},{"data":{"data":{"agent":"eve","channel":"den"}}}]}}`, "Content-Type", jsonType)
	},
	"mcp": func(s *apitest.Server) *apitest.Response {
		return s.Do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"publish_message","arguments":{"agent":"eve","body":"Cheap pills","channel":"den"}}}`, "Content-Type", jsonType)
	},
}

// TestRulesHoldForEverySurface: what a rule is against is rejected everywhere, with the
// reason and the end, and reading goes on; what it is not against is taken.
func TestRulesHoldForEverySurface(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		body   map[string]any
		code   string
		spares string // of the writes, those that the rule is not against
	}{
		"agent":    {"block", map[string]any{"agent": "Eve", "for": "7d"}, "blocked", ""},
		"sender":   {"block", map[string]any{"sender_of": "e1", "for": "1h"}, "blocked", ""},
		"network":  {"block", map[string]any{"network": "127.0.0.0/8", "for": "1h"}, "blocked", ""},
		"channel":  {"freeze", map[string]any{"channel": "den", "for": "1h"}, "writes_frozen", "job help profile"},
		"unproven": {"freeze", map[string]any{"unproven": true, "for": "1h"}, "writes_frozen", ""},
		"all":      {"freeze", map[string]any{"all": true, "for": "1h"}, "writes_frozen", ""},
		"pattern":  {"watch", map[string]any{"pattern": "(?i)pills", "for": "1h"}, "blocked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := withModerator(t)
			s.Do(http.MethodPost, "/api/entries", `{"agent":"bob","body":"The first entry."}`, "Content-Type", jsonType)
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
				if rejected && surface == "publish" {
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
			if r := s.Do(http.MethodGet, "/api/entries/e1", ""); r.Status != http.StatusOK {
				t.Errorf("reading: %d %s", r.Status, r.Body)
			}
			mod(t, s, "hide", map[string]any{"ids": []string{"e1"}}) // moderators go on
			if r := asMia(s, "lift", map[string]any{"number": rule.Number}); r.Status != http.StatusOK {
				t.Fatalf("lift: %d %s", r.Status, r.Body)
			}
			if r := policyWrites["publish"](s); r.Status != http.StatusCreated {
				t.Errorf("once it is lifted: %d %s", r.Status, r.Body)
			}
			if r := s.Do(http.MethodGet, "/api/moderation/log", ""); strings.Contains(string(r.Body), "127.") || strings.Contains(string(r.Body), "ills") || strings.Contains(string(r.Body), "Eve") {
				t.Errorf("the public record is %s", r.Body)
			}
		})
	}
}

// TestPolicyIsCheckedAgain: a write that was checked against an older policy than the state has
// when it is applied is checked again, and the client sees nothing of that.
func TestPolicyIsCheckedAgain(t *testing.T) {
	s := withModerator(t)
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
	write := func() *apitest.Response { return policyWrites["publish"](s) }
	elsewhere := func(network string) *command.SetRule {
		return &command.SetRule{Order: order, Kind: command.RuleNetwork, Subject: network, For: 3_600_000}
	}
	s.Backend.Senders = nil
	between(elsewhere("192.0.2.0/24"), elsewhere("198.51.100.0/24"))
	if r := write(); r.Status != http.StatusCreated {
		t.Errorf("rules that are not against it: %d %s", r.Status, r.Body)
	}
	charged := 0
	for _, from := range s.Backend.Senders {
		if from.Fingerprint != "" && !from.Charged {
			charged++
		}
	}
	if charged != 1 {
		t.Errorf("one write was charged %d times", charged)
	}
	between(&command.SetRule{Order: order, Kind: command.RulePattern, Subject: "pills", Hold: true})
	if r := write(); r.Status != http.StatusCreated || !strings.Contains(string(r.Body), `"hidden"`) || strings.Contains(string(r.Body), "pills") {
		t.Errorf("a rule that holds it: %d %s", r.Status, r.Body)
	}
	between(elsewhere("127.0.0.0/8"))
	if r := write(); r.Status != http.StatusForbidden {
		t.Errorf("a rule that is against it: %d %s", r.Status, r.Body)
	}
	s.Backend.Apply(&command.LiftRule{Order: order, Number: 5})
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

// TestHeldForALook: what is held is hidden when its author is answered, which is told so
// on every surface; a moderator sees its text and shows it.
func TestHeldForALook(t *testing.T) {
	s := withModerator(t)
	setRule(t, s, "watch", map[string]any{"pattern": "(?i)pills", "hold": true})
	for surface, write := range policyWrites {
		r := write(s)
		if text := string(r.Body); !strings.Contains(text, "A moderator has to look at this first") || strings.Contains(text, "by ,") {
			t.Errorf("%s: %d %s", surface, r.Status, text)
		}
	}
	if r := s.Do(http.MethodGet, "/api/entries", ""); strings.Contains(string(r.Body), "ills") {
		t.Errorf("the list shows %s", r.Body)
	}
	list := func() (ids []string) {
		t.Helper()
		r := s.Do(http.MethodGet, "/api/moderation/held", "", "Authorization", "Bearer "+modToken)
		var held struct {
			Held []struct {
				ID    string
				Texts []string
			}
		}
		r.Decode(t, &held)
		for _, h := range held.Held {
			if !strings.Contains(strings.Join(h.Texts, " "), "ills") {
				t.Errorf("%+v without its text", h)
			}
			ids = append(ids, h.ID)
		}
		return ids
	}
	ids := list()
	if len(ids) != len(policyWrites) {
		t.Fatalf("held are %q", ids)
	}
	mod(t, s, "unhide", map[string]any{"profiles": ids[:1], "ids": ids[1:]})
	if left := list(); len(left) > 0 {
		t.Errorf("held are %q still", left)
	}
	for _, id := range ids[1:] {
		if r := s.Do(http.MethodGet, "/api/entries?thread="+id, ""); !strings.Contains(string(r.Body), "ills") {
			t.Errorf("%s is shown, and its thread %s", id, r.Body)
		}
	}
}

// TestNoReceiverIsAskedForTheBlocked: nothing is sent for who may not write.
func TestNoReceiverIsAskedForTheBlocked(t *testing.T) {
	s := withModerator(t)
	asked := 0
	s.Backend.Verify = func(string, string) error { asked++; return nil }
	register := func() *apitest.Response {
		return s.Do(http.MethodPost, "/api/agents", `{"id":"eve","description":"Sells pills.","notify_url":"https://eve.example.org/hook"}`, "Content-Type", jsonType)
	}
	rule := setRule(t, s, "block", map[string]any{"agent": "eve", "for": "1h"})
	if r := register(); r.Status != http.StatusForbidden || asked > 0 {
		t.Errorf("%d %s; %d receivers were asked", r.Status, r.Body, asked)
	}
	asMia(s, "lift", map[string]any{"number": rule.Number})
	if r := register(); r.Status != http.StatusCreated || asked != 1 {
		t.Errorf("once it is lifted: %d %s; %d receivers were asked", r.Status, r.Body, asked)
	}
}

// TestProvenNamesOnly: the setting keeps writes out that prove no name.
func TestProvenNamesOnly(t *testing.T) {
	s := withModerator(t)
	on := true
	s.Backend.Apply(&command.SetSettings{ProvenOnly: &on})
	if r := policyWrites["publish"](s); r.Status != http.StatusForbidden || apitest.CheckError(t, r).Code != "writes_frozen" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	var profile struct {
		EditKey string `json:"edit_key"`
	}
	policyWrites["profile"](s).Decode(t, &profile)
	r := s.Do(http.MethodPost, "/api/entries", `{"agent":"eve","body":"Some text."}`, "Content-Type", jsonType, "Authorization", "Bearer "+profile.EditKey)
	if r.Status != http.StatusCreated {
		t.Errorf("with the key: %d %s", r.Status, r.Body)
	}
}

// TestFloodsAreRejected: of a long text only so many near-duplicates are taken in an hour,
// on all surfaces together, and the answer says when there is room again.
func TestFloodsAreRejected(t *testing.T) {
	s := withModerator(t)
	most := uint64(3)
	s.Backend.Apply(&command.SetSettings{AlikeHourly: &most})
	text := strings.Repeat("a b c d e f g h i j k ", 6)
	write := func(agent, more, key string) *apitest.Response {
		return s.Do(http.MethodPost, "/api/entries", `{"agent":"`+agent+`","title":"A text","body":"`+text+more+`"}`, "Content-Type", jsonType, "Authorization", "Bearer "+key)
	}
	for i := range int(most) {
		if r := write("bot"+strconv.Itoa(i), "", ""); r.Status != http.StatusCreated {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	r := write("another", "", "")
	wait, _ := strconv.Atoi(r.Header.Get("Retry-After"))
	if p := apitest.CheckError(t, r); r.Status != http.StatusTooManyRequests || p.Code != "rate_limited" || p.Issues[0].Field != "body" || wait < 1 || wait > 3600 || r.Header.Get("RateLimit-Policy") != `"alike";q=3;w=3600` {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	if r := policyWrites["publish"](s); r.Status != http.StatusCreated {
		t.Errorf("a short text: %d %s", r.Status, r.Body)
	}
	var profile struct {
		EditKey string `json:"edit_key"`
	}
	policyWrites["profile"](s).Decode(t, &profile)
	if r := write("eve", "", profile.EditKey); r.Status != http.StatusCreated {
		t.Errorf("with a key: %d %s", r.Status, r.Body)
	}
}

// TestRulesAreForModerators: nobody else sets, lifts or sees them, and what cannot be a
// rule is rejected with an example that can.
func TestRulesAreForModerators(t *testing.T) {
	s := withModerator(t)
	for path, body := range map[string]string{
		"block": `{"agent":"eve","for":"1h"}`, "freeze": `{"all":true,"for":"1h"}`, "watch": `{"pattern":"pills"}`, "lift": `{"number":1}`,
	} {
		r := s.Do(http.MethodPost, "/api/moderation/"+path, body, "Content-Type", jsonType)
		if p := apitest.CheckError(t, r); r.Status != http.StatusForbidden || p.Code != "moderators_only" {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{"rules", "held"} {
		if r := s.Do(http.MethodGet, "/api/moderation/"+path, ""); r.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, test := range []struct{ path, body, field string }{
		{"block", `{"for":"1h"}`, "agent"},
		{"block", `{"agent":"eve","network":"192.0.2.0/24","for":"1h"}`, "network"},
		{"block", `{"agent":"eve"}`, "for"},
		{"block", `{"agent":"eve","for":"2y"}`, "for"},
		{"block", `{"agent":"eve","for":"400d"}`, "for"},
		{"block", `{"network":"192.0.2.1","for":"1h"}`, "network"},
		{"block", `{"network":"192.0.2.1/24","for":"1h"}`, "network"},
		{"block", `{"sender_of":"e9","for":"1h"}`, "sender_of"},
		{"freeze", `{"for":"1h"}`, "channel"},
		{"freeze", `{"all":false,"for":"1h"}`, "all"},
		{"freeze", `{"channel":"!","for":"1h"}`, "channel"},
		{"watch", `{"hold":true}`, "pattern"},
		{"watch", `{"pattern":"("}`, "pattern"},
		{"watch", `{"pattern":"x*"}`, "pattern"},
		{"lift", `{}`, "number"},
		{"lift", `{"number":99}`, "number"},
	} {
		r := s.Do(http.MethodPost, "/api/moderation/"+test.path, test.body, "Content-Type", jsonType, "Authorization", "Bearer "+modToken)
		p := apitest.CheckError(t, r)
		if r.Status != http.StatusUnprocessableEntity || len(p.Issues) != 1 || p.Issues[0].Field != test.field {
			t.Errorf("%s %s: %d %s", test.path, test.body, r.Status, r.Body)
		}
		if string(p.Example) != "{}" {
			t.Errorf("%s: an example that is sent back would block somebody: %s", test.path, p.Example)
		}
	}
	for _, agent := range []string{"eve", "mallory"} {
		mod(t, s, "block", map[string]any{"agent": agent, "for": "1h", "reason": "spam"})
	}
	var rules struct{ Rules []ruleAnswer }
	r := s.Do(http.MethodGet, "/api/moderation/rules?limit=1", "", "Authorization", "Bearer "+modToken)
	if r.Decode(t, &rules); len(rules.Rules) != 1 || !strings.Contains(string(r.Body), `"by":"mia"`) || !strings.Contains(string(r.Body), `"nextCursor":"`) {
		t.Errorf("the rules are %s", r.Body)
	}
}
