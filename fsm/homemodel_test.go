package fsm

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
)

// homeModel answers what Home answers by looking at everything.
type homeModel struct {
	now     int64
	entries []homeFact
}

// homeFact is an entry as the model knows it.
type homeFact struct {
	Meta
	agent    string
	tags     []string
	mentions []string
	question bool
	job      Job
}

// factsOf reads back what the machine filed; what it does not hold comes from the
// commands that filed it.
func factsOf(t tester, v *View, filed map[uint64]*command.Publish) *homeModel {
	t.Helper()
	m := &homeModel{now: v.Time()}
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		meta, ok, err := v.Meta(seq)
		if err != nil || !ok {
			t.Fatalf("entry %d: %v", seq, err)
		}
		doc, _ := readEntry(t, v, seq)
		f := homeFact{Meta: meta, agent: doc.Agent, tags: doc.Tags}
		if p := filed[seq]; p != nil {
			f.mentions, f.question = p.Mentions, p.Question && p.Kind == command.KindMessage
		}
		if f.job, _, err = v.Job(seq); err != nil {
			t.Fatal(err)
		}
		m.entries = append(m.entries, f)
	}
	return m
}

func (m *homeModel) at(seq uint64) homeFact { return m.entries[seq-1] }

// why says for what reason an entry concerns an agent; 0 when it does not.
func (m *homeModel) why(e homeFact, agent string) Reason {
	switch {
	case e.AgentKey == agent:
		return 0
	case e.Parent != 0 && m.at(e.Parent).AgentKey == agent:
		return ReasonReply
	case slices.Contains(e.mentions, agent):
		return ReasonMention
	}
	return 0
}

func (m *homeModel) related(seq uint64, f func(e homeFact) bool) bool {
	return slices.ContainsFunc(m.entries, func(e homeFact) bool { return e.Parent == seq && f(e) })
}

// waits reports a question or a request for help that nobody else has answered.
func (m *homeModel) waits(e homeFact) bool {
	return (e.question || e.Type == TypeHelp) && !m.related(e.Seq, func(r homeFact) bool {
		return r.Relation == command.RelationRetraction || r.Relation == command.RelationReply && r.AgentKey != e.AgentKey
	})
}

