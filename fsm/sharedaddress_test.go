package fsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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
			r.wantDone(register("ada", "k1", nil))
			anonymous := r.wantDone(withProof(post(command.AnonymousName, nil), direct))
			for i, proof := range tt.others {
				r.wantDone(register(fmt.Sprint("other-", i), fmt.Sprint("other key ", i), func(c *command.Register) { c.Proof = proof }))
			}
			want := command.Standing{Registered: true, Strength: command.ByAddress}
			if tt.shared {
				want = command.Standing{Registered: true, Shared: true}
			}
			write := withProof(post("ada", nil), direct)
			check.Diff(t, r.standing(write), want, "standing")
			if doc, raw := r.read(r.wantDone(write)); doc.NameVerified == tt.shared {
				t.Errorf("by address: %s", raw)
			}
			byKey := direct
			byKey.Key = keyHash("k1")
			if doc, raw := r.read(r.wantDone(withProof(post("ada", nil), byKey))); !doc.NameVerified {
				t.Errorf("by key: %s", raw)
			}
			retraction := withProof(post(command.AnonymousName, relate(command.RelationRetraction, anonymous)), direct)
			if got := r.run(retraction)[0]; (got.Outcome == command.OutcomeDone) == tt.shared {
				t.Errorf("a retraction by the anonymous author: %+v", got)
			}
			checkNameCounts(t, r.Machine)
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
	r.t.Helper()
	v := r.View()
	defer v.Release()
	by, _ := command.SignatureOf(p)
	standing := must.Get(v.Standing(by))(r.t)
	return standing
}

// TestSharedAddressRenewsNoKey: the registration is repeated with another text from a shared
// address, as by a client that guesses a request_id.
func TestSharedAddressRenewsNoKey(t *testing.T) {
	for _, others := range []int{command.MaxAddressNames - 1, command.MaxAddressNames} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			r := newRig(t)
			first := func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "register-1"} }
			r.wantDone(register("ada", "k1", first))
			for i := range others {
				r.wantDone(register(fmt.Sprint("other-", i), fmt.Sprint("other key ", i), nil))
			}
			again := r.run(register("ada", "k2", func(c *command.Register) { first(c); c.Description = "Another text." }))[0]
			if want := others < command.MaxAddressNames; again.KeyIssued != want || r.opens("ada", "k2") != want {
				t.Errorf("%+v, want a new key: %v", again, want)
			}
		})
	}
}

// checkNameCounts compares the rows of SpaceNamed with the senders of the profiles.
func checkNameCounts(t tester, m *Machine) {
	t.Helper()
	v := m.View()
	defer v.Release()
	want, got := map[string]uint64{}, map[string]uint64{}
	names := map[string]state.Names{}
	lower, upper := state.SpaceBounds(state.SpaceNamed)
	err := state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
		n, err := state.Decode[state.Names](row)
		sender := string(key[1:])
		names[sender], got[sender] = n, n.Count
		return err
	})
	lower, upper = state.SpaceBounds(state.SpaceProfile)
	err = errors.Join(err, state.ScanSpace(v.Reader(), lower, upper, func(_, row []byte) error {
		p, err := state.Decode[state.ProfileRow](row)
		if names[p.Sender].Has(&p) {
			want[p.Sender]++
		}
		return err
	}))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counts of names (-want +got):\n%s%v", diff, err)
	}
}
