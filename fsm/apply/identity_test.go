package apply_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
)

// look is the hash of a skeleton.
func look(n byte) []byte { return bytes.Repeat([]byte{n}, command.LookBytes) }

// proofs are the ways to write as ada, who is registered from sender-1 and has the key k1.
var proofs = map[string]command.Proof{
	"by key":                   {Key: fsmtest.KeyHash("k1"), Sender: "sender-9"},
	"by address":               {Sender: "sender-1", Address: true},
	"by a link":                {Sender: "sender-1"},
	"unproven":                 {Sender: "sender-9", Address: true},
	"with a wrong key":         {Key: fsmtest.KeyHash("k9"), Sender: "sender-9"},
	"with another's key":       {Key: fsmtest.KeyHash("k2"), Sender: "sender-9"},
	"wrong key, right address": {Key: fsmtest.KeyHash("k9"), Sender: "sender-1", Address: true},
}

// strengths are the strengths by name; a missing one means that the write is rejected.
var strengths = map[string]command.Strength{"by key": command.ByKey, "by address": command.ByAddress, "by a link": command.Unproven, "unproven": command.Unproven}

func withProof(b command.Payload, proof command.Proof) command.Payload {
	switch c := b.(type) {
	case *command.Publish:
		c.Proof = proof
	case *command.PostJob:
		c.Proof = proof
	case *command.ClaimJob:
		c.Proof = proof
	case *command.FinishJob:
		c.Proof = proof
	case *command.ReleaseJob:
		c.Proof = proof
	case *command.CloseJob:
		c.Proof = proof
	case *command.AskHuman:
		c.Proof = proof
	}
	return b
}

// newNames is a rig with the profiles of ada and bob.
func newNames(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.Run(
		fsmtest.Register("ada", "k1", func(c *command.Register) { c.Proof.Looks = look(1) }),
		fsmtest.Register("bob", "k2", func(c *command.Register) { c.Proof.Sender = "sender-2" }),
	)
	return r
}

// TestWhatProofUndoes tries, with every proof, to undo what was done with every proof:
// what needs the author's own proof is rejected below it.
func TestWhatProofUndoes(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	entry := func() []command.Payload { return []command.Payload{fsmtest.Post("ada", nil)} }
	job := func() []command.Payload { return []command.Payload{fsmtest.PostJob("ada")} }
	help := func() []command.Payload { return []command.Payload{fsmtest.Help("ada")} }
	claimed := func() []command.Payload { return []command.Payload{fsmtest.PostJob("eve"), fsmtest.Claim("ada", 1)} }
	on := func(relation command.Relation, style state.EntryType) command.Payload {
		return fsmtest.Post("ada", func(p *command.Publish) { p.Relation, p.Target = relation, state.FormatID(style, 1) })
	}
	for name, tt := range map[string]struct {
		before func() []command.Payload // the last one is made with the proof
		act    func() command.Payload
		free   bool // it needs no proof
	}{
		"retraction":              {entry, func() command.Payload { return on(command.RelationRetraction, state.TypeEntry) }, false},
		"correction":              {entry, func() command.Payload { return on(command.RelationCorrection, state.TypeEntry) }, false},
		"reply":                   {entry, func() command.Payload { return on(command.RelationReply, state.TypeEntry) }, true},
		"follow up":               {entry, func() command.Payload { return on(command.RelationFollowUp, state.TypeEntry) }, true},
		"retraction of a job":     {job, func() command.Payload { return on(command.RelationRetraction, state.TypeJob) }, false},
		"correction of a job":     {job, func() command.Payload { return on(command.RelationCorrection, state.TypeJob) }, false},
		"close":                   {job, func() command.Payload { return fsmtest.CloseJob("ada", 1) }, false},
		"retraction of a request": {help, func() command.Payload { return on(command.RelationRetraction, state.TypeHelp) }, false},
		"release":                 {claimed, func() command.Payload { return fsmtest.Release("ada", 1) }, false},
		"extension":               {claimed, func() command.Payload { return fsmtest.Claim("ada", 1) }, false},
		"result":                  {claimed, func() command.Payload { return finish("ada", 1) }, false},
	} {
		for made, madeStrength := range strengths {
			for how, proof := range proofs {
				t.Run(fmt.Sprintf("%s of what was made %s/%s", name, made, how), func(t *testing.T) {
					r := newNames(t)
					before := tt.before()
					for i, b := range before {
						if i == len(before)-1 {
							b = withProof(b, proofs[made])
						}
						fsmtest.Expect(t, r.Run(b)[0], command.OutcomeDone, "%T", b)
					}
					act := withProof(tt.act(), proof)
					strength, right := strengths[how]
					var want []command.Problem
					switch {
					case !right:
						want = []command.Problem{command.ProblemWrongKey}
					case !tt.free && strength < madeStrength:
						want = []command.Problem{command.ProblemProofRequired}
					}
					check.Diff(t, r.Problems(act), want, "problems in the view")
					if got := r.Run(act)[0]; !slices.Equal(got.Problems, want) || (got.Outcome == command.OutcomeDone) != (want == nil) {
						t.Errorf("%+v, want problems %v", got, want)
					}
				})
			}
		}
	}
}

