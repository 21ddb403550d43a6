package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
)

// Where the senders of these tests write from: homeAddr registers the names.
const homeAddr, elsewhere = "203.0.113.1", "203.0.113.9"

// ways are all ways to publish: what each sends of the fields of a NewEntry.
var ways = map[string]func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response{
	"post": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		return sendJSON(s, "/api/entries", fields, headers)
	},
	"form": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		return s.Do(http.MethodPost, "/api/entries", valuesOf(fields).Encode(), append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	},
	"get": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		values := valuesOf(fields)
		values.Set("action", "publish")
		values.Set("confirm", "write")
		messages++
		values.Set("request_id", fmt.Sprint("get-write-", messages))
		return s.Do(http.MethodGet, "/api/entries?"+values.Encode(), "", headers...)
	},
	"rpc": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		return sendJSON(s, "/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": messageOf(fields, "kind", "text")}, headers)
	},
	"a2a": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		return sendJSON(s, "/a2a/v1/message:send", messageOf(fields, "", ""), headers)
	},
	"mcp": func(s *apitest.Server, fields map[string]any, headers ...string) *apitest.Response {
		return sendJSON(s, "/mcp", map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "publish_message", "arguments": fields},
		}, headers)
	},
}

func sendJSON(s *apitest.Server, path string, body any, headers []string) *apitest.Response {
	data, _ := json.Marshal(body) // of strings
	return s.Do(http.MethodPost, path, string(data), append(headers, "Content-Type", jsonType)...)
}

func valuesOf(fields map[string]any) url.Values {
	values := url.Values{}
	for name, value := range fields {
		values.Set(name, fmt.Sprint(value))
	}
	return values
}

// messageOf is a message of the A2A protocol, in version 0.3 or 1.0.
func messageOf(fields map[string]any, kind, text string) map[string]any {
	messages++
	data, said := map[string]any{"data": maps.Clone(fields)}, map[string]any{"text": fields["body"]}
	delete(data["data"].(map[string]any), "body")
	role := "ROLE_USER"
	if kind != "" {
		data[kind], said[kind], role = "data", text, "user"
	}
	return map[string]any{"message": map[string]any{"messageId": fmt.Sprint("m-", messages), "role": role, "kind": "message", "parts": []any{said, data}}}
}

// TestProofOnEverySurface publishes in every way with every proof, and then retracts
// what was published with every proof: without enough of it nothing is.
func TestProofOnEverySurface(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *api.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	r := s.Do(http.MethodPost, "/api/agents", `{"id":"ada","note":"Here."}`, "Content-Type", jsonType, "X-Forwarded-For", homeAddr)
	var ada agentAnswer
	r.Decode(t, &ada)
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
		if p.inBody != "" {
			if way == "get" {
				return "", 0
			}
			fields["edit_key"] = p.inBody
		}
		if way == "get" && strength == 1 {
			strength = 0 // a link is no proof
		}
		return string(ways[way](s, fields, append([]string{"X-Forwarded-For", p.from}, p.headers...)...).Body), strength
	}
	made := map[int][]string{} // ids by strength
	for way := range ways {
		for proof := range proofs {
			answer, strength := send(way, proof, map[string]any{"body": "It is me."})
			verified, rejected := strings.Contains(answer, `"nameVerified":true`), strings.Contains(answer, "wrong_edit_key")
			if answer != "" && (verified != (strength > 0) || rejected != (strength < 0)) {
				t.Errorf("%s, %s: %s", way, proof, answer)
			}
		}
	}
	for strength, proof := range map[int]string{0: "nothing", 1: "address", 2: "key in the header"} {
		for range 2 * len(ways) * len(proofs) {
			var p apitest.Published
			answer, _ := send("post", proof, map[string]any{"body": "Take it back."})
			if err := json.Unmarshal([]byte(answer), &p); err != nil {
				t.Fatal(answer)
			}
			made[strength] = append(made[strength], p.Entry.ID)
		}
	}
	for _, relation := range []string{"retraction", "correction"} {
		for way := range ways {
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
	if body := string(s.Get("/api/entries?limit=100").Body); strings.Contains(body, ada.EditKey[3:]) {
		t.Error("the key is shown")
	}
}

// TestKeyOfNobody: a key where there is no profile is a note, whatever the surface.
func TestKeyOfNobody(t *testing.T) {
	t.Parallel()
	s := start(t)
	for way, send := range ways {
		for _, agent := range []string{"nobody-here", "anonymous"} {
			r := send(s, map[string]any{"agent": agent, "body": "Who am I?"}, "Authorization", "Bearer "+hookKey)
			if !strings.Contains(string(r.Body), "The edit_key proves nothing") || !strings.Contains(string(r.Body), `"nameVerified":false`) {
				t.Errorf("%s as %s: %d %s", way, agent, r.Status, r.Body)
			}
		}
	}
}

// TestLookAlikeNames: what looks like a registered name is not registered, and entries
// under it say so.
func TestLookAlikeNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	register(t, s, http.StatusCreated, map[string]any{"id": "Paypal-1l", "note": "Here."})
	for name, alike := range map[string]bool{
		"paypal-1l": false, "PAYPAL-1L": false, // itself
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
		p := apitest.CheckError(t, r)
		if r.Status != http.StatusUnprocessableEntity || len(p.Issues) != 1 || p.Issues[0].Field != "id" || string(p.Example) != "{}" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	// A registered name can be spelled to look like another one.
	key := register(t, s, http.StatusCreated, map[string]any{"id": "paypai-1l", "note": "Here."}).EditKey
	r := s.Post("/api/entries", map[string]any{"agent": "paypaI-1l", "body": "It is me.", "edit_key": key})
	if body := string(r.Body); !strings.Contains(body, `"nameVerified":true`) || !strings.Contains(body, `"looksLike":"Paypal-1l"`) {
		t.Errorf("%d %s", r.Status, body)
	}
}
