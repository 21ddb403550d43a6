package fsm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// profileModel is the profiles again, in the plainest way.
type profileModel struct {
	profiles map[string]*modelProfile
	requests map[string]bool
	order    []string // most recently updated last
	// writers are those of entries under a name, by address or before it was registered:
	// senders with the times.
	writers map[string]map[string]int64
}

type modelProfile struct {
	description, note, key, former, sender string
	issuer, said, request                  string // of the command that issued the key
	at, issuedAt                           int64
	used, protected                        bool
}

// verify says whether an entry is verified, and whether it is taken at all.
func (m *profileModel) verify(agent, key string, proof *command.Proof, now int64) (verified, taken bool) {
	taken = true
	if p := m.profiles[agent]; p != nil {
		right := key == p.key
		p.used = p.used || right
		verified = right || key == "" && proof.Address && proof.Sender == p.sender
		taken = right || key == "" && !p.protected
	}
	if taken && (m.profiles[agent] == nil || verified && key == "") {
		if m.writers[agent] == nil {
			m.writers[agent] = map[string]int64{}
		}
		m.writers[agent][proof.Sender] = now
	}
	return verified, taken
}

// othersWrote says whether other senders than these wrote under a name lately.
func (m *profileModel) othersWrote(agent string, now int64, senders ...string) bool {
	for sender, at := range m.writers[agent] {
		if !slices.Contains(senders, sender) && now-at < state.ProtectAfter {
			return true
		}
	}
	return false
}

// register carries a registration with this key out, whose new key is newKey.
func (m *profileModel) register(c *command.Register, key, newKey string, now int64) (outcome command.Outcome, issued bool) {
	p := m.profiles[c.AgentKey]
	address := ""
	if c.Proof.Address {
		address = c.Proof.Sender
	}
	said := fmt.Sprint(c.Given, c.Description, c.Note, c.Protected, c.RotateKey, c.Request)
	if p == nil {
		if c.Description+c.Note == "" || c.Protected && m.othersWrote(c.AgentKey, now, c.Proof.Sender) {
			return command.OutcomeRejected, false
		}
		m.save(c, false, modelProfile{
			description: c.Description, note: c.Note, key: newKey, sender: address, protected: c.Protected,
			issuer: address, said: said, request: fmt.Sprint(false, c.Request), at: now, issuedAt: now,
		})
		return command.OutcomeDone, true
	}
	right := key == p.key
	lost := !right && key != "" && key == p.former
	p.used = p.used || right
	if request := fmt.Sprint(right || lost, c.Request); c.Request.ID != "" && (key == "" || right || lost) && m.requests[request] {
		issued = p.request == request && !p.used && now <= p.issuedAt+state.KeyGrace &&
			(address != "" && address == p.issuer || said == p.said && !lost)
		if issued {
			p.key = newKey
		}
		if issued || !lost {
			return command.OutcomeDuplicate, issued
		}
	}
	next := *p
	if c.Given&command.FieldDescription != 0 {
		next.description = c.Description
	}
	if c.Given&command.FieldNote != 0 {
		next.note = c.Note
	}
	if c.Given&command.FieldProtected != 0 {
		next.protected = c.Protected
	}
	switch {
	case key != "" && !right, (next != *p || c.RotateKey) && !right:
		return command.OutcomeRejected, false
	case next.protected && !p.protected && m.othersWrote(c.AgentKey, now, p.sender, c.Proof.Sender):
		return command.OutcomeRejected, false
	case next == *p && !c.RotateKey:
		return command.OutcomeUnchanged, false
	case c.RotateKey:
		next.former, next.key, next.used = next.key, newKey, false
		next.issuer, next.said, next.request, next.issuedAt = address, said, fmt.Sprint(true, c.Request), now
	}
	m.save(c, true, next)
	return command.OutcomeDone, c.RotateKey
}

func (m *profileModel) save(c *command.Register, byKey bool, p modelProfile) {
	m.profiles[c.AgentKey] = &p
	m.order = append(slices.DeleteFunc(m.order, func(s string) bool { return s == c.AgentKey }), c.AgentKey)
	if c.Request.ID != "" {
		m.requests[fmt.Sprint(byKey, c.Request)] = true
	}
}

// drawRegister draws a registration, but for its proof.
func drawRegister(t *rapid.T, agent, newKey string) *command.Register {
	c := fsmtest.Register(agent, newKey, nil)
	c.Given, c.Description = 0, ""
	if rapid.Bool().Draw(t, "described") {
		c.Given |= command.FieldDescription
		c.Description = rapid.SampledFrom([]string{"", "Some words.", "Other words."}).Draw(t, "description")
	}
	if rapid.Bool().Draw(t, "noted") {
		c.Given |= command.FieldNote
		c.Note = rapid.SampledFrom([]string{"", "A note."}).Draw(t, "note")
	}
	if rapid.IntRange(0, 4).Draw(t, "protects") == 0 {
		c.Given |= command.FieldProtected
		c.Protected = rapid.Bool().Draw(t, "protected")
	}
	c.RotateKey = rapid.IntRange(0, 4).Draw(t, "rotates") == 0
	if id := rapid.SampledFrom([]string{"", "", "request-1", "request-2"}).Draw(t, "request"); id != "" {
		c.Request = command.RequestKey{Scope: agent, ID: id}
	}
	return c
}

