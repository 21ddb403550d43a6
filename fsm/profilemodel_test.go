package fsm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
)

// profileModel is the profiles again, in the plainest way.
type profileModel struct {
	profiles map[string]*modelProfile
	requests map[string]bool
	order    []string // most recently updated last
}

type modelProfile struct {
	description, note, key, sender, said, request string
	at                                            int64
	used                                          bool
}

// verify says whether an entry is verified.
func (m *profileModel) verify(agent, key, sender string) bool {
	p := m.profiles[agent]
	if p == nil {
		return false
	}
	right := key == p.key
	p.used = p.used || right
	return right || sender == p.sender
}

// register carries a registration with this key out, whose new key is newKey.
func (m *profileModel) register(c *command.Register, key, newKey string, now int64) (outcome command.Outcome, issued bool) {
	p := m.profiles[c.AgentKey]
	said, request := fmt.Sprint(c.Given, c.Description, c.Note, c.Request), fmt.Sprint(c.Request)
	if p == nil {
		if c.Description+c.Note == "" {
			return command.OutcomeRejected, false
		}
		m.save(c, modelProfile{
			description: c.Description, note: c.Note, key: newKey, sender: c.Proof.Sender, said: said, request: request, at: now,
		})
		return command.OutcomeDone, true
	}
	right := key == p.key
	p.used = p.used || right
	renewable := !p.used && now <= p.at+keyGrace
	next := *p
	if c.Given&command.FieldDescription != 0 {
		next.description = c.Description
	}
	if c.Given&command.FieldNote != 0 {
		next.note = c.Note
	}
	switch {
	case c.Request.ID != "" && m.requests[request]:
		if issued = renewable && p.request == request && (said == p.said || c.Proof.Sender == p.sender); issued {
			p.key = newKey
		}
		return command.OutcomeDuplicate, issued
	case renewable && key == "" && c.Proof.Sender == p.sender && said == p.said:
		p.key = newKey
		return command.OutcomeDuplicate, true
	case key != "" && !right, next != *p && !right:
		return command.OutcomeRejected, false
	case next == *p:
		return command.OutcomeUnchanged, false
	}
	m.save(c, next)
	return command.OutcomeDone, false
}

func (m *profileModel) save(c *command.Register, p modelProfile) {
	m.profiles[c.AgentKey] = &p
	m.order = append(slices.DeleteFunc(m.order, func(s string) bool { return s == c.AgentKey }), c.AgentKey)
	if c.Request.ID != "" {
		m.requests[fmt.Sprint(c.Request)] = true
	}
}

// drawRegister draws a registration, but for its proof.
func drawRegister(t *rapid.T, agent, newKey string) *command.Register {
	c := register(agent, newKey, nil)
	c.Given, c.Description = 0, ""
	if rapid.Bool().Draw(t, "described") {
		c.Given |= command.FieldDescription
		c.Description = rapid.SampledFrom([]string{"", "Some words.", "Other words."}).Draw(t, "description")
	}
	if rapid.Bool().Draw(t, "noted") {
		c.Given |= command.FieldNote
		c.Note = rapid.SampledFrom([]string{"", "A note."}).Draw(t, "note")
	}
	if id := rapid.SampledFrom([]string{"", "", "request-1", "request-2"}).Draw(t, "request"); id != "" {
		c.Request = command.RequestKey{Scope: agent, ID: id}
	}
	return c
}

// TestProfilesAgainstModel draws registrations, changes, entries with and without
// keys and clock steps, and holds results, keys and the order of the list against
// a model. A second machine that applies the log in pieces must agree.
func TestProfilesAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, obs := newLog(t), &recorder{}
		m, other := tempMachine(rt), tempMachine(rt)
		defer dropMachine(rt, m)
		defer dropMachine(rt, other)
		m.opts.Observer = obs
		l.feed(m, 1, 1)
		model := &profileModel{profiles: map[string]*modelProfile{}, requests: map[string]bool{}}
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			l.stamp += rapid.SampledFrom([]int64{0, 0, keyGrace / 2}).Draw(rt, "tick")
			agent := rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "agent")
			key := rapid.SampledFrom([]string{"", "right", "wrong"}).Draw(rt, "key")
			if p := model.profiles[agent]; p != nil && key == "right" {
				key = p.key
			}
			proof := command.Proof{Sender: rapid.SampledFrom([]string{"s1", "s2"}).Draw(rt, "sender")}
			if key != "" {
				proof.Key = keyHash(key)
			}
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				at := l.commands(post(agent, func(p *command.Publish) { p.Proof = proof }))
				l.feed(m, at, at)
				checkVerified(rt, m, model.verify(agent, key, proof.Sender))
				continue
			}
			newKey := fmt.Sprint("key-", step)
			c := drawRegister(rt, agent, newKey)
			c.Proof = proof
			at := l.commands(c)
			l.feed(m, at, at)
			got := obs.got[len(obs.got)-1].res
			if outcome, issued := model.register(c, key, newKey, l.stamp); got.Outcome != outcome || got.KeyIssued != issued {
				rt.Fatalf("%+v: %+v, want outcome %d, key %v", c, got, outcome, issued)
			}
		}
		for at := uint64(0); at < l.last(); {
			upto := rapid.Uint64Range(at+1, l.last()).Draw(rt, "upto")
			l.feed(other, at+1, upto)
			at = upto
		}
		checkProfiles(rt, m, model)
		sameState(rt, stateOf(rt, m), stateOf(rt, other))
	})
}

// checkVerified holds nameVerified of the newest entry against the model.
func checkVerified(t *rapid.T, m *Machine, want bool) {
	v := m.View()
	defer v.Release()
	if doc, raw := readEntry(t, v, v.LastSeq()); doc.NameVerified != want {
		t.Fatalf("verified %v, want %v: %s", doc.NameVerified, want, raw)
	}
}

func checkProfiles(t *rapid.T, m *Machine, want *profileModel) {
	v := m.View()
	defer v.Release()
	order := slices.Clone(want.order)
	slices.Reverse(order)
	if got := profileNames(t, v, ProfileQuery{Limit: 1}); !slices.Equal(got, order) {
		t.Fatalf("list %v, want %v", got, order)
	}
	for agent, p := range want.profiles {
		got, _, err := v.Profile(agent)
		if err != nil || got.Description != p.description || got.Note != p.note || got.CreatedAt != p.at {
			t.Fatalf("profile %+v, %v, want %+v", got, err, p)
		}
		if ok, err := v.Proves(agent, &command.Proof{Key: keyHash(p.key)}); err != nil || !ok {
			t.Fatalf("the key of %s does not open: %v", agent, err)
		}
	}
}
