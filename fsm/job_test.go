package fsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

const hour = int64(60 * 60 * 1000)

func author(agent string) command.Author {
	return command.Author{Agent: agent, AgentKey: strings.ToLower(agent)}
}

func postJob(agent string) *command.PostJob {
	return &command.PostJob{Author: author(agent), Title: "Count the birds", Body: "All of those in the park."}
}

func onJob(agent string, job uint64) command.JobAction {
	return command.JobAction{Author: author(agent), Job: state.FormatID(state.TypeJob, job)}
}

func claim(agent string, job uint64) *command.ClaimJob {
	return &command.ClaimJob{JobAction: onJob(agent, job), TTL: 24 * hour}
}

func finish(agent string, job uint64) *command.FinishJob {
	return &command.FinishJob{JobAction: onJob(agent, job), Result: "There are seven."}
}

func release(agent string, job uint64) *command.ReleaseJob {
	return &command.ReleaseJob{JobAction: onJob(agent, job)}
}

func closeJob(agent string, job uint64) *command.CloseJob {
	return &command.CloseJob{JobAction: onJob(agent, job)}
}

func retract(agent string, job uint64) *command.Publish {
	return post(agent, func(p *command.Publish) {
		p.Relation, p.Target = command.RelationRetraction, state.FormatID(state.TypeJob, job)
	})
}

// job returns a job's state and its JSON.
func (r *rig) job(seq uint64) (view.Job, string) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	job, ok, err := v.Job(seq)
	if err != nil || !ok {
		r.t.Fatalf("job %d: %v, %v", seq, ok, err)
	}
	raw := must.Get(v.AppendJob(nil, seq))(r.t)
	return job, string(raw)
}

func (r *rig) jobs(q view.JobQuery) []uint64 {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	var all []uint64
	for {
		seqs, next, err := v.ListJobs(q)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, seqs...)
		if q.Before = next; next == 0 {
			return all
		}
	}
}

