package apply_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestNewProfileNeedsDescriptionOrNote(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*command.Register)
		ok     bool
	}{
		"nothing":           {func(c *command.Register) { c.Given, c.Description = 0, "" }, false},
		"empty description": {func(c *command.Register) { c.Description = "" }, false},
		"capabilities": {func(c *command.Register) {
			c.Given, c.Description, c.Capabilities = command.FieldCapabilities, "", []string{"x"}
		}, false},
		"cleared note":        {func(c *command.Register) { c.Given, c.Description = command.FieldNote, "" }, false},
		"note":                {func(c *command.Register) { c.Given, c.Description, c.Note = command.FieldNote, "", "Later." }, true},
		"description":         {nil, true},
		"with somebody's key": {func(c *command.Register) { c.Proof.Key = fsmtest.KeyHash("k9") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			got := r.Run(fsmtest.Register("ada", "k1", tt.change))[0]
			check.Equal(t, got.Outcome == command.OutcomeDone && got.KeyIssued, tt.ok, "registered with a key: %+v", got)
			if !tt.ok && !slices.Equal(got.Problems, []command.Problem{command.ProblemNoDescription}) {
				t.Errorf("problems %v", got.Problems)
			}
			_, exists := r.Profile("ada")
			check.Equal(t, exists, tt.ok, "there is a profile")
		})
	}
}

// TestLostAnswer tries, after a registration whose answer was lost, what may get
// a new key and what may not.
func TestLostAnswer(t *testing.T) {
	keyed := func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "request-1"} }
	nothing := func(*rig) {}
	for _, tt := range []struct {
		name          string
		first, second func(*command.Register)
		between       func(r *rig)
		reissued      bool
		outcome       command.Outcome
	}{
		{"the same body from the same sender", nil, nil, nothing, false, command.OutcomeUnchanged},
		{"twice", keyed, keyed, func(r *rig) { r.Run(fsmtest.Register("ada", "k8", keyed)) }, true, command.OutcomeDuplicate},
		{"the same body from another sender", nil, func(c *command.Register) { c.Proof.Sender = "sender-2" }, nothing, false, command.OutcomeUnchanged},
		{"the same body from nobody", func(c *command.Register) { c.Proof.Sender = "" }, func(c *command.Register) { c.Proof.Sender = "" }, nothing, false, command.OutcomeUnchanged},
		{"another body from the same sender", nil, fsmtest.WithDescription("Another."), nothing, false, command.OutcomeRejected},
		{"another spelling from the same sender", nil, func(c *command.Register) { c.Agent = "ADA" }, nothing, false, command.OutcomeUnchanged},
		{"the same body with a wrong key", nil, func(c *command.Register) { c.Proof.Key = fsmtest.KeyHash("k9") }, nothing, false, command.OutcomeRejected},
		{"the same body with the key", nil, func(c *command.Register) { c.Proof.Key = fsmtest.KeyHash("k1") }, nothing, false, command.OutcomeUnchanged},
		{"the same request", keyed, keyed, nothing, true, command.OutcomeDuplicate},
		{"the same request from another sender", keyed, func(c *command.Register) { keyed(c); c.Proof.Sender = "sender-2" }, nothing, true, command.OutcomeDuplicate},
		{"the same request with another body", keyed, func(c *command.Register) { keyed(c); c.Description = "Another." }, nothing, true, command.OutcomeDuplicate},
		{"the same request with another body from another sender", keyed, func(c *command.Register) {
			keyed(c)
			c.Description, c.Proof.Sender = "Another.", "sender-2"
		}, nothing, false, command.OutcomeDuplicate},
		{"the same request with another body, both from nobody", func(c *command.Register) { keyed(c); c.Proof.Sender = "" }, func(c *command.Register) {
			keyed(c)
			c.Description, c.Proof.Sender = "Another.", ""
		}, nothing, false, command.OutcomeDuplicate},
		{"the same request with another body from a page in a browser there", keyed, func(c *command.Register) {
			keyed(c)
			c.Description, c.Proof.Address = "Another.", false
		}, nothing, false, command.OutcomeDuplicate},
		{"the same request with the key", keyed, func(c *command.Register) { keyed(c); c.Proof.Key = fsmtest.KeyHash("k1") }, nothing, false, command.OutcomeUnchanged},
		{"the same request with the key of another name", keyed, func(c *command.Register) { keyed(c); c.Proof.Key = fsmtest.KeyHash("k3") }, func(r *rig) {
			r.Run(fsmtest.Register("bob", "k3", nil))
		}, false, command.OutcomeRejected},
		{"the same body with the key of another name, from another sender", nil, func(c *command.Register) {
			c.Proof.Key, c.Proof.Sender = fsmtest.KeyHash("k3"), "sender-2"
		}, func(r *rig) {
			r.Run(fsmtest.Register("bob", "k3", nil))
		}, false, command.OutcomeRejected},
		{"the same request with a wrong key", keyed, func(c *command.Register) { keyed(c); c.Proof.Key = fsmtest.KeyHash("k9") }, nothing, false, command.OutcomeRejected},
		{"the same body without the request", keyed, nil, nothing, false, command.OutcomeUnchanged},
		{"another request", keyed, func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "request-2"} }, nothing, false, command.OutcomeUnchanged},
		{"the last moment", keyed, keyed, func(r *rig) { r.Stamp += state.KeyGrace - 1000 }, true, command.OutcomeDuplicate},
		{"a moment too late", keyed, keyed, func(r *rig) { r.Stamp += state.KeyGrace - 999 }, false, command.OutcomeDuplicate},
		{"the body too late", nil, nil, func(r *rig) { r.Stamp += state.KeyGrace }, false, command.OutcomeUnchanged},
		{"after a change with the key", keyed, keyed, func(r *rig) {
			r.Run(fsmtest.Register("ada", "k8", func(c *command.Register) { fsmtest.WithDescription("Another.")(c); c.Proof.Key = fsmtest.KeyHash("k1") }))
		}, false, command.OutcomeDuplicate},
		{"after an entry with the key", keyed, keyed, func(r *rig) {
			r.Publish(func(p *command.Publish) { p.Proof.Key = fsmtest.KeyHash("k1") })
		}, false, command.OutcomeDuplicate},
		{"after an entry from the sender", keyed, keyed, func(r *rig) {
			r.Publish(func(p *command.Publish) { p.Proof.Sender, p.Proof.Address = "sender-1", true })
		}, true, command.OutcomeDuplicate},
		{"after an entry with a wrong key", keyed, keyed, func(r *rig) {
			r.Run(fsmtest.Post("ada", func(p *command.Publish) { p.Proof = command.Proof{Key: fsmtest.KeyHash("k9"), Sender: "sender-9"} }))
		}, true, command.OutcomeDuplicate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			must.Equal(t, r.Run(fsmtest.Register("ada", "k1", tt.first))[0].KeyIssued, true, "registered with a key")
			tt.between(r)
			before, _ := r.Profile("ada")
			got := r.Run(fsmtest.Register("ada", "k2", tt.second))[0]
			if got.Outcome != tt.outcome || got.KeyIssued != tt.reissued || got.RecoveryIssued != tt.reissued {
				t.Errorf("%+v, want outcome %d, keys %v", got, tt.outcome, tt.reissued)
			}
			if r.HasKey("ada", "k2") != tt.reissued || r.HasKey("ada", "k1") == tt.reissued {
				t.Errorf("the old key opens: %v, the new one: %v", r.HasKey("ada", "k1"), r.HasKey("ada", "k2"))
			}
			after, _ := r.Profile("ada")
			check.Equal(t, after, before, "the profile")
		})
	}
}

