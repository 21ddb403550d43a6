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

// TestSharedAddressAcrossEpochs: a name counts for its address in the epoch in which it
// was registered and in the next one, and as long as its owner writes from there. A name
// whose key an operator reset does not count.
func TestSharedAddressAcrossEpochs(t *testing.T) {
	r := newRig(t)
	name := func(i int) string { return fmt.Sprint("name-", i) }
	r.epoch(1)
	for i := range command.MaxAddressNames + 1 {
		r.wantDone(register(name(i), fmt.Sprint("key ", i), func(c *command.Register) { c.Proof = pseudonyms(1, "home") }))
	}
	verified := func(epoch uint64, i int) bool {
		t.Helper()
		doc, _ := r.read(r.wantDone(inEpoch(epoch, "home", name(i), nil)))
		checkNameCounts(t, r.Machine)
		return doc.NameVerified
	}
	if verified(1, 0) {
		t.Error("in the epoch of the registrations")
	}
	r.epoch(2)
	for i := range 2 {
		if verified(2, i) {
			t.Error("in the next epoch: names that wrote in it and names that did not count together")
		}
	}
	r.wantDone(&command.ResetKey{AgentKey: name(2), NewKey: keyHash("reset"), NewRecovery: keyHash("reset")})
	if !verified(2, 0) {
		t.Error("after a name of six was taken from the address")
	}
	r.epoch(3)
	if !verified(3, 0) {
		t.Error("two names have followed the address")
	}
	r.wantDone(&command.ResetKey{AgentKey: name(3), NewKey: keyHash("reset again"), NewRecovery: keyHash("reset again")}) // its address is forgotten
	checkNameCounts(t, r.Machine)
	check.Equal(t, r.rows(state.SpaceNamed), 2, "rows of counts of two epochs")
}

// checkNameCounts compares the rows of SpaceNamed with the senders of the profiles.
func checkNameCounts(t tester, m *Machine) {
	t.Helper()
	v := m.View()
	defer v.Release()
	epoch, err := v.SenderEpoch()
	want, got := map[string]uint64{}, map[string]uint64{}
	lower, upper := state.SpaceBounds(state.SpaceProfile)
	err = errors.Join(err, state.ScanSpace(v.Reader(), lower, upper, func(_, row []byte) error {
		p, err := state.DecodeProfileRow(row)
		if of := command.EpochOf(p.Sender); p.Sender != "" && (of == 0 || of+1 >= epoch.Number) {
			want[p.Sender]++
		}
		return err
	}))
	lower, upper = state.SpaceBounds(state.SpaceNamed)
	err = errors.Join(err, state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
		n, err := state.DecodeNumber(row)
		got[string(key[1:])] = n
		return err
	}))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counts of names (-want +got):\n%s%v", diff, err)
	}
}