// TestJobTransitions holds the states of jobs (interface, 3.1): for each way that a
// job can be, who may do what.
func TestJobTransitions(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	// Ada posts the job; bob holds the claim where there is one; eve is anybody.
	brief := claim("bob", 1)
	brief.TTL = 1
	states := map[string][]command.Payload{
		"open":            nil,
		"claimed":         {claim("Bob", 1)},
		"released":        {claim("Bob", 1), release("bob", 1)},
		"done":            {claim("Bob", 1), finish("BOB", 1)},
		"closed":          {closeJob("Ada", 1)},
		"retracted":       {retract("ada", 1)},
		"expired":         {brief, &command.Tick{}},
		"extended twice":  {claim("Bob", 1), claim("bob", 1), claim("bob", 1)},
		"done, retracted": {claim("eve", 1), finish("eve", 1), retract("ada", 1)},
	}
	type result = []command.Problem // zero means allowed
	own, taken, free, over, gone, other := command.ProblemOwnJob, command.ProblemJobClaimed, command.ProblemJobNotClaimed, command.ProblemJobDone, command.ProblemJobClosed, command.ProblemNotPoster
	acts := map[string]command.Payload{
		"ada claims": claim("ada", 1), "bob claims": claim("bob", 1), "eve claims": claim("eve", 1),
		"ada finishes": finish("ada", 1), "bob finishes": finish("bob", 1), "eve finishes": finish("eve", 1),
		"ada releases": release("ada", 1), "bob releases": release("bob", 1), "eve releases": release("eve", 1),
		"ada closes": closeJob("ada", 1), "bob closes": closeJob("bob", 1), "ada retracts": retract("ada", 1), "eve retracts": retract("eve", 1),
	}
	openRules := map[string]result{
		"ada claims": {own}, "ada finishes": {own, free}, "bob finishes": {free}, "eve finishes": {free}, "ada releases": {free}, "bob releases": {free},
		"eve releases": {free}, "bob closes": {other}, "eve retracts": {command.ProblemRetractionOther},
	}
	ended := func(p command.Problem) map[string]result {
		return map[string]result{
			"ada claims": {own, p}, "bob claims": {p}, "eve claims": {p}, "ada finishes": {own, p}, "bob finishes": {p}, "eve finishes": {p},
			"ada releases": {p}, "bob releases": {p}, "eve releases": {p}, "ada closes": {p}, "bob closes": {other, p},
			"eve retracts": {command.ProblemRetractionOther},
		}
	}
	claimedRules := map[string]result{
		"ada claims": {own, taken}, "eve claims": {taken}, "ada finishes": {own, taken}, "eve finishes": {taken},
		"ada releases": {taken}, "eve releases": {taken}, "ada closes": {taken}, "bob closes": {other, taken},
		"ada retracts": {taken}, "eve retracts": {command.ProblemRetractionOther, taken},
	}
	extended := maps.Clone(claimedRules)
	extended["bob claims"] = result{command.ProblemTooManyRenewals}
	rules := map[string]map[string]result{
		"open": openRules, "released": openRules, "expired": openRules,
		"claimed": claimedRules, "extended twice": extended,
		"done": ended(over), "done, retracted": ended(over),
		"closed": ended(gone), "retracted": ended(gone),
	}
	after := map[string]state.JobStatus{"claims": state.JobClaimed, "finishes": state.JobDone, "releases": state.JobOpen, "closes": state.JobClosed}
	for stored, before := range states {
		for act, body := range acts {
			t.Run(stored+"/"+act, func(t *testing.T) {
				r := newRig(t)
				for _, b := range append([]command.Payload{postJob("Ada")}, before...) {
					expect(t, r.run(b)[0], command.OutcomeDone, "%T", b)
				}
				was, _ := r.job(1)
				got := r.run(body)[0]
				check.Diff(t, got.Problems, rules[stored][act], "problems")
				now, raw := r.job(1)
				want, verb := was.Status, strings.Fields(act)[1]
				if got.Outcome == command.OutcomeDone && (verb != "retracts" || was.Status == state.JobOpen) {
					want = map[bool]state.JobStatus{true: state.JobClosed, false: after[verb]}[verb == "retracts"]
				}
				check.Equal(t, now.Status, want, "status of %s", raw)
				if got.Outcome != command.OutcomeDone && now != was {
					t.Errorf("a rejected action changed the job from %+v to %+v", was, now)
				}
			})
		}
	}
}

func TestUnknownJobs(t *testing.T) {
	r := newRig(t)
	r.run(postJob("ada"), post("ada", nil), &command.AskHuman{Author: author("ada"), Goal: "Some goal", Action: "Some action"})
	for _, id := range []string{"j9", "e1", "h1", "j2", "e2", "j3", "h3", "J1", "nonsense"} {
		act := command.JobAction{Author: author("bob"), Job: id}
		for _, b := range []command.Payload{&command.ClaimJob{JobAction: act, TTL: 1}, &command.FinishJob{JobAction: act, Result: "Done."}, &command.ReleaseJob{JobAction: act}, &command.CloseJob{JobAction: act}} {
			if got := r.run(b)[0]; got.Outcome != command.OutcomeRejected || got.Problems[0] != command.ProblemUnknownJob {
				t.Errorf("%T of %s: %+v", b, id, got)
			}
			v := r.View()
			if p, err := v.Problems(b); err != nil || len(p) != 1 || p[0] != command.ProblemUnknownJob {
				t.Errorf("view on %T of %s: %v, %v", b, id, p, err)
			}
			v.Release()
		}
	}
}