// TestNameVerified files entries of every style under names with every proof.
func TestNameVerified(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("ada", "k1", nil), fsmtest.Register("bob", "k2", func(c *command.Register) { c.Proof.Sender = "" }))
	job := r.Run(fsmtest.PostJob("eve"))[0].Entry
	for _, tt := range []struct {
		name, agent string
		proof       command.Proof
		want        bool
	}{
		{"no proof", "ada", command.Proof{}, false},
		{"the key", "ada", command.Proof{Key: fsmtest.KeyHash("k1")}, true},
		{"the key from elsewhere", "ada", command.Proof{Key: fsmtest.KeyHash("k1"), Sender: "sender-9"}, true},
		{"the sender", "ada", command.Proof{Sender: "sender-1", Address: true}, true},
		{"the sender by a link", "ada", command.Proof{Sender: "sender-1"}, false},
		{"another sender", "ada", command.Proof{Sender: "sender-2", Address: true}, false},
		{"a profile without a sender", "bob", command.Proof{Sender: "sender-1", Address: true}, false},
		{"a name without a profile", "eve", command.Proof{Key: fsmtest.KeyHash("k1"), Sender: "sender-1", Address: true}, false},
	} {
		author := command.Author{Agent: tt.agent, AgentKey: tt.agent, Proof: tt.proof}
		claim := &command.ClaimJob{JobAction: command.JobAction{Author: author, Job: state.FormatID(state.TypeJob, job)}, TTL: 1}
		if tt.agent == "eve" {
			claim.Job = state.FormatID(state.TypeJob, r.Run(fsmtest.PostJob("ada"))[0].Entry)
		}
		results := r.Run(
			fsmtest.Post(tt.agent, func(p *command.Publish) { p.Proof = tt.proof }),
			&command.PostJob{Author: author, Title: "A title", Body: "A body."},
			claim,
			&command.AskHuman{Author: author, Goal: "A goal", Action: "An action."},
		)
		for i, res := range results {
			doc, raw := r.Read(res.Entry)
			check.Equal(t, doc.NameVerified, tt.want, "%s: write %d: %s", tt.name, i, raw)
		}
	}
}

