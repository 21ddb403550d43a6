package fsm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// profileNames follows a list of profiles to its last page.
func profileNames(t tester, v *View, q ProfileQuery) (names []string) {
	t.Helper()
	for {
		revisions, next, err := v.ListProfiles(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(revisions) > max(q.Limit, DefaultList) || q.Limit > 0 && len(revisions) > q.Limit {
			t.Fatalf("a page of %d for a limit of %d", len(revisions), q.Limit)
		}
		for _, n := range revisions {
			doc, err := v.AppendRevision(nil, n)
			if err != nil {
				t.Fatal(err)
			}
			var name string
			if _, err := fmt.Sscanf(string(doc), `{"id":%q`, &name); err != nil {
				t.Fatalf("%v: %s", err, doc)
			}
			names = append(names, name)
		}
		if next == 0 {
			return names
		}
		q.Before = next
	}
}

func TestListProfiles(t *testing.T) {
	r := newRig(t)
	r.run(register("ada", "k", saying("Reads books about whales.")), register("bob", "k", saying("Catches whales.")))
	r.run(register("eve", "k", func(c *Register) {
		c.Given, c.Capabilities, c.Note = FieldDescription|FieldCapabilities|FieldNote, []string{"Translation"}, "Bücher"
	}))
	r.run(register("ada", "k2", func(c *Register) { saying("Reads papers.")(c); c.Proof.Key = keyHash("k") }))
	check := func(m *Machine) {
		t.Helper()
		v := m.View()
		defer v.Release()
		for _, tt := range []struct {
			q    string
			want []string
		}{
			{"", []string{"ada", "eve", "bob"}},
			{"whales", []string{"bob"}}, // what ada said before is not found
			{"WHAL", []string{"bob"}},
			{"reads", []string{"ada", "eve"}},
			{"translat", []string{"eve"}},
			{"bucher", []string{"eve"}},
			{"ada", []string{"ada"}},
			{"reads whales", nil},
			{"!!", nil},
		} {
			for _, limit := range []int{0, 1, 2} {
				if got := profileNames(t, v, ProfileQuery{Q: tt.q, Limit: limit}); !slices.Equal(got, tt.want) {
					t.Errorf("%q by %d: %v, want %v", tt.q, limit, got, tt.want)
				}
			}
		}
		if _, ok, err := v.Profile("nobody"); ok || err != nil {
			t.Errorf("a profile of nobody: %v, %v", ok, err)
		}
	}
	check(r.Machine)
	// The index is filled again after a restart, and comes along in a snapshot.
	dir := t.TempDir()
	again := openAt(t, dir)
	r.log.feed(again, 1, r.log.last())
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	again = openAt(t, dir)
	check(again)
	if err := takeSnapshot(again, r.log.last(), 99); err != nil {
		t.Fatal(err)
	}
	meta, data, err := send(again)
	if err != nil {
		t.Fatal(err)
	}
	third := openAt(t, t.TempDir())
	if err := receive(third, meta, data); err != nil {
		t.Fatal(err)
	}
	check(third)
	sameState(t, stateOf(t, r.Machine), stateOf(t, third))
}

// TestSearchOfManyRevisions changes profiles so often that a search meets more
// replaced revisions than it looks at for one page, and blocks that are sealed.
func TestSearchOfManyRevisions(t *testing.T) {
	r := newRig(t)
	r.run(register("bob", "k", saying("An old hand.")))
	key := keyHash("k")
	r.run(register("ada", "k", saying("An old hand.")))
	var bodies []Body
	for i := range 2*maxProfileScan + 10 {
		bodies = append(bodies, register("ada", "k", func(c *Register) { saying(fmt.Sprintf("Hand %d.", i))(c); c.Proof.Key = key }))
	}
	for part := range slices.Chunk(bodies, 250) {
		r.run(part...)
	}
	v := r.View()
	defer v.Release()
	if got := profileNames(t, v, ProfileQuery{Q: "hand"}); !slices.Equal(got, []string{"ada", "bob"}) {
		t.Errorf("found %v", got)
	}
	if revisions, next, err := v.ListProfiles(ProfileQuery{Q: "hand"}); err != nil || len(revisions) != 1 || next == 0 {
		t.Errorf("first page: %v, next %d, %v: it must stop somewhere", revisions, next, err)
	}
}

// modelProfile is a profile in the plainest way.
type modelProfile struct {
	name, description, note, key, sender, said, request string
	at                                                  int64
	used                                                bool
}

// TestProfilesAgainstModel draws registrations, changes, entries with and without
// keys and clock steps, and holds results, keys and the order of the list against
// a model. A second machine that applies the log in pieces must agree.
func TestProfilesAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog(t)
		obs := &recorder{}
		m, other := tempMachine(rt), tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		defer func() { dropMachine(rt, other) }()
		m.opts.Observer = obs
		l.feed(m, 1, 1)
		profiles := map[string]*modelProfile{}
		requests := map[string]bool{}
		var order []string // most recently updated last
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			l.stamp += rapid.SampledFrom([]int64{0, 0, keyGrace / 2}).Draw(rt, "tick")
			agent := rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "agent")
			key := rapid.SampledFrom([]string{"", "right", "wrong"}).Draw(rt, "key")
			sender := rapid.SampledFrom([]string{"s1", "s2"}).Draw(rt, "sender")
			p := profiles[agent]
			proof := Proof{Sender: sender}
			right := key == "right" && p != nil
			switch {
			case right:
				proof.Key = keyHash(p.key)
			case key != "":
				proof.Key = keyHash("wrong")
			}
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				at := l.commands(post(agent, func(e *Publish) { e.Proof = proof }))
				l.feed(m, at, at)
				v := m.View()
				doc, raw := readEntry(rt, v, v.LastSeq())
				v.Release()
				if want := p != nil && (right || sender == p.sender); doc.NameVerified != want {
					rt.Fatalf("verified %v, want %v: %s", doc.NameVerified, want, raw)
				}
				if right {
					p.used = true
				}
				continue
			}
			newKey := fmt.Sprint("key-", step)
			c := register(agent, newKey, nil)
			c.Proof, c.Given, c.Description = proof, 0, ""
			if rapid.Bool().Draw(rt, "described") {
				c.Given |= FieldDescription
				c.Description = rapid.SampledFrom([]string{"", "Some words.", "Other words."}).Draw(rt, "description")
			}
			if rapid.Bool().Draw(rt, "noted") {
				c.Given |= FieldNote
				c.Note = rapid.SampledFrom([]string{"", "A note."}).Draw(rt, "note")
			}
			if id := rapid.SampledFrom([]string{"", "", "request-1", "request-2"}).Draw(rt, "request"); id != "" {
				c.Request = RequestKey{Scope: agent, ID: id}
			}
			at := l.commands(c)
			l.feed(m, at, at)
			got := obs.got[len(obs.got)-1].res
			now := l.stamp
			said := fmt.Sprint(c.Given, c.Description, c.Note, c.Request)
			request := fmt.Sprint(c.Request)

			want := Result{Outcome: OutcomeUnchanged}
			renewable := p != nil && !p.used && !right && now <= p.at+keyGrace
			next := modelProfile{}
			if p != nil {
				next = *p
			}
			if c.Given&FieldDescription != 0 {
				next.description = c.Description
			}
			if c.Given&FieldNote != 0 {
				next.note = c.Note
			}
			switch {
			case p == nil && c.Description+c.Note == "":
				want.Outcome = OutcomeRejected
			case p == nil:
				next.name, next.key, next.sender, next.said, next.request, next.at = agent, newKey, sender, said, request, now
				want = Result{Outcome: OutcomeDone, KeyIssued: true}
			case c.Request.ID != "" && requests[request]:
				want = Result{Outcome: OutcomeDuplicate, KeyIssued: renewable && p.request == request}
			case renewable && key == "" && sender == p.sender && said == p.said:
				want = Result{Outcome: OutcomeDuplicate, KeyIssued: true}
			case key == "wrong":
				want.Outcome = OutcomeRejected
			case next != *p && !right:
				want.Outcome = OutcomeRejected
			case next != *p:
				want.Outcome = OutcomeDone
			}
			if right && p != nil {
				p.used, next.used = true, true
			}
			if got.Outcome != want.Outcome || got.KeyIssued != want.KeyIssued {
				rt.Fatalf("%+v: %+v, want %+v", c, got, want)
			}
			switch {
			case want.Outcome == OutcomeDone:
				profiles[agent] = &next
				order = append(slices.DeleteFunc(order, func(s string) bool { return s == agent }), agent)
				if c.Request.ID != "" {
					requests[request] = true
				}
			case want.KeyIssued:
				p.key = newKey
			}
		}
		for at := uint64(0); at < l.last(); {
			upto := rapid.Uint64Range(at+1, l.last()).Draw(rt, "upto")
			l.feed(other, at+1, upto)
			at = upto
		}
		v := m.View()
		defer v.Release()
		slices.Reverse(order)
		if got := profileNames(rt, v, ProfileQuery{Limit: 1}); !slices.Equal(got, order) {
			rt.Fatalf("list %v, want %v", got, order)
		}
		for agent, p := range profiles {
			got, _, err := v.Profile(agent)
			if err != nil || got.Description != p.description || got.Note != p.note || got.CreatedAt != p.at {
				rt.Fatalf("profile %+v, %v, want %+v", got, err, p)
			}
			if ok, err := v.Proves(agent, &Proof{Key: keyHash(p.key)}); err != nil || !ok {
				rt.Fatalf("the key of %s does not open: %v", agent, err)
			}
		}
		sameState(rt, stateOf(rt, m), stateOf(rt, other))
	})
}