// TestClaimsAreBounded holds how many unfinished claims a name, a sender and a network
// have, and that each end of a claim makes room for another one.
func TestClaimsAreBounded(t *testing.T) {
	const many = command.MaxSenderClaims*command.NetworkShare + 1
	by := func(name, key, sender string) func(uint64) *command.ClaimJob {
		return func(job uint64) *command.ClaimJob {
			c := claim(name, job)
			c.Proof = command.Proof{Sender: sender}
			if key != "" {
				c.Proof.Key = keyHash(key)
			}
			return c
		}
	}
	names := func(n uint64) func(uint64) *command.ClaimJob {
		return func(job uint64) *command.ClaimJob { return by(fmt.Sprint("name", job%n), "", "s1")(job) }
	}
	network := func(job uint64) *command.ClaimJob {
		return by(fmt.Sprint("name", job), "", fmt.Sprint("net", command.NetworkEnd, job))(job)
	}
	keys := func(job uint64) *command.ClaimJob {
		return by(fmt.Sprint("key", job%4), fmt.Sprint("key of key", job%4), "s1")(job)
	}
	unlimited := func(job uint64) *command.ClaimJob {
		c := by("bob", "", "s1")(job)
		c.Proof.Unlimited = true
		return c
	}
	for name, tt := range map[string]struct {
		claim func(job uint64) *command.ClaimJob
		most  int
		age   int64 // of the keys
	}{
		"a name without its key":    {by("bob", "", "s1"), command.MaxNameClaims, 0},
		"a name by its key":         {by("key0", "key of key0", "s1"), command.MaxKeyClaims, 0},
		"an old key":                {by("key0", "key of key0", "s1"), command.MaxKeyClaims, state.EstablishedAfter},
		"a sender under many names": {names(many), command.MaxSenderClaims, 0},
		"a network of many senders": {network, command.MaxSenderClaims * command.NetworkShare, 0},
		"new keys of one sender":    {keys, command.MaxSenderClaims, 0},
		"old keys of one sender":    {keys, 4 * command.MaxKeyClaims, state.EstablishedAfter},
		"an unlimited sender":       {unlimited, many, 0},
		"nobody, from one sender":   {by(command.AnonymousName, "", "s1"), command.MaxNameClaims, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			jobs := make([]command.Payload, many)
			for i := range jobs {
				jobs[i] = postJob("ada")
			}
			r.run(jobs...)
			for i := range 4 {
				r.run(register(fmt.Sprint("key", i), fmt.Sprint("key of key", i), nil))
			}
			r.log.stamp += tt.age
			taken := 0
			for ; taken < many; taken++ {
				c := tt.claim(uint64(taken) + 1)
				c.TTL = 1000_000
				found := r.inspect(c)
				if got := r.run(c)[0]; !cmp.Equal(found, got.Problems) {
					t.Fatalf("claim %d: %d, and the view found %d", taken+1, got.Problems, found)
				} else if got.Outcome != command.OutcomeDone {
					if !cmp.Equal(got.Problems, []command.Problem{command.ProblemTooManyClaims}) {
						t.Fatalf("claim %d: %+v", taken+1, got)
					}
					break
				}
			}
			must.Equal(t, taken, tt.most, "claims")
			if taken == many {
				return
			}
			last := tt.claim(uint64(taken))
			claimNext := func(end command.Payload) {
				t.Helper()
				next := *last
				next.Job = state.FormatID(state.TypeJob, uint64(taken)+1)
				expect(t, r.run(end, &next)[1], command.OutcomeDone, "after %T", end)
				taken++
				last = &next
			}
			if taken+4 < many {
				claimNext(&command.FinishJob{JobAction: last.JobAction, Result: "Done."})
				claimNext(&command.ReleaseJob{JobAction: last.JobAction})
				claimNext(hide(last.Job))
			}
			expect(t, r.run(last)[0], command.OutcomeDone, "an extension")
			r.log.stamp += 1000_000 + 24*hour
			last.Job = state.FormatID(state.TypeJob, many)
			expect(t, r.run(last)[0], command.OutcomeDone, "after the end of all claims")
			checkClaimCounts(t, r.Machine)
		})
	}
}

