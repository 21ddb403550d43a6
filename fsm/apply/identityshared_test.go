package apply_test

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

// TestSharedAddress registers names from one address until it is no proof any more.
func TestSharedAddress(t *testing.T) {
	direct := command.Proof{Sender: "sender-1", Address: true}
	link, proxied, elsewhere := direct, direct, direct
	link.Address, proxied.Shared, elsewhere.Sender = false, true, "sender-2"
	for _, tt := range []struct {
		name   string
		others []command.Proof // of the names that are registered besides ada's
		shared bool
	}{
		{"the only name", nil, false},
		{"the fifth name", many(command.MaxAddressNames-1, direct), false},
		{"the sixth name", many(command.MaxAddressNames, direct), true},
		{"names from another address", many(command.MaxAddressNames, elsewhere), false},
		{"names that the address did not prove", append(many(command.MaxAddressNames, link), many(command.MaxAddressNames, proxied)...), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.WantDone(fsmtest.Register("ada", "k1", nil))
			anonymous := r.WantDone(withProof(fsmtest.Post(command.AnonymousName, nil), direct))
			for i, proof := range tt.others {
				r.WantDone(fsmtest.Register(fmt.Sprint("other-", i), fmt.Sprint("other key ", i), func(c *command.Register) { c.Proof = proof }))
			}
			want := command.Standing{Registered: true, Strength: command.ByAddress}
			if tt.shared {
				want = command.Standing{Registered: true, Shared: true}
			}
			write := withProof(fsmtest.Post("ada", nil), direct)
			check.Diff(t, r.standing(write), want, "standing")
			doc, raw := r.Read(r.WantDone(write))
			check.Equal(t, doc.NameVerified, !tt.shared, "verified by address: %s", raw)
			byKey := direct
			byKey.Key = fsmtest.KeyHash("k1")
			doc, raw = r.Read(r.WantDone(withProof(fsmtest.Post("ada", nil), byKey)))
			check.Equal(t, doc.NameVerified, true, "verified by key: %s", raw)
			retraction := withProof(fsmtest.Post(command.AnonymousName, fsmtest.Relate(command.RelationRetraction, anonymous)), direct)
			got := r.Run(retraction)[0]
			check.Equal(t, got.Outcome == command.OutcomeDone, !tt.shared, "the anonymous author retracts: %+v", got)
			fsmtest.CheckNameCounts(t, r)
		})
	}
}

func many(n int, proof command.Proof) (list []command.Proof) {
	for range n {
		list = append(list, proof)
	}
	return list
}

// standing returns a view's judgement of the writer of a command.
func (r *rig) standing(p command.Payload) command.Standing {
	r.T.Helper()
	by, _ := command.SignatureOf(p)
	return fsmtest.InView(r.T, r, func(v *view.View) (command.Standing, error) { return v.Standing(by) })
}

// TestSharedAddressRenewsNoKey: the registration is repeated with another text from a shared
// address, as by a client that guesses a request_id.
func TestSharedAddressRenewsNoKey(t *testing.T) {
	for _, others := range []int{command.MaxAddressNames - 1, command.MaxAddressNames} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			r := newRig(t)
			first := func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "register-1"} }
			r.WantDone(fsmtest.Register("ada", "k1", first))
			for i := range others {
				r.WantDone(fsmtest.Register(fmt.Sprint("other-", i), fmt.Sprint("other key ", i), nil))
			}
			again := r.Run(fsmtest.Register("ada", "k2", func(c *command.Register) { first(c); c.Description = "Another text." }))[0]
			if want := others < command.MaxAddressNames; again.KeyIssued != want || r.HasKey("ada", "k2") != want {
				t.Errorf("%+v, want a new key: %v", again, want)
			}
		})
	}
}