// TestExtensionKeepsTheProof: a claim by name that is extended by key belongs to the key.
func TestExtensionKeepsTheProof(t *testing.T) {
	r := newNames(t)
	r.Run(fsmtest.PostJob("eve"), fsmtest.Claim("ada", 1))
	r.Run(withProof(fsmtest.Claim("ada", 1), proofs["by key"]))
	expectProblem(t, r.Run(withProof(fsmtest.Release("ada", 1), proofs["by address"]))[0], command.ProblemProofRequired, "result")
	fsmtest.Expect(t, r.Run(withProof(finish("ada", 1), proofs["by key"]))[0], command.OutcomeDone, "result")
}

// TestAnonymousRetraction: an anonymous entry is retracted by its sender, in the way in
// which it came or a better one.
func TestAnonymousRetraction(t *testing.T) {
	here, link, elsewhere := command.Proof{Sender: "s1", Address: true}, command.Proof{Sender: "s1"}, command.Proof{Sender: "s2", Address: true}
	for _, tt := range []struct {
		name      string
		made, now command.Proof
		ok        bool
	}{
		{"from there", here, here, true},
		{"from elsewhere", here, elsewhere, false},
		{"by a link from there", here, link, false},
		{"made by a link, by a link", link, link, true},
		{"made by a link, by a post", link, here, true},
		{"made by a link, from elsewhere", link, elsewhere, false},
		{"through a proxy", here, command.Proof{Sender: "s1", Address: true, Shared: true}, false},
		{"with a key", here, command.Proof{Key: fsmtest.KeyHash("k1"), Sender: "s2"}, false},
		{"from nowhere", command.Proof{}, command.Proof{}, false},
		{"forgotten", command.Proof{}, here, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for style, made := range map[state.EntryType]command.Payload{state.TypeEntry: fsmtest.Post(command.AnonymousName, nil), state.TypeJob: fsmtest.PostJob(command.AnonymousName), state.TypeHelp: fsmtest.Help(command.AnonymousName)} {
				r := newNames(t)
				r.Run(withProof(made, tt.made))
				acts := map[command.Problem]command.Payload{command.ProblemRetractionAnonymous: fsmtest.Post(command.AnonymousName, func(p *command.Publish) {
					p.Relation, p.Target, p.Proof = command.RelationRetraction, state.FormatID(style, 1), tt.now
				})}
				if style == state.TypeJob {
					acts[command.ProblemNotPoster] = withProof(fsmtest.CloseJob(command.AnonymousName, 1), tt.now)
				}
				for problem, act := range acts {
					var want []command.Problem
					if !tt.ok {
						want = []command.Problem{problem}
					}
					check.Diff(t, r.Problems(act), want, "problems in the view, %T of %c", act, style)
				}
				got := r.Run(acts[command.ProblemRetractionAnonymous])[0]
				if doc, _ := r.Read(1); (got.Outcome == command.OutcomeDone) != tt.ok || (doc.Status == "retracted") != tt.ok {
					t.Errorf("%+v, %+v", got, doc)
				}
			}
		})
	}
}

