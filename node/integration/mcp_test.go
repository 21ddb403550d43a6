package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/nodetest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient is a client of one node that the protocol's own library made.
type mcpClient struct {
	session *mcp.ClientSession
	agent   string
	used    map[string]bool // the tools that were called
}

// mcpConnect connects to a node.
func mcpConnect(ctx context.Context, nd *nodetest.Node, agent string) (*mcpClient, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: agent, Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: nd.URL() + "/mcp", HTTPClient: &http.Client{Timeout: nodetest.CallTimeout}, MaxRetries: -1,
	}, nil)
	return &mcpClient{session, agent, map[string]bool{}}, err
}

// use calls a tool and returns its text and, in answer, its structured content.
func (c *mcpClient) use(ctx context.Context, tool string, arguments map[string]any, answer any) (text string, err error) {
	c.used[tool] = true
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	if len(result.Content) == 1 {
		if content, isText := result.Content[0].(*mcp.TextContent); isText {
			text = content.Text
		}
	}
	if result.IsError || text == "" {
		return text, fmt.Errorf("%s %v: %q", tool, arguments, text)
	}
	if answer == nil {
		return text, nil
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return text, err
	}
	return text, json.Unmarshal(data, answer)
}

// mcpEntry is the answer to a write.
type mcpEntry struct {
	Entry, Job, Request struct{ ID string }
	Duplicate           bool
	EditKey             string `json:"edit_key"`
}

// mcpStep is a call of a round.
type mcpStep struct {
	tool      string
	arguments map[string]any
	says      string
}

// round calls every tool once or more, writes entries and repeats one of them. It
// returns how many entries it wrote.
func (c *mcpClient) round(ctx context.Context, n int) (wrote int64, err error) {
	type args = map[string]any
	key := fmt.Sprintf("%s-key-%d", c.agent, n)
	var first, again, job, closed mcpEntry
	message := args{"agent": c.agent, "body": fmt.Sprintf("Question %d of %s?", n, c.agent), "request_id": key}
	if _, err := c.use(ctx, "publish_message", message, &first); err != nil {
		return 0, err
	}
	if _, err := c.use(ctx, "publish_message", message, &again); err != nil || !again.Duplicate || again.Entry.ID != first.Entry.ID {
		return 0, fmt.Errorf("%s: %+v, then %+v %w", c.agent, first, again, err)
	}
	if _, err := c.use(ctx, "post_job", args{"agent": c.agent, "title": fmt.Sprintf("Job %d", n), "body": "To be done", "request_id": key}, &job); err != nil {
		return 0, err
	}
	if _, err := c.use(ctx, "post_job", args{"agent": c.agent, "title": fmt.Sprintf("Another job %d", n), "body": "Not to be done"}, &closed); err != nil {
		return 0, err
	}
	other, id := c.agent+"-too", job.Job.ID
	for _, step := range []mcpStep{
		{"get_entry", args{"id": first.Entry.ID}, "Question"},
		{"publish_message", args{"agent": other, "body": "An answer", "reply_to": first.Entry.ID}, "Published"},
		{"get_thread", args{"thread": first.Entry.ID}, "An answer"},
		{"publish_knowledge", args{"agent": c.agent, "body": fmt.Sprintf("Fact %d", n)}, "knowledge"},
		{"request_feature", args{"agent": c.agent, "body": fmt.Sprintf("Wish %d", n)}, "feature request"},
		{"request_human_help", args{"agent": c.agent, "goal": "Look outside", "requested_action": "Say what you see."}, "Asked"},
		{"list_human_requests", args{"agent": c.agent}, "Look outside"},
		{"home", args{"for": c.agent, "since": 0}, "For you"},
		{"get_job", args{"id": id}, "is open"},
		{"claim_job", args{"agent": other, "job_id": id}, "is claimed by " + other},
		{"release_job", args{"agent": other, "job_id": id}, "is open"},
		{"claim_job", args{"agent": other, "job_id": id, "note": "Again"}, "is claimed by " + other},
		{"submit_job_result", args{"agent": other, "job_id": id, "result": "Here it is."}, "is done"},
		{"close_job", args{"agent": c.agent, "job_id": closed.Job.ID}, "is closed"},
		{"list_jobs", args{"status": "all"}, "Job"},
		{"read_entries", args{"agent": c.agent, "limit": 3}, c.agent},
		{"list_channels", args{}, "general ("},
		{"list_agents", args{"q": c.agent}, c.agent},
		{"get_agent", args{"id": c.agent}, "Round"},
		{"stats", args{}, "registered"},
		{"usage", args{}, "calls"},
	} {
		if text, err := c.use(ctx, step.tool, step.arguments, nil); err != nil || !strings.Contains(text, step.says) {
			return 0, fmt.Errorf("%s: %s: %q %w", c.agent, step.tool, text, err)
		}
	}
	// A message, two jobs, an answer, a fact, a wish, a request, two claims, a result.
	const written = 10
	return written, nil
}

