package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/commons-cluster/commons/scripts/harness"
)

// moderators is how many moderators hide, show, purge and block. Each works only with
// entries that were published for it, in one sequence of calls at all nodes. Each call
// has the index of the calls before, so every answer must show all earlier changes.
const moderators = 2

// How a moderator's calls are divided, out of a hundred; the rest are reads.
const (
	partHide  = 30 // or unhide
	partPurge = 35
	partBlock = 45 // or lift
	partTry   = 60 // to write under the name that may be blocked
)

// What moderators do, as recorded in Status.
const (
	doHide   = "hide"
	doUnhide = "unhide"
	doPurge  = "purge"
	doBlock  = "block"
	doLift   = "lift"
)

// moderator works with one entry at a time.
type moderator struct {
	*crowd
	name   string
	random *rand.Rand
	token  http.Header
	n      int

	subject call // the entry, if it has an id
	hidden  bool // what the last call was meant to make it
	rule    float64
	index   uint64
}

func (w *crowd) moderate(ctx context.Context, i int, token string) {
	m := &moderator{
		crowd: w, name: fmt.Sprintf("%smoderator-%d", w.prefix, i), random: rand.New(rand.NewPCG(w.seed, uint64(1000+i))),
		token: http.Header{"Authorization": {"Bearer " + token}},
	}
	for ctx.Err() == nil {
		m.n++
		switch p := m.random.IntN(100); {
		case m.subject.ID == "":
			m.publish(ctx)
		case p < partHide:
			m.hide(ctx)
		case p < partPurge:
			m.act(ctx, doPurge, map[string]any{"ids": []string{m.subject.ID}, "reason": "chaos"})
			m.look(ctx)
			m.subject = call{}
		case p < partBlock:
			m.block(ctx)
		case p < partTry:
			m.try(ctx)
		default:
			m.look(ctx)
		}
		rest(ctx, w.pause)
	}
}

func (m *moderator) node() *harness.Node { return m.nodes[m.random.IntN(len(m.nodes))] }

// publish publishes the entry that is moderated next.
func (m *moderator) publish(ctx context.Context) {
	c := call{Kind: subject, Agent: m.name + "-author", Text: fmt.Sprintf("moderated%dx%d", m.n, m.random.Uint64())}
	m.do(ctx, &c, request{http.MethodPost, "/api/entries", map[string]any{"agent": c.Agent, "body": c.Text}, http.Header{}})
	if c.Outcome == done {
		m.subject, m.hidden = c, false
	}
}

// do makes a call and records it.
func (m *moderator) do(ctx context.Context, c *call, r request) map[string]any {
	c.Client, c.Surface, c.MinIndex = m.name, "http", m.index
	answer := m.client.shown(ctx, c, m.node(), r)
	m.index = max(m.index, c.Index)
	return answer
}

// act makes a call of moderation.
func (m *moderator) act(ctx context.Context, action string, fields map[string]any) map[string]any {
	c := call{Kind: moderated, Agent: m.name, Status: action, Expect: m.subject.ID}
	if action == doBlock || action == doLift {
		c.Expect = m.blocked()
	}
	answer := m.do(ctx, &c, request{http.MethodPost, "/api/moderation/" + action, fields, m.token})
	if c.Outcome != done {
		return nil
	}
	return answer
}

func (m *moderator) hide(ctx context.Context) {
	m.hidden = !m.hidden
	action := doUnhide
	if m.hidden {
		action = doHide
	}
	m.act(ctx, action, map[string]any{"ids": []string{m.subject.ID}, "reason": "chaos"})
	m.look(ctx)
}

// blocked is the name that the moderator blocks.
func (m *moderator) blocked() string { return m.name + "-blocked" }

func (m *moderator) block(ctx context.Context) {
	if m.rule != 0 && m.random.IntN(2) == 0 {
		if m.act(ctx, doLift, map[string]any{"number": m.rule}) != nil {
			m.rule = 0
		}
	} else if rule, _ := m.act(ctx, doBlock, map[string]any{"agent": m.blocked(), "for": "24h", "reason": "chaos"})["number"].(float64); rule != 0 {
		m.rule = rule
	}
	m.try(ctx)
}

