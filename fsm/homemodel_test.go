package fsm

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// homeModel answers what Home answers by looking at everything.
type homeModel struct {
	now     int64
	entries []homeFact
	*homeHistory
}

// homeHistory is the part of the commands that is not in any entry.
type homeHistory struct {
	filed    map[uint64]*command.Publish
	claimant map[uint64]string          // of a job: who claimed it last and did not give it back
	claim    map[uint64]uint64          // of a job: the entry of that claim
	ttl      map[uint64]int64           // of such an entry: how long the claim lasts from then on
	lost     map[uint64]string          // by the entry that came instead of a claim: whose
	seen     map[string]map[uint64]bool // by agent: the items that it has put aside
	lastSeq  uint64
}

// add adds a command and what came of it.
func (m *homeHistory) add(v *view.View, c command.Payload, r command.Result) {
	if r.Outcome != command.OutcomeDone {
		return
	}
	take := func(on *command.JobAction, holder string) {
		_, job, _ := state.ParseID(on.Job)
		if former := m.claimant[job]; former != "" && former != on.AgentKey {
			m.lost[r.Entry] = former
		}
		m.claimant[job] = holder
	}
	switch c := c.(type) {
	case *command.Publish:
		m.filed[r.Entry] = c
	case *command.ClaimJob:
		_, job, _ := state.ParseID(c.Job)
		take(&c.JobAction, c.AgentKey)
		m.claim[job], m.ttl[r.Entry] = r.Entry, c.TTL
	case *command.TakeJob:
		made, _, _ := v.Meta(r.Entry)
		on := command.JobAction{Author: c.Author, Job: state.FormatID(state.TypeJob, made.Parent)}
		m.add(v, &command.ClaimJob{JobAction: on, TTL: c.TTL}, r)
	case *command.FinishJob:
		take(&c.JobAction, "")
	case *command.ReleaseJob:
		delete(m.claimant, r.Entry)
	case *command.MarkSeen:
		for _, seq := range c.Entries {
			if seq <= m.lastSeq {
				m.seen[c.AgentKey][seq] = true
			}
		}
	}
	m.lastSeq = max(m.lastSeq, r.Entry)
}

// homeFact is an entry as the model knows it.
type homeFact struct {
	state.Meta
	agent    string
	tags     []string
	mentions []string
	question bool
	job      view.Job
}

// factsOf reads back the rows of the machine; other facts come from the commands that
// filed it.
func factsOf(t fsmtest.Tester, v *view.View, history *homeHistory) *homeModel {
	t.Helper()
	m := &homeModel{now: v.Time(), homeHistory: history}
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		meta, ok, err := v.Meta(seq)
		if err != nil || !ok {
			t.Fatalf("entry %d: %v", seq, err)
		}
		doc, _ := fsmtest.ReadEntry(t, v, seq)
		f := homeFact{Meta: meta, agent: doc.Agent, tags: doc.Tags}
		if p := m.filed[seq]; p != nil {
			f.mentions, f.question = p.Mentions, p.Question && p.Kind == command.KindMessage
		}
		f.job, _, err = v.Job(seq)
		must.Do(t, err)
		m.entries = append(m.entries, f)
	}
	return m
}

func (m *homeModel) at(seq uint64) homeFact { return m.entries[seq-1] }

// why says for what reason an entry concerns an agent; 0 when it does not.
func (m *homeModel) reason(e homeFact, agent string) home.Reason {
	switch {
	case e.AgentKey == agent:
		return 0
	case m.lost[e.Seq] == agent:
		return home.ReasonClaimLost
	case e.Parent != 0 && m.at(e.Parent).AgentKey == agent:
		return home.ReasonReply
	case slices.Contains(e.mentions, agent):
		return home.ReasonMention
	}
	return 0
}

func (m *homeModel) related(seq uint64, f func(e homeFact) bool) bool {
	return slices.ContainsFunc(m.entries, func(e homeFact) bool { return e.Parent == seq && f(e) })
}

// waits reports a question or a request for help without an answer by another agent.
func (m *homeModel) waits(e homeFact) bool {
	return (e.question || e.Type == state.TypeHelp) && !m.related(e.Seq, func(r homeFact) bool {
		return r.Relation == command.RelationRetraction || r.Relation == command.RelationReply && r.AgentKey != e.AgentKey ||
			e.question && corrects(r, e)
	})
}

