package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
)

const (
	hourly  = int64(command.HourMillis)
	atAda   = "https://ada.example.org/hook"
	atThief = "https://thief.example.org/hook"
)

// asks is a request for a recovery code.
func asks(agent, sender string) *command.Recover {
	return &command.Recover{AgentKey: agent, Proof: command.Proof{Sender: sender}}
}

// redeems brings a recovery code.
func redeems(agent string, number uint64, newKey, request string) *command.Redeem {
	return &command.Redeem{AgentKey: agent, Number: number, NewKey: keyHash(newKey), RequestID: request, Proof: command.Proof{Sender: "redeemer"}}
}

// changes is a change of a profile by a key.
func changes(agent, key string, change func(*command.Register)) *command.Register {
	return register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description, c.Proof.Key = 0, "", keyHash(key)
		change(c)
	})
}

func recoverBy(on bool) func(*command.Register) {
	return func(c *command.Register) { c.Given, c.RecoverBy = command.FieldRecoverBy, on }
}

func moves(url string) func(*command.Register) {
	return func(c *command.Register) {
		c.Given, c.NotifyURL, c.NotifyVerified = command.FieldNotifyURL, url, url != ""
	}
}

func deletes(c *command.Register) { c.Delete = true }

// alert is an event about a key, as its receiver gets it.
type alert struct {
	Kind    outbox.DeliveryKind
	Number  uint64
	To      string
	Changed outbox.Change
}

// takeAlerts delivers the alerts of ada.
func (r *rig) takeAlerts() (taken []alert) {
	for {
		due := slices.DeleteFunc(r.due(r.now()+1000), func(d outbox.Delivery) bool { return d.AgentKey != outbox.AlertsOf("ada") })
		if len(due) == 0 {
			return taken
		}
		d := r.attempt(due[0].AgentKey, command.AttemptDelivered, nil)
		taken = append(taken, alert{d.Kind, d.Number, d.URL, d.Changed})
	}
}

// only returns the number of the code in alerts that are one code.
func onlyCode(t *testing.T, to string, alerts []alert) uint64 {
	t.Helper()
	if len(alerts) != 1 || alerts[0].Kind != outbox.DeliveryCode || alerts[0].To != to {
		t.Fatalf("%+v, want a code for %s", alerts, to)
	}
	return alerts[0].Number
}

func TestRecovery(t *testing.T) {
	r := newRig(t)
	r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldRecoverBy; c.RecoverBy = true }))
	r.wantDone(hooked("bob", nil))
	done := command.Result{Outcome: command.OutcomeDone}
	for _, agent := range []string{"ada", "bob", "nobody"} {
		if got := r.run(asks(agent, "asks for "+agent))[0]; !cmp.Equal(got, done) {
			t.Errorf("%s: %+v", agent, got)
		}
	}
	if got := r.due(r.now() + 1000); len(got) != 1 {
		t.Errorf("due: %+v, want a code of ada alone", got)
	}
	r.wantProblem(asks("nobody", "asks for ada"), command.ProblemRecoveries)
	first := onlyCode(t, atAda, r.takeAlerts())
	r.later(hourly)
	r.wantDone(asks("ada", "asks for ada"))
	second := onlyCode(t, atAda, r.takeAlerts())
	r.wantProblem(redeems("ada", first, "k2", ""), command.ProblemWrongCode) // too old
	r.wantProblem(redeems("bob", second, "k2", ""), command.ProblemWrongCode)
	r.wantDone(asks("ada", "another"))
	third := onlyCode(t, atAda, r.takeAlerts())
	r.wantDone(asks("ada", "one more"))
	if got := r.takeAlerts(); len(got) > 0 {
		t.Errorf("a fourth code within a day: %+v", got)
	}

	issued := command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
	if got := r.run(redeems("ada", second, "k2", "request-1"))[0]; !cmp.Equal(got, issued) || !r.opens("ada", "k2") || r.opens("ada", "key of ada") {
		t.Errorf("redeemed: %+v", got)
	}
	if got, want := r.takeAlerts(), []alert{{outbox.DeliveryChange, third + 1, atAda, outbox.ChangedKey}}; !cmp.Equal(got, want) {
		t.Errorf("alerts: %+v, want %+v", got, want)
	}
	again := command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true}
	if got := r.run(redeems("ada", second, "k3", "request-1"))[0]; !cmp.Equal(got, again) || !r.opens("ada", "k3") || r.opens("ada", "k2") {
		t.Errorf("the answer was lost: %+v", got)
	}
	r.wantProblem(redeems("ada", second, "k4", "request-2"), command.ProblemWrongCode)
	r.wantProblem(redeems("ada", second, "k4", ""), command.ProblemWrongCode)
	r.wantDone(changes("ada", "k3", saying("The key was used."))) // from now on it is not replaced
	r.wantProblem(redeems("ada", second, "k4", "request-1"), command.ProblemWrongCode)
	r.wantDone(redeems("ada", third, "k5", "")) // a newer code does not end it
}