// checkClaimCounts compares the rows of SpaceClaims with those of the jobs.
func checkClaimCounts(t tester, m *Machine) {
	t.Helper()
	v := m.View()
	defer v.Release()
	want, got := map[string]uint64{}, map[string]uint64{}
	lower, upper := state.SpaceBounds(state.SpaceJob)
	err := state.ScanSpace(v.Reader(), lower, upper, func(_, row []byte) error {
		j, err := state.Decode[state.JobRow](row)
		for key := range slices.Chunk([]byte(j.Counted), state.ClaimsKeyBytes) {
			want[string(key)]++
		}
		return err
	})
	lower, upper = state.SpaceBounds(state.SpaceClaims)
	err = errors.Join(err, state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
		n, err := state.DecodeNumber(row)
		got[string(key[1:])] = n
		return err
	}))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counts of claims (-want +got):\n%s%v", diff, err)
	}
}

// TestClaimEnds steps the clock around the end of a claim.
func TestClaimEnds(t *testing.T) {
	r := newRig(t)
	r.run(postJob("ada"))
	r.run(claim("bob", 1))
	end := r.log.stamp + 24*hour
	job, raw := r.job(1)
	must.Equal(t, job, view.Job{Status: state.JobClaimed, ClaimedBy: "bob", ClaimantKey: "bob", ClaimExpiresAt: end, Claim: 2}, "job of %s", raw)
	r.log.stamp = end - 1 - 1000 // run goes on by a second
	if got := r.run(claim("eve", 1))[0]; len(got.Problems) != 1 || got.Problems[0] != command.ProblemJobClaimed {
		t.Errorf("1 ms before the end: %+v", got)
	}
	r.log.stamp = end - 1000
	expect(t, r.run(claim("eve", 1))[0], command.OutcomeDone, "at the end")
	if job, raw := r.job(1); job.ClaimedBy != "eve" || job.ClaimExpiresAt != end+24*hour {
		t.Errorf("%s", raw)
	}
	// The claimant extends the claim: the old end no longer counts.
	r.log.stamp = end + 10*hour - 1000
	r.run(claim("Eve", 1))
	r.log.stamp = end + 30*hour
	r.run(&command.Tick{})
	if job, raw := r.job(1); job.Status != state.JobClaimed || job.ClaimedBy != "Eve" || job.ClaimExpiresAt != end+34*hour {
		t.Errorf("%s", raw)
	}
	r.log.stamp = end + 34*hour - 1000
	r.run(&command.Tick{})
	if job, raw := r.job(1); job != (view.Job{Status: state.JobOpen}) {
		t.Errorf("%s", raw)
	}
	if !strings.Contains(raw, `"results":[]`) {
		t.Errorf("%s", raw)
	}
}