// TestRequestScopes: request_ids of writes by key and of all others do not meet.
func TestRequestScopes(t *testing.T) {
	keyed := func(how, body string) command.Payload {
		return fsmtest.Post("ada", func(p *command.Publish) {
			p.Request, p.Body, p.Proof = command.RequestKey{Scope: "ada", ID: "daily-2026-11-23"}, body, proofs[how]
		})
	}
	for _, tt := range []struct {
		first, second string
		outcome       command.Outcome
	}{
		{"unproven", "by key", command.OutcomeDone},
		{"by address", "by key", command.OutcomeDone},
		{"by key", "unproven", command.OutcomeDone},
		{"by key", "by key", command.OutcomeDuplicate},
		{"unproven", "by address", command.OutcomeDuplicate},
		{"by address", "by a link", command.OutcomeDuplicate},
		{"by key", "with a wrong key", command.OutcomeRejected},
		{"unproven", "with a wrong key", command.OutcomeRejected},
	} {
		r := newNames(t)
		r.Run(keyed(tt.first, "What is first."))
		second := keyed(tt.second, "What is second.")
		v := r.View()
		_, repeated, _, err := v.Assess(second, 0, 0)
		v.Release()
		if got := r.Run(second)[0]; got.Outcome != tt.outcome || repeated != (tt.outcome == command.OutcomeDuplicate) || err != nil {
			t.Errorf("%s, then %s: %+v, free %v, want outcome %d", tt.first, tt.second, got, repeated, tt.outcome)
		}
	}
	// A retry whose name was registered in between finds its first write.
	r := newRig(t)
	r.Run(keyed("by address", "The same."), fsmtest.Register("ada", "k1", nil))
	fsmtest.Expect(t, r.Run(keyed("by address", "The same."))[0], command.OutcomeDuplicate, "a retry after the registration")
}

func TestHouseNeedsProof(t *testing.T) {
	for how, strength := range strengths {
		r := newNames(t)
		r.Run(fsmtest.Post("ada", func(p *command.Publish) { p.House, p.Proof = true, proofs[how] }))
		_, raw := r.Read(1)
		check.Equal(t, strings.Contains(raw, `"house":true`), strength > command.Unproven, "%s: house in %s", how, raw)
		stats := fsmtest.InView(t, r, func(v *view.View) (view.Stats, error) { return v.Stats(r.Now()) })
		check.Equal(t, stats.Last24h.Posts, 0, "%s: writes of an operator's name that count", how)
	}
}

