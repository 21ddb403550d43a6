package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/node/nodetest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

// a2aTransport is a way in which the A2A project's own client speaks.
type a2aTransport struct {
	name string
	use  func(*http.Client) a2aclient.FactoryOption
}

// a2aTransports are the bindings of version 1.0, and those of 0.3.
var a2aTransports = []a2aTransport{
	{"rpc", a2aclient.WithJSONRPCTransport},
	{"http", a2aclient.WithRESTTransport},
	{"rpc03", func(c *http.Client) a2aclient.FactoryOption {
		return a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: c})
	}},
	{"http03", func(c *http.Client) a2aclient.FactoryOption {
		return a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: c})
	}},
}

// a2aClient is the A2A project's own client of one node by one transport, as the
// node's card says.
func (c *testCluster) a2aClient(nd *nodetest.Node, transport a2aTransport) (*a2aclient.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(c.t.Context(), nd.URL())
	if err != nil {
		return nil, err
	}
	return a2aclient.NewFromCard(c.t.Context(), card, a2aclient.WithDefaultsDisabled(), transport.use(&http.Client{Timeout: nodetest.CallTimeout}))
}

// a2aSay sends one message and returns the entry's id that the answer's data holds,
// and its text.
func a2aSay(ctx context.Context, client *a2aclient.Client, m *a2a.Message) (id, text string, err error) {
	result, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
	if err != nil {
		return "", "", err
	}
	answer, isMessage := result.(*a2a.Message)
	if !isMessage || answer.Role != a2a.MessageRoleAgent || answer.ContextID == "" || len(answer.Parts) != 2 {
		return "", "", fmt.Errorf("the answer is %+v", result)
	}
	data, _ := answer.Parts[1].Data().(map[string]any)
	entry, _ := data["entry"].(map[string]any)
	id, _ = entry["id"].(string)
	return id, answer.Parts[0].Text(), nil
}

// a2aText is a message of one text, signed.
func a2aText(agent, text string) *a2a.Message {
	return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text), a2a.NewDataPart(map[string]any{"agent": agent}))
}

// a2aAnswer is the error that a call got, and the one that the protocol wants.
type a2aAnswer struct {
	name      string
	got, want error
}

// wrongAnswers returns an error for each answer that is another one than the protocol wants.
func wrongAnswers(answers []a2aAnswer) (wrong []error) {
	for _, a := range answers {
		if !errors.Is(a.got, a.want) {
			wrong = append(wrong, fmt.Errorf("%s: %w, want %w", a.name, a.got, a.want))
		}
	}
	return wrong
}

// a2aRejections runs every operation that this agent rejects, and says which of them
// was answered otherwise than the protocol wants.
func a2aRejections(ctx context.Context, c *a2aclient.Client, text string) error {
	_, get := c.GetTask(ctx, &a2a.GetTaskRequest{ID: "t1"})
	_, cancel := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "t1"})
	_, create := c.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: "t1", URL: "https://a.example"})
	_, read := c.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: "t1", ID: "p1"})
	_, list := c.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: "t1"})
	remove := c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: "t1", ID: "p1"})
	_, card := c.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	tasked := a2aText("ada", text)
	tasked.TaskID = "t1"
	_, _, unknown := a2aSay(ctx, c, tasked)
	_, _, file := a2aSay(ctx, c, a2a.NewMessage(a2a.MessageRoleUser, a2a.NewRawPart([]byte("bytes"))))
	_, _, short := a2aSay(ctx, c, a2aText("ada", "x"))
	wrong := wrongAnswers([]a2aAnswer{
		{"get", get, a2a.ErrTaskNotFound},
		{"cancel", cancel, a2a.ErrTaskNotFound},
		{"create push", create, a2a.ErrPushNotificationNotSupported},
		{"get push", read, a2a.ErrPushNotificationNotSupported},
		{"list push", list, a2a.ErrPushNotificationNotSupported},
		{"delete push", remove, a2a.ErrPushNotificationNotSupported},
		{"extended card", card, a2a.ErrExtendedCardNotConfigured}, // by the client itself, which reads the card
		{"unknown task", unknown, a2a.ErrTaskNotFound},
		{"file", file, a2a.ErrUnsupportedContentType},
		{"short text", short, a2a.ErrInvalidParams},
	})
	// The client itself knows no list by JSON-RPC of version 0.3.
	tasks, err := c.ListTasks(ctx, &a2a.ListTasksRequest{})
	if !errors.Is(err, a2a.ErrUnsupportedOperation) && (err != nil || len(tasks.Tasks) != 0) {
		wrong = append(wrong, fmt.Errorf("list tasks: %+v %w", tasks, err))
	}
	// The card says that this agent does not stream, and so the client sends it whole.
	for event, err := range c.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: a2aText("ada", "help")}) {
		if _, isMessage := event.(*a2a.Message); err != nil || !isMessage {
			wrong = append(wrong, fmt.Errorf("stream: %+v %w", event, err))
		}
	}
	return errors.Join(wrong...)
}

// TestA2AClientOfOthers runs every operation of the A2A project's own client by every binding of both versions.
func TestA2AClientOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, transport := range a2aTransports {
		t.Run(transport.name, func(t *testing.T) {
			client := must.Get(c.a2aClient(c.Nodes[0], transport))(t)
			check.Err(t, a2aRun(t.Context(), client, "agent-"+transport.name), nil, "run")
		})
	}
}

// a2aRun publishes, repeats, reads and is rejected.
func a2aRun(ctx context.Context, client *a2aclient.Client, agent string) error {
	m := a2aText(agent, "Message of "+agent)
	first, _, err := a2aSay(ctx, client, m)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if again, _, err := a2aSay(ctx, client, m); err != nil || again != first || first == "" {
		return fmt.Errorf("%q, then %q %w", first, again, err)
	}
	for text, want := range map[string]string{
		"help": "search <words>", "latest": "The newest entries", "search " + agent: "[a2a] " + agent, "channels": "a2a (",
	} {
		if _, got, err := a2aSay(ctx, client, a2aText(agent, text)); err != nil || !strings.Contains(got, want) {
			return fmt.Errorf("%s: %q %w", text, got, err)
		}
	}
	return a2aRejections(ctx, client, m.Parts[0].Text())
}