// TestLostClaim compares the view's verdict on a claim with that of apply. A claim that may
// still succeed is not lost.
func TestLostClaim(t *testing.T) {
	taken := []command.Problem{command.ProblemJobClaimed}
	again := func(c *command.ClaimJob) *command.ClaimJob {
		c.Request = command.RequestKey{Scope: "eve", ID: "request-1"}
		return c
	}
	wrongKey := claim("key", 1)
	wrongKey.Proof.Key = keyHash("not the key of key")
	for name, tt := range map[string]struct {
		before []command.Payload
		claim  *command.ClaimJob
		later  int64 // from the view to the instant at which the claim is judged
		want   []command.Problem
	}{
		"open":                      {nil, claim("eve", 1), 0, nil},
		"claimed by another":        {[]command.Payload{claim("bob", 1)}, claim("eve", 1), 0, taken},
		"before the end":            {[]command.Payload{claim("bob", 1)}, claim("eve", 1), 24*hour - 1, taken},
		"at the end":                {[]command.Payload{claim("bob", 1)}, claim("eve", 1), 24 * hour, nil},
		"claimed by the same agent": {[]command.Payload{claim("eve", 1)}, claim("eve", 1), 0, nil},
		"claimed by the poster":     {[]command.Payload{claim("bob", 1)}, claim("ada", 1), 0, []command.Problem{command.ProblemOwnJob, command.ProblemJobClaimed}},
		"released":                  {[]command.Payload{claim("bob", 1), release("bob", 1)}, claim("eve", 1), 0, nil},
		"done":                      {[]command.Payload{claim("bob", 1), finish("bob", 1)}, claim("eve", 1), 24 * hour, []command.Problem{command.ProblemJobDone}},
		"closed":                    {[]command.Payload{closeJob("ada", 1)}, claim("eve", 1), 24 * hour, []command.Problem{command.ProblemJobClosed}},
		"unknown":                   {nil, claim("eve", 9), 0, nil},
		"a repeated request":        {[]command.Payload{again(claim("eve", 1)), release("eve", 1), claim("bob", 1)}, again(claim("eve", 1)), 0, nil},
		"a wrong key":               {[]command.Payload{register("key", "key of key", nil), claim("bob", 1)}, wrongKey, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, b := range append([]command.Payload{postJob("ada")}, tt.before...) {
				expect(t, r.run(b)[0], command.OutcomeDone, "%T", b)
			}
			v := r.View()
			a, err := v.Admit(tt.claim, netip.Addr{}, r.log.stamp+tt.later)
			v.Release()
			if diff := cmp.Diff(tt.want, a.Lost); diff != "" || err != nil {
				t.Fatalf("the view: %v (-want +got):\n%s", err, diff)
			}
			if r.log.stamp += max(0, tt.later-1000); len(a.Lost) == 0 { // run goes on by a second
				return
			}
			check.Diff(t, r.run(tt.claim)[0].Problems, tt.want, "apply")
		})
	}
}

// TestNextDueJob follows when the first claim ends.
func TestNextDueJob(t *testing.T) {
	r := newRig(t)
	next := func() int64 {
		v := r.View()
		defer v.Release()
		at, ok := v.NextDueJob()
		must.Equal(t, ok, at != state.Never, "a job is due, at %d,", at)
		return at
	}
	check.Equal(t, next(), state.Never, "a claim in an empty state")
	r.run(postJob("ada"), postJob("ada"))
	late, soon := claim("bob", 1), claim("bob", 2)
	soon.TTL = hour
	r.run(late, soon)
	at := r.log.stamp
	check.Equal(t, next(), at+hour, "next end")
	r.run(release("bob", 2))
	check.Equal(t, next(), at+24*hour, "after a release")
	r.log.stamp += 24 * hour
	r.run(&command.Tick{})
	check.Equal(t, next(), state.Never, "a claim after the last one ended")
}

// TestManyClaimsEndAtOnce holds that a log entry reopens a bounded number of jobs, and that
// readers see no difference.
func TestManyClaimsEndAtOnce(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	const n = apply.MaxEnded + 200
	r := newRig(t)
	for seq := uint64(1); seq <= n; {
		var bodies []command.Payload
		for ; len(bodies) < 100 && seq <= n; seq++ {
			bodies = append(bodies, postJob("ada"))
		}
		r.run(bodies...)
	}
	end := r.log.stamp + 24*hour
	for seq := uint64(1); seq <= n; {
		var bodies []command.Payload
		for ; len(bodies) < 100 && seq <= n; seq++ {
			c := claim("bob", seq)
			c.TTL = end - (r.log.stamp + 1000)
			bodies = append(bodies, c)
		}
		r.run(bodies...)
	}
	r.log.stamp = end - 1000
	r.run(&command.Tick{})
	v := r.View()
	overdue, err := v.Overdue()
	v.Release()
	if err != nil || len(overdue) != n-apply.MaxEnded {
		t.Fatalf("%d claims left, %v, want %d", len(overdue), err, n-apply.MaxEnded)
	}
	if got := r.jobs(view.JobQuery{Status: state.JobOpen}); len(got) != n || got[0] != n || got[n-1] != 1 {
		t.Errorf("%d open jobs", len(got))
	}
	check.Equal(t, len(r.jobs(view.JobQuery{Status: state.JobClaimed})), 0, "claimed jobs")
	if job, raw := r.job(n); job != (view.Job{Status: state.JobOpen}) {
		t.Errorf("%s", raw)
	}
	// The newest one, still to be reopened, can be claimed again in the next
	// log entry, which reopens the others.
	expect(t, r.run(claim("eve", n), closeJob("ada", n-1))[0], command.OutcomeDone, "result")
	v = r.View()
	defer v.Release()
	if overdue, err = v.Overdue(); err != nil || len(overdue) != 0 {
		t.Errorf("%d claims left, %v", len(overdue), err)
	}
	if got := r.jobs(view.JobQuery{Status: state.JobClaimed}); len(got) != 1 || got[0] != n {
		t.Errorf("claimed jobs %v", got)
	}
}

