package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPushed holds which entries are pushed to an agent, and as which event.
func TestPushed(t *testing.T) {
	for name, tt := range map[string]struct {
		body command.Payload
		want string
	}{
		"reply":   {post("eve", relate(command.RelationReply, 1)), "reply e5 waiting"},
		"mention": {post("eve", mention("ada")), "mention e5 waiting"},
		"reply that mentions": {post("eve", func(p *command.Publish) {
			relate(command.RelationReply, 1)(p)
			mention("ada")(p)
		}), "reply e5 waiting"},
		"claim":  {claim("eve", 2), "reply e5 waiting"},
		"result": {&command.FinishJob{JobAction: onJob("eve", 3), Result: "The result."}, "reply e5 waiting"},
		"reply to a job": {post("eve", func(p *command.Publish) {
			p.Relation, p.Target = command.RelationReply, state.FormatID(state.TypeJob, 2)
		}), "reply e5 waiting"},
		"one's own":  {post("ada", relate(command.RelationReply, 1)), ""},
		"correction": {post("eve", relate(command.RelationCorrection, 1)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(post("ada", nil), postJob("ada"), postJob("ada"), claim("eve", 3))
			r.run(hooked("ada", nil))
			expect(t, r.run(tt.body)[0], command.OutcomeDone, "result")
			check.Equal(t, r.summary("ada"), tt.want, "deliveries")
		})
	}
}

// TestReceiverStays holds that entries are pushed after a restart and to another receiver.
func TestReceiverStays(t *testing.T) {
	r := newRig(t)
	mentioned := func(want string) {
		t.Helper()
		r.run(post("eve", mention("ada")))
		check.Equal(t, r.summary("ada"), want, "summary")
	}
	r.run(hooked("ada", nil))
	mentioned("mention e1 waiting")
	r.run(rehook("ada", "https://other.example.org/"))
	before := r.outbox("ada")
	must.Do(t, r.Close())
	r.Machine = openAt(t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
	check.Diff(t, r.outbox("ada"), before, "the outbox")
	mentioned("mention e1 waiting, mention e2 waiting")
}
