package resource_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// Where the senders of these tests write from: homeAddr registers the names.
const homeAddr, elsewhere = "203.0.113.1", "203.0.113.9"

// TestProofOnEverySurface publishes in every way with every proof, and then retracts the entries
// with every proof, which fails if the proof is too weak.
func TestProofOnEverySurface(t *testing.T) {
	t.Parallel()
	s := apitest.New(t, func(c *api.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	ada := apitest.Decoded[client.Registered](t, s.Post("/api/agents", `{"id":"ada","note":"Here."}`, "X-Forwarded-For", homeAddr))
	wrong := ada.EditKey[:len(ada.EditKey)-2] + "22"
	proofs := map[string]struct {
		from     string
		headers  []string
		inBody   string
		strength int // -1: rejected
	}{
		"key in the body":          {elsewhere, nil, ada.EditKey, 2},
		"key in the header":        {elsewhere, []string{"Authorization", "Bearer " + ada.EditKey}, "", 2},
		"key and Origin":           {elsewhere, []string{"Authorization", "bearer " + ada.EditKey, "Origin", "https://example.org"}, "", 2},
		"address":                  {homeAddr, nil, "", 1},
		"address, gateway's token": {homeAddr, []string{"Authorization", "Bearer eyJhbGciOi.x.y"}, "", 1},
		"address and Origin":       {homeAddr, []string{"Origin", "null"}, "", 0},
		"nothing":                  {elsewhere, nil, "", 0},
		"wrong key in the body":    {homeAddr, nil, "ck_wrong", -1},
		"wrong key in the header":  {homeAddr, []string{"Authorization", "Bearer " + wrong}, "", -1},
	}
	send := func(way, proof string, fields map[string]any) (answer string, strength int) {
		p := proofs[proof]
		fields, strength = maps.Clone(fields), p.strength
		fields["agent"] = "ada"
		if way == "get" && (p.inBody != "" || proof == "address and Origin") { // no page writes by GET
			return "", 0
		}
		if p.inBody != "" {
			fields["edit_key"] = p.inBody
		}
		if way == "get" && strength == 1 {
			strength = 0 // a link is no proof
		}
		return string(apitest.Ways[way](s, fields, append([]string{"X-Forwarded-For", p.from}, p.headers...)...).Body), strength
	}
	made := map[int][]string{} // ids by strength
	for way := range apitest.Ways {
		for proof := range proofs {
			answer, strength := send(way, proof, map[string]any{"body": "It is me."})
			verified, rejected := strings.Contains(answer, `"nameVerified":true`), strings.Contains(answer, "wrong_edit_key")
			if answer != "" && (verified != (strength > 0) || rejected != (strength < 0)) {
				t.Errorf("%s, %s: %s", way, proof, answer)
			}
		}
	}
	for strength, proof := range map[int]string{0: "nothing", 1: "address", 2: "key in the header"} {
		for range 2 * len(apitest.Ways) * len(proofs) {
			var p apitest.Published
			answer, _ := send("post", proof, map[string]any{"body": "Take it back."})
			if err := json.Unmarshal([]byte(answer), &p); err != nil {
				t.Fatal(answer)
			}
			made[strength] = append(made[strength], p.Entry.ID)
		}
	}
	for _, relation := range []string{"retraction", "correction"} {
		for way := range apitest.Ways {
			for proof := range proofs {
				for needed := range made {
					target := made[needed][0]
					made[needed] = made[needed][1:]
					answer, strength := send(way, proof, map[string]any{"body": "Never mind.", "supersedes": target, "relation": relation})
					if answer == "" {
						continue
					}
					done := strings.Contains(answer, `"nameVerified":`)
					required := strings.Contains(answer, `"proof_required"`)
					if done != (strength >= needed) || required != (strength >= 0 && strength < needed) {
						t.Errorf("%s by %s, %s, of what has strength %d: %s", relation, way, proof, needed, answer)
					}
				}
			}
		}
	}
	s.Get("/api/entries?limit=100").Lacks(t, ada.EditKey[3:])
}

// TestLookAlikeNames: what looks like a registered name is not registered, and entries
// under it say so.
func TestLookAlikeNames(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Paypal-1l", "note": "Here."})
	for name, alike := range map[string]bool{
		"paypal-1l": false, "PAYPAL-1L": false, // itself
		"Paypal-1l.": true, "Paypal-1l_": true, "Paypal-ll.-": true, // as in "ask @Paypal-1l."
		"Paypal-ll": true, "PaypaI-1l": true, "p\u0430yp\u0430l-1l": true, "paypal-1I": true,
		"paypal-2l": false, "anonymous": false,
	} {
		r := s.Post("/api/entries", map[string]any{"agent": name, "body": "It is me."})
		if got := strings.Contains(string(r.Body), `"looksLike":"Paypal-1l"`); got != alike || strings.Contains(string(r.Body), "looks like Paypal-1l") != alike {
			t.Errorf("%s: %s", name, r.Body)
		}
		if !alike {
			continue
		}
		r = s.Post("/api/agents", map[string]any{"id": name, "note": "Here."})
		r.Rejected(t, http.StatusUnprocessableEntity, "", "id", `"example":{"id":"your-name","note":"Here.","dry_run":true}`)
	}
	// A registered name can be spelled to look like another one.
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "paypai-1l", "note": "Here."}).EditKey
	s.Post("/api/entries", map[string]any{"agent": "paypaI-1l", "body": "It is me.", "edit_key": key}).Has(t, `"nameVerified":true`, `"looksLike":"Paypal-1l"`)
}

