package fsm

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const (
	hourly  = int64(command.HourMillis)
	atAda   = "https://ada.example.org/hook"
	atThief = "https://thief.example.org/hook"
)

// recovers brings a recovery key. The next pair is named after newKey.
func recovers(agent, recovery, newKey, request string) *command.Recover {
	return &command.Recover{
		AgentKey: agent, Key: keyHash(recovery), NewKey: keyHash(newKey), NewRecovery: keyHash("recovery of " + newKey),
		RequestID: request, Proof: command.Proof{Sender: "owner", Address: true},
	}
}

// changes is a change of a profile by a key.
func changes(agent, key string, change func(*command.Register)) *command.Register {
	return register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description, c.Proof.Key = 0, "", keyHash(key)
		change(c)
	})
}

func moves(url string) func(*command.Register) {
	return func(c *command.Register) {
		c.Given = command.FieldNotifyURL
		receives(c, url)
	}
}

func deletes(c *command.Register) { c.Delete = true }

func protects(c *command.Register) { c.Given, c.Protected = command.FieldProtected, true }

func rotates(newKey string) func(*command.Register) {
	return func(c *command.Register) { c.RotateKey, c.NewKey = true, keyHash(newKey) }
}

// The results of a recovery: the first one, and one whose answer was lost.
var (
	recovered      = command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}
	recoveredAgain = command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true, RecoveryIssued: true}
)

// receiver returns the receiver that deliveries to an agent go to: atAda, atThief, or "".
func (r *rig) receiver(agent string) (url string) {
	v := r.View()
	defer v.Release()
	for _, candidate := range []string{atAda, atThief} {
		if must.Get(v.NotifySalt(agent, candidate))(r.t) != "" {
			url = candidate
		}
	}
	return url
}

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
		"the last moment":            {func(r *rig) { r.log.stamp += state.KeyGrace - 1000 }, "request-1", true},
		"a moment too late":          {func(r *rig) { r.log.stamp += state.KeyGrace - 999 }, "request-1", false},
		"another request_id":         {func(*rig) {}, "request-2", false},
		"without a request_id":       {func(*rig) {}, "", false},
		"after a change by the key":  {func(r *rig) { r.wantDone(changes("ada", "k2", saying("Mine."))) }, "request-1", false},
		"after an entry by the key":  {func(r *rig) { r.publish(func(p *command.Publish) { p.Proof.Key = keyHash("k2") }) }, "request-1", false},
		"after a rotation":           {func(r *rig) { r.wantDone(changes("ada", "k2", rotates("k9"))) }, "request-1", false},
		"after a guess":              {func(r *rig) { r.run(recovers("ada", "wrong", "k9", "request-1")) }, "request-1", true},
		"after an entry without key": {func(r *rig) { r.publish(nil) }, "request-1", true},
		"after a purge":              {func(r *rig) { r.run(&command.Purge{Order: byOperator, Agents: []string{"ada"}}) }, "request-1", true},
		"after a reset": {func(r *rig) {
			r.run(&command.ResetKey{AgentKey: "ada", NewKey: keyHash("k9"), NewRecovery: keyHash("r9")})
		}, "request-1", false},
		"after the next recovery key": {func(r *rig) { r.wantDone(recovers("ada", "recovery of k2", "k9", "")) }, "request-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(hooked("ada", nil))
			before, _ := r.profile("ada")
			check.Diff(t, r.run(recovers("ada", own, "k2", "request-1"))[0], recovered, "the first use")
			if !r.opens("ada", "k2") || r.opens("ada", "key of ada") {
				t.Error("the keys were not replaced")
			}
			check.Equal(t, r.receiver("ada"), "", "the receiver")
			after, _ := r.profile("ada")
			check.Equal(t, after, before, "the public profile")
			tt.between(r)
			got := r.run(recovers("ada", own, "k3", tt.request))[0]
			if !tt.again {
				check.Diff(t, got, command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemWrongRecovery}}, "the second use")
				return
			}
			check.Diff(t, got, recoveredAgain, "the second use")
			if !r.opens("ada", "k3") || r.opens("ada", "k2") {
				t.Error("the lost key is still valid")
			}
			r.wantProblem(recovers("ada", "recovery of k2", "k4", ""), command.ProblemWrongRecovery) // the lost recovery key
			r.wantDone(recovers("ada", "recovery of k3", "k4", ""))
		})
	}
}

// TestStolenKey: whoever holds the edit_key alone cannot take the name for good.
func TestStolenKey(t *testing.T) {
	for name, theft := range map[string]command.Payload{
		"another receiver": changes("ada", "key of ada", moves(atThief)),
		"rotates":          changes("ada", "key of ada", rotates("stolen")),
		"protects":         changes("ada", "key of ada", protects),
		"deletes":          changes("ada", "key of ada", deletes),
		"has it purged":    &command.Purge{Order: byOperator, Agents: []string{"ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(hooked("ada", nil))
			r.run(theft)
			r.later(24 * hourly)
			check.Diff(t, r.run(recovers("ada", "recovery of key of ada", "k2", ""))[0], recovered, "the recovery")
			if r.opens("ada", "key of ada") || r.opens("ada", "stolen") || !r.opens("ada", "k2") {
				t.Error("the thief's key still opens the name")
			}
			check.Equal(t, r.receiver("ada"), "", "the receiver")
			r.wantDone(changes("ada", "k2", saying("Mine again.")))
		})
	}
}

