package fsm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// model is the state machine again, in the plainest way: everything in slices
// and maps, every question answered by looking at everything.
type model struct {
	now      int64
	entries  []modelEntry
	requests map[command.RequestKey]uint64
	sessions map[command.BootID]*modelSession
	recorded uint64
	rules    []modelRule
	revision uint64 // of the policy
}

type modelEntry struct {
	p       command.Publish
	seq     uint64
	at      int64
	channel string
	parent  uint64
	root    uint64
	inbox   []string
	words   []string
	hidden  bool
	order   uint64 // that hides it
}

type modelRule struct {
	kind    command.RuleKind
	subject string
	number  uint64
	until   int64
}

type modelSession struct {
	groups  []command.Group // all that came
	answers map[uint64]command.Result
}

// mayCome reports whether no group has declared that the command was answered.
func (s *modelSession) mayCome(seq uint64) bool {
	return !slices.ContainsFunc(s.groups, func(g command.Group) bool { return seq < g.Floor && !slices.Contains(g.Open, seq) })
}

func newModel() *model {
	return &model{requests: map[command.RequestKey]uint64{}, sessions: map[command.BootID]*modelSession{}}
}

func (m *model) apply(b command.Batch) {
	m.now = max(b.Stamp, m.now+1)
	m.rules = slices.DeleteFunc(m.rules, func(r modelRule) bool { return r.until <= m.now })
	for _, g := range b.Groups {
		s := m.sessions[g.Boot]
		if s == nil {
			s = &modelSession{answers: map[uint64]command.Result{}}
			m.sessions[g.Boot] = s
		}
		s.groups = append(s.groups, g)
		for _, c := range g.Commands {
			if _, known := s.answers[c.Seq]; known || !s.mayCome(c.Seq) {
				continue
			}
			r := command.Result{Outcome: command.OutcomeDone}
			switch p := c.Payload.(type) {
			case *command.Publish:
				r = m.publish(*p)
			case *command.Hide:
				r = m.hide(p)
			case *command.SetRule:
				r = m.set(p)
			case *command.LiftRule:
				r = m.lift(p)
			}
			s.answers[c.Seq] = r
		}
	}
}

func (m *model) hide(c *command.Hide) command.Result {
	changed := false
	for i := range m.entries {
		e := &m.entries[i]
		if e.hidden != c.Unhide || !slices.Contains(c.IDs, state.EntryID(e.seq)) || c.Unhide && c.Of != 0 && c.Of != e.order {
			continue
		}
		e.hidden, e.order, changed = !c.Unhide, cmp.Or(c.Of, m.recorded+1), true
	}
	if !changed {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	m.recorded++
	return command.Result{Outcome: command.OutcomeDone, Entry: m.recorded}
}

// set knows rules of names and of networks.
func (m *model) set(c *command.SetRule) command.Result {
	m.recorded++
	m.rules = slices.DeleteFunc(m.rules, func(r modelRule) bool { return r.kind == c.Kind && r.subject == c.Subject })
	m.rules = append(m.rules, modelRule{c.Kind, c.Subject, m.recorded, m.now + c.For})
	if c.Kind == command.RuleNetwork {
		m.revision = m.recorded
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: m.recorded}
}

func (m *model) lift(c *command.LiftRule) command.Result {
	i := slices.IndexFunc(m.rules, func(r modelRule) bool { return r.number == c.Number })
	if i < 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownRule}}
	}
	m.recorded++
	if m.rules[i].kind == command.RuleNetwork {
		m.revision = m.recorded
	}
	m.rules = slices.Delete(m.rules, i, i+1)
	return command.Result{Outcome: command.OutcomeDone, Entry: m.recorded}
}

func (m *model) publish(p command.Publish) command.Result {
	if seq, ok := m.requests[p.Request]; ok {
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: seq}
	}
	if p.Proof.Policy != m.revision {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemOldPolicy}}
	}
	for _, r := range m.rules {
		if r.kind == command.RuleName && r.subject == p.AgentKey {
			return command.Result{Outcome: command.OutcomeRejected, Entry: r.number, Problems: []command.Problem{command.ProblemBlocked}}
		}
	}
	e := modelEntry{p: p, seq: uint64(len(m.entries)) + 1, at: m.now, channel: p.Channel}
	e.root = e.seq
	if p.Relation != command.RelationNone {
		i := slices.IndexFunc(m.entries, func(o modelEntry) bool { return state.EntryID(o.seq) == p.Target })
		if i < 0 {
			return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownTarget}}
		}
		target := m.entries[i]
		if target.hidden {
			return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemHidden}}
		}
		if p.Relation == command.RelationRetraction && target.p.AgentKey != p.AgentKey {
			return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemRetractionOther}}
		}
		if p.Relation == command.RelationRetraction && p.AgentKey == command.AnonymousName { // from nowhere
			return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemRetractionAnonymous}}
		}
		e.parent, e.root = target.seq, target.root
		if e.channel == "" {
			e.channel = target.channel
		}
		if target.p.AgentKey != p.AgentKey {
			e.inbox = append(e.inbox, target.p.AgentKey)
		}
	}
	if e.channel == "" {
		e.channel = map[command.Kind]string{command.KindMessage: "general", command.KindKnowledge: "knowledge", command.KindFeatureRequest: "wants"}[p.Kind]
	}
	for _, name := range p.Mentions {
		if name != p.AgentKey {
			e.inbox = append(e.inbox, name)
		}
	}
	for _, s := range append([]string{p.Title, p.Body}, p.Tags...) {
		e.words = text.Words(e.words, s)
	}
	m.entries = append(m.entries, e)
	if p.Request != (command.RequestKey{}) {
		m.requests[p.Request] = e.seq
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: e.seq}
}

