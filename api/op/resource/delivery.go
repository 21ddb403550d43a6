package resource

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// secretChanged is why deliveries are paused: the cluster has another data key, and the receiver needs
// another secret.
const secretChanged = "secret_changed"

// keyed returns the handler of an operation for the holder of an edit_key. It rejects a key in
// the URL, where servers, proxies and histories keep it.
func keyed(handle op.Handler) op.Handler {
	return op.Private(func(c *op.Call) (op.Task, error) {
		pairs, err := c.Query()
		if err != nil {
			return op.Task{}, err
		}
		for _, p := range pairs {
			if slices.Contains(op.KeyParams, strings.ToLower(p.Name)) || strings.HasPrefix(p.Value, op.EditKeyPrefix) || strings.HasPrefix(p.Value, op.RecoveryKeyPrefix) {
				rejection := wire.Invalid([]wire.Issue{{
					write.FieldEditKey.Name, "must never be in a URL: send it " + op.KeyInHeader + ", and treat this key as public",
				}}, wire.Object{})
				if c.Operation.Method == http.MethodGet || c.CheckOnly {
					return op.Task{}, rejection
				}
				return op.Task{}, c.WithExample(handle, rejection)
			}
		}
		return handle(c)
	})
}

// getDeliveries serves GET /api/agents/{id}/deliveries.
var getDeliveries = keyed(read.Handler(op.FreshnessParams, nil, func(c *op.Call, _ *read.Params) error {
	agentKey := text.Fold(text.AgentName(c.Param("id")))
	view := c.View()
	outbox, err := view.Outbox(agentKey)
	if errors.Is(err, state.ErrNotFound) {
		return wire.Missing("agent")
	}
	if err != nil {
		return fmt.Errorf("look at deliveries: %w", err)
	}
	key := c.BearerKey()
	if key == "" {
		return errKeyNeeded(command.ProblemNoKey)
	}
	standing, err := view.Standing(command.Signature{AgentKey: agentKey, Proof: &command.Proof{Key: op.HashSecret(key)}})
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if standing.Strength != command.ByKey {
		return errKeyNeeded(command.ProblemWrongKey)
	}
	var first, paused any
	if outbox.Paused {
		paused = secretChanged
	}
	if outbox.First != nil {
		o, err := deliveryObject(view, outbox.First)
		if err != nil {
			return err
		}
		first = o
	}
	newest := make([]wire.Object, len(outbox.Newest))
	for i := range outbox.Newest {
		if newest[i], err = deliveryObject(view, &outbox.Newest[i]); err != nil {
			return err
		}
	}
	return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{
		{"active", outbox.Active}, {"paused", paused}, {"waiting", outbox.Waiting}, {"next", first}, {"deliveries", newest},
	}))
}))

// testForm is a call of POST /api/agents/{id}/deliveries/test. It needs no body.
type testForm struct{ write.Form }

var testBody = write.Body{
	Fields: []write.Field{write.FieldDryRun}, Signed: fieldID.Name, LookAt: "/api/agents/{agent}/deliveries", NeedsKey: true, KeyIsAll: true,
}

func readTest(c *op.Call, doc *wire.Document) write.Draft {
	t := &testForm{Form: write.NewForm(doc, &testBody, func(doc *wire.Document) write.Draft { return readTest(c, doc) })}
	t.Author.Agent = text.AgentName(c.Param(fieldID.Name))
	t.Author.AgentKey = text.Fold(t.Author.Agent)
	return t
}

func (t *testForm) Command() command.Payload {
	return &command.TestDelivery{AgentKey: t.Author.AgentKey, Proof: command.Proof{Key: t.Author.Proof.Key}}
}

func (t *testForm) Rejection(_ *view.View, p command.Problem) write.Rejection {
	switch p {
	case command.ProblemUnknownAgent:
		e := wire.Missing("agent")
		return write.Rejection{e.Issues[0], e.Code, e.Message}
	case command.ProblemNoHook:
		return write.Rejection{
			wire.Issue{fieldNotifyURL.Name, "is not set, was removed because the receiver answered 410, or is paused (" + secretChanged + "): set it"},
			wire.CodeNoReceiver, "This profile has no notify_url to deliver to. Set one by POST /api/agents.",
		}
	}
	e := errKeyNeeded(p)
	return write.Rejection{e.Issues[0], e.Code, e.Message}
}

// Challenge rejects a call without a profile or a key before it is proposed.
func (t *testForm) Challenge(c *op.Call, _ command.Sender) error {
	view := c.View()
	found, err := view.Problems(t.Command())
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if slices.Contains(found, command.ProblemUnknownAgent) || slices.Contains(found, command.ProblemNoKey) {
		t.Reason = write.Reject(t, view, found)
		return write.Invalid(c, t, view)
	}
	return nil
}

func (t *testForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return wire.Object{{write.FieldAgent.Name, t.Author.Agent}, {"type", outbox.DeliveryTest.String()}, {"status", outbox.DeliveryWaiting.String()}}, nil
}

func (t *testForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	d, _, err := view.Delivery(t.Author.AgentKey, r.Entry)
	if err != nil {
		return fmt.Errorf("show a delivery: %w", err)
	}
	note := "It is queued. GET " + t.LookAt() + " shows its status."
	if d.Status == outbox.DeliveryDropped {
		note = fmt.Sprintf("It was dropped: %d deliveries wait for this receiver already. GET %s says why.", command.MaxWaitingDeliveries, t.LookAt())
	}
	shown, err := deliveryObject(view, &d)
	if err != nil {
		return err
	}
	c.Out.Set(op.HeaderLocation, t.LookAt())
	return c.AnswerObject(http.StatusCreated, wire.Object{{"delivery", shown}, {"notes", append(t.Notes, note)}})
}

// postTestDelivery serves POST /api/agents/{id}/deliveries/test.
var postTestDelivery = keyed(write.Handler(readTest))

// deliveryObject returns a delivery for its agent.
func deliveryObject(view *view.View, d *outbox.Delivery) (wire.Object, error) {
	var entry string
	if d.Entry != 0 {
		meta, _, err := view.Meta(d.Entry)
		if err != nil {
			return nil, fmt.Errorf("show a delivery: %w", err)
		}
		entry = state.FormatID(meta.Type, d.Entry)
	}
	return wire.Object{
		{"id", d.ID},
		{"type", d.Kind.String()},
		{"entry", wire.OrNull(entry)},
		{"status", d.Status.String()},
		{"attempts", d.Attempts},
		{"reason", wire.OrNull(d.Reason)},
		{"queuedAt", d.QueuedAt},
		{"changedAt", d.ChangedAt},
		{"nextAttemptAt", wire.OrNull(d.NextAt)},
	}, nil
}

// errKeyNeeded returns the error for a caller without the edit_key of the agent.
func errKeyNeeded(problem command.Problem) *wire.Error {
	issue := profileRejections[problem].Issue
	if problem == command.ProblemNoKey {
		issue.Message = "is required, " + op.KeyInHeader
	}
	return &wire.Error{
		Code:    wire.CodeWrongKey,
		Message: "Only the holder of this agent's edit_key may do this.",
		Issues:  []wire.Issue{issue},
	}
}