// TestProofOfNames writes in every way with a key, and holds that the key is
// shown nowhere.
func TestProofOfNames(t *testing.T) {
	log := &await.Buffer{}
	s := apitest.New(t, func(c *api.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers questions."}).EditKey
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "A title", "body": "A body"}).Must(t, http.StatusCreated)
	elsewhere := []string{"Content-Type", apitest.JSONType, "X-Forwarded-For", "203.0.113.7"}
	for _, w := range []struct {
		path string
		body map[string]any
	}{
		{"/api/entries", map[string]any{"agent": "ADA", "body": "Hello"}},
		{"/api/jobs", map[string]any{"agent": "ada", "title": "A title", "body": "A body"}},
		{"/api/jobs", map[string]any{"agent": "ada", "action": "claim", "job_id": "j1"}},
		{"/api/jobs", map[string]any{"agent": "ada", "action": "result", "job_id": "j1", "result": "Done."}},
		{"/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."}},
	} {
		for _, sent := range []string{"ck_wrong", key, ""} {
			body, want, status := maps.Clone(w.body), sent == key, http.StatusCreated
			body["edit_key"] = sent
			switch {
			case sent == "ck_wrong":
				status = http.StatusForbidden
			case w.path == "/api/jobs" && body["job_id"] == "j1" && !want:
				continue // a claim and a result happen once
			}
			data := must.Get(json.Marshal(body))(t)
			r := s.Do(http.MethodPost, w.path, string(data), elsewhere...)
			if verified := strings.Contains(string(r.Body), `"nameVerified":true`); r.Status != status || verified != want {
				t.Errorf("%s %q: %d %s", w.path, sent, r.Status, r.Body)
			}
			if sent == key && strings.Contains(string(r.Body), key) {
				t.Errorf("%s: the key is shown: %s", w.path, r.Body)
			}
		}
		// Something is wrong: the example and the issues hold no key either.
		bad := maps.Clone(w.body)
		bad["edit_key"], bad["request_id"] = key, "short"
		if r := s.Post(w.path, bad); r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Body), key) || !strings.Contains(string(r.Body), "add it") && !strings.Contains(string(r.Body), `"example":{}`) {
			t.Errorf("%s: %d %s", w.path, r.Status, r.Body)
		}
		// A key in a text is rejected, and not shown again.
		leak := maps.Clone(w.body)
		leak["agent"] = "x" + key
		if r := s.Post(w.path, leak); strings.Contains(string(r.Body), key[5:]) && r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", w.path, r.Status, r.Body)
		}
	}
	check.Lacks(t, log.String(), key[3:], "the log")
}

// TestProofWithoutAKeyInTheBody writes from the sender that registered, and with the key
// in a URL.
func TestProofWithoutAKeyInTheBody(t *testing.T) {
	s := apitest.New(t)
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers questions."}).EditKey
	s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Hello"}).Has(t, `"nameVerified":true`)
	query := "/api/entries?action=publish&confirm=write&request_id=get-write-1&agent=ada&body=Hello&edit_key="
	r := s.Get(query+key).Want(t, http.StatusUnprocessableEntity).Lacks(t, key)
	s.Get("/api/entries?"+apitest.ExampleQuery(t, apitest.CheckError(t, r).Example)).Want(t, http.StatusCreated)
}

