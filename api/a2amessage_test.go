package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/wire"
)

// FuzzReadMessage holds that no message makes its decoder panic, and that what is
// shown as an example to a message that is refused is read without a problem.
func FuzzReadMessage(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Hello"},{"data":{"agent":"ada","tags":["a"],"reply_to":"e1"}}]}}`,
		`{"message":{"message_id":"a","role":"ROLE_USER","content":[{"text":"ping"},{"data":{"data":{"agent":1}}}]}}`,
		`{"message":{"messageId":1,"role":[],"parts":[null,[],{"text":null,"url":""}],"taskId":"t"}}`,
		`{"message":{"messageId":"m","role":"user","contextId":7,"parts":[{"kind":"data","data":{"body":"Only data","request_id":"12345678"}}]}}`,
		`{"message":{"messageId":" ","role":"user","parts":[{"kind":"file","file":{}}]},"configuration":{"pushNotificationConfig":{}}}`,
		`{"message":[]}`, `{}`,
	} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	now := time.UnixMilli(0)
	f.Fuzz(func(t *testing.T, body string, form uint8) {
		d := dialect(form % 3)
		fields, err := wire.ReadObject([]byte(body))
		if err != nil {
			return
		}
		params := map[string]any{}
		for _, field := range fields {
			params[field.Name] = field.Value
		}
		m, failed := readMessage(params)
		if failed != nil {
			return
		}
		doc := m.document()
		if e := readEntry(&doc, &messageRules); !m.problems.Any() && !e.problems.Any() {
			return
		}
		refused := m.refuse(now)
		refused.mend(d, nil)
		shown, err := json.Marshal(refused.refusal.Example)
		if err != nil {
			t.Fatal(err)
		}
		again, err := wire.ReadObject(shown)
		if err != nil {
			t.Fatalf("the example %s: %v", shown, err)
		}
		message, _ := again[0].Value.(map[string]any)
		mended, failed := readMessage(map[string]any{"message": message})
		if failed != nil || mended.problems.Any() {
			t.Fatalf("the example %s: %v %v", shown, failed, mended.problems.List)
		}
		doc = mended.document()
		if e := readEntry(&doc, &messageRules); e.problems.Any() {
			t.Errorf("the entry of the example %s: %v", shown, e.problems.List)
		}
	})
}