// TestThiefOfAKey: the receiver that stood before a thief's changes takes the name back.
func TestThiefOfAKey(t *testing.T) {
	for name, theft := range map[string][]func(*command.Register){
		"another receiver":    {moves(atThief)},
		"twice":               {moves(atThief), moves("https://other.example.org/hook")},
		"no recovery":         {recoverBy(false), moves("")},
		"deletes":             {deletes},
		"rotates":             {func(c *command.Register) { c.RotateKey = true; c.NewKey = keyHash("key of ada") }},
		"a receiver and back": {moves(atThief), moves(atAda), moves(atThief)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldRecoverBy; c.RecoverBy = true }))
			for _, change := range theft {
				r.wantDone(changes("ada", "key of ada", change))
			}
			if told := r.takeAlerts(); len(told) == 0 || told[0].Kind != outbox.DeliveryChange || told[0].To != atAda {
				t.Errorf("told: %+v", told)
			}
			r.later(71 * hourly)
			r.wantDone(asks("ada", "owner"))
			r.wantDone(redeems("ada", onlyCode(t, atAda, r.takeAlerts()), "k2", ""))
			if r.opens("ada", "key of ada") || !r.opens("ada", "k2") {
				t.Error("the thief's key still opens the name")
			}
			r.takeAlerts()
			r.wantDone(asks("ada", "thief"))
			onlyCode(t, atAda, r.takeAlerts()) // the receiver is the owner's again
		})
	}
}

// TestAlertsDoNotWait: neither a receiver that is down nor the deliveries of a thief delay
// an alert.
func TestAlertsDoNotWait(t *testing.T) {
	r := newRig(t)
	r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldRecoverBy; c.RecoverBy = true }))
	for range 2 * command.MaxHourlyDeliveries {
		r.run(changes("ada", "key of ada", moves(atThief)), changes("ada", "key of ada", moves(atAda)))
		r.run(&command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: keyHash("key of ada")}})
	}
	r.takeAlerts()
	r.wantDone(asks("ada", "owner"))
	onlyCode(t, atAda, r.takeAlerts())
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
	if got := r.run(changes("ada", "key of ada", deletes))[0]; got.Outcome != command.OutcomeUnchanged {
		t.Errorf("deleted again: %+v", got)
	}
	r.wantProblem(register("ada", "k2", saying("Somebody else.")), command.ProblemNoKey)
	r.wantProblem(changes("ada", "key of ada", moves(atThief)), command.ProblemNoDescription)
	r.wantDone(changes("ada", "key of ada", saying("Back again.")))
	if _, known := r.profile("ada"); !known {
		t.Error("not shown after it was filled again")
	}
}