// TestSearchStopsAtItsBound holds that a search for jobs of one status looks at a
// bounded number of others, and is complete page by page.
func TestSearchStopsAtItsBound(t *testing.T) {
	const apart = view.FilterStep + 1 // each look ends before the next job of the status
	const n = (view.MaxFiltered/view.FilterStep + 2) * apart
	r := newRig(t)
	var claims []command.Payload
	for seq := uint64(1); seq <= n; {
		var bodies []command.Payload
		for ; len(bodies) < 100 && seq <= n; seq++ {
			p := postJob("ada")
			if seq%apart == 0 {
				p.Title, p.Body = "Trees", "All of them."
				claims = append(claims, claim("bob", seq))
			}
			bodies = append(bodies, p)
		}
		r.run(bodies...)
	}
	r.run(append(claims, claim("bob", 1))...)
	q := view.JobQuery{Status: state.JobClaimed, Q: "birds"}
	v := r.View()
	seqs, next, err := v.ListJobs(q)
	v.Release()
	if err != nil || len(seqs) != 0 || next == 0 || next > 3*apart {
		t.Errorf("first page %v, next %d, %v", seqs, next, err)
	}
	check.Diff(t, r.jobs(q), []uint64{1}, "all pages")
}

// TestJobLists filters by status and by words.
func TestJobLists(t *testing.T) {
	r := newRig(t)
	for range 6 {
		r.run(postJob("ada"))
	}
	other := postJob("ada")
	other.Title, other.Tags = "Count the trees", []string{"wood"}
	r.run(other, post("ada", func(p *command.Publish) { p.Title = "Birds, too" }))
	r.run(claim("bob", 2), claim("bob", 3), finish("bob", 3), claim("eve", 4), finish("eve", 4), closeJob("ada", 5)) // entries 9 to 13
	for name, tt := range map[string]struct {
		q    view.JobQuery
		want []uint64
	}{
		"all":               {view.JobQuery{}, []uint64{7, 6, 5, 4, 3, 2, 1}},
		"open":              {view.JobQuery{Status: state.JobOpen}, []uint64{7, 6, 1}},
		"claimed":           {view.JobQuery{Status: state.JobClaimed}, []uint64{2}},
		"done":              {view.JobQuery{Status: state.JobDone}, []uint64{4, 3}},
		"closed":            {view.JobQuery{Status: state.JobClosed}, []uint64{5}},
		"words":             {view.JobQuery{Q: "bir"}, []uint64{6, 5, 4, 3, 2, 1}},
		"words, open":       {view.JobQuery{Q: "birds", Status: state.JobOpen}, []uint64{6, 1}},
		"words, none":       {view.JobQuery{Q: "fish", Status: state.JobOpen}, nil},
		"without a word":    {view.JobQuery{Q: "the -birds"}, []uint64{7}},
		"phrase":            {view.JobQuery{Q: `"count the trees"`}, []uint64{7}},
		"phrase, open":      {view.JobQuery{Q: `"count the birds"`, Status: state.JobOpen}, []uint64{6, 1}},
		"no phrase":         {view.JobQuery{Q: `"trees the count"`}, nil},
		"tag":               {view.JobQuery{TagKey: "wood"}, []uint64{7}},
		"tags, open":        {view.JobQuery{TagKey: "wood" + view.Or + "none", Status: state.JobOpen}, []uint64{7}},
		"no word":           {view.JobQuery{Q: "!!"}, nil},
		"no word, open":     {view.JobQuery{Q: "!!", Status: state.JobOpen}, nil},
		"what only entries": {view.JobQuery{Q: "too"}, nil},
	} {
		for _, limit := range []int{0, 1, 2, 3} {
			tt.q.Limit = limit
			check.Diff(t, r.jobs(tt.q), tt.want, "%s, %d a page", name, limit)
		}
	}
}

