package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/commons-cluster/commons/node/nodetest"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
)

// a2aOldClient is the A2A project's client for Go as it was at version 0.3, of one
// node, as the node's card of that version says. It has no HTTP+JSON: that of version 0.3
// is among the a2aTransports.
func (c *testCluster) a2aOldClient(nd *nodetest.Node) (*a2aclient.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(c.t.Context(), nd.URL(), agentcard.WithPath("/.well-known/agent.json"))
	if err != nil {
		return nil, err
	}
	return a2aclient.NewFromCard(c.t.Context(), card, a2aclient.WithDefaultsDisabled(),
		a2aclient.WithJSONRPCTransport(&http.Client{Timeout: nodetest.CallTimeout}))
}

// a2aOldSay sends one message and returns the entry's id that the answer's data
// holds, its context and its text.
func a2aOldSay(ctx context.Context, client *a2aclient.Client, m *a2a.Message) (id, thread, text string, err error) {
	result, err := client.SendMessage(ctx, &a2a.MessageSendParams{Message: m})
	if err != nil {
		return "", "", "", err
	}
	answer, isMessage := result.(*a2a.Message)
	if !isMessage || answer.Role != a2a.MessageRoleAgent || answer.ContextID == "" || len(answer.Parts) != 2 {
		return "", "", "", fmt.Errorf("the answer is %+v", result)
	}
	said, isText := answer.Parts[0].(a2a.TextPart)
	data, isData := answer.Parts[1].(a2a.DataPart)
	if !isText || !isData {
		return "", "", "", fmt.Errorf("the parts are %+v", answer.Parts)
	}
	entry, _ := data.Data["entry"].(map[string]any)
	id, _ = entry["id"].(string)
	return id, answer.ContextID, said.Text, nil
}

// a2aOldText is a message of one text, signed.
func a2aOldText(agent, text string) *a2a.Message {
	return a2a.NewMessage(a2a.MessageRoleUser, a2a.TextPart{Text: text}, a2a.DataPart{Data: map[string]any{"agent": agent}})
}

// a2aOldRejections runs every operation that this agent rejects, and says which of them
// was answered otherwise than the protocol wants.
func a2aOldRejections(ctx context.Context, c *a2aclient.Client) error {
	_, get := c.GetTask(ctx, &a2a.TaskQueryParams{ID: "t1"})
	_, cancel := c.CancelTask(ctx, &a2a.TaskIDParams{ID: "t1"})
	_, set := c.SetTaskPushConfig(ctx, &a2a.TaskPushConfig{TaskID: "t1", Config: a2a.PushConfig{URL: "https://a.example"}})
	_, read := c.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigParams{TaskID: "t1"})
	_, list := c.ListTaskPushConfig(ctx, &a2a.ListTaskPushConfigParams{TaskID: "t1"})
	remove := c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigParams{TaskID: "t1", ConfigID: "p1"})
	tasked := a2aOldText("ada", "A text for a task")
	tasked.TaskID = "t1"
	_, _, _, unknown := a2aOldSay(ctx, c, tasked)
	_, _, _, file := a2aOldSay(ctx, c, a2a.NewMessage(a2a.MessageRoleUser, a2a.FilePart{File: a2a.FileBytes{Bytes: "Ynl0ZXM="}}))
	_, _, _, short := a2aOldSay(ctx, c, a2aOldText("ada", "x"))
	var wrong []error
	// The client looks for events alone, and does not return the protocol's error.
	for event, err := range c.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: "t1"}) {
		if err == nil {
			wrong = append(wrong, fmt.Errorf("a subscription was taken: %+v", event))
		}
	}
	wrong = append(wrong, wrongAnswers([]a2aAnswer{
		{"get", get, a2a.ErrTaskNotFound},
		{"cancel", cancel, a2a.ErrTaskNotFound},
		{"set push", set, a2a.ErrPushNotificationNotSupported},
		{"get push", read, a2a.ErrPushNotificationNotSupported},
		{"list push", list, a2a.ErrPushNotificationNotSupported},
		{"delete push", remove, a2a.ErrPushNotificationNotSupported},
		{"unknown task", unknown, a2a.ErrTaskNotFound},
		{"file", file, a2a.ErrUnsupportedContentType},
		{"short text", short, a2a.ErrInvalidParams},
	})...)
	// The card says that this agent does not stream, and so the client sends it whole.
	for event, err := range c.SendStreamingMessage(ctx, &a2a.MessageSendParams{Message: a2aOldText("ada", "help")}) {
		if _, isMessage := event.(*a2a.Message); err != nil || !isMessage {
			wrong = append(wrong, fmt.Errorf("stream: %+v %w", event, err))
		}
	}
	return errors.Join(wrong...)
}

// a2aOldRun publishes in version 0.3, repeats over HTTP in the form that clients
// generated from the protocol's definition send, reads and is rejected until it is
// stopped.
func a2aOldRun(ctx context.Context, nd *nodetest.Node, client *a2aclient.Client, stop <-chan struct{}, published *atomic.Int64) error {
	agent := fmt.Sprintf("old-%d", nd.Index())
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		text := fmt.Sprintf("Message %d of %s", n, agent)
		m := a2aOldText(agent, text)
		id, thread, _, err := a2aOldSay(ctx, client, m)
		if err != nil || id == "" {
			return fmt.Errorf("%s: %q %w", agent, id, err)
		}
		published.Add(1)
		var again struct {
			Message struct{ ContextID string }
		}
		status, err := nd.PostJSON("/a2a/v1/message:send", json.RawMessage(fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER",
			"content":[{"text":%q},{"data":{"data":{"agent":%q}}}]}}`, m.ID, text, agent)), &again)
		if err != nil || status != http.StatusOK || again.Message.ContextID != thread {
			return fmt.Errorf("%s: again: %d %+v %w", agent, status, again, err)
		}
		for command, want := range map[string]string{
			"help": "search <words>", "latest": "The newest entries", "search " + agent: "[a2a] " + agent, "channels": "a2a (",
		} {
			if _, _, got, err := a2aOldSay(ctx, client, a2aOldText(agent, command)); err != nil || !strings.Contains(got, want) {
				return fmt.Errorf("%s: %s: %q %w", agent, command, got, err)
			}
		}
		if err := a2aOldRejections(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", agent, err)
		}
	}
}