// TestKeyTwiceIsNoEcho holds that a credential that stands as the name of a field,
// twice, is not shown again.
func TestKeyTwiceIsNoEcho(t *testing.T) {
	s := apitest.New(t)
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	p := apitest.Rejected(t, s, http.StatusBadRequest, http.MethodPost, "/api/entries", `{"`+secret+`":1,"`+secret+`":2}`)
	if p.Code != "malformed_body" || len(p.Issues) != 1 || strings.Contains(p.Issues[0].Message, secret[4:20]) || !strings.Contains(p.Issues[0].Message, "twice") {
		t.Errorf("%+v", p)
	}
}

// TestCredentialsAreRejected puts a credential into every text field of every
// write: it is rejected and not shown again, and there is no example: what is left reads as noise.
func TestCredentialsAreRejected(t *testing.T) {
	ghp := "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	s := apitest.New(t)
	for path, fine := range map[string]map[string]any{
		"/api/entries":        {"body": "A body", "title": "A title", "agent": "ada", "channel": "general", "request_id": "request-1", "tags": []string{"tag"}},
		"/api/jobs":           {"agent": "ada", "title": "A title", "body": "A body", "tags": []string{"tag"}, "request_id": "request-2"},
		"/api/human-requests": {"agent": "ada", "goal": "A goal", "requested_action": "Do it.", "context": "Context", "constraints": "None.", "tags": []string{"tag"}, "request_id": "request-3"},
		"/api/agents":         {"id": "ada", "description": "Answers.", "capabilities": []string{"one"}, "endpoint": "https://example.org", "note": "A note.", "request_id": "request-4"},
	} {
		for field := range fine {
			body := maps.Clone(fine)
			for _, name := range []string{"agent", "id"} {
				if body[name] != nil {
					body[name] = "ada-" + field
				}
			}
			if list, isList := fine[field].([]string); isList {
				body[field] = []string{list[0], ghp}
			} else {
				body[field] = "See: " + ghp
			}
			r := s.Post(path, body)
			r.Rejected(t, http.StatusUnprocessableEntity, "", field, "looks like a GitHub token")
			r.Lacks(t, ghp[4:])
		}
	}
	s = apitest.New(t)
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "A title", "body": "A body"})
	for _, body := range []map[string]any{
		{"agent": "ada", "action": "claim", "job_id": "j1", "note": ghp},
		{"agent": "ada", "action": "result", "job_id": "j1", "result": "It is " + ghp},
		{"agent": "ada", "action": "result", "job_id": ghp, "result": "Fine."},
	} {
		s.Post("/api/jobs", body).Want(t, http.StatusUnprocessableEntity).Lacks(t, ghp)
	}
	s.Get("/api/entries?action=publish&confirm=write&request_id=get-write-1&body="+ghp).Want(t, http.StatusUnprocessableEntity).Lacks(t, ghp)
	s.Post("/api/entries", map[string]any{"body": "Hello", ghp: 1}).Want(t, http.StatusCreated).Lacks(t, ghp)
}

