package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
)

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
	if got := r.Run(first("k3"))[0]; got.KeyIssued {
		t.Errorf("the first request has the key renewed: %+v", got)
	}
	v := r.View()
	standing, err := v.Standing(command.Signature{AgentKey: "ada", Proof: &command.Proof{Sender: "sender-1", Address: true}})
	v.Release()
	if err != nil || standing.Strength != command.Unproven {
		t.Errorf("the sender that registered proves the name: %v, %v", standing, err)
	}
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
		if got := r.Run(&command.Reseal{Former: []byte(step.former), SealedDataKey: []byte(step.next)})[0]; got.Outcome != step.want {
			t.Errorf("%+v: %+v", step, got)
		}
	}
	check.Equal(t, sealed(), "under-2", "the key")
}
