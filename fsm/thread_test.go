package fsm

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// shownThread is a conversation as a list shows it.
type shownThread struct {
	ID, Title, Channel, Agent string
	Replies                   int
	Agents                    []string
	LastAt                    int64
	LastAgent                 string
}

// thread returns the conversation of a first entry, and its newest shown entry up to until.
func (m *model) thread(first, until uint64) (t shownThread, last uint64) {
	for _, e := range m.entries {
		if e.root != first || e.hidden {
			continue
		}
		if e.seq == first {
			t.ID, t.Title, t.Channel, t.Agent = state.EntryID(first), e.p.Title, e.channel, e.p.Agent
		}
		if e.p.Relation == command.RelationReply {
			t.Replies++
		}
		if len(t.Agents) < state.MaxThreadAgents && !slices.Contains(t.Agents, e.p.Agent) {
			t.Agents = append(t.Agents, e.p.Agent)
		}
		t.LastAt, t.LastAgent = e.at, e.p.Agent
		if e.seq <= until {
			last = e.seq
		}
	}
	return t, last
}

// threads lists the conversations from a place on, in their order as of an entry.
func (m *model) threads(q view.ThreadQuery, until uint64) (list []shownThread) {
	places := map[string]uint64{}
	for _, e := range m.entries {
		if e.parent != 0 || e.hidden || e.seq > until || q.Channel != "" && !oneOf(q.Channel, e.channel) {
			continue
		}
		t, last := m.thread(e.seq, until)
		if q.Newest {
			last = e.seq
		}
		if q.Discussed && len(t.Agents) < 2 {
			continue
		}
		if q.Before == 0 || last < q.Before {
			places[t.ID] = last
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b shownThread) int { return cmp.Compare(places[b.ID], places[a.ID]) })
	return list
}

// TestThreadsAgainstModel lists conversations page by page, while entries are added, hidden
// and shown. Entries that were added later move no conversation; hidden ones do.
func TestThreadsAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, want := drawLog(t, rt)
		m := tempMachine(rt)
		defer dropMachine(rt, m)
		l.feed(m, 1, l.last())
		q := view.ThreadQuery{
			Newest: rapid.Bool().Draw(rt, "newest"), Channel: rapid.SampledFrom([]string{"", "", "den", "den" + view.Or + "hall"}).Draw(rt, "channel"),
			Limit: rapid.IntRange(1, 4).Draw(rt, "limit"),
		}
		q.Discussed = !q.Newest && rapid.Bool().Draw(rt, "discussed")
		b := command.Batch{Stamp: want.now}
		for until := uint64(len(want.entries)); ; {
			v := m.View()
			firsts, next, err := v.ListThreads(q)
			must.Do(rt, err)
			text, err := v.AppendThreads([]byte("["), firsts)
			v.Release()
			var got []shownThread
			if err != nil || json.Unmarshal(append(text, ']'), &got) != nil {
				rt.Fatalf("%s: %v", text, err)
			}
			model := want.threads(q, until)
			if next != 0 && len(model) > q.Limit {
				model = model[:q.Limit]
			}
			if diff := gocmp.Diff(model, got, cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("%+v until %d (-want +got):\n%s", q, until, diff)
			}
			if next == 0 {
				return
			}
			q.Before, q.Until = next, until
			for range rapid.IntRange(0, 2).Draw(rt, "batches") {
				b = drawBatch(rt, b, want)
				from := l.last() + 1
				l.batch(b)
				want.apply(b)
				l.feed(m, from, l.last())
			}
		}
	})
}
