package apply_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// salted sets the receiver of ada with a salt.
func salted(key, of string) *command.Register {
	return fsmtest.Changes("ada", key, func(c *command.Register) {
		fsmtest.WithReceiver(fsmtest.AdaReceiver)(c)
		c.NotifySalt = fsmtest.Salt(of)
	})
}

// notifySalt returns the salt of ada's receiver.
func (r *rig) notifySalt() string {
	v := r.View()
	defer v.Release()
	return must.Get(v.NotifySalt("ada", fsmtest.AdaReceiver))(r.T)
}

// TestWebhookSecret: each setting of a receiver by the key makes another secret, and no other change
// of the profile does.
func TestWebhookSecret(t *testing.T) {
	unproven := salted("", "d")
	unproven.Proof.Key = nil
	for name, tt := range map[string]struct {
		c    command.Payload
		want string
	}{
		"the same receiver":         {salted("key of ada", "b"), string(fsmtest.Salt("b"))},
		"the same without the key":  {unproven, string(fsmtest.Salt(fsmtest.AdaReceiver))},
		"the same with a wrong key": {salted("wrong", "b"), string(fsmtest.Salt(fsmtest.AdaReceiver))},
		"another field":             {fsmtest.Changes("ada", "key of ada", fsmtest.WithDescription("Another.")), string(fsmtest.Salt(fsmtest.AdaReceiver))},
		"a rotation":                {fsmtest.Changes("ada", "key of ada", fsmtest.WithNewKey("k2")), string(fsmtest.Salt(fsmtest.AdaReceiver))},
		"a reset":                   {&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k2"), NewRecovery: fsmtest.KeyHash("r2")}, string(fsmtest.Salt(fsmtest.AdaReceiver))},
		"another receiver":          {fsmtest.Changes("ada", "key of ada", fsmtest.WithReceiver(fsmtest.ThiefReceiver)), ""},
		"off":                       {fsmtest.Changes("ada", "key of ada", fsmtest.WithReceiver("")), ""},
		"a recovery":                {fsmtest.Recover("ada", "recovery of key of ada", "k2", ""), ""},
		"a deletion":                {fsmtest.Changes("ada", "key of ada", deletes), ""},
		"a purge":                   {&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"ada"}}, ""},
		"a receiver that is gone":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.WantDone(fsmtest.RegisterWithReceiver("ada", nil))
			if tt.c == nil {
				r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
				r.Attempt("ada", command.AttemptGone, func(c *command.AckDelivery) { c.Reason = "gone" })
			} else {
				r.Run(tt.c)
			}
			check.Equal(t, r.notifySalt(), tt.want, "the salt")
		})
	}
}

// TestAnotherSecretRenewsDeliveries: an event that failed is tried again at once with another secret.
func TestAnotherSecretRenewsDeliveries(t *testing.T) {
	r := newRig(t)
	r.WantDone(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	r.Attempt("ada", command.AttemptFailed, nil)
	check.Equal(t, len(r.Due(r.Now()+1)), 0, "due before")
	r.WantDone(salted("key of ada", "b"))
	due := r.Due(r.Now() + 1)
	must.Equal(t, len(due), 1, "due after")
	check.Equal(t, due[0].Salt, string(fsmtest.Salt("b")), "the salt of the delivery")
}