// TestProtectedName: every write under a protected name needs its key.
func TestProtectedName(t *testing.T) {
	r := newNames(t)
	r.Run(fsmtest.PostJob("eve"), fsmtest.PostJob("eve"), withProof(fsmtest.Claim("ada", 2), proofs["unproven"]))
	protect := func(on bool, key, sender string) command.Result {
		return r.Run(fsmtest.Register("ada", "k9", func(c *command.Register) {
			c.Given, c.Description, c.Protected = command.FieldProtected, "", on
			c.Proof = command.Proof{Sender: sender, Address: true}
			if key != "" {
				c.Proof.Key = fsmtest.KeyHash(key)
			}
		}))[0]
	}
	for _, tt := range []struct {
		key, sender string
		want        []command.Problem
	}{
		{"", "sender-1", []command.Problem{command.ProblemNoKey}},
		{"k2", "sender-1", []command.Problem{command.ProblemWrongKey}},
	} {
		if got := protect(true, tt.key, tt.sender); !slices.Equal(got.Problems, tt.want) || got.Outcome != command.OutcomeRejected {
			t.Errorf("%q from %s: %+v, want %v", tt.key, tt.sender, got, tt.want)
		}
	}
	fsmtest.Expect(t, protect(true, "k1", "sender-1"), command.OutcomeDone, "result")
	writes := func() []command.Payload {
		return []command.Payload{
			fsmtest.Post("ada", nil), fsmtest.PostJob("ada"), fsmtest.Help("ada"), fsmtest.Claim("ada", 1), fsmtest.Release("ada", 2), finish("ada", 2), fsmtest.CloseJob("ada", 1),
			fsmtest.Post("ada", fsmtest.Relate(command.RelationRetraction, 1)),
		}
	}
	for how := range proofs {
		if how == "by key" {
			continue
		}
		want := command.ProblemNameProtected
		if _, right := strengths[how]; !right {
			want = command.ProblemWrongKey
		}
		for _, b := range writes() {
			if got := r.Run(withProof(b, proofs[how]))[0]; got.Outcome != command.OutcomeRejected || got.Problems[0] != want {
				t.Errorf("%T %s: %+v, want %d", b, how, got, want)
			}
		}
	}
	for _, b := range []command.Payload{fsmtest.Post("ada", nil), fsmtest.Claim("ada", 1), fsmtest.Release("ada", 2)} {
		fsmtest.Expect(t, r.Run(withProof(b, proofs["by key"]))[0], command.OutcomeDone, "%T by key", b)
	}
	expectProblem(t, protect(false, "", "sender-1"), command.ProblemNoKey, "lifted without the key")
	fsmtest.Expect(t, r.Run(&command.ProtectName{AgentKey: "ada"})[0], command.OutcomeDone, "lifted by an operator")
	fsmtest.Expect(t, r.Run(withProof(fsmtest.Post("ada", nil), proofs["unproven"]))[0], command.OutcomeDone, "after it was lifted")
	expectProblem(t, r.Run(&command.ProtectName{AgentKey: "nobody", Protected: true})[0], command.ProblemUnknownAgent, "nobody is protected")
}