// list answers a query.
func (m *model) list(q view.Query) (seqs []uint64, next uint64) {
	limit := q.Limit
	if limit == 0 {
		limit = command.DefaultList
	}
	if q.AnyWord {
		return m.rank(q, limit), 0
	}
	for _, e := range slices.Backward(m.entries) {
		if !m.matches(e, q) || !m.hasText(e, q.Q) {
			continue
		}
		if len(seqs) == limit {
			return seqs, seqs[limit-1]
		}
		seqs = append(seqs, e.seq)
	}
	return seqs, 0
}

// rank answers a query for entries with any of the words.
func (m *model) rank(q view.Query, limit int) (seqs []uint64) {
	found := map[uint64]int{}
	p := text.ParseQuery(q.Q)
	for _, e := range slices.Backward(m.entries) {
		if !m.matches(e, q) || slices.ContainsFunc(p.Not, e.hasAll) {
			continue
		}
		for _, w := range p.Words {
			if e.hasAll([]string{w}) {
				found[e.seq]++
			}
		}
		if p.Prefix != "" && e.hasPrefix(p.Prefix) {
			found[e.seq]++
		}
		if found[e.seq] > 0 {
			seqs = append(seqs, e.seq)
		}
	}
	slices.SortStableFunc(seqs, func(a, b uint64) int { return found[b] - found[a] })
	return seqs[:min(len(seqs), limit)]
}

func (e *modelEntry) hasAll(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(e.words, w) })
}

func (e *modelEntry) hasPrefix(prefix string) bool {
	return slices.ContainsFunc(e.words, func(w string) bool { return strings.HasPrefix(w, prefix) })
}

// hasText reports whether an entry matches a search text. It finds phrases of words with
// spaces between them.
func (m *model) hasText(e modelEntry, q string) bool {
	if q == "" {
		return true
	}
	p := text.ParseQuery(q)
	for _, phrase := range p.Phrases {
		within := func(s string) bool {
			return strings.Contains(" "+strings.Join(text.Sequence(s), " ")+" ", " "+strings.Join(phrase, " ")+" ")
		}
		if !slices.ContainsFunc(append([]string{e.p.Title, e.p.Body}, e.p.Tags...), within) {
			return false
		}
	}
	return len(p.Words)+len(p.Not)+len(p.Prefix) > 0 &&
		e.hasAll(p.Words) && !slices.ContainsFunc(p.Not, e.hasAll) && (p.Prefix == "" || e.hasPrefix(p.Prefix))
}

// oneOf reports whether a value is one of those that a query asks for.
func oneOf(asked, value string) bool { return slices.Contains(strings.Split(asked, view.Or), value) }

// matches reports whether an entry meets the conditions of a query other than the text.
func (m *model) matches(e modelEntry, q view.Query) bool {
	since := q.Since
	if since < -1 {
		since = max(0, m.now+since)
	}
	switch {
	case e.hidden && (q.Thread == 0 || q.Kind+q.AgentKey+q.ForKey+q.TagKey+q.Q != ""),
		q.Before > 0 && e.seq >= q.Before,
		since >= 0 && e.at <= since,
		q.Kind != "" && !oneOf(q.Kind, e.p.Kind.String()),
		q.Channel != "" && !oneOf(q.Channel, e.channel),
		q.AgentKey != "" && !oneOf(q.AgentKey, e.p.AgentKey),
		q.ForKey != "" && !slices.Contains(e.inbox, q.ForKey),
		q.TagKey != "" && !slices.ContainsFunc(e.p.Tags, func(t string) bool { return oneOf(q.TagKey, text.FoldTag(t)) }),
		q.ReplyTo != 0 && (e.parent != q.ReplyTo || e.p.Relation != command.RelationReply):
		return false
	}
	return q.Thread == 0 || q.Thread <= uint64(len(m.entries)) && e.root == m.entries[q.Thread-1].root
}