// TestJobHistory holds the events and the history of a job, up to its end by its poster's key,
// which also ends a claim.
func TestJobHistory(t *testing.T) {
	r := newRig(t)
	p, closing := postJob("ada"), closeJob("ada", 1)
	p.Proof.Key, closing.Proof.Key = keyHash("key of ada"), keyHash("key of ada")
	r.run(register("ada", "key of ada", nil), p)
	r.run(claim("bob", 1), release("bob", 1), claim("bob", 1))
	r.log.stamp += 25 * hour
	r.run(&command.Tick{}) // the claim is over
	r.run(hide("j1"))
	r.run(unhide("j1"))
	r.run(claim("bob", 1))
	expect(t, r.run(closing)[0], command.OutcomeDone, "close by key")
	if job, raw := r.job(1); job != (view.Job{Status: state.JobClosed}) {
		t.Errorf("%s", raw)
	}
	checkClaimCounts(t, r.Machine)
	expectProblem(t, r.run(finish("bob", 1))[0], command.ProblemJobClosed, "result")

	v := r.View()
	defer v.Release()
	cursor := view.EventsAfter(state.EventPlace{})
	events, err := v.Events(&cursor, 100)
	var kinds []string
	for i := range events {
		kinds = append(kinds, events[i].Kind.String())
		raw := must.Get(v.AppendEvent(nil, &events[i]))(t)
		if !strings.Contains(string(raw), `"job":{"id":"j1"`) && events[i].Kind != state.EventHide && events[i].Kind != state.EventUnhide {
			t.Errorf("%s", raw)
		}
	}
	want := "job claim release claim expiry hide unhide claim close"
	if got := strings.Join(kinds, " "); err != nil || got != want {
		t.Errorf("events %s, %v, want %s", got, err, want)
	}
	var history []struct {
		Event, EntryID, Agent string
		At                    int64
	}
	must.Do(t, json.Unmarshal(must.Get(v.AppendHistory(nil, 1))(t), &history))
	var steps []string
	for i, step := range history {
		steps = append(steps, step.Event)
		if i > 0 && (step.At < history[i-1].At || step.EntryID == "" || step.Agent != "ada" && step.Agent != "bob") {
			t.Errorf("step %d is %+v", i, step)
		}
	}
	want = strings.ReplaceAll(strings.TrimPrefix(want, "job "), " hide unhide", "")
	check.Equal(t, strings.Join(steps, " "), want, "history")
	r.run(hide("j1"))
	hidden := r.View()
	defer hidden.Release()
	check.Equal(t, string(must.Get(hidden.AppendHistory(nil, 1))(t)), "[]", "history of a hidden job")
}

func TestJobStepsAreBounded(t *testing.T) {
	var job state.JobRow
	for n := range uint64(state.MaxJobSteps + 5) {
		job = job.WithStep(state.JobStep{Kind: state.EventClaim, Entry: n, At: int64(n)})
	}
	steps := state.StepsOf(job.Steps)
	check.Equal(t, len(steps), state.MaxJobSteps, "steps")
	check.Equal(t, steps[0], state.JobStep{Kind: state.EventClaim, Entry: 5, At: 5}, "the oldest step")
}
