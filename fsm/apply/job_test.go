package apply_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

func finish(agent string, job uint64) *command.FinishJob {
	return &command.FinishJob{JobAction: fsmtest.OnJob(agent, job), Result: "There are seven."}
}

func retract(agent string, job uint64) *command.Publish {
	return fsmtest.Post(agent, func(p *command.Publish) {
		p.Relation, p.Target = command.RelationRetraction, state.FormatID(state.TypeJob, job)
	})
}

// job returns a job's state and its JSON.
func (r *rig) job(seq uint64) (view.Job, string) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	job, ok, err := v.Job(seq)
	if err != nil || !ok {
		r.T.Fatalf("job %d: %v, %v", seq, ok, err)
	}
	raw := must.Get(v.AppendJob(nil, seq))(r.T)
	return job, string(raw)
}

func (r *rig) jobs(q view.Query) []uint64 {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	var all []uint64
	for {
		seqs, next, err := v.ListJobs(q)
		must.Do(r.T, err)
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
	brief := fsmtest.Claim("bob", 1)
	brief.TTL = 1
	states := map[string][]command.Payload{
		"open":            nil,
		"claimed":         {fsmtest.Claim("Bob", 1)},
		"released":        {fsmtest.Claim("Bob", 1), fsmtest.Release("bob", 1)},
		"done":            {fsmtest.Claim("Bob", 1), finish("BOB", 1)},
		"closed":          {fsmtest.CloseJob("Ada", 1)},
		"retracted":       {retract("ada", 1)},
		"expired":         {brief, &command.Tick{}},
		"extended twice":  {fsmtest.Claim("Bob", 1), fsmtest.Claim("bob", 1), fsmtest.Claim("bob", 1)},
		"done, retracted": {fsmtest.Claim("eve", 1), finish("eve", 1), retract("ada", 1)},
	}
	type result = []command.Problem // zero means allowed
	own, taken, free, over, gone, other := command.ProblemOwnJob, command.ProblemJobClaimed, command.ProblemJobNotClaimed, command.ProblemJobDone, command.ProblemJobClosed, command.ProblemNotPoster
	acts := map[string]command.Payload{
		"ada claims": fsmtest.Claim("ada", 1), "bob claims": fsmtest.Claim("bob", 1), "eve claims": fsmtest.Claim("eve", 1),
		"ada finishes": finish("ada", 1), "bob finishes": finish("bob", 1), "eve finishes": finish("eve", 1),
		"ada releases": fsmtest.Release("ada", 1), "bob releases": fsmtest.Release("bob", 1), "eve releases": fsmtest.Release("eve", 1),
		"ada closes": fsmtest.CloseJob("ada", 1), "bob closes": fsmtest.CloseJob("bob", 1), "ada retracts": retract("ada", 1), "eve retracts": retract("eve", 1),
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
				for _, b := range append([]command.Payload{fsmtest.PostJob("Ada")}, before...) {
					fsmtest.Expect(t, r.Run(b)[0], command.OutcomeDone, "%T", b)
				}
				was, _ := r.job(1)
				got := r.Run(body)[0]
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
	r.Run(fsmtest.PostJob("ada"), fsmtest.Post("ada", nil), &command.AskHuman{Author: fsmtest.Author("ada"), Goal: "Some goal", Action: "Some action"})
	for _, id := range []string{"j9", "e1", "h1", "j2", "e2", "j3", "h3", "J1", "nonsense"} {
		act := command.JobAction{Author: fsmtest.Author("bob"), Job: id}
		for _, b := range []command.Payload{&command.ClaimJob{JobAction: act, TTL: 1}, &command.FinishJob{JobAction: act, Result: "Done."}, &command.ReleaseJob{JobAction: act}, &command.CloseJob{JobAction: act}} {
			if got := r.Run(b)[0]; got.Outcome != command.OutcomeRejected || got.Problems[0] != command.ProblemUnknownJob {
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
			c := fsmtest.Claim(name, job)
			c.Proof = command.Proof{Sender: sender}
			if key != "" {
				c.Proof.Key = fsmtest.KeyHash(key)
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
				jobs[i] = fsmtest.PostJob("ada")
			}
			r.Run(jobs...)
			for i := range 4 {
				r.Run(fsmtest.Register(fmt.Sprint("key", i), fmt.Sprint("key of key", i), nil))
			}
			r.Stamp += tt.age
			taken := 0
			for ; taken < many; taken++ {
				c := tt.claim(uint64(taken) + 1)
				c.TTL = 1000_000
				found := r.Problems(c)
				if got := r.Run(c)[0]; !cmp.Equal(found, got.Problems) {
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
				fsmtest.Expect(t, r.Run(end, &next)[1], command.OutcomeDone, "after %T", end)
				taken++
				last = &next
			}
			if taken+4 < many {
				claimNext(&command.FinishJob{JobAction: last.JobAction, Result: "Done."})
				claimNext(&command.ReleaseJob{JobAction: last.JobAction})
				claimNext(fsmtest.Hide(last.Job))
			}
			fsmtest.Expect(t, r.Run(last)[0], command.OutcomeDone, "an extension")
			r.Stamp += 1000_000 + 24*fsmtest.Hour
			last.Job = state.FormatID(state.TypeJob, many)
			fsmtest.Expect(t, r.Run(last)[0], command.OutcomeDone, "after the end of all claims")
			fsmtest.CheckClaimCounts(t, r)
		})
	}
}

// TestClaimEnds steps the clock around the end of a claim.
func TestClaimEnds(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.PostJob("ada"))
	r.Run(fsmtest.Claim("bob", 1))
	end := r.Stamp + 24*fsmtest.Hour
	job, raw := r.job(1)
	must.Equal(t, job, view.Job{Status: state.JobClaimed, ClaimedBy: "bob", ClaimantKey: "bob", ClaimExpiresAt: end, Claim: 2}, "job of %s", raw)
	r.Stamp = end - 1 - 1000 // run goes on by a second
	if got := r.Run(fsmtest.Claim("eve", 1))[0]; len(got.Problems) != 1 || got.Problems[0] != command.ProblemJobClaimed {
		t.Errorf("1 ms before the end: %+v", got)
	}
	r.Stamp = end - 1000
	fsmtest.Expect(t, r.Run(fsmtest.Claim("eve", 1))[0], command.OutcomeDone, "at the end")
	if job, raw := r.job(1); job.ClaimedBy != "eve" || job.ClaimExpiresAt != end+24*fsmtest.Hour {
		t.Errorf("%s", raw)
	}
	// The claimant extends the claim: the old end no longer counts.
	r.Stamp = end + 10*fsmtest.Hour - 1000
	r.Run(fsmtest.Claim("Eve", 1))
	r.Stamp = end + 30*fsmtest.Hour
	r.Run(&command.Tick{})
	if job, raw := r.job(1); job.Status != state.JobClaimed || job.ClaimedBy != "Eve" || job.ClaimExpiresAt != end+34*fsmtest.Hour {
		t.Errorf("%s", raw)
	}
	r.Stamp = end + 34*fsmtest.Hour - 1000
	r.Run(&command.Tick{})
	job, _ = r.job(1)
	check.Equal(t, job, view.Job{Status: state.JobOpen}, "job in the end")
	check.Contains(t, raw, `"results":[]`, "the job")
}

// TestLostClaim compares the view's verdict on a claim with that of apply. A claim that may
// still succeed is not lost.
func TestLostClaim(t *testing.T) {
	taken := []command.Problem{command.ProblemJobClaimed}
	again := func(c *command.ClaimJob) *command.ClaimJob {
		c.Request = command.RequestKey{Scope: "eve", ID: "request-1"}
		return c
	}
	wrongKey := fsmtest.Claim("key", 1)
	wrongKey.Proof.Key = fsmtest.KeyHash("not the key of key")
	for name, tt := range map[string]struct {
		before []command.Payload
		claim  *command.ClaimJob
		later  int64 // from the view to the instant at which the claim is judged
		want   []command.Problem
	}{
		"open":                      {nil, fsmtest.Claim("eve", 1), 0, nil},
		"claimed by another":        {[]command.Payload{fsmtest.Claim("bob", 1)}, fsmtest.Claim("eve", 1), 0, taken},
		"before the end":            {[]command.Payload{fsmtest.Claim("bob", 1)}, fsmtest.Claim("eve", 1), 24*fsmtest.Hour - 1, taken},
		"at the end":                {[]command.Payload{fsmtest.Claim("bob", 1)}, fsmtest.Claim("eve", 1), 24 * fsmtest.Hour, nil},
		"claimed by the same agent": {[]command.Payload{fsmtest.Claim("eve", 1)}, fsmtest.Claim("eve", 1), 0, nil},
		"claimed by the poster":     {[]command.Payload{fsmtest.Claim("bob", 1)}, fsmtest.Claim("ada", 1), 0, []command.Problem{command.ProblemOwnJob, command.ProblemJobClaimed}},
		"released":                  {[]command.Payload{fsmtest.Claim("bob", 1), fsmtest.Release("bob", 1)}, fsmtest.Claim("eve", 1), 0, nil},
		"done":                      {[]command.Payload{fsmtest.Claim("bob", 1), finish("bob", 1)}, fsmtest.Claim("eve", 1), 24 * fsmtest.Hour, []command.Problem{command.ProblemJobDone}},
		"closed":                    {[]command.Payload{fsmtest.CloseJob("ada", 1)}, fsmtest.Claim("eve", 1), 24 * fsmtest.Hour, []command.Problem{command.ProblemJobClosed}},
		"unknown":                   {nil, fsmtest.Claim("eve", 9), 0, nil},
		"a repeated request":        {[]command.Payload{again(fsmtest.Claim("eve", 1)), fsmtest.Release("eve", 1), fsmtest.Claim("bob", 1)}, again(fsmtest.Claim("eve", 1)), 0, nil},
		"a wrong key":               {[]command.Payload{fsmtest.Register("key", "key of key", nil), fsmtest.Claim("bob", 1)}, wrongKey, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, b := range append([]command.Payload{fsmtest.PostJob("ada")}, tt.before...) {
				fsmtest.Expect(t, r.Run(b)[0], command.OutcomeDone, "%T", b)
			}
			v := r.View()
			a, err := v.Admit(tt.claim, netip.Addr{}, r.Stamp+tt.later)
			v.Release()
			if diff := cmp.Diff(tt.want, a.Lost); diff != "" || err != nil {
				t.Fatalf("the view: %v (-want +got):\n%s", err, diff)
			}
			if r.Stamp += max(0, tt.later-1000); len(a.Lost) == 0 { // run goes on by a second
				return
			}
			check.Diff(t, r.Run(tt.claim)[0].Problems, tt.want, "apply")
		})
	}
}

// TestNextEndOfAClaim: the next end is that of the first claim, while there is one.
func TestNextEndOfAClaim(t *testing.T) {
	r := newRig(t)
	next := func() int64 { return fsmtest.InView(t, r, (*view.View).NextEnd) }
	check.Equal(t, next(), state.Never, "a claim in an empty state")
	r.Run(fsmtest.PostJob("ada"), fsmtest.PostJob("ada"))
	late, soon := fsmtest.Claim("bob", 1), fsmtest.Claim("bob", 2)
	soon.TTL = fsmtest.Hour
	r.Run(late, soon)
	at := r.Stamp
	check.Equal(t, next(), at+fsmtest.Hour, "next end")
	r.Run(fsmtest.Release("bob", 2))
	check.Equal(t, next(), at+24*fsmtest.Hour, "after a release")
	r.Stamp += 24 * fsmtest.Hour
	r.Run(&command.Tick{})
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
			bodies = append(bodies, fsmtest.PostJob("ada"))
		}
		r.Run(bodies...)
	}
	end := r.Stamp + 24*fsmtest.Hour
	for seq := uint64(1); seq <= n; {
		var bodies []command.Payload
		for ; len(bodies) < 100 && seq <= n; seq++ {
			c := fsmtest.Claim("bob", seq)
			c.TTL = end - (r.Stamp + 1000)
			bodies = append(bodies, c)
		}
		r.Run(bodies...)
	}
	r.Stamp = end - 1000
	r.Run(&command.Tick{})
	must.Equal(t, len(fsmtest.InView(t, r, (*view.View).Overdue)), n-apply.MaxEnded, "claims left")
	if got := r.jobs(view.Query{JobStatus: state.JobOpen}); len(got) != n || got[0] != n || got[n-1] != 1 {
		t.Errorf("%d open jobs", len(got))
	}
	check.Equal(t, len(r.jobs(view.Query{JobStatus: state.JobClaimed})), 0, "claimed jobs")
	job, raw := r.job(n)
	check.Equal(t, job, view.Job{Status: state.JobOpen}, "job of %s", raw)
	// The newest one, still to be reopened, can be claimed again in the next
	// log entry, which reopens the others.
	fsmtest.Expect(t, r.Run(fsmtest.Claim("eve", n), fsmtest.CloseJob("ada", n-1))[0], command.OutcomeDone, "result")
	check.Equal(t, len(fsmtest.InView(t, r, (*view.View).Overdue)), 0, "claims left in the end")
	if got := r.jobs(view.Query{JobStatus: state.JobClaimed}); len(got) != 1 || got[0] != n {
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
			p := fsmtest.PostJob("ada")
			if seq%apart == 0 {
				p.Title, p.Body = "Trees", "All of them."
				claims = append(claims, fsmtest.Claim("bob", seq))
			}
			bodies = append(bodies, p)
		}
		r.Run(bodies...)
	}
	r.Run(append(claims, fsmtest.Claim("bob", 1))...)
	q := view.Query{JobStatus: state.JobClaimed, Q: "birds"}
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
		r.Run(fsmtest.PostJob("ada"))
	}
	other := fsmtest.PostJob("ada")
	other.Title, other.Tags = "Count the trees", []string{"wood"}
	r.Run(other, fsmtest.Post("ada", func(p *command.Publish) { p.Title = "Birds, too" }))
	r.Run(fsmtest.Claim("bob", 2), fsmtest.Claim("bob", 3), finish("bob", 3), fsmtest.Claim("eve", 4), finish("eve", 4), fsmtest.CloseJob("ada", 5)) // entries 9 to 13
	for name, tt := range map[string]struct {
		q    view.Query
		want []uint64
	}{
		"all":               {view.Query{}, []uint64{7, 6, 5, 4, 3, 2, 1}},
		"open":              {view.Query{JobStatus: state.JobOpen}, []uint64{7, 6, 1}},
		"claimed":           {view.Query{JobStatus: state.JobClaimed}, []uint64{2}},
		"done":              {view.Query{JobStatus: state.JobDone}, []uint64{4, 3}},
		"closed":            {view.Query{JobStatus: state.JobClosed}, []uint64{5}},
		"words":             {view.Query{Q: "bir"}, []uint64{6, 5, 4, 3, 2, 1}},
		"words, open":       {view.Query{Q: "birds", JobStatus: state.JobOpen}, []uint64{6, 1}},
		"words, none":       {view.Query{Q: "fish", JobStatus: state.JobOpen}, nil},
		"without a word":    {view.Query{Q: "the -birds"}, []uint64{7}},
		"phrase":            {view.Query{Q: `"count the trees"`}, []uint64{7}},
		"phrase, open":      {view.Query{Q: `"count the birds"`, JobStatus: state.JobOpen}, []uint64{6, 1}},
		"no phrase":         {view.Query{Q: `"trees the count"`}, nil},
		"tag":               {view.Query{TagKey: "wood"}, []uint64{7}},
		"tags, open":        {view.Query{TagKey: "wood" + view.Or + "none", JobStatus: state.JobOpen}, []uint64{7}},
		"no word":           {view.Query{Q: "!!"}, nil},
		"no word, open":     {view.Query{Q: "!!", JobStatus: state.JobOpen}, nil},
		"what only entries": {view.Query{Q: "too"}, nil},
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
	p, closing := fsmtest.PostJob("ada"), fsmtest.CloseJob("ada", 1)
	p.Proof.Key, closing.Proof.Key = fsmtest.KeyHash("key of ada"), fsmtest.KeyHash("key of ada")
	r.Run(fsmtest.Register("ada", "key of ada", nil), p)
	r.Run(fsmtest.Claim("bob", 1), fsmtest.Release("bob", 1), fsmtest.Claim("bob", 1))
	r.Stamp += 25 * fsmtest.Hour
	r.Run(&command.Tick{}) // the claim is over
	r.Run(fsmtest.Hide("j1"))
	r.Run(fsmtest.Unhide("j1"))
	r.Run(fsmtest.Claim("bob", 1))
	fsmtest.Expect(t, r.Run(closing)[0], command.OutcomeDone, "close by key")
	job, raw := r.job(1)
	check.Equal(t, job, view.Job{Status: state.JobClosed}, "job of %s", raw)
	fsmtest.CheckClaimCounts(t, r)
	expectProblem(t, r.Run(finish("bob", 1))[0], command.ProblemJobClosed, "result")

	v := r.View()
	defer v.Release()
	cursor := view.EventCursor{EventPlace: state.EventPlace{}}
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
	r.Run(fsmtest.Hide("j1"))
	hidden := r.View()
	defer hidden.Release()
	check.Equal(t, string(must.Get(hidden.AppendHistory(nil, 1))(t)), "[]", "history of a hidden job")
}

func TestJobStepsAreBounded(t *testing.T) {
	var job state.JobRow
	for n := range uint64(state.MaxJobSteps + 5) {
		job = job.WithStep(state.JobStep{Kind: state.EventClaim, Entry: n, At: int64(n)})
	}
	steps := job.Steps
	check.Equal(t, len(steps), state.MaxJobSteps, "steps")
	check.Equal(t, steps[0], state.JobStep{Kind: state.EventClaim, Entry: 5, At: 5}, "the oldest step")
}
