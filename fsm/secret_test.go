package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// salted sets the receiver of ada with a salt.
func salted(key, of string) *command.Register {
	return changes("ada", key, func(c *command.Register) {
		moves(atAda)(c)
		c.NotifySalt = salt(of)
	})
}

// notifySalt returns the salt of ada's receiver.
func (r *rig) notifySalt() string {
	v := r.View()
	defer v.Release()
	return must.Get(v.NotifySalt("ada", atAda))(r.t)
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
		"the same receiver":         {salted("key of ada", "b"), string(salt("b"))},
		"the same without the key":  {unproven, string(salt(atAda))},
		"the same with a wrong key": {salted("wrong", "b"), string(salt(atAda))},
		"another field":             {changes("ada", "key of ada", saying("Another.")), string(salt(atAda))},
		"a rotation":                {changes("ada", "key of ada", rotates("k2")), string(salt(atAda))},
		"a reset":                   {&command.ResetKey{AgentKey: "ada", NewKey: keyHash("k2"), NewRecovery: keyHash("r2")}, string(salt(atAda))},
		"another receiver":          {changes("ada", "key of ada", moves(atThief)), ""},
		"off":                       {changes("ada", "key of ada", moves("")), ""},
		"a recovery":                {recovers("ada", "recovery of key of ada", "k2", ""), ""},
		"a deletion":                {changes("ada", "key of ada", deletes), ""},
		"a purge":                   {&command.Purge{Order: byOperator, Agents: []string{"ada"}}, ""},
		"a receiver that is gone":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(hooked("ada", nil))
			if tt.c == nil {
				r.run(post("eve", mention("ada")))
				r.attempt("ada", command.AttemptGone, func(c *command.AckDelivery) { c.Reason = "gone" })
			} else {
				r.run(tt.c)
			}
			check.Equal(t, r.notifySalt(), tt.want, "the salt")
		})
	}
}

// TestAnotherSecretRenewsDeliveries: an event that failed is tried again at once with another secret.
func TestAnotherSecretRenewsDeliveries(t *testing.T) {
	r := newRig(t)
	r.wantDone(hooked("ada", nil))
	r.run(post("eve", mention("ada")))
	r.attempt("ada", command.AttemptFailed, nil)
	check.Equal(t, len(r.due(r.now()+1)), 0, "due before")
	r.wantDone(salted("key of ada", "b"))
	due := r.due(r.now() + 1)
	must.Equal(t, len(due), 1, "due after")
	check.Equal(t, due[0].Salt, string(salt("b")), "the salt of the delivery")
}
