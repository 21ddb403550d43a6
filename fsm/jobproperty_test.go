package fsm

import (
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// jobModel models the job board in the plainest way, by the sentences of interface 3.1.
type jobModel struct {
	now      int64
	lastSeq  uint64
	jobs     []*modelJob
	requests map[command.Op]map[command.RequestKey]uint64
}

type modelJob struct {
	seq      uint64
	poster   string
	claimant string // of the newest claim
	expires  int64  // its end; 0 once it is given back
	extended int    // how often
	result   uint64
	closed   bool
	had      map[string]bool
}

func (j *modelJob) status(now int64) state.JobStatus {
	switch {
	case j.result != 0:
		return state.JobDone
	case j.closed:
		return state.JobClosed
	case now < j.expires:
		return state.JobClaimed
	}
	return state.JobOpen
}

func (j *modelJob) claimed(now int64) bool { return j.status(now) == state.JobClaimed }

// claims returns how many unfinished claims an agent has.
func (m *jobModel) claims(agent string) (n int) {
	for _, j := range m.jobs {
		if j.claimed(m.now) && j.claimant == agent {
			n++
		}
	}
	return n
}

// apply returns the entry of an allowed command, and whether it was allowed.
func (m *jobModel) apply(b command.Payload, request command.RequestKey) (entry uint64, fresh, ok bool) {
	if seq, used := m.requests[command.OpOf(b)][request]; used {
		return seq, false, true
	}
	entry, ok = m.act(b)
	if ok && request != (command.RequestKey{}) {
		if m.requests[command.OpOf(b)] == nil {
			m.requests[command.OpOf(b)] = map[command.RequestKey]uint64{}
		}
		m.requests[command.OpOf(b)][request] = entry
	}
	return entry, true, ok
}

func (m *jobModel) act(b command.Payload) (entry uint64, ok bool) {
	find := func(id string) *modelJob {
		i := slices.IndexFunc(m.jobs, func(j *modelJob) bool { return state.FormatID(state.TypeJob, j.seq) == id })
		if i < 0 {
			return nil
		}
		return m.jobs[i]
	}
	file := func() uint64 { m.lastSeq++; return m.lastSeq }
	switch c := b.(type) {
	case *command.PostJob:
		entry = file()
		m.jobs = append(m.jobs, &modelJob{seq: entry, poster: c.AgentKey, had: map[string]bool{}})
		return entry, true
	case *command.ClaimJob:
		j := find(c.Job)
		switch {
		case j == nil || j.poster == c.AgentKey || j.result != 0 || j.closed:
			return 0, false
		case j.claimed(m.now):
			if j.claimant != c.AgentKey || j.extended == 2 {
				return 0, false
			}
			j.extended++
		case m.claims(c.AgentKey) >= 5: // all are of one sender, and without proof
			return 0, false
		default:
			j.extended = 0
		}
		j.claimant, j.expires, j.had[c.AgentKey] = c.AgentKey, m.now+c.TTL, true
		return file(), true
	case *command.TakeJob:
		for _, id := range c.Jobs {
			j := find(id)
			if j == nil || j.poster == c.AgentKey || j.status(m.now) != state.JobOpen || j.had[c.AgentKey] {
				continue
			}
			return m.act(&command.ClaimJob{JobAction: command.JobAction{Author: c.Author, Job: id}, TTL: c.TTL})
		}
		return 0, false
	case *command.FinishJob:
		j := find(c.Job)
		if j == nil || !j.claimed(m.now) || j.claimant != c.AgentKey {
			return 0, false
		}
		j.result = file()
		return j.result, true
	case *command.ReleaseJob:
		j := find(c.Job)
		if j == nil || !j.claimed(m.now) || j.claimant != c.AgentKey {
			return 0, false
		}
		j.expires = 0
		return j.seq, true
	case *command.CloseJob:
		j := find(c.Job)
		if j == nil || j.poster != c.AgentKey || j.status(m.now) != state.JobOpen && (j.poster != "pat" || !j.claimed(m.now)) {
			return 0, false
		}
		j.closed = true
		return j.seq, true
	case *command.Publish:
		j := find(c.Target)
		retraction := c.Relation == command.RelationRetraction
		if j == nil || retraction && (j.poster != c.AgentKey || j.claimed(m.now)) {
			return 0, false
		}
		if retraction && j.status(m.now) == state.JobOpen {
			j.closed = true
		}
		return file(), true
	}
	return 0, true
}

// drawJobCommand draws something that concerns jobs.
func drawJobCommand(t *rapid.T, lastSeq uint64) (command.Payload, command.RequestKey) {
	// Only pat has a key, which it always uses. It claims no jobs, and closes also claimed ones.
	agent := rapid.SampledFrom([]string{"ada", "bob", "eve", "pat", "pat"}).Draw(t, "agent")
	on := fsmtest.OnJob(agent, rapid.Uint64Range(1, lastSeq+2).Draw(t, "job"))
	on.Proof.Sender = "s1"
	if agent == "pat" {
		on.Proof.Key = fsmtest.KeyHash("key of pat")
	}
	if rapid.IntRange(0, 2).Draw(t, "keyed") == 0 {
		on.Request = command.RequestKey{Scope: agent, ID: rapid.SampledFrom([]string{"request-1", "request-2", "request-3"}).Draw(t, "request")}
	}
	ops := []command.Op{command.OpPostJob, command.OpClaimJob, command.OpClaimJob, command.OpTakeJob, command.OpFinishJob, command.OpReleaseJob, command.OpCloseJob, command.OpPublish, command.OpTick}
	if agent == "pat" {
		ops = []command.Op{command.OpPostJob, command.OpCloseJob}
	}
	switch rapid.SampledFrom(ops).Draw(t, "op") {
	case command.OpPostJob:
		return &command.PostJob{Author: on.Author, Title: "A title", Body: "Some body."}, on.Request
	case command.OpClaimJob:
		return &command.ClaimJob{JobAction: on, TTL: rapid.SampledFrom([]int64{1, 1000, 5000, 20_000, 3_600_000}).Draw(t, "ttl")}, on.Request
	case command.OpTakeJob:
		c := &command.TakeJob{Author: on.Author, TTL: fsmtest.Hour, Jobs: []string{on.Job}, Next: "{}"}
		for range rapid.IntRange(0, 3).Draw(t, "more candidates") {
			c.Jobs = append(c.Jobs, state.FormatID(state.TypeJob, rapid.Uint64Range(1, lastSeq+2).Draw(t, "candidate")))
		}
		return c, on.Request
	case command.OpFinishJob:
		return &command.FinishJob{JobAction: on, Result: "The result."}, on.Request
	case command.OpReleaseJob:
		return &command.ReleaseJob{JobAction: on}, on.Request
	case command.OpCloseJob:
		return &command.CloseJob{JobAction: on}, on.Request
	case command.OpTick:
		return &command.Tick{}, command.RequestKey{}
	default:
		relation := rapid.SampledFrom([]command.Relation{command.RelationRetraction, command.RelationReply}).Draw(t, "relation")
		return fsmtest.Post(agent, func(p *command.Publish) { p.Relation, p.Target = relation, on.Job }), command.RequestKey{}
	}
}

// TestJobsAgainstModel draws posts, claims, results, releases, retractions and
// clock steps, and compares every result and every list with the model.
func TestJobsAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog(t)
		want := &jobModel{requests: map[command.Op]map[command.RequestKey]uint64{}}
		one := tempMachine(rt)
		defer func() { dropMachine(rt, one) }()
		l.feed(one, 1, 1)
		seq := uint64(1)
		l.feed(one, 2, l.commands(fsmtest.Register("pat", "key of pat", nil)))
		want.now = l.stamp
		for range rapid.IntRange(1, 25).Draw(rt, "log entries") {
			l.stamp += rapid.SampledFrom([]int64{-10_000, 0, 1, 999, 1000, 1001, 5000, 30_000, fsmtest.Hour, 25 * fsmtest.Hour}).Draw(rt, "step")
			want.now = max(l.stamp, want.now+1)
			g := command.Group{Boot: fsmtest.Boot1}
			var expected []command.Result
			for range rapid.IntRange(1, 5).Draw(rt, "commands") {
				body, request := drawJobCommand(rt, want.lastSeq)
				seq++
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: body})
				entry, fresh, ok := want.apply(body, request)
				outcome := map[bool]command.Outcome{true: command.OutcomeDone, false: command.OutcomeDuplicate}[fresh]
				if !ok {
					outcome = command.OutcomeRejected
				}
				expected = append(expected, command.Result{Outcome: outcome, Entry: entry})
			}
			index := l.batch(command.Batch{Stamp: l.stamp, Groups: []command.Group{g}})
			l.feed(one, index, index)
			checkJobs(rt, one, want, g, expected)
		}
	})
}

