package propose

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// fakeMachine has the session logic of the state machine. The effect of an entry is its text
// in a list, and of two claims of a job the first one wins.
type fakeMachine struct {
	observer fsm.Observer

	mu       sync.Mutex
	applied  uint64
	sessions map[command.BootID]*fakeSession
	entries  []string
	claimed  map[string]bool
	stamps   []int64
	time     int64
	floors   []uint64
}

type fakeSession struct {
	floor   uint64
	open    []uint64
	results map[uint64]command.Result
}

func (s *fakeSession) holds(seq uint64) bool { return seq >= s.floor || slices.Contains(s.open, seq) }

// narrow applies the numbers that a group declares.
func (s *fakeSession) narrow(g command.Group) {
	declared := &fakeSession{floor: g.Floor, open: g.Open}
	s.open = slices.DeleteFunc(slices.Concat(s.open, g.Open), func(seq uint64) bool {
		return !s.holds(seq) || !declared.holds(seq)
	})
	s.floor = max(s.floor, g.Floor)
	maps.DeleteFunc(s.results, func(seq uint64, _ command.Result) bool { return !s.holds(seq) })
}

func newFakeMachine(o fsm.Observer) *fakeMachine {
	return &fakeMachine{observer: o, sessions: make(map[command.BootID]*fakeSession), claimed: make(map[string]bool)}
}

func (*fakeMachine) Format() int { return 1 }

type observed struct {
	boot command.BootID
	seq  uint64
	res  command.Result
}

func (m *fakeMachine) apply(tb testing.TB, index uint64, data []byte) {
	tb.Helper()
	b, err := command.DecodeBatch(data)
	if err != nil {
		tb.Errorf("entry %d: %v", index, err)
		return
	}
	m.mu.Lock()
	if index <= m.applied {
		m.mu.Unlock() // a snapshot was installed meanwhile
		return
	}
	m.stamps = append(m.stamps, b.Stamp)
	m.time = max(b.Stamp, m.time+1)
	var out []observed
	for _, g := range b.Groups {
		m.floors = append(m.floors, g.Floor)
		s := m.sessions[g.Boot]
		if s == nil {
			s = &fakeSession{results: make(map[uint64]command.Result)}
			m.sessions[g.Boot] = s
		}
		s.narrow(g)
		for _, c := range g.Commands {
			out = append(out, observed{g.Boot, c.Seq, m.one(s, c)})
		}
	}
	m.applied = index
	m.mu.Unlock()
	for _, o := range out {
		m.observer.Applied(o.boot, o.seq, o.res, index)
	}
}

func (m *fakeMachine) one(s *fakeSession, c command.Command) command.Result {
	if !s.holds(c.Seq) {
		return command.Result{Outcome: command.OutcomeDropped}
	}
	if r, ok := s.results[c.Seq]; ok {
		return r
	}
	r := command.Result{Outcome: command.OutcomeDone}
	switch p := c.Payload.(type) {
	case *command.Publish:
		m.entries = append(m.entries, p.Body)
		r.Entry = uint64(len(m.entries))
	case *command.ClaimJob:
		if p.Proof.Key != nil {
			r.Problems = append(r.Problems, command.ProblemWrongKey)
		}
		if m.claimed[p.Job] {
			r.Problems = append(r.Problems, command.ProblemJobClaimed)
		}
		if m.claimed[p.Job] = true; len(r.Problems) > 0 {
			r.Outcome = command.OutcomeRejected
		}
	}
	s.results[c.Seq] = r
	return r
}

// install replaces the state by another machine's without the observer.
func (m *fakeMachine) install(from *fakeMachine) {
	from.mu.Lock()
	defer from.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied, m.time = from.applied, from.time
	m.entries = append([]string(nil), from.entries...)
	m.sessions = make(map[command.BootID]*fakeSession)
	for boot, s := range from.sessions {
		c := &fakeSession{floor: s.floor, open: slices.Clone(s.open), results: make(map[uint64]command.Result)}
		maps.Copy(c.results, s.results)
		m.sessions[boot] = c
	}
}

// count returns how often a text was published.
func (m *fakeMachine) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, e := range m.entries {
		if e == text {
			n++
		}
	}
	return n
}

// Applied is part of State.
func (m *fakeMachine) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// View is part of State.
func (m *fakeMachine) View() View { return fakeView{m} }

type fakeView struct{ m *fakeMachine }

func (v fakeView) Release()      {}
func (v fakeView) Index() uint64 { return v.m.Applied() }

func (v fakeView) Time() int64 {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	return v.m.time
}

func (v fakeView) Results(boot command.BootID) map[uint64]command.Result {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if s := v.m.sessions[boot]; s != nil {
		return maps.Clone(s.results)
	}
	return nil
}