// TestRejectedWritesUseKeys holds that a write by key shows that its owner has the key, also if a rule
// rejects the write.
func TestRejectedWritesUseKeys(t *testing.T) {
	unknownJob := fsmtest.CloseJob("ada", 7)
	unknownJob.Proof.Key = fsmtest.KeyHash("key of ada")
	for name, c := range map[string]command.Payload{
		"a test without a receiver": &command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: fsmtest.KeyHash("key of ada")}},
		"an unknown job":            unknownJob,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.Register("ada", "key of ada", nil))
			check.Equal(t, r.Run(c)[0].Outcome, command.OutcomeRejected, "outcome")
			v := r.View()
			defer v.Release()
			p, _, err := state.Load(v.Reader(), state.ProfileKey("ada"), state.Decode[state.ProfileRow])
			must.Do(t, err)
			check.Equal(t, p.Used, true, "the key is used")
		})
	}
}

func TestResetKey(t *testing.T) {
	r := newRig(t)
	first := func(key string) command.Payload {
		return fsmtest.Register("Ada", key, func(c *command.Register) {
			c.Proof.Sender, c.Request = "sender-1", command.RequestKey{Scope: "ada", ID: "register-1"}
		})
	}
	r.Run(first("k1"))
	change := func(key, sender, text string) command.Result {
		return r.Run(fsmtest.Register("ada", "k9", func(c *command.Register) {
			fsmtest.WithDescription(text)(c)
			c.Proof.Sender, c.Proof.Address = sender, true
			if key != "" {
				c.Proof.Key = fsmtest.KeyHash(key)
			}
		}))[0]
	}
	if got := r.Run(&command.ResetKey{AgentKey: "nobody", NewKey: fsmtest.KeyHash("k2"), NewRecovery: fsmtest.KeyHash("k2")})[0]; !cmp.Equal(got, command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownAgent}}) {
		t.Errorf("nobody's key is reset: %+v", got)
	}
	if got := r.Run(&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k2"), NewRecovery: fsmtest.KeyHash("k2")})[0]; !cmp.Equal(got, command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}) {
		t.Fatalf("reset: %+v", got)
	}
	expectProblem(t, change("k1", "", "With the old key."), command.ProblemWrongKey, "the old key still opens")
	// Whoever registered has no claim any more, and cannot have the key renewed.
	check.Equal(t, r.Run(first("k3"))[0].KeyIssued, false, "the first request has the key renewed")
	by := command.Signature{AgentKey: "ada", Proof: &command.Proof{Sender: "sender-1", Address: true}}
	standing := fsmtest.InView(t, r, func(v *view.View) (command.Standing, error) { return v.Standing(by) })
	check.Equal(t, standing.Strength, command.Unproven, "the sender that registered proves the name")
	fsmtest.Expect(t, change("k2", "", "With the new key."), command.OutcomeDone, "the new key does not open")
}

func TestReseal(t *testing.T) {
	r := newRig(t)
	sealed := func() string {
		v := r.View()
		defer v.Release()
		return string(v.SealedDataKey())
	}
	r.Run(&command.Reseal{Former: []byte("x"), SealedDataKey: []byte("y")})
	check.Equal(t, sealed(), "", "a key without a cluster")
	r.Run(&command.Init{ClusterID: "first", SealedDataKey: []byte("under-1")})
	for _, step := range []struct {
		former, next string
		want         command.Outcome
	}{
		{"under-0", "under-9", command.OutcomeUnchanged}, // a leader that is late
		{"under-1", "under-2", command.OutcomeDone},
		{"under-1", "under-3", command.OutcomeUnchanged},
	} {
		got := r.Run(&command.Reseal{Former: []byte(step.former), SealedDataKey: []byte(step.next)})[0]
		check.Equal(t, got.Outcome, step.want, "%+v", step)
	}
	check.Equal(t, sealed(), "under-2", "the key")
}