// TestProfilesAgainstModel draws registrations, changes, rotations, protection, entries with and without
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
		model := &profileModel{profiles: map[string]*modelProfile{}, requests: map[string]bool{}, writers: map[string]map[string]int64{}}
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			l.stamp += rapid.SampledFrom([]int64{0, 0, 0, state.KeyGrace / 2, state.ProtectAfter + command.DayMillis}).Draw(rt, "tick")
			agent := rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "agent")
			key := rapid.SampledFrom([]string{"", "right", "right", "wrong", "former"}).Draw(rt, "key")
			if p := model.profiles[agent]; p != nil && key == "right" {
				key = p.key
			} else if p != nil && key == "former" {
				key = p.former
			}
			proof := command.Proof{Sender: rapid.SampledFrom([]string{"s1", "s2", "s3", "s4"}).Draw(rt, "sender"), Address: rapid.Bool().Draw(rt, "address")}
			if key != "" {
				proof.Key = fsmtest.KeyHash(key)
			}
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				at := l.commands(fsmtest.Post(agent, func(p *command.Publish) { p.Proof = proof }))
				l.feed(m, at, at)
				verified, taken := model.verify(agent, key, &proof, l.stamp)
				must.Equal(rt, (obs.got[len(obs.got)-1].Res.Outcome == command.OutcomeDone), taken, "an entry with %+v", proof)
				if taken {
					checkVerified(rt, m, verified)
				}
				continue
			}
			newKey := fmt.Sprint("key-", step)
			c := drawRegister(rt, agent, newKey)
			c.Proof = proof
			repeat, repeats, before := repeatOn(rt, m, c)
			at := l.commands(c)
			l.feed(m, at, at)
			got := obs.got[len(obs.got)-1].Res
			if _, _, after := repeatOn(rt, m, c); repeats && (!cmp.Equal(repeat, got) || after != before) || !repeats && got.Outcome == command.OutcomeUnchanged && after == before {
				rt.Fatalf("%+v: the view says %+v, %t; apply %+v", c, repeat, repeats, got)
			}
			outcome, issued := model.register(c, key, newKey, l.stamp)
			if got.Outcome != outcome || got.KeyIssued != issued {
				rt.Fatalf("%+v: %+v, want outcome %d, key %v", c, got, outcome, issued)
			}
			if first := issued && strings.HasPrefix(model.profiles[agent].request, "false"); got.RecoveryIssued != first {
				rt.Fatalf("%+v: %+v, want recovery key %v", c, got, first)
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

// repeatOn returns what a machine's view says of a registration, and the row of its profile.
func repeatOn(t *rapid.T, m *Machine, c *command.Register) (r command.Result, repeats bool, row string) {
	v := m.View()
	defer v.Release()
	e, err := v.Admit(c, netip.Addr{}, 0)
	stored, _, errRow := state.GetRow(v.Reader(), state.ProfileKey(c.AgentKey))
	must.Do(t, errors.Join(err, errRow))
	return e.Earlier, e.Repeats, string(stored)
}

// checkVerified holds nameVerified of the newest entry against the model.
func checkVerified(t *rapid.T, m *Machine, want bool) {
	v := m.View()
	defer v.Release()
	doc, raw := fsmtest.ReadEntry(t, v, v.LastSeq())
	must.Equal(t, doc.NameVerified, want, "verified: %s", raw)
}

func checkProfiles(t *rapid.T, m *Machine, want *profileModel) {
	v := m.View()
	defer v.Release()
	order := slices.Clone(want.order)
	slices.Reverse(order)
	check.Diff(t, fsmtest.ProfileNames(t, v, view.Query{Limit: 1}), order, "list")
	for agent, p := range want.profiles {
		got, _, err := v.Profile(agent)
		if err != nil || got.Description != p.description || got.Note != p.note {
			t.Fatalf("profile %+v, %v, want %+v", got, err, p)
		}
		if s, err := v.Standing(command.Signature{AgentKey: agent, Proof: &command.Proof{Key: fsmtest.KeyHash(p.key)}}); err != nil || s.Strength != command.ByKey || s.Protected != p.protected {
			t.Fatalf("standing of %s with its key: %+v, %v", agent, s, err)
		}
	}
}
