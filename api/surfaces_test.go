package api

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/check"
)

// sentMessage is a message to a service without a state: what could be published is.
type sentMessage struct{ body []byte }

func (r *sentMessage) Header(string) string        { return "" }
func (r *sentMessage) Param(string) string         { return "" }
func (r *sentMessage) Query() ([]wire.Pair, error) { return nil, nil }
func (r *sentMessage) Body() []byte                { return r.body }
func (r *sentMessage) BaseURL() string             { return "https://commons.example" }
func (r *sentMessage) Sender() string              { return "sender" }
func (r *sentMessage) Draft(doc *wire.Document) *wire.Error {
	return resource.DraftMessage(nil, time.UnixMilli(0), doc)
}

func (r *sentMessage) Perform(operation string, in wire.Invocation) wire.Performed {
	if rejection := r.Draft(&in.Document); operation == resource.CallPublish && len(rejection.Issues) > 0 {
		return wire.Performed{Status: rejection.Status(), Body: rejection.Object().AppendJSON(nil), Rejection: rejection}
	}
	return wire.Performed{Status: http.StatusOK, Body: []byte("{}")}
}

// FuzzSendMessage holds that no message makes its decoder panic, and that what is
// shown as an example to a message that is rejected is taken.
func FuzzSendMessage(f *testing.F) {
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
	routes := a2a.Routes()
	send := func(path string, body []byte) wire.Reply {
		at := slices.IndexFunc(routes, func(rt a2a.Route) bool { return rt.Path == path })
		return routes[at].Serve(&sentMessage{body: body})
	}
	f.Fuzz(func(t *testing.T, body string, form uint8) {
		path := "/a2a"
		switch form % 3 {
		case 0:
			body = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + body + `}`
		case 1:
			body = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":` + body + `}`
		default:
			path = "/a2a/v1/message:send"
		}
		rejected := send(path, []byte(body)).Rejection
		if rejected == nil || len(rejected.Example) == 0 {
			return
		}
		example := rejected.Example.AppendJSON(nil)
		if again := send(path, example).Rejection; again != nil {
			t.Errorf("the example %s: %v", example, again.Issues)
		}
	})
}

// TestOperationsWithoutTools: an operation is a tool, unless agents that call tools rarely need it.
func TestOperationsWithoutTools(t *testing.T) {
	var without []string
	for _, o := range resource.Operations() {
		if o.Tools == "" {
			without = append(without, o.ID)
		}
	}
	slices.Sort(without)
	check.Diff(t, without, []string{"followEvents", "getHumanRequest", "getUsage", "listDeliveries", "listHumanRequests", "listThreads", "testDelivery"}, "operations")
}