// TestLongTextsAreNotSearchedWhole holds that a text far over its limit is rejected by
// its length, and that no answer shows a part of it that was not searched.
func TestLongTextsAreNotSearchedWhole(t *testing.T) {
	ghp := "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	s := apitest.New(t)
	for _, c := range map[string]struct {
		field   string
		value   any
		message string
	}{
		"behind":          {"body", strings.Repeat("word ", 1300) + ghp, "this one has 6540"},
		"across the end":  {"body", strings.Repeat("word ", 998) + ghp + strings.Repeat(" word", 1300), "looks like a GitHub token"},
		"many":            {"body", strings.Repeat(ghp+" ", 500), "looks like a GitHub token"},
		"many in a tag":   {"tags", []string{strings.Repeat(ghp+" ", 500)}, "looks like a GitHub token"},
		"behind a tag":    {"tags", []string{strings.Repeat("word ", 300) + ghp}, "must have 1 to 40 characters"},
		"spaces in a tag": {"tags", []string{"tag" + strings.Repeat(" ", 2000) + ghp}, "must have 1 to 40 characters"},
		"many tags":       {"tags", strings.Split(strings.Repeat("tag,", 200)+ghp, ","), "these are 201"},
		"a name":          {"agent", "ada" + strings.Repeat(" ", 2000) + ghp, "this one has 2043"},
		"a request_id":    {"request_id", strings.Repeat("abc.", 600) + ghp, "this one has 2440"},
	} {
		body := map[string]any{"body": "A body", c.field: c.value}
		r := s.Post("/api/entries", body)
		r.Rejected(t, http.StatusUnprocessableEntity, "", c.field, c.message)
		r.Lacks(t, "ghp_")
	}
	// A title that is too long is shortened, not rejected.
	s.Post("/api/entries", map[string]any{"body": "A body", "title": strings.Repeat("word ", 400) + ghp}).Want(t, http.StatusCreated).Lacks(t, "ghp_")
	s.Do(http.MethodPost, "/api/entries", ghp+"=1&"+ghp+"=2", "Content-Type", "application/x-www-form-urlencoded").Want(t, http.StatusBadRequest).Lacks(t, ghp)
}

// TestProofByAddress writes without a key under names that were registered from the
// address of the test, and in the way of the write.
func TestProofByAddress(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, test := range []struct {
		name     string
		trusted  []netip.Prefix
		keysOnly bool
		headers  []string
		proves   bool
		proxied  bool // the node is told of a proxy
	}{
		{"direct", nil, false, nil, true, false},
		{"X-Forwarded-For of a stranger", nil, false, []string{"X-Forwarded-For", "192.0.2.1"}, false, true},
		{"Forwarded of a stranger", nil, false, []string{"Forwarded", "for=192.0.2.1"}, false, true},
		{"X-Forwarded-For of a proxy", loopback, false, []string{"X-Forwarded-For", "192.0.2.1"}, true, false},
		{"both headers of a proxy", loopback, false, []string{"X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1"}, true, false},
		{"only Forwarded of a proxy", loopback, false, []string{"Forwarded", "for=192.0.2.1"}, false, true},
		{"X-Forwarded-For without an address", loopback, false, []string{"X-Forwarded-For", "unknown"}, false, true},
		{"X-Forwarded-For of two proxies, without an address", loopback, false, []string{"X-Forwarded-For", "unknown, 127.0.0.2"}, false, true},
		{"turned off", nil, true, nil, false, false},
		{"turned off, of a proxy", loopback, true, []string{"X-Forwarded-For", "192.0.2.1"}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var peers []netip.Addr
			s := apitest.New(t, func(c *api.Config) {
				c.TrustedProxies, c.NoAddressProof = test.trusted, test.keysOnly
				c.NoteProxy = func(peer netip.Addr) { peers = append(peers, peer) }
			})
			direct := len(test.headers) == 0
			headers := append([]string{"Content-Type", apitest.JSONType}, test.headers...)
			s.Post("/api/agents", `{"id":"ada","note":"Here."}`)
			bob := apitest.Decoded[client.Registered](t, s.Do(http.MethodPost, "/api/agents", `{"id":"bob","note":"Here."}`, headers...))
			s.Do(http.MethodPost, "/api/entries", `{"body":"Hello."}`, headers...) // anonymous: e1
			for way, write := range apitest.Ways {
				if way == "get" {
					continue // a link proves no name
				}
				for agent, want := range map[string]bool{"ada": test.proves && direct, "bob": test.proves} {
					body := string(write(s, map[string]any{"agent": agent, "body": "Hello by " + way}, headers...).Body)
					apitest.Equal(t, agent+" by "+way+": "+body, isVerified(body), want)
					const note = "Its address is no proof"
					check.Equal(t, strings.Contains(body, note), !test.proves, "%s by %s: noted: %s", agent, way, body)
				}
				body := string(write(s, map[string]any{"agent": "bob", "body": "Hello by key and " + way}, append(headers, "Authorization", "Bearer "+bob.EditKey)...).Body)
				if !isVerified(body) {
					t.Errorf("by key and %s: %s", way, body)
				}
			}
			retraction := s.Do(http.MethodPost, "/api/entries", `{"body":"I take it back","supersedes":"e1","relation":"retraction"}`, headers...)
			apitest.Equal(t, "a retraction by the anonymous author: "+string(retraction.Body), retraction.Status == http.StatusCreated, test.proves)
			if test.proxied != (len(peers) > 0) || test.proxied && peers[0] != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("peers %v", peers)
			}
			metric := fmt.Sprintf("commons_http_proxied_total %d\n", len(peers))
			s.Get("/metrics").Has(t, metric)
		})
	}
}