// try writes under the name that may be blocked.
func (m *moderator) try(ctx context.Context) {
	c := call{Kind: attempt, Agent: m.blocked(), Expect: m.blocked(), Text: fmt.Sprintf("attempt %d of %s", m.n, m.name)}
	m.do(ctx, &c, request{http.MethodPost, "/api/entries", map[string]any{"agent": c.Agent, "body": c.Text}, http.Header{}})
}

// look asks a node for the entry in one of several ways.
func (m *moderator) look(ctx context.Context) {
	paths := []string{
		"/api/entries/" + m.subject.ID, "/api/entries?agent=" + m.subject.Agent + "&limit=100",
		"/api/entries?q=" + url.QueryEscape(m.subject.Text), "/api/entries?limit=100&thread=" + m.subject.ID,
	}
	c := call{Kind: peek, Agent: m.name, Expect: m.subject.ID, Text: m.subject.Text}
	m.do(ctx, &c, request{http.MethodGet, paths[m.random.IntN(len(paths))], nil, http.Header{}})
}

// shown is like do, and notes whether the call's text is in the answer.
func (cl *client) shown(ctx context.Context, c *call, node *harness.Node, r request) map[string]any {
	c.Node, c.Begin = node.Name, time.Since(cl.start)
	answer := cl.send(context.WithoutCancel(ctx), c, node.URL, r)
	c.End = time.Since(cl.start)
	if data, err := json.Marshal(answer); err == nil && c.Text != "" {
		c.Shown = strings.Contains(string(data), c.Text)
	}
	cl.history.add(c)
	return answer
}

// standing is what moderators have made of an entry or a name.
type standing struct{ hidden, purged, blocked bool }

// moderation is the model of one entry or name that a moderator works with.
var moderation = porcupine.Model{
	Init:  func() any { return standing{} },
	Step:  func(state, _, output any) (bool, any) { return state.(standing).step(output.(*call)) },
	Equal: func(a, b any) bool { return a == b },
}

func (s standing) step(c *call) (bool, standing) {
	switch c.Kind {
	case peek:
		return c.Shown != (s.hidden || s.purged), s
	case attempt:
		return c.Outcome == unknown || s.blocked == (c.Outcome == rejected && c.Code == "blocked"), s
	}
	if c.Outcome == rejected {
		return true, s // such as lifting a rule that an earlier call has lifted
	}
	switch c.Status {
	case doHide:
		s.hidden = true
	case doUnhide:
		s.hidden = false
	case doPurge:
		s.purged = true
	case doBlock, doLift:
		s.blocked = c.Status == doBlock
	}
	return true, s
}

// checkModerated: what was hidden or purged is visible at no node once the command has
// returned, also at the end, and is visible again after it was shown; no write under a
// blocked name succeeds.
func checkModerated(v *verdict, calls []call, f *final) {
	groups := grouped(calls, func(c *call) string {
		switch {
		case c.Outcome == failed, c.Kind == peek && c.Outcome != done:
			return ""
		case c.Kind == moderated, c.Kind == peek, c.Kind == attempt:
			return c.Expect
		}
		return ""
	})
	end := time.Duration(0)
	for i := range calls {
		end = max(end, calls[i].End)
	}
	for i := range calls {
		c := &calls[i]
		if c.Kind != subject || c.Outcome != done || len(groups[c.ID]) == 0 {
			continue
		}
		for node, entries := range f.entries {
			last := call{Client: node, Node: node, Kind: peek, Outcome: done, Expect: c.ID, Text: c.Text, Begin: end + 1, End: end + 2}
			for _, e := range entries {
				last.Shown = last.Shown || e.Body == c.Text
			}
			groups[c.ID] = append(groups[c.ID], last)
		}
	}
	decide(v, moderation, groups)
}

// moderatedIDs are the ids of what moderators work with.
func moderatedIDs(calls []call) map[string]bool {
	ids := map[string]bool{}
	for i := range calls {
		if c := &calls[i]; c.Kind == subject && c.ID != "" {
			ids[c.ID] = true
		}
	}
	return ids
}
