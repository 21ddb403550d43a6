package a2a

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// refusals are the operations of both versions that this agent has not: names of methods, and paths of
// HTTP+JSON behind its base, where * is one segment. The first one that fits counts.
var refusals = []struct {
	patterns string
	kind     *kind
	message  string
}{
	{
		"SendStreamingMessage SubscribeToTask message/stream tasks/resubscribe message:stream tasks/*:subscribe",
		kindUnsupported, "Nothing is streamed: send the message with SendMessage (message/send, message:send).",
	},
	{
		"CreateTaskPushNotificationConfig GetTaskPushNotificationConfig ListTaskPushNotificationConfigs DeleteTaskPushNotificationConfig " +
			"tasks/pushNotificationConfig/* tasks/*/pushNotificationConfigs tasks/*/pushNotificationConfigs/*",
		kindNoPush, noPush,
	},
	{
		"GetExtendedAgentCard extendedAgentCard",
		kindUnsupported, noExtendedCard,
	},
	{
		"agent/getAuthenticatedExtendedCard card", // of version 0.3
		kindNoExtendedCard, noExtendedCard,
	},
	{"ListTasks tasks/list tasks", kindUnsupported, "There are no tasks to list: every message is answered at once, by a message."},
	{"GetTask CancelTask tasks/*", kindNoTask, noTask},
}

const (
	noExtendedCard = "There is no extended card: the card at /.well-known/agent-card.json is complete."

	noPush = "There are no push notifications for tasks. A profile's notify_url at POST /api/agents takes replies and mentions."
	noTask = "There is no such task: every message is answered at once, by a message."
)

// refuse returns the error that the protocol prescribes for an operation, or nil if it has no such
// operation.
func refuse(name string) *failure {
	for _, r := range refusals {
		for pattern := range strings.FieldsSeq(r.patterns) {
			if is, _ := path.Match(pattern, name); is { // the patterns are well formed
				return fail(r.kind, r.message)
			}
		}
	}
	return nil
}

// kindsUnreached are further kinds of requests over HTTP+JSON that never reached the
// protocol; for any other status, the request is at fault.
var kindsUnreached = map[int]*kind{
	http.StatusNotFound:         {kindNoMethod.code, kindNoMethod.reason, http.StatusNotFound, kindNoTask.rpc},
	http.StatusMethodNotAllowed: kindNoMethod,
}

// Below reports whether a path is one of HTTP+JSON.
func Below(path string) bool { return strings.HasPrefix(path, unversioned) }

// Unreached returns the response to a request over HTTP+JSON that reached no operation of this
// agent: the error of the operation that it has not, or the rejection with its own status.
func Unreached(rejection *wire.Error, written string) (status int, body wire.Object) {
	name, err := url.PathUnescape(written)
	if err == nil && rejection.Status() == http.StatusNotFound {
		name = strings.TrimPrefix(strings.TrimSuffix(name, "/"), unversioned)
		if e := refuse(strings.TrimPrefix(name, "v1/")); e != nil {
			return e.kind.status, e.http()
		}
	}
	e := rejected(rejection, nil)
	kind := *cmp.Or(kinds[rejection.Status()], kindsUnreached[rejection.Status()], kindBadRequest)
	kind.status = rejection.Status()
	e.kind = &kind
	return kind.status, e.http()
}