// TestSharedAddressIsNoted: the note of an unproven write says that its address registered
// too many names.
func TestSharedAddressIsNoted(t *testing.T) {
	s := apitest.New(t)
	for i := range command.MaxAddressNames + 1 {
		r := s.Post("/api/entries", map[string]any{"agent": "name-0", "body": fmt.Sprint("Hello ", i)})
		if shared := strings.Contains(string(r.Body), "Its address is no proof"); shared || isVerified(string(r.Body)) != (i > 0) {
			t.Errorf("with %d names: %s", i, r.Body)
		}
		apitest.Register(t, s, http.StatusCreated, map[string]any{"id": fmt.Sprint("name-", i), "note": "Here."})
	}
	r := s.Post("/api/entries", map[string]any{"agent": "name-0", "body": "Hello again"})
	if !strings.Contains(string(r.Body), "Its address is no proof") || isVerified(string(r.Body)) {
		t.Errorf("%s", r.Body)
	}
}

func isVerified(body string) bool {
	return strings.Contains(strings.ReplaceAll(body, `\"`, `"`), `"nameVerified":true`)
}

// startAway starts a server behind a proxy, with the profile of Ada registered at
// homeAddr, and returns her key.
func startAway(t *testing.T) (s *apitest.Server, key string) {
	t.Helper()
	s = apitest.New(t, func(c *api.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	ada := apitest.Decoded[client.Registered](t, s.Post("/api/agents", `{"id":"Ada","note":"Here."}`, "X-Forwarded-For", homeAddr))
	return s, ada.EditKey
}

// TestKeyNamesItsOwner: a write without a name is its key's owner's, on every surface.
func TestKeyNamesItsOwner(t *testing.T) {
	s, key := startAway(t)
	for way, send := range apitest.Ways {
		for _, inBody := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in the body: %v", way, inBody), func(t *testing.T) {
				fields, headers := map[string]any{"body": "It is me."}, []string{"X-Forwarded-For", elsewhere}
				switch {
				case !inBody:
					headers = append(headers, "Authorization", "Bearer "+key)
				case way == "get":
					t.Skip("no key may be in a URL")
				default:
					fields["edit_key"] = key
				}
				send(s, fields, headers...).Has(t, `"agent":"Ada"`, `"nameVerified":true`)
			})
		}
		t.Run(way+", of nobody", func(t *testing.T) {
			body := string(send(s, map[string]any{"body": "Who am I?"}, "Authorization", "Bearer "+apitest.AgentKey).Body)
			if !strings.Contains(body, `"agent":"anonymous"`) || !strings.Contains(body, "The edit_key proves nothing: no profile has it") {
				t.Error(body)
			}
		})
	}
	question := s.Publish(map[string]any{"agent": "bob", "body": "Are you there, @ada?"})
	job := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "title": "Count birds", "body": "All of them"}).Job.ID
	for _, test := range []struct{ name, path, body, holds string }{
		{"job", "/api/jobs", `{"title":"Count boats","body":"All of them"}`, `"agent":"Ada"`},
		{"claim", "/api/jobs", `{"action":"claim","job_id":"` + job + `"}`, `"claimedBy":"Ada"`},
		{"human help", "/api/human-requests", `{"goal":"Look at the sea","requested_action":"Say how high it is."}`, `"agent":"Ada"`},
		{"report", "/api/reports", `{"entry_id":"` + question.ID + `","reason":"spam","text":"It is spam."}`, `"reason":"spam"`},
		{"seen", apitest.SeenPath, `{"ids":["` + question.ID + `"]}`, `"agent":"Ada"`},
		{"profile", "/api/agents", `{"note":"Away."}`, `"note":"Away."`},
		{"tool", "/mcp", apitest.ToolCall("post_job", `{"title":"Count gulls","body":"All of them"}`), `"agent":"Ada"`},
		{"home by tool", "/mcp", apitest.ToolCall("home", `{"edit_key":"`+key+`"}`), `"agent":"Ada"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.Post(test.path, test.body, "Authorization", "Bearer "+key, "X-Forwarded-For", elsewhere)
			if r.Status >= http.StatusBadRequest || !strings.Contains(string(r.Body), test.holds) {
				t.Errorf("%d %s", r.Status, r.Body)
			}
			if test.path == "/mcp" {
				return
			}
			r = s.Post(test.path, test.body, "Authorization", "Bearer "+apitest.AgentKey, "X-Forwarded-For", elsewhere)
			if r.Status != http.StatusUnprocessableEntity && test.name != "report" {
				t.Errorf("with a key of nobody: %d %s", r.Status, r.Body)
			}
		})
	}
	t.Run("home", func(t *testing.T) {
		r := s.Get("/api/home", "Authorization", "Bearer "+key)
		if !strings.Contains(string(r.Body), `"agent":"Ada"`) || r.Header.Get("Vary") == "" {
			t.Errorf("%v %s", r.Header, r.Body)
		}
		s.Get("/api/home", "Authorization", "Bearer "+apitest.AgentKey).Want(t, http.StatusUnprocessableEntity)
		s.Get("/api/home?for=bob", "Authorization", "Bearer "+key).Has(t, `"agent":"bob"`)
	})
}

// TestNewKeyNamesItsOwner: a key that another node has just issued is looked for in the
// leader's state, before the write becomes anonymous.
func TestNewKeyNamesItsOwner(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	key, hash := op.NewEditKey()
	b.OnReadIndex = func() {
		b.OnReadIndex = nil
		b.Apply(&command.Register{Agent: "ada", AgentKey: "ada", Given: command.FieldNote, Note: "Here.", NewKey: hash, NewRecovery: hash})
	}
	s.Post("/api/entries", `{"body":"It is me."}`, "Authorization", "Bearer "+key).Has(t, `"agent":"ada"`)
	b.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader"}
	for _, call := range [][2]string{{http.MethodPost, "/api/entries"}, {http.MethodGet, "/api/home"}} {
		s.Do(call[0], call[1], `{"body":"Who am I?"}`, "Content-Type", apitest.JSONType, "Authorization", "Bearer "+apitest.AgentKey).Want(t, http.StatusServiceUnavailable)
	}
}

// TestUnprovenNameIsNoted: a write without proof under a registered name, and its home,
// say that the name is registered.
func TestUnprovenNameIsNoted(t *testing.T) {
	s, key := startAway(t)
	const note = "The name ada is registered, and this call proved nothing."
	write := func(way string, headers ...string) string {
		return string(apitest.Ways[way](s, map[string]any{"agent": "ada", "body": "It is me."}, headers...).Body)
	}
	home := func(headers ...string) string { return string(s.Get("/api/home?for=ada", headers...).Body) }
	for _, test := range []struct {
		name, body string
		noted      bool
	}{
		{"post", write("post", "X-Forwarded-For", elsewhere), true},
		{"get", write("get", "X-Forwarded-For", homeAddr), true},
		{"a2a", write("a2a", "X-Forwarded-For", elsewhere), true},
		{"mcp", write("mcp", "X-Forwarded-For", elsewhere), true},
		{"by key", write("post", "X-Forwarded-For", elsewhere, "Authorization", "Bearer "+key), false},
		{"by address", write("post", "X-Forwarded-For", homeAddr), false},
		{"home", home("X-Forwarded-For", elsewhere), true},
		{"home with another key", home("X-Forwarded-For", elsewhere, "Authorization", "Bearer "+apitest.AgentKey), true},
		{"home by key", home("X-Forwarded-For", elsewhere, "Authorization", "Bearer "+key), false},
		{"home by address", home("X-Forwarded-For", homeAddr), false},
		{"home of another name", string(s.Get("/api/home?for=bob", "X-Forwarded-For", elsewhere).Body), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			apitest.Equal(t, "noted in "+test.body, strings.Contains(test.body, note), test.noted)
		})
	}
	t.Run("home of a protected name", func(t *testing.T) {
		s.Backend.Apply(&command.ProtectName{AgentKey: "ada", Protected: true})
		s.Get("/api/home?for=ada", "X-Forwarded-For", elsewhere).Want(t, http.StatusOK, `"yourNote":"Here."`)
	})
}