// TestResetEndsRecovery: an operator who resets a key ends what a thief could recover it by.
func TestResetEndsRecovery(t *testing.T) {
	r := newRig(t)
	r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldRecoverBy; c.RecoverBy = true }))
	r.wantDone(asks("ada", "thief"))
	number := onlyCode(t, atAda, r.takeAlerts())
	r.wantDone(&command.ResetKey{AgentKey: "ada", NewKey: keyHash("k2")})
	if got := r.takeAlerts(); len(got) != 1 || got[0].Changed != outbox.ChangedKey {
		t.Errorf("told: %+v", got)
	}
	r.wantProblem(redeems("ada", number, "k3", ""), command.ProblemWrongCode)
	r.wantDone(asks("ada", "another"))
	if got := r.takeAlerts(); len(got) > 0 {
		t.Errorf("a code after the reset: %+v", got)
	}
}

// TestGoneEndsNoAlerts: a receiver that is gone ends its own alert, not that of another one.
func TestGoneEndsNoAlerts(t *testing.T) {
	r := newRig(t)
	r.wantDone(hooked("ada", func(c *command.Register) { c.Given |= command.FieldRecoverBy; c.RecoverBy = true }))
	r.wantDone(changes("ada", "key of ada", moves(atThief)))
	r.wantDone(asks("ada", "owner"))
	queue := outbox.AlertsOf("ada")
	r.attempt(queue, command.AttemptGone, func(c *command.AckDelivery) { c.Reason = "gone" })
	onlyCode(t, atAda, r.takeAlerts())
}

// recoveryModel is the recovery of ada, kept in the simplest way.
type recoveryModel struct {
	key, url  string
	on        bool
	earlier   string // the receiver before the first change of a row of them
	earlierOn bool
	until     int64
	used      bool // the key
	issuedAt  int64
	issuedBy  *modelCode
	codes     []*modelCode
	asked     map[string]int64
}

type modelCode struct {
	number  uint64
	at      int64
	to      string
	used    bool
	request string
}

func (m *recoveryModel) changed(now int64, url string, on bool) {
	if m.url == "" {
		return
	}
	if now >= m.until {
		m.earlier, m.earlierOn = url, on
	}
	m.until = now + 72*hourly
}

// ask returns whether a code is due, and to which receiver.
func (m *recoveryModel) ask(now int64) (to string) {
	switch lately := slices.DeleteFunc(slices.Clone(m.codes), func(c *modelCode) bool { return now-c.at >= 24*hourly }); {
	case len(lately) >= 3:
		return ""
	case now < m.until && (m.on || m.earlierOn):
		return m.earlier
	case now >= m.until && m.on:
		return m.url
	}
	return ""
}

// redeem reports whether a code issues a key.
func (m *recoveryModel) redeem(now int64, number uint64, key, request string) bool {
	i := slices.IndexFunc(m.codes, func(c *modelCode) bool { return c.number == number })
	if i < 0 {
		return false
	}
	c := m.codes[i]
	if c.used {
		again := m.issuedBy == c && request != "" && request == c.request && !m.used && now <= m.issuedAt+10*minute
		if again {
			m.key = key
		}
		return again
	}
	if now > c.at+15*minute {
		return false
	}
	c.used, c.request = true, request
	m.key, m.url, m.on, m.until, m.used, m.issuedAt, m.issuedBy = key, c.to, true, 0, false, now, c
	m.codes = slices.DeleteFunc(m.codes, func(other *modelCode) bool { return other.to != c.to })
	return true
}

