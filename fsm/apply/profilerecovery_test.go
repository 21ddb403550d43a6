package apply_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
)

func deletes(c *command.Register) { c.Delete = true }

func protects(c *command.Register) { c.Given, c.Protected = command.FieldProtected, true }

// The results of a recovery: the first one, and one whose answer was lost.
var (
	recovered      = command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}
	recoveredAgain = command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true, RecoveryIssued: true}
)

// TestRecovery: the recovery key replaces the pair and removes the receiver, and its second use
// with the same request_id replaces the pair again while the answer may be lost.
func TestRecovery(t *testing.T) {
	own := "recovery of key of ada"
	for name, tt := range map[string]struct {
		between func(*rig)
		request string // of the second use
		again   bool
	}{
		"a lost answer":              {func(*rig) {}, "request-1", true},
		"the last moment":            {func(r *rig) { r.Stamp += state.KeyGrace - 1000 }, "request-1", true},
		"a moment too late":          {func(r *rig) { r.Stamp += state.KeyGrace - 999 }, "request-1", false},
		"another request_id":         {func(*rig) {}, "request-2", false},
		"without a request_id":       {func(*rig) {}, "", false},
		"after a change by the key":  {func(r *rig) { r.WantDone(fsmtest.Changes("ada", "k2", fsmtest.WithDescription("Mine."))) }, "request-1", false},
		"after an entry by the key":  {func(r *rig) { r.Publish(func(p *command.Publish) { p.Proof.Key = fsmtest.KeyHash("k2") }) }, "request-1", false},
		"after a rotation":           {func(r *rig) { r.WantDone(fsmtest.Changes("ada", "k2", fsmtest.WithNewKey("k9"))) }, "request-1", false},
		"after a guess":              {func(r *rig) { r.Run(fsmtest.Recover("ada", "wrong", "k9", "request-1")) }, "request-1", true},
		"after an entry without key": {func(r *rig) { r.Publish(nil) }, "request-1", true},
		"after a purge":              {func(r *rig) { r.Run(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"ada"}}) }, "request-1", true},
		"after a reset": {func(r *rig) {
			r.Run(&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k9"), NewRecovery: fsmtest.KeyHash("r9")})
		}, "request-1", false},
		"after the next recovery key": {func(r *rig) { r.WantDone(fsmtest.Recover("ada", "recovery of k2", "k9", "")) }, "request-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.WantDone(fsmtest.RegisterWithReceiver("ada", nil))
			before, _ := r.Profile("ada")
			check.Diff(t, r.Run(fsmtest.Recover("ada", own, "k2", "request-1"))[0], recovered, "the first use")
			if !r.HasKey("ada", "k2") || r.HasKey("ada", "key of ada") {
				t.Error("the keys were not replaced")
			}
			check.Equal(t, r.Receiver("ada"), "", "the receiver")
			after, _ := r.Profile("ada")
			check.Equal(t, after, before, "the public profile")
			tt.between(r)
			got := r.Run(fsmtest.Recover("ada", own, "k3", tt.request))[0]
			if !tt.again {
				check.Diff(t, got, command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemWrongRecovery}}, "the second use")
				return
			}
			check.Diff(t, got, recoveredAgain, "the second use")
			if !r.HasKey("ada", "k3") || r.HasKey("ada", "k2") {
				t.Error("the lost key is still valid")
			}
			r.WantProblem(fsmtest.Recover("ada", "recovery of k2", "k4", ""), command.ProblemWrongRecovery) // the lost recovery key
			r.WantDone(fsmtest.Recover("ada", "recovery of k3", "k4", ""))
		})
	}
}

