package fsm

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/must"
)

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
	case m.ended == "" || recovery != m.ended || request == "" || request != m.request || m.used || now > m.issuedAt+10*fsmtest.Minute:
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
		m := &recoveryModel{key: "key of ada", url: fsmtest.AdaReceiver, recovery: "recovery of key of ada"}
		known := []string{"wrong", m.recovery}
		r.WantDone(fsmtest.RegisterWithReceiver("ada", nil))
		for step := range rapid.IntRange(5, 40).Draw(rt, "steps") {
			r.Later(rapid.SampledFrom([]int64{0, 0, fsmtest.Minute, 9 * fsmtest.Minute, 11 * fsmtest.Minute}).Draw(rt, "later"))
			newKey := fmt.Sprint("key ", step)
			op := rapid.SampledFrom([]string{"move", "rotate", "recover", "recover", "recover", "recover", "reset"}).Draw(rt, "op")
			switch op {
			case "move":
				url := rapid.SampledFrom([]string{fsmtest.AdaReceiver, fsmtest.ThiefReceiver, ""}).Draw(rt, "url")
				r.Run(fsmtest.Changes("ada", m.key, fsmtest.WithReceiver(url)))
				m.url, m.used = url, true
			case "rotate":
				r.WantDone(fsmtest.Changes("ada", m.key, fsmtest.WithNewKey(newKey)))
				m.key, m.used, m.ended = newKey, false, ""
			case "reset":
				r.WantDone(&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash(newKey), NewRecovery: fsmtest.KeyHash("recovery of " + newKey)})
				m.key, m.used, m.ended, m.recovery = newKey, true, "", "recovery of "+newKey
			case "recover":
				recovery := rapid.SampledFrom(known[max(0, len(known)-4):]).Draw(rt, "recovery key")
				request := rapid.SampledFrom([]string{"", "request-1", "request-2"}).Draw(rt, "request")
				got := r.Run(fsmtest.Recover("ada", recovery, newKey, request))[0]
				if issued := m.recover(r.Now(), recovery, newKey, request); issued != got.KeyIssued || issued != got.RecoveryIssued {
					rt.Fatalf("step %d: %s: %+v, want a pair: %v", step, recovery, got, issued)
				}
			}
			if known[len(known)-1] != m.recovery {
				known = append(known, m.recovery)
			}
			must.Equal(rt, r.HasKey("ada", m.key), true, "step %d, %s: %s opens the name", step, op, m.key)
			must.Equal(rt, r.Receiver("ada"), m.url, "step %d, %s: the receiver", step, op)
		}
		other := tempMachine(rt)
		defer dropMachine(rt, other)
		r.log.feed(other, 1, r.log.last())
		must.Equal(rt, cmp.Diff(stateOf(rt, r.Machine), stateOf(rt, other)), "", "another machine (-this +that)")
	})
}