// TestRecoveryEndsRegistration: a repeated registration or rotation does not replace the key of a
// recovery.
func TestRecoveryEndsRegistration(t *testing.T) {
	r := newRig(t)
	first := func(key string) *command.Register {
		return register("ada", key, func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "register-1"} })
	}
	rotate := changes("ada", "k1", rotates("k2"))
	rotate.Request = command.RequestKey{Scope: "ada", ID: "rotate-1"}
	r.wantDone(first("k1"))
	r.wantDone(rotate)
	r.wantDone(recovers("ada", "recovery of k1", "k3", ""))
	for _, c := range []command.Payload{first("k4"), rotate} {
		if got := r.run(c)[0]; got.KeyIssued {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if !r.opens("ada", "k3") {
		t.Error("the key of the recovery was replaced")
	}
}

// TestRecoveryIsCharged: a wrong recovery key has the standing of a wrong key, and the right one
// that of the key.
func TestRecoveryIsCharged(t *testing.T) {
	r := newRig(t)
	r.wantDone(register("ada", "k1", nil))
	for recovery, want := range map[string]command.Standing{
		"recovery of k1": {Registered: true, Strength: command.ByKey},
		"wrong":          {Registered: true, WrongKey: true},
	} {
		v := r.View()
		standing, repeated, _, err := v.Assess(recovers("ada", recovery, "k2", "request-1"), 100, r.now())
		v.Release()
		if err != nil || repeated || standing != want {
			t.Errorf("%s: %+v, %v, %v, want %+v", recovery, standing, repeated, err, want)
		}
	}
}

func TestDeletedProfile(t *testing.T) {
	r := newRig(t)
	r.wantProblem(register("ada", "k1", func(c *command.Register) { c.Given, c.Description = 0, ""; c.Delete = true }), command.ProblemUnknownAgent)
	r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldNote; c.Note = "pills" }))
	r.wantProblem(register("ada", "k1", func(c *command.Register) { c.Given, c.Description = 0, ""; c.Delete = true }), command.ProblemNoKey)
	r.wantDone(changes("ada", "key of ada", deletes))
	if doc, known := r.profile("ada"); known {
		t.Errorf("shown: %s", doc)
	}
	check.Equal(t, r.run(changes("ada", "key of ada", deletes))[0].Outcome, command.OutcomeUnchanged, "deleted again")
	r.wantProblem(register("ada", "k2", saying("Somebody else.")), command.ProblemNoKey)
	r.wantProblem(changes("ada", "key of ada", moves(atThief)), command.ProblemNoDescription)
	r.wantDone(changes("ada", "key of ada", saying("Back again.")))
	if _, known := r.profile("ada"); !known {
		t.Error("not shown after it was filled again")
	}
}

// recoveryModel is the recovery of ada, kept in the simplest way.
type recoveryModel struct {
	key, url, recovery string
	used               bool // the key
	ended, request     string
	issuedAt           int64
}

// recover reports whether a recovery key issues a pair.
func (m *recoveryModel) recover(now int64, recovery, newKey, request string) bool {
	switch {
	case recovery == m.recovery:
		m.ended, m.request, m.url, m.issuedAt, m.used = recovery, request, "", now, false
	case m.ended == "" || recovery != m.ended || request == "" || request != m.request || m.used || now > m.issuedAt+10*minute:
		return false
	}
	m.key, m.recovery = newKey, "recovery of "+newKey
	return true
}

// TestRecoveryAgainstModel draws changes of a profile by its key, rotations, resets and recoveries
// with current and former keys, with pauses around the limit. Another machine that applies the
// same log must agree.
func TestRecoveryAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		m := &recoveryModel{key: "key of ada", url: atAda, recovery: "recovery of key of ada"}
		known := []string{"wrong", m.recovery}
		r.wantDone(hooked("ada", nil))
		for step := range rapid.IntRange(5, 40).Draw(rt, "steps") {
			r.later(rapid.SampledFrom([]int64{0, 0, minute, 9 * minute, 11 * minute}).Draw(rt, "later"))
			newKey := fmt.Sprint("key ", step)
			op := rapid.SampledFrom([]string{"move", "rotate", "recover", "recover", "recover", "recover", "reset"}).Draw(rt, "op")
			switch op {
			case "move":
				url := rapid.SampledFrom([]string{atAda, atThief, ""}).Draw(rt, "url")
				r.run(changes("ada", m.key, moves(url)))
				m.url, m.used = url, true
			case "rotate":
				r.wantDone(changes("ada", m.key, rotates(newKey)))
				m.key, m.used, m.ended = newKey, false, ""
			case "reset":
				r.wantDone(&command.ResetKey{AgentKey: "ada", NewKey: keyHash(newKey), NewRecovery: keyHash("recovery of " + newKey)})
				m.key, m.used, m.ended, m.recovery = newKey, true, "", "recovery of "+newKey
			case "recover":
				recovery := rapid.SampledFrom(known[max(0, len(known)-4):]).Draw(rt, "recovery key")
				request := rapid.SampledFrom([]string{"", "request-1", "request-2"}).Draw(rt, "request")
				got := r.run(recovers("ada", recovery, newKey, request))[0]
				if issued := m.recover(r.now(), recovery, newKey, request); issued != got.KeyIssued || issued != got.RecoveryIssued {
					rt.Fatalf("step %d: %s: %+v, want a pair: %v", step, recovery, got, issued)
				}
			}
			if known[len(known)-1] != m.recovery {
				known = append(known, m.recovery)
			}
			if !r.opens("ada", m.key) {
				rt.Fatalf("step %d, %s: %s does not open the name", step, op, m.key)
			}
			must.Equal(rt, r.receiver("ada"), m.url, "step %d, %s: the receiver", step, op)
		}
		other := tempMachine(rt)
		defer dropMachine(rt, other)
		r.log.feed(other, 1, r.log.last())
		must.Equal(rt, cmp.Diff(stateOf(rt, r.Machine), stateOf(rt, other)), "", "another machine (-this +that)")
	})
}