// run registers and goes round until it is stopped, and then calls what remains.
func (c *mcpClient) run(ctx context.Context, stop <-chan struct{}, wrote *atomic.Int64) error {
	profile := map[string]any{"id": c.agent, "description": "Goes round.", "note": "Round 0", "request_id": c.agent + "-register"}
	var registered mcpEntry
	if _, err := c.use(ctx, "register_agent", profile, &registered); err != nil || registered.EditKey == "" {
		return fmt.Errorf("%s: %+v %w", c.agent, registered, err)
	}
	mine := map[string]any{"id": c.agent, "edit_key": registered.EditKey}
	if text, err := c.use(ctx, "list_deliveries", mine, nil); err != nil {
		return fmt.Errorf("%s: %q %w", c.agent, text, err)
	}
	seen := map[string]any{"agent": c.agent, "ids": []string{"e1"}, "edit_key": registered.EditKey}
	if text, err := c.use(ctx, "mark_seen", seen, nil); err != nil || !strings.Contains(text, "Put aside") {
		return fmt.Errorf("%s: %q %w", c.agent, text, err)
	}
	if text, err := c.use(ctx, "test_delivery", mine, nil); err == nil || !strings.Contains(text, "notify_url") {
		return fmt.Errorf("%s: pushed to nobody: %q", c.agent, text)
	}
	for n := 0; ; n++ {
		written, err := c.round(ctx, n)
		if err != nil {
			return err
		}
		wrote.Add(written)
		select {
		case <-stop:
		default:
			continue
		}
		report := map[string]any{"entry_id": "e1", "reason": "spam", "text": "Said twice.", "agent": c.agent, "edit_key": registered.EditKey}
		if text, err := c.use(ctx, "report_entry", report, nil); err != nil || !strings.Contains(text, "open") {
			return fmt.Errorf("%s: %q %w", c.agent, text, err)
		}
		list, err := c.session.ListTools(ctx, nil)
		if err != nil {
			return fmt.Errorf("%s: list the tools: %w", c.agent, err)
		}
		for _, tool := range list.Tools {
			if !c.used[tool.Name] {
				return fmt.Errorf("%s: %s was not called", c.agent, tool.Name)
			}
		}
		read, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "commons://entries/latest"})
		if err != nil || !strings.Contains(read.Contents[0].Text, "agent-") { // of which client the newest are is open
			return fmt.Errorf("%s: %+v %w", c.agent, read, err)
		}
		return c.session.Close()
	}
}

// TestMCPClientOfOthers calls every tool with the protocol's own client while the
// leader is killed: calls through a node that lives never fail, and no entry is written
// twice.
func TestMCPClientOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.WaitLeader()
	var wrote atomic.Int64
	stop := make(chan struct{})
	const clients = 4 // two at each node that stays
	failed := make(chan error, clients)
	for _, nd := range c.Nodes {
		if nd.Index() == leader {
			continue
		}
		for i := range clients / 2 {
			client := must.Get(mcpConnect(t.Context(), nd, fmt.Sprintf("agent-%d-%d", nd.Index(), i)))(t)
			go func() { failed <- client.run(t.Context(), stop, &wrote) }()
		}
	}
	c.killUnder(leader, &wrote, 50)
	close(stop)
	for range clients {
		check.Err(t, <-failed, nil, "failed")
	}
	c.Start(leader)
	c.WaitConverged()
	for i := range c.Nodes {
		if entries := c.All(i, client.EntryQuery{}); len(entries) != int(wrote.Load()) {
			t.Errorf("node %d holds %d entries, want %d", i, len(entries), wrote.Load())
		}
	}
}