// TestProtectionIsNoWeapon: who registers a name that others use cannot shut them out.
func TestProtectionIsNoWeapon(t *testing.T) {
	ada := fsmtest.Register("ada", "k1", nil)
	as := func(how string) command.Payload { return withProof(fsmtest.Post("ada", nil), proofs[how]) }
	from := func(sender string) command.Payload {
		return withProof(fsmtest.Post("ada", nil), command.Proof{Sender: sender})
	}
	job := withProof(fsmtest.PostJob("ada"), command.Proof{Sender: "sender-7"})
	for name, tt := range map[string]struct {
		before func(r *rig)
		ok     bool
	}{
		"nobody else wrote":           {func(r *rig) { r.Run(ada) }, true},
		"by address":                  {func(r *rig) { r.Run(ada, as("by address")) }, true},
		"by key, from another sender": {func(r *rig) { r.Run(ada, as("by key")) }, true},
		"without proof":               {func(r *rig) { r.Run(ada, from("sender-7")) }, true},
		"without proof, in a job":     {func(r *rig) { r.Run(ada, job) }, true},
		"before the registration":     {func(r *rig) { r.Run(from("sender-7"), ada) }, false},
		"a job before":                {func(r *rig) { r.Run(job, ada) }, false},
		"the owner before":            {func(r *rig) { r.Run(as("by a link"), from("sender-9"), ada) }, true},
		"before others of the owner":  {func(r *rig) { r.Run(from("sender-7"), as("by a link"), from("sender-9"), ada, from("sender-8")) }, false},
		"before, nearly 30 days ago":  {func(r *rig) { r.Run(from("sender-7"), ada); r.Stamp += state.ProtectAfter - 2000 }, false},
		"before, 30 days ago":         {func(r *rig) { r.Run(from("sender-7"), ada); r.Stamp += state.ProtectAfter }, true},
		"by the address of a lost key": {func(r *rig) {
			r.Run(ada, as("by address"), &command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k1"), NewRecovery: fsmtest.KeyHash("k1")})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tt.before(r)
			got := r.Run(fsmtest.Register("ada", "k9", func(c *command.Register) {
				c.Given, c.Description, c.Protected = command.FieldProtected, "", true
				c.Proof = command.Proof{Key: fsmtest.KeyHash("k1"), Sender: "sender-9", Address: true}
			}))[0]
			if (got.Outcome == command.OutcomeDone) != tt.ok || !tt.ok && !slices.Equal(got.Problems, []command.Problem{command.ProblemOthersWrote}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// owner returns the agent that a key belongs to.
func (r *rig) owner(key string) string {
	r.T.Helper()
	return fsmtest.InView(r.T, r, func(v *view.View) (string, error) { return v.KeyOwner(fsmtest.KeyHash(key)) })
}

// TestRotateKey: another key opens from then on, and a lost answer does not lock the agent
// out.
func TestRotateKey(t *testing.T) {
	rotate := func(key, newKey, sender, id string) *command.Register {
		return fsmtest.Register("ada", newKey, func(c *command.Register) {
			c.Given, c.Description, c.RotateKey = 0, "", true
			c.Proof = command.Proof{Sender: sender, Address: true}
			if key != "" {
				c.Proof.Key = fsmtest.KeyHash(key)
			}
			if id != "" {
				c.Request = command.RequestKey{Scope: "ada", ID: id}
			}
		})
	}
	r := newNames(t)
	rejected := func(p command.Problem) command.Result {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{p}}
	}
	issued, again := command.Result{Outcome: command.OutcomeDone, KeyIssued: true}, command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true}
	for i, step := range []struct {
		c    command.Payload
		want command.Result
		open string
	}{
		{rotate("", "k3", "sender-1", ""), rejected(command.ProblemNoKey), "k1"},
		{rotate("k9", "k3", "sender-1", ""), rejected(command.ProblemWrongKey), "k1"},
		{rotate("k1", "k3", "sender-5", "rotate-01"), issued, "k3"},
		{rotate("k1", "k4", "sender-6", "rotate-01"), rejected(command.ProblemWrongKey), "k3"}, // the key may be known to others
		{rotate("", "k4", "sender-5", "rotate-01"), rejected(command.ProblemNoKey), "k3"},
		{rotate("k1", "k4", "sender-5", "rotate-02"), rejected(command.ProblemWrongKey), "k3"},
		{rotate("k1", "k4", "sender-5", "rotate-01"), again, "k4"}, // the answer was lost
		{withProof(fsmtest.Post("ada", nil), command.Proof{Key: fsmtest.KeyHash("k4")}), command.Result{Outcome: command.OutcomeDone, Entry: 1}, "k4"},
		{rotate("k1", "k5", "sender-5", "rotate-01"), rejected(command.ProblemWrongKey), "k4"}, // the key was seen
		{rotate("k4", "k5", "sender-5", "rotate-01"), command.Result{Outcome: command.OutcomeDuplicate}, "k4"},
		{rotate("k4", "k6", "sender-5", ""), issued, "k6"},
		{&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k7"), NewRecovery: fsmtest.KeyHash("r7")}, command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}, "k7"},
		{rotate("k4", "k8", "sender-5", "rotate-01"), rejected(command.ProblemWrongKey), "k7"},
	} {
		check.Diff(t, r.Run(step.c)[0], step.want, "step %d", i)
		for _, key := range []string{"k1", "k3", "k4", "k5", "k6", "k7", "k8"} {
			check.Equal(t, r.HasKey("ada", key), key == step.open, "step %d: %s opens", i, key)
			owner := ""
			if key == step.open {
				owner = "ada"
			}
			check.Equal(t, r.owner(key), owner, "step %d: %s belongs to", i, key)
		}
	}
	r.Run(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"ada"}})
	check.Equal(t, r.owner("k7"), "ada", "after a purge of the profile the key belongs to")
	r = newNames(t)
	r.Run(rotate("k1", "k3", "sender-5", "rotate-01"))
	r.Stamp += state.KeyGrace
	check.Diff(t, r.Run(rotate("k1", "k4", "sender-5", "rotate-01"))[0], rejected(command.ProblemWrongKey), "too late")
}

// TestLookAlikes: a name that looks like a registered one is not registered, and its
// entries name the registered one.
func TestLookAlikes(t *testing.T) {
	r := newNames(t) // ada looks like 1
	alike := func(looks ...byte) func(*command.Register) {
		return func(c *command.Register) {
			c.Proof.Looks = nil
			for _, l := range looks {
				c.Proof.Looks = append(c.Proof.Looks, look(l)...)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		looks []byte
		want  []command.Problem
	}{
		{"other", []byte{7, 8}, nil},
		{"Ada", []byte{9}, nil}, // the name itself, however it is spelled
		{"first", []byte{1, 2}, []command.Problem{command.ProblemLookAlike}},
		{"second", []byte{2, 1}, []command.Problem{command.ProblemLookAlike}},
		{"other2", []byte{8}, []command.Problem{command.ProblemLookAlike}},
		{"unlike", nil, nil},
	} {
		c := fsmtest.Register(tt.name, "k1", alike(tt.looks...))
		check.Diff(t, r.Run(c)[0].Problems, tt.want, "problems of %s", tt.name)
	}
	for _, tt := range []struct {
		agent string
		proof command.Proof
		want  string
	}{
		{"adda", command.Proof{Looks: look(1)}, "ada"},
		{"adda", command.Proof{Looks: look(3)}, ""},
		{"ada", command.Proof{Looks: look(1)}, ""},
		{"bob", command.Proof{Looks: look(1)}, "ada"}, // registered, and spelled to look like another
		{command.AnonymousName, command.Proof{Looks: look(1)}, ""},
	} {
		seq := r.Publish(func(p *command.Publish) { p.Agent, p.AgentKey, p.Proof = tt.agent, tt.agent, tt.proof })
		doc, raw := r.Read(seq)
		check.Equal(t, doc.LooksLike, tt.want, "%+v: %s", tt, raw)
	}
}

// TestAuthorsWordStands: whatever strangers write first, the author's own retraction and
// newest correction stand in supersededBy.
func TestAuthorsWordStands(t *testing.T) {
	proof := proofs["by key"]
	own := func(r *rig, relation command.Relation) string {
		return state.EntryID(r.Publish(func(p *command.Publish) { fsmtest.Relate(relation, 1)(p); p.Proof = proof }))
	}
	strangers := func(r *rig, n int) {
		for i := range n {
			r.Run(fsmtest.Post(fmt.Sprint("bob", i), fsmtest.Relate([]command.Relation{command.RelationReply, command.RelationCorrection}[i%2], 1)))
		}
	}
	r := newNames(t)
	r.Publish(func(p *command.Publish) { p.Proof = proof })
	holds := func(status string, count int, ids ...string) {
		t.Helper()
		doc, raw := r.Read(1)
		if doc.Status != status || doc.SupersededByCount != count || len(doc.SupersededBy) != min(count, command.MaxSuccessors) {
			t.Errorf("status %q, count %d, items %d", doc.Status, doc.SupersededByCount, len(doc.SupersededBy))
		}
		for i, item := range doc.SupersededBy {
			if i > 0 && item.CreatedAt < doc.SupersededBy[i-1].CreatedAt {
				t.Errorf("item %d is older than the one before", i)
			}
			check.Equal(t, item.NameVerified, item.Agent == "ada", "item %+v", item)
		}
		for _, id := range ids {
			check.Contains(t, raw, `{"id":"`+id+`",`, "the answer that names %s", id)
		}
	}
	strangers(r, 3)
	holds("", 3)
	first := own(r, command.RelationCorrection)
	holds("corrected", 4, first)
	strangers(r, 120)
	holds("corrected", 124, first)
	second := own(r, command.RelationCorrection)
	holds("corrected", 125, second)
	retraction := own(r, command.RelationRetraction)
	holds("retracted", 126, second, retraction)
	third := own(r, command.RelationCorrection)
	holds("retracted", 127, third, retraction)
	own(r, command.RelationRetraction)
	holds("retracted", 128, third, retraction)
	strangers(r, 2)
	holds("retracted", 130, third, retraction)
}
