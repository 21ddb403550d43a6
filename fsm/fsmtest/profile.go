package fsmtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// KeyHash is the hash of a key.
func KeyHash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// Salt derives a salt from a text, so that tests can compare salts.
func Salt(text string) []byte { return KeyHash(text)[:command.SaltBytes] }

// Register is a registration of an agent whose key becomes newKey, if one is due.
func Register(agent, newKey string, change func(*command.Register)) *command.Register {
	c := &command.Register{
		Agent: agent, AgentKey: strings.ToLower(agent), Given: command.FieldDescription, Description: "Reads and answers.",
		NewKey: KeyHash(newKey), NewRecovery: KeyHash("recovery of " + newKey), Proof: command.Proof{Sender: "sender-1", Address: true},
	}
	if change != nil {
		change(c)
	}
	return c
}

// WithDescription is a change of the description.
func WithDescription(description string) func(*command.Register) {
	return func(c *command.Register) { c.Given, c.Description = command.FieldDescription, description }
}

// Profile returns a profile as a client reads it.
func (r *Hand) Profile(agent string) (doc string, ok bool) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	data, err := v.AppendProfile(nil, agent)
	return string(data), err == nil
}

// HasKey reports whether a key is the agent's.
func (r *Hand) HasKey(agent, key string) bool {
	r.T.Helper()
	by := command.Signature{AgentKey: agent, Proof: &command.Proof{Key: KeyHash(key)}}
	s := InView(r.T, r, func(v *view.View) (command.Standing, error) { return v.Standing(by) })
	return s.Strength == command.ByKey
}

// ProfileNames follows a list of profiles to its last page.
func ProfileNames(t Tester, v *view.View, q view.Query) (names []string) {
	t.Helper()
	for {
		revisions, next, err := v.ListProfiles(q)
		must.Do(t, err)
		if len(revisions) > max(q.Limit, command.DefaultList) || q.Limit > 0 && len(revisions) > q.Limit {
			t.Fatalf("a page of %d for a limit of %d", len(revisions), q.Limit)
		}
		for _, n := range revisions {
			doc := must.Get(v.AppendRevisions(nil, []uint64{n}))(t)
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

// Problems returns what a view has against a command.
func (r *Hand) Problems(b command.Payload) []command.Problem {
	r.T.Helper()
	return InView(r.T, r, func(v *view.View) ([]command.Problem, error) { return v.Problems(b) })
}

// Receivers.
const (
	AdaReceiver   = "https://ada.example.org/hook"
	ThiefReceiver = "https://thief.example.org/hook"
)

// Recover brings a recovery key. The next pair is named after newKey.
func Recover(agent, recovery, newKey, request string) *command.Recover {
	return &command.Recover{
		AgentKey: agent, Key: KeyHash(recovery), NewKey: KeyHash(newKey), NewRecovery: KeyHash("recovery of " + newKey),
		RequestID: request, Proof: command.Proof{Sender: "owner", Address: true},
	}
}

// Changes is a change of a profile by a key.
func Changes(agent, key string, change func(*command.Register)) *command.Register {
	return Register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description, c.Proof.Key = 0, "", KeyHash(key)
		change(c)
	})
}

// WithReceiver sets another receiver.
func WithReceiver(url string) func(*command.Register) {
	return func(c *command.Register) {
		c.Given = command.FieldNotifyURL
		SetReceiver(c, url)
	}
}

// WithNewKey sets another key.
func WithNewKey(newKey string) func(*command.Register) {
	return func(c *command.Register) { c.RotateKey, c.NewKey = true, KeyHash(newKey) }
}

// Receiver returns the receiver that deliveries to an agent go to: AdaReceiver, ThiefReceiver, or "".
func (r *Hand) Receiver(agent string) (url string) {
	v := r.View()
	defer v.Release()
	for _, candidate := range []string{AdaReceiver, ThiefReceiver} {
		if must.Get(v.NotifySalt(agent, candidate))(r.T) != "" {
			url = candidate
		}
	}
	return url
}

// CheckNameCounts compares the rows of SpaceNamed with the senders of the profiles.
func CheckNameCounts(t Tester, m Viewer) {
	t.Helper()
	v := m.View()
	defer v.Release()
	want, got := map[string]uint64{}, map[string]uint64{}
	names := map[string]state.Names{}
	err := state.ScanAll(v.Reader(), state.SpaceNamed, func(key, row []byte) error {
		n, err := state.Decode[state.Names](row)
		sender := string(key[1:])
		names[sender], got[sender] = n, n.Count
		return err
	})
	err = errors.Join(err, state.ScanAll(v.Reader(), state.SpaceProfile, func(_, row []byte) error {
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

// ByRequest is a write with a request_id and no proof.
func ByRequest(key command.RequestKey) command.Signature {
	return command.Signature{Proof: &command.Proof{}, Request: key}
}

// ByAddress is the proof of a sender by its address.
func ByAddress(sender string) command.Proof { return command.Proof{Sender: sender, Address: true} }

// PostFrom is an entry of a sender.
func PostFrom(sender, agent string, change func(*command.Publish)) *command.Publish {
	return Post(agent, func(p *command.Publish) {
		if p.Proof = ByAddress(sender); change != nil {
			change(p)
		}
	})
}

// WantProblem runs a command that is rejected with one problem.
func (r *Hand) WantProblem(p command.Payload, want command.Problem) {
	r.T.Helper()
	check.Diff(r.T, r.Run(p)[0].Problems, []command.Problem{want}, "problems")
}

// WantDone runs a command that is carried out, and returns its entry.
func (r *Hand) WantDone(p command.Payload) uint64 {
	r.T.Helper()
	got := r.Run(p)[0]
	check.Equal(r.T, got.Outcome, command.OutcomeDone, "result: %+v", got)
	return got.Entry
}

// ForgetSenders lets the time for which senders are remembered pass, and forgets them.
func (r *Hand) ForgetSenders() {
	r.T.Helper()
	*r.Clock() += int64(command.DefaultSettings.SenderDays)*command.DayMillis + 1
	for r.Run(&command.ForgetSenders{})[0].Outcome == command.OutcomeDone {
	}
}