// pick returns the seqs of the newest limit entries that fit.
func (m *homeModel) pick(limit int, fits func(e homeFact) bool) (seqs []uint64) {
	for _, e := range slices.Backward(m.entries) {
		if len(seqs) < limit && fits(e) {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

func (m *homeModel) home(agent string, since int64) *Home {
	day := (24 * time.Hour).Milliseconds()
	h := &Home{Now: m.now}
	for _, e := range m.entries {
		why := m.why(e, agent)
		if why == 0 || e.CreatedAt <= since {
			continue
		}
		if n := len(h.ForYou); n >= command.MaxForYou && m.at(h.ForYou[n-1].Seq).CreatedAt != e.CreatedAt {
			h.More, h.Now = true, m.at(h.ForYou[n-1].Seq).CreatedAt
			break
		}
		h.ForYou = append(h.ForYou, InboxItem{e.Seq, why})
	}
	for _, seq := range m.pick(command.MaxOwed, func(e homeFact) bool {
		return m.why(e, agent) != 0 && e.CreatedAt > m.now-90*day && !m.related(e.Seq, func(r homeFact) bool {
			return r.AgentKey == agent || r.Relation == command.RelationRetraction
		})
	}) {
		h.OwedByYou = append(h.OwedByYou, InboxItem{seq, m.why(m.at(seq), agent)})
	}
	h.OwedToYou = m.pick(command.MaxOwed, func(e homeFact) bool {
		return e.AgentKey == agent && (m.waits(e) || e.job.Status == JobOpen || e.job.Status == JobClaimed)
	})
	h.ToDeliver = m.pick(len(m.entries), func(e homeFact) bool {
		return e.job.Status == JobClaimed && e.job.ClaimantKey == agent
	})
	slices.SortFunc(h.ToDeliver, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(m.at(a).job.ClaimExpiresAt, m.at(b).job.ClaimExpiresAt), cmp.Compare(a, b))
	})
	h.ToDeliver = h.ToDeliver[:min(len(h.ToDeliver), command.MaxOwed)]
	h.New = m.pick(command.MaxNew, func(e homeFact) bool { return e.AgentKey != agent && e.CreatedAt > since })
	h.Waiting = m.pick(command.MaxWaiting, func(e homeFact) bool {
		return e.AgentKey != agent && m.waits(e) && e.CreatedAt > m.now-7*day
	})
	h.OpenJobs = m.pick(command.MaxOpenJobs, func(e homeFact) bool { return e.AgentKey != agent && e.job.Status == JobOpen })
	m.topics(h, agent)
	m.partners(h, agent)
	return h
}

func (e *homeFact) topics() []string {
	topics := []string{strings.ToLower(e.Channel)}
	for _, tag := range e.tags {
		topics = append(topics, strings.ToLower(tag))
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (m *homeModel) topics(h *Home, agent string) {
	counts := map[string]*Topic{}
	for _, e := range m.entries {
		for _, name := range e.topics() {
			if e.AgentKey != agent {
				continue
			}
			if counts[name] == nil {
				counts[name] = &Topic{Name: name}
			}
			counts[name].Entries++
			counts[name].LastEntryAt = e.CreatedAt
		}
	}
	for _, t := range counts {
		h.Topics = append(h.Topics, *t)
	}
	slices.SortFunc(h.Topics, func(a, b Topic) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(b.LastEntryAt, a.LastEntryAt), cmp.Compare(a.Name, b.Name))
	})
	h.Topics = h.Topics[:min(len(h.Topics), command.MaxYourTopics)]
	h.TopicNotes = m.pick(command.MaxTopicNotes, func(e homeFact) bool {
		return e.AgentKey != agent && e.Kind == command.KindKnowledge && slices.ContainsFunc(h.Topics, func(t Topic) bool {
			return slices.Contains(e.topics(), t.Name)
		})
	})
}

func (m *homeModel) partners(h *Home, agent string) {
	known := map[string]bool{}
	for _, e := range slices.Backward(m.entries) {
		if e.Relation != command.RelationReply {
			continue
		}
		target := m.at(e.Parent)
		p := Partner{Agent: target.agent, Entry: e.Seq, At: e.CreatedAt}
		key := target.AgentKey
		if key == agent {
			p.Agent, p.Theirs, key = e.agent, true, e.AgentKey
		}
		if e.AgentKey != agent && target.AgentKey != agent || key == agent || known[key] || len(h.LastWith) == command.MaxPartners {
			continue
		}
		known[key] = true
		h.LastWith = append(h.LastWith, p)
	}
}

var homeAgents = []string{"ada", "bob", "eve"}

// drawHomeCommand draws something that home shows.
func drawHomeCommand(t *rapid.T, lastSeq uint64) command.Payload {
	switch rapid.IntRange(0, 9).Draw(t, "command") {
	case 0, 1, 2:
		body, _ := drawJobCommand(t, lastSeq)
		return body
	case 3:
		agent := rapid.SampledFrom(homeAgents).Draw(t, "agent")
		return &command.AskHuman{Author: command.Author{Agent: agent, AgentKey: agent, Question: true}, Goal: "A goal", Action: "An action"}
	}
	p := drawPublish(t, int(lastSeq))
	p.Request = command.RequestKey{}
	if p.AgentKey != command.AnonymousName {
		p.Agent = strings.ToUpper(p.Agent[:1]) + p.Agent[1:]
	}
	p.Question = rapid.Bool().Draw(t, "question")
	entryType := rapid.SampledFrom([]EntryType{TypeEntry, TypeEntry, TypeHelp, TypeJob}).Draw(t, "target entryType")
	if _, seq, ok := ParseID(p.Target); ok {
		if rapid.Bool().Draw(t, "recent") {
			seq = lastSeq - min(lastSeq-1, rapid.Uint64Range(0, 30).Draw(t, "distance"))
		}
		p.Target = FormatID(entryType, seq)
	}
	return p
}

// TestHomeAgainstModel draws entries, jobs and requests for help, applies them in
// pieces with restarts, and holds home against the model in between.
func TestHomeAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, filed := newLog(t), map[uint64]*command.Publish{}
		m := tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		var seq, fed uint64
		for range rapid.IntRange(1, 8).Draw(rt, "pieces") {
			last := m.head.lastSeq
			var sent []command.Command
			for range rapid.IntRange(1, 3).Draw(rt, "log entries") {
				l.stamp += rapid.SampledFrom([]int64{1, 1, 1, 1000, 4000, int64(4 * 24 * time.Hour / time.Millisecond)}).Draw(rt, "step")
				g := command.Group{Boot: boot1}
				for range rapid.IntRange(1, 12).Draw(rt, "commands") {
					body := drawHomeCommand(rt, last+1)
					for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 12, 45}).Draw(rt, "times") {
						seq++
						last++
						g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: body})
					}
				}
				sent = append(sent, g.Commands...)
				l.batch(command.Batch{Stamp: l.stamp, Groups: []command.Group{g}})
			}
			l.feed(m, fed+1, l.last())
			fed = l.last()
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				if err := m.Close(); err != nil {
					rt.Fatal(err)
				}
				var err error
				if m, err = tryOpenAt(m.opts.Dir); err != nil {
					rt.Fatal(err)
				}
			}
			checkHome(rt, m, sent, filed)
		}
	})
}

func checkHome(t *rapid.T, m *Machine, sent []command.Command, filed map[uint64]*command.Publish) {
	v := m.View()
	defer v.Release()
	for _, c := range sent {
		r, ok := v.Result(boot1, c.Seq)
		if !ok {
			t.Fatalf("command %d has no result", c.Seq)
		}
		if p, publish := c.Payload.(*command.Publish); publish && r.Outcome == command.OutcomeDone {
			filed[r.Entry] = p
		}
	}
	want := factsOf(t, v, filed)
	for _, agent := range append(homeAgents, command.AnonymousName, "nobody") {
		since := []int64{0, v.Time(), v.Time() - 1, v.Time() - 1000, v.Time() + 5}
		if n := len(want.entries); n > 0 {
			since = append(since, want.entries[rapid.IntRange(0, n-1).Draw(t, "since")].CreatedAt)
		}
		for _, s := range since {
			got, err := v.Home(agent, s)
			if err != nil {
				t.Fatal(err)
			}
			model := want.home(agent, s)
			if diff := gocmp.Diff(model, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("home of %s since %d (-want +got):\n%s", agent, s, diff)
			}
			if has, err := v.HasFor(agent, s); err != nil || has != (len(model.ForYou) > 0) {
				t.Fatalf("something for %s since %d: %v, %v, want %v", agent, s, has, err, model.ForYou)
			}
		}
	}
}
