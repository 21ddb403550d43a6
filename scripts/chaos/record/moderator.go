package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// moderators is how many moderators hide, show and block, and let an operator purge. Each works only with
// entries that were published for it, in one sequence of calls at all nodes. Each call
// has the index of the calls before, so every answer must show all earlier changes.
const moderators = 2

// Actions of moderators, as recorded in Status.
const (
	DoHide   = "hide"
	DoUnhide = "unhide"
	DoPurge  = "purge"
	DoBlock  = "block"
	DoUndo   = "undo" // of a block
)

// moderator works with one entry at a time.
type moderator struct {
	*Crowd
	name   string
	random *rand.Rand
	token  http.Header
	n      int

	subject Call // the entry, if it has an id
	hidden  bool // the intended state after the last call
	rule    float64
	index   uint64
}

func (w *Crowd) moderate(ctx context.Context, i int, token string) {
	m := &moderator{
		Crowd: w, name: fmt.Sprintf("moderator-%d", i), random: rand.New(rand.NewPCG(w.Seed, uint64(1000+i))),
		token: http.Header{"Authorization": {"Bearer " + token}},
	}
	for ctx.Err() == nil {
		m.n++
		switch p := m.random.IntN(100); {
		case m.subject.ID == "":
			m.publish(ctx)
		case p < 30:
			m.hide(ctx)
		case p < 35:
			m.purge(ctx)
			m.subject = Call{}
		case p < 45:
			m.block(ctx)
		case p < 60:
			m.try(ctx)
		default:
			m.look(ctx)
		}
		harness.Pause(ctx, w.Pause)
	}
}

// publish publishes the entry that is moderated next.
func (m *moderator) publish(ctx context.Context) {
	c := Call{Kind: Subject, Agent: m.name + "-author", Text: fmt.Sprintf("moderated%dx%d", m.n, m.random.Uint64())}
	m.do(ctx, &c, request{http.MethodPost, "/api/entries", map[string]any{"agent": c.Agent, "body": c.Text}, http.Header{}})
	if c.Outcome == Done {
		m.subject, m.hidden = c, false
	}
}

// do makes a call at any node and records it.
func (m *moderator) do(ctx context.Context, c *Call, r request) map[string]any {
	c.Client, c.Surface, c.MinIndex = m.name, "http", m.index
	answer := m.Client.do(ctx, c, m.Nodes[m.random.IntN(len(m.Nodes))], r)
	m.index = max(m.index, c.Index)
	return answer
}

// act makes a call of moderation.
func (m *moderator) act(ctx context.Context, action string, fields map[string]any) map[string]any {
	c := Call{Kind: Moderated, Agent: m.name, Status: action, Expect: m.subject.ID}
	if action == DoBlock || action == DoUndo {
		c.Expect = m.blocked()
	}
	answer := m.do(ctx, &c, request{http.MethodPost, "/api/moderation/" + action, fields, m.token})
	if c.Outcome != Done {
		return nil
	}
	return answer
}

func (m *moderator) hide(ctx context.Context) {
	m.hidden = !m.hidden
	action := DoUnhide
	if m.hidden {
		action = DoHide
	}
	m.act(ctx, action, map[string]any{"ids": []string{m.subject.ID}, "reason": "chaos"})
	m.look(ctx)
}

// purge lets an operator purge the entry. The answer has no index, so the node that is asked next
// reads what the leader has committed.
func (m *moderator) purge(ctx context.Context) {
	c := Call{Client: m.name, Surface: "private", Kind: Moderated, Agent: m.name, Status: DoPurge, Expect: m.subject.ID, Outcome: Done}
	c.Begin = time.Since(m.Client.start)
	if err := m.Purge(m.subject.ID); err != nil {
		c.Outcome, c.Error = Unknown, err.Error()
	}
	c.End = time.Since(m.Client.start)
	m.Client.history.add(&c)
	m.peek(ctx, "/api/entries/"+m.subject.ID+"?consistency=strong")
}

// blocked is the name that the moderator blocks.
func (m *moderator) blocked() string { return m.name + "-blocked" }

func (m *moderator) block(ctx context.Context) {
	if m.rule != 0 && m.random.IntN(2) == 0 {
		if m.act(ctx, DoUndo, map[string]any{"number": m.rule}) != nil {
			m.rule = 0
		}
	} else if rule, _ := m.act(ctx, DoBlock, map[string]any{"agent": m.blocked(), "for": "24h", "reason": "chaos"})["number"].(float64); rule != 0 {
		m.rule = rule
	}
	m.try(ctx)
}

// try writes under the name that may be blocked.
func (m *moderator) try(ctx context.Context) {
	c := Call{Kind: Attempt, Agent: m.blocked(), Expect: m.blocked(), Text: fmt.Sprintf("attempt %d of %s", m.n, m.name)}
	m.do(ctx, &c, request{http.MethodPost, "/api/entries", map[string]any{"agent": c.Agent, "body": c.Text}, http.Header{}})
}

// look asks a node for the entry in one of several ways.
func (m *moderator) look(ctx context.Context) {
	paths := []string{
		"/api/entries/" + m.subject.ID, "/api/entries?agent=" + m.subject.Agent + "&limit=100",
		"/api/entries?q=" + url.QueryEscape(m.subject.Text), "/api/entries?limit=100&thread=" + m.subject.ID,
	}
	m.peek(ctx, paths[m.random.IntN(len(paths))])
}

// peek reads the entry at a path.
func (m *moderator) peek(ctx context.Context, path string) {
	c := Call{Kind: Peek, Agent: m.name, Expect: m.subject.ID, Text: m.subject.Text}
	m.do(ctx, &c, request{http.MethodGet, path, nil, http.Header{}})
}