// TestStolenKey: whoever holds the edit_key alone cannot take the name for good.
func TestStolenKey(t *testing.T) {
	for name, theft := range map[string]command.Payload{
		"another receiver": fsmtest.Changes("ada", "key of ada", fsmtest.WithReceiver(fsmtest.ThiefReceiver)),
		"rotates":          fsmtest.Changes("ada", "key of ada", fsmtest.WithNewKey("stolen")),
		"protects":         fsmtest.Changes("ada", "key of ada", protects),
		"deletes":          fsmtest.Changes("ada", "key of ada", deletes),
		"has it purged":    &command.Purge{Order: fsmtest.ByOperator, Agents: []string{"ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.WantDone(fsmtest.RegisterWithReceiver("ada", nil))
			r.Run(theft)
			r.Later(24 * fsmtest.Hour)
			check.Diff(t, r.Run(fsmtest.Recover("ada", "recovery of key of ada", "k2", ""))[0], recovered, "the recovery")
			if r.HasKey("ada", "key of ada") || r.HasKey("ada", "stolen") || !r.HasKey("ada", "k2") {
				t.Error("the thief's key still opens the name")
			}
			check.Equal(t, r.Receiver("ada"), "", "the receiver")
			r.WantDone(fsmtest.Changes("ada", "k2", fsmtest.WithDescription("Mine again.")))
		})
	}
}

// TestRecoveryEndsRegistration: a repeated registration or rotation does not replace the key of a
// recovery.
func TestRecoveryEndsRegistration(t *testing.T) {
	r := newRig(t)
	first := func(key string) *command.Register {
		return fsmtest.Register("ada", key, func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "register-1"} })
	}
	rotate := fsmtest.Changes("ada", "k1", fsmtest.WithNewKey("k2"))
	rotate.Request = command.RequestKey{Scope: "ada", ID: "rotate-1"}
	r.WantDone(first("k1"))
	r.WantDone(rotate)
	r.WantDone(fsmtest.Recover("ada", "recovery of k1", "k3", ""))
	for _, c := range []command.Payload{first("k4"), rotate} {
		check.Equal(t, r.Run(c)[0].KeyIssued, false, "%+v: a key is issued", c)
	}
	check.Equal(t, r.HasKey("ada", "k3"), true, "the key of the recovery opens")
}

// TestRecoveryIsCharged: a wrong recovery key has the standing of a wrong key, and the right one
// that of the key.
func TestRecoveryIsCharged(t *testing.T) {
	r := newRig(t)
	r.WantDone(fsmtest.Register("ada", "k1", nil))
	for recovery, want := range map[string]command.Standing{
		"recovery of k1": {Registered: true, Strength: command.ByKey},
		"wrong":          {Registered: true, WrongKey: true},
	} {
		v := r.View()
		standing, repeated, _, err := v.Assess(fsmtest.Recover("ada", recovery, "k2", "request-1"), 100, r.Now())
		v.Release()
		if err != nil || repeated || standing != want {
			t.Errorf("%s: %+v, %v, %v, want %+v", recovery, standing, repeated, err, want)
		}
	}
}

func TestDeletedProfile(t *testing.T) {
	r := newRig(t)
	r.WantProblem(fsmtest.Register("ada", "k1", func(c *command.Register) { c.Given, c.Description = 0, ""; c.Delete = true }), command.ProblemUnknownAgent)
	r.WantDone(fsmtest.RegisterWithReceiver("ada", func(c *command.Register) { c.Given |= command.FieldNote; c.Note = "pills" }))
	r.WantProblem(fsmtest.Register("ada", "k1", func(c *command.Register) { c.Given, c.Description = 0, ""; c.Delete = true }), command.ProblemNoKey)
	r.WantDone(fsmtest.Changes("ada", "key of ada", deletes))
	if doc, known := r.Profile("ada"); known {
		t.Errorf("shown: %s", doc)
	}
	check.Equal(t, r.Run(fsmtest.Changes("ada", "key of ada", deletes))[0].Outcome, command.OutcomeUnchanged, "deleted again")
	r.WantProblem(fsmtest.Register("ada", "k2", fsmtest.WithDescription("Somebody else.")), command.ProblemNoKey)
	r.WantProblem(fsmtest.Changes("ada", "key of ada", fsmtest.WithReceiver(fsmtest.ThiefReceiver)), command.ProblemNoDescription)
	r.WantDone(fsmtest.Changes("ada", "key of ada", fsmtest.WithDescription("Back again.")))
	if _, known := r.Profile("ada"); !known {
		t.Error("not shown after it was filled again")
	}
}