// TestRecoveryAgainstModel draws changes of a profile by its key, requests for codes, codes and
// resets, with pauses around the limits.
func TestRecoveryAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		m := &recoveryModel{key: "key of ada", url: atAda, asked: map[string]int64{}}
		r.wantDone(hooked("ada", nil))
		for step := range rapid.IntRange(5, 40).Draw(rt, "steps") {
			r.later(rapid.SampledFrom([]int64{0, 9 * minute, 14 * minute, 59 * minute, 61 * minute, 23 * hourly, 70 * hourly}).Draw(rt, "later"))
			newKey := fmt.Sprint("key ", step)
			var wantAlerts []alert
			tell := func(changed outbox.Change) {
				if m.url != "" && changed != 0 {
					wantAlerts = append(wantAlerts, alert{outbox.DeliveryChange, 0, m.url, changed})
				}
			}
			op := rapid.SampledFrom([]string{"move", "switch", "rotate", "ask", "ask", "ask", "redeem", "redeem", "redeem", "reset"}).Draw(rt, "op")
			switch op {
			case "move":
				url := rapid.SampledFrom([]string{atAda, atThief, ""}).Draw(rt, "url")
				r.run(changes("ada", m.key, moves(url)))
				if url != m.url {
					tell(outbox.ChangedReceiver)
					m.changed(r.now(), m.url, m.on)
				}
				m.url, m.used = url, true
			case "switch":
				on := rapid.Bool().Draw(rt, "on")
				r.run(changes("ada", m.key, recoverBy(on)))
				if on != m.on {
					tell(outbox.ChangedRecoverBy)
					m.changed(r.now(), m.url, m.on)
				}
				m.on, m.used = on, true
			case "rotate":
				r.wantDone(changes("ada", m.key, func(c *command.Register) { c.RotateKey, c.NewKey = true, keyHash(newKey) }))
				tell(outbox.ChangedKey)
				m.changed(r.now(), m.url, m.on)
				m.key, m.used, m.issuedBy = newKey, false, nil
			case "reset":
				r.wantDone(&command.ResetKey{AgentKey: "ada", NewKey: keyHash(newKey)})
				tell(outbox.ChangedKey)
				m.key, m.used, m.on, m.until, m.codes, m.issuedBy = newKey, true, false, 0, nil, nil
			case "ask":
				sender := rapid.SampledFrom([]string{"one", "two", "three"}).Draw(rt, "sender")
				got := r.run(asks("ada", sender))[0]
				last, known := m.asked[sender]
				if may := !known || r.now() >= last+hourly; may != (got.Outcome == command.OutcomeDone) {
					rt.Fatalf("step %d: %s asked before %d: %+v", step, sender, r.now()-last, got)
				} else if !may {
					break
				}
				m.asked[sender] = r.now()
				if to := m.ask(r.now()); to != "" {
					m.codes = append(m.codes, &modelCode{at: r.now(), to: to})
					wantAlerts = append(wantAlerts, alert{outbox.DeliveryCode, 0, to, 0})
				}
			case "redeem":
				number := uint64(1)
				if len(m.codes) > 0 {
					number = rapid.SampledFrom(m.codes).Draw(rt, "code").number
				}
				request := rapid.SampledFrom([]string{"", "request-1", "request-2"}).Draw(rt, "request")
				got, fresh, url, on := r.run(redeems("ada", number, newKey, request))[0], m.issuedBy, m.url, m.on
				if issued := m.redeem(r.now(), number, newKey, request); issued != got.KeyIssued {
					rt.Fatalf("step %d: code %d: %+v, want a key: %v", step, number, got, issued)
				} else if issued && m.issuedBy != fresh {
					changed := outbox.ChangedKey
					if url != m.url {
						changed |= outbox.ChangedReceiver
					}
					if !on {
						changed |= outbox.ChangedRecoverBy
					}
					tell(changed)
				}
			}
			taken := r.takeAlerts()
			for i := range taken {
				if taken[i].Kind == outbox.DeliveryCode && len(m.codes) > 0 {
					m.codes[len(m.codes)-1].number = taken[i].Number
				}
				taken[i].Number = 0
			}
			if diff := cmp.Diff(wantAlerts, taken); diff != "" {
				rt.Fatalf("step %d, %s: alerts (-want +got):\n%s", step, op, diff)
			}
			if !r.opens("ada", m.key) {
				rt.Fatalf("step %d, %s: %s does not open the name", step, op, m.key)
			}
		}
	})
}