// checkJobs holds the machine's newest log entry against the model.
func checkJobs(t *rapid.T, m *Machine, want *jobModel, g command.Group, expected []command.Result) {
	v := m.View()
	defer v.Release()
	if v.Time() != want.now || v.LastSeq() != want.lastSeq {
		t.Fatalf("%d entries at %d, want %d at %d", v.LastSeq(), v.Time(), want.lastSeq, want.now)
	}
	results := v.Results(g.Boot)
	for i, c := range g.Commands {
		got, ok := results[c.Seq]
		if !ok || got.Outcome != expected[i].Outcome || got.Entry != expected[i].Entry {
			t.Fatalf("%T %+v: %+v, want %+v", c.Payload, c.Payload, got, expected[i])
		}
		if (got.Outcome == command.OutcomeRejected) != (len(got.Problems) > 0) {
			t.Fatalf("%T: %+v", c.Payload, got)
		}
	}
	fsmtest.CheckClaimCounts(t, m)
	for _, agent := range []string{"bob", "eve"} {
		var next []string
		for _, j := range want.jobs {
			if j.poster != agent && j.status(want.now) == state.JobOpen && !j.had[agent] && len(next) < command.MaxCandidates {
				next = append(next, state.FormatID(state.TypeJob, j.seq))
			}
		}
		by := command.Signature{AgentKey: agent, Proof: &command.Proof{Sender: "s1"}}
		for _, words := range []string{"", "title"} {
			if got, err := v.NextJobs(view.Query{Since: -1, Q: words}, by); err != nil || !slices.Equal(got, next) {
				t.Fatalf("next jobs of %s: %v, %v, want %v", agent, got, err, next)
			}
		}
	}
	lists := map[state.JobStatus][]uint64{}
	for _, j := range slices.Backward(want.jobs) {
		status := j.status(want.now)
		lists[status] = append(lists[status], j.seq)
		lists[0] = append(lists[0], j.seq)
		got, ok, err := v.Job(j.seq)
		if err != nil || !ok || got.Status != status || got.Result != j.result {
			t.Fatalf("job %d is %+v, %v, %v, want %s", j.seq, got, ok, err, status)
		}
		type claim struct {
			by    string
			until int64
		}
		var held claim
		if status == state.JobClaimed {
			held = claim{j.claimant, j.expires}
		}
		must.Equal(t, claim{got.ClaimedBy, got.ClaimExpiresAt}, held, "job %d is %+v", j.seq, got)
	}
	for _, words := range []string{"", "title"} {
		for status := state.JobStatus(0); status <= state.JobClosed; status++ {
			got, _, err := v.ListJobs(view.Query{JobStatus: status, Q: words, Limit: command.MaxList})
			if err != nil || !slices.Equal(got, lists[status]) {
				t.Fatalf("jobs with status %d and words %q: %v, %v, want %v", status, words, got, err, lists[status])
			}
			for _, poster := range []string{"ada", "pat", "ada" + view.Or + "pat"} {
				checkJobsOf(t, v, want, view.Query{JobStatus: status, AgentKey: poster, Q: words})
			}
		}
		checkJobsOf(t, v, want, view.Query{ClaimantKey: "bob", Q: words})
		checkJobsOf(t, v, want, view.Query{ClaimantKey: "bob", AgentKey: "ada", Q: words})
	}
	if overdue, err := v.Overdue(); err != nil || len(overdue) > 0 {
		t.Fatalf("claims of %v were not ended, %v", overdue, err)
	}
}

// checkJobsOf holds lists of jobs by their author and by who has claimed them against
// the model, page by page.
func checkJobsOf(t *rapid.T, v *view.View, m *jobModel, q view.Query) {
	var want, got []uint64
	for _, j := range slices.Backward(m.jobs) {
		status := j.status(m.now)
		if q.ClaimantKey != "" && (status != state.JobClaimed || j.claimant != q.ClaimantKey) ||
			q.JobStatus != 0 && status != q.JobStatus || q.AgentKey != "" && !oneOf(q.AgentKey, j.poster) {
			continue
		}
		want = append(want, j.seq)
	}
	q.Limit = 2
	for {
		seqs, next, err := v.ListJobs(q)
		if err != nil || len(seqs) > q.Limit {
			t.Fatalf("%+v: %v, %v", q, seqs, err)
		}
		got = append(got, seqs...)
		if q.Before = next; next == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v: %v, want %v", q, got, want)
	}
}