// corrects reports whether an entry is its author's correction of another one.
func corrects(r, e homeFact) bool {
	return r.Relation == command.RelationCorrection && r.AgentKey == e.AgentKey && e.AgentKey != command.AnonymousName
}

// owes reports whether an agent owes an answer to an entry.
func (m *homeModel) owes(agent string, e homeFact) bool {
	reply := e.Parent != 0 && m.at(e.Parent).AgentKey == agent
	mentioned := e.AgentKey != agent && slices.Contains(e.mentions, agent)
	if e.AgentKey == agent || !reply && !mentioned || m.seen[agent][e.Seq] {
		return false
	}
	if parent := e.Parent; reply && !e.question && (m.at(parent).question || m.at(parent).Type != state.TypeEntry) {
		return false
	}
	return !m.related(e.Seq, func(r homeFact) bool {
		return r.AgentKey == agent || r.Relation == command.RelationRetraction || corrects(r, e) && slices.Contains(r.mentions, agent)
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

// claimEnd is when the last claim of a job ends.
func (m *homeModel) claimEnd(job uint64) int64 {
	claim := m.claim[job]
	return m.at(claim).CreatedAt + m.ttl[claim]
}

// newestOfEach returns the newest entries that fit, of each author as many as wait for
// all.
func (m *homeModel) newestOfEach(fits func(e homeFact) bool) map[uint64]bool {
	seqs, count := map[uint64]bool{}, map[string]int{}
	for _, seq := range m.pick(len(m.entries), fits) {
		if author := m.at(seq).AgentKey; count[author] < home.WaitingPerAuthor {
			seqs[seq] = true
			count[author]++
		}
	}
	return seqs
}

func (m *homeModel) home(agent string, since int64, seenBefore bool) *view.Home {
	day := (24 * time.Hour).Milliseconds()
	h := &view.Home{Now: m.now}
	for _, e := range m.entries {
		reason := m.reason(e, agent)
		if reason == 0 || e.CreatedAt <= since {
			continue
		}
		if n := len(h.ForYou); n >= command.MaxForYou && m.at(h.ForYou[n-1].Seq).CreatedAt != e.CreatedAt {
			h.More, h.Now = true, m.at(h.ForYou[n-1].Seq).CreatedAt
			break
		}
		h.ForYou = append(h.ForYou, view.InboxItem{Seq: e.Seq, Reason: reason})
	}
	for _, seq := range m.pick(command.MaxCounted, func(e homeFact) bool { return m.owes(agent, e) && e.CreatedAt > m.now-90*day }) {
		why := home.ReasonMention
		if e := m.at(seq); e.Parent != 0 && m.at(e.Parent).AgentKey == agent {
			why = home.ReasonReply
		}
		h.OwedByYou = append(h.OwedByYou, view.InboxItem{Seq: seq, Reason: why})
	}
	elsewhere := slices.Concat(h.ForYou, h.OwedByYou)
	listed := func(seq uint64) bool {
		return slices.ContainsFunc(elsewhere, func(i view.InboxItem) bool { return i.Seq == seq })
	}
	others := func(e homeFact) bool { return e.AgentKey != agent }
	h.OwedByYouCount, h.OwedByYou = len(h.OwedByYou), h.OwedByYou[:min(len(h.OwedByYou), command.MaxOwed)]
	h.OwedToYou = m.pick(command.MaxCounted, func(e homeFact) bool {
		return e.AgentKey == agent && (m.waits(e) || e.job.Status == state.JobOpen || e.job.Status == state.JobClaimed)
	})
	h.OwedToYouCount, h.OwedToYou = len(h.OwedToYou), h.OwedToYou[:min(len(h.OwedToYou), command.MaxOwed)]
	held := func(status state.JobStatus) []uint64 {
		seqs := m.pick(len(m.entries), func(e homeFact) bool { return e.job.Status == status && m.claimant[e.Seq] == agent })
		slices.SortFunc(seqs, func(a, b uint64) int {
			return cmp.Or(cmp.Compare(m.claimEnd(a), m.claimEnd(b)), cmp.Compare(a, b))
		})
		return seqs
	}
	lapsed := held(state.JobOpen)
	slices.Reverse(lapsed)
	h.ToDeliver = append(held(state.JobClaimed), lapsed...)
	h.ToDeliverCount = min(len(h.ToDeliver), command.MaxCounted)
	h.ToDeliver = h.ToDeliver[:min(len(h.ToDeliver), command.MaxOwed)]
	h.New = m.pick(command.MaxNew, func(e homeFact) bool { return others(e) && e.CreatedAt > since })
	h.New = slices.DeleteFunc(h.New, listed)
	waiting := m.newestOfEach(func(e homeFact) bool { return others(e) && m.waits(e) && e.CreatedAt > m.now-7*day })
	h.Waiting = m.pick(command.MaxWaiting, func(e homeFact) bool { return waiting[e.Seq] && !listed(e.Seq) })
	open := m.newestOfEach(func(e homeFact) bool { return others(e) && e.job.Status == state.JobOpen })
	h.OpenJobs = m.pick(command.MaxOpenJobs, func(e homeFact) bool { return open[e.Seq] })
	m.topics(h, agent)
	h.TopicNotes = slices.DeleteFunc(h.TopicNotes, listed)
	m.partners(h, agent)
	if seenBefore {
		h.Topics = slices.DeleteFunc(h.Topics, func(t home.Topic) bool { return t.LastAt <= since })
		h.TopicNotes = slices.DeleteFunc(h.TopicNotes, func(seq uint64) bool { return m.at(seq).CreatedAt <= since })
		h.LastWith = slices.DeleteFunc(h.LastWith, func(p view.Partner) bool { return p.At <= since })
	}
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

func (m *homeModel) topics(h *view.Home, agent string) {
	counts := map[string]*home.Topic{}
	for _, e := range m.entries {
		for _, name := range e.topics() {
			if e.AgentKey != agent {
				continue
			}
			if counts[name] == nil {
				counts[name] = &home.Topic{Name: name}
			}
			counts[name].Entries++
			counts[name].LastAt = e.CreatedAt
		}
	}
	for _, t := range counts {
		h.Topics = append(h.Topics, *t)
	}
	slices.SortFunc(h.Topics, func(a, b home.Topic) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(b.LastAt, a.LastAt), cmp.Compare(a.Name, b.Name))
	})
	h.Topics = h.Topics[:min(len(h.Topics), command.MaxYourTopics)]
	h.TopicNotes = m.pick(command.MaxTopicNotes, func(e homeFact) bool {
		return e.AgentKey != agent && e.Kind == command.KindKnowledge && slices.ContainsFunc(h.Topics, func(t home.Topic) bool {
			return slices.Contains(e.topics(), t.Name)
		})
	})
}

func (m *homeModel) partners(h *view.Home, agent string) {
	known := map[string]bool{}
	for _, e := range slices.Backward(m.entries) {
		if e.Relation != command.RelationReply {
			continue
		}
		target := m.at(e.Parent)
		p := view.Partner{Agent: target.agent, Entry: e.Seq, At: e.CreatedAt}
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

var homeAgents = []string{"ada", "bob", "eve", "pat"}

// drawHomeCommand draws something that home shows, or changes.
func drawHomeCommand(t *rapid.T, lastSeq uint64) command.Payload {
	switch rapid.IntRange(0, 10).Draw(t, "command") {
	case 0, 1, 2:
		body, _ := drawJobCommand(t, lastSeq)
		return body
	case 3:
		agent := rapid.SampledFrom(homeAgents).Draw(t, "agent")
		return &command.AskHuman{Author: command.Author{Agent: agent, AgentKey: agent, Question: true}, Goal: "A goal", Action: "An action"}
	case 4:
		proof := command.Proof{Key: rapid.SampledFrom([][]byte{fsmtest.KeyHash("bob"), fsmtest.KeyHash("bob"), nil, fsmtest.KeyHash("other")}).Draw(t, "key")}
		return &command.MarkSeen{
			AgentKey: rapid.SampledFrom([]string{"bob", "bob", "ada"}).Draw(t, "agent"), Proof: proof,
			Entries: rapid.SliceOfN(rapid.Uint64Range(1, lastSeq+5), 1, 5).Draw(t, "entries"),
		}
	}
	p := drawPublish(t, int(lastSeq))
	p.Request = command.RequestKey{}
	if p.AgentKey != command.AnonymousName {
		p.Agent = strings.ToUpper(p.Agent[:1]) + p.Agent[1:]
	}
	p.Question = rapid.Bool().Draw(t, "question")
	entryType := rapid.SampledFrom([]state.EntryType{state.TypeEntry, state.TypeEntry, state.TypeHelp, state.TypeJob}).Draw(t, "target entryType")
	if _, seq, ok := state.ParseID(p.Target); ok {
		if rapid.Bool().Draw(t, "recent") {
			seq = lastSeq - min(lastSeq-1, rapid.Uint64Range(0, 30).Draw(t, "distance"))
		}
		p.Target = state.FormatID(entryType, seq)
	}
	return p
}

// TestHomeAgainstModel draws entries, jobs and requests for help, applies them in
// pieces with restarts, and holds home against the model in between.
func TestHomeAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, history := newLog(t), &homeHistory{
			filed: map[uint64]*command.Publish{}, claimant: map[uint64]string{}, claim: map[uint64]uint64{}, ttl: map[uint64]int64{}, lost: map[uint64]string{},
			seen: map[string]map[uint64]bool{"bob": {}},
		}
		l.commands(fsmtest.Register("bob", "bob", nil), fsmtest.Register("pat", "key of pat", nil))
		m := tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		seq, fed := uint64(2), uint64(0)
		for range rapid.IntRange(1, 8).Draw(rt, "pieces") {
			last := m.Head.LastSeq
			var sent []command.Command
			for range rapid.IntRange(1, 3).Draw(rt, "log entries") {
				l.stamp += rapid.SampledFrom([]int64{1, 1, 1, 1000, 4000, int64(4 * 24 * time.Hour / time.Millisecond)}).Draw(rt, "step")
				g := command.Group{Boot: fsmtest.Boot1}
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
				must.Do(rt, m.Close())
				m = must.Get(tryOpenAt(m.opts.Dir))(rt)
			}
			checkHome(rt, m, sent, history)
		}
	})
}

func checkHome(t *rapid.T, m *Machine, sent []command.Command, history *homeHistory) {
	v := m.View()
	defer v.Release()
	results := v.Results(fsmtest.Boot1)
	for _, c := range sent {
		r, ok := results[c.Seq]
		if !ok {
			t.Fatalf("command %d has no result", c.Seq)
		}
		history.add(v, c.Payload, r)
	}
	want := factsOf(t, v, history)
	waiting := want.pick(len(want.entries), want.waits)
	for q := (view.Query{Since: -1, Unanswered: true, Limit: 7}); ; {
		page, next, err := v.List(q)
		if err != nil || !slices.Equal(page, waiting[:len(page)]) || next == 0 && len(page) < len(waiting) {
			t.Fatalf("unanswered entries before %d: %v, next %d, %v, want %v", q.Before, page, next, err, waiting)
		}
		if waiting, q.Before = waiting[len(page):], next; next == 0 {
			break
		}
	}
	for _, agent := range append(homeAgents, command.AnonymousName, "nobody") {
		since := []int64{0, v.Time(), v.Time() - 1, v.Time() - 1000, v.Time() + 5}
		if n := len(want.entries); n > 0 {
			since = append(since, want.entries[rapid.IntRange(0, n-1).Draw(t, "since")].CreatedAt)
		}
		for _, s := range since {
			seenBefore := rapid.Bool().Draw(t, "seen before")
			got := must.Get(v.Home(&view.Preferences{AgentKey: agent}, s, seenBefore))(t)
			model := want.home(agent, s, seenBefore)
			if diff := gocmp.Diff(model, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(view.Home{}, "Until")); diff != "" {
				t.Fatalf("home of %s since %d (-want +got):\n%s", agent, s, diff)
			}
			if has, err := v.HasFor(&view.Preferences{AgentKey: agent}, s); err != nil || has != (len(model.ForYou) > 0) {
				t.Fatalf("something for %s since %d: %v, %v, want %v", agent, s, has, err, model.ForYou)
			}
		}
	}
}
