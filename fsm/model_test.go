package fsm

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// model is the state machine again, in the plainest way: everything in slices
// and maps, every question answered by looking at everything.
type model struct {
	now      int64
	entries  []modelEntry
	requests map[command.RequestKey]uint64
	sessions map[command.BootID]*modelSession
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
			if p, ok := c.Payload.(*command.Publish); ok {
				r = m.publish(*p)
			}
			s.answers[c.Seq] = r
		}
	}
}

func (m *model) publish(p command.Publish) command.Result {
	if seq, ok := m.requests[p.Request]; ok {
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: seq}
	}
	e := modelEntry{p: p, seq: uint64(len(m.entries)) + 1, at: m.now, channel: p.Channel}
	e.root = e.seq
	if p.Relation != command.RelationNone {
		i := slices.IndexFunc(m.entries, func(o modelEntry) bool { return EntryID(o.seq) == p.Target })
		if i < 0 {
			return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownTarget}}
		}
		target := m.entries[i]
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
func (m *model) list(q Query) (seqs []uint64, next uint64) {
	limit := q.Limit
	if limit == 0 {
		limit = command.DefaultList
	}
	for _, e := range slices.Backward(m.entries) {
		if !m.matches(e, q) {
			continue
		}
		if len(seqs) == limit {
			return seqs, seqs[limit-1]
		}
		seqs = append(seqs, e.seq)
	}
	return seqs, 0
}

func (m *model) matches(e modelEntry, q Query) bool {
	switch {
	case q.Before > 0 && e.seq >= q.Before,
		q.Since >= 0 && e.at <= q.Since,
		q.Kind != 0 && e.p.Kind != q.Kind,
		q.Channel != "" && e.channel != q.Channel,
		q.AgentKey != "" && e.p.AgentKey != q.AgentKey,
		q.ForKey != "" && !slices.Contains(e.inbox, q.ForKey),
		q.TagKey != "" && !slices.ContainsFunc(e.p.Tags, func(t string) bool { return text.FoldTag(t) == q.TagKey }),
		q.ReplyTo != 0 && (e.parent != q.ReplyTo || e.p.Relation != command.RelationReply):
		return false
	}
	if q.Thread != 0 && (q.Thread > uint64(len(m.entries)) || e.root != m.entries[q.Thread-1].root) {
		return false
	}
	if q.Q == "" {
		return true
	}
	words, prefix := text.QueryWords(q.Q)
	for _, w := range words {
		if !slices.Contains(e.words, w) {
			return false
		}
	}
	if prefix == "" {
		return len(words) > 0
	}
	return slices.ContainsFunc(e.words, func(w string) bool { return strings.HasPrefix(w, prefix) })
}
