package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// notifies changes what is pushed to a registered agent.
func notifies(agent string, f command.PushFilter) *command.Register {
	return register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description, c.Notify = command.FieldNotify, "", f
		c.Proof.Key = keyHash("key of " + agent)
	})
}

// TestPushFilter holds for each filter which entries are pushed through it.
func TestPushFilter(t *testing.T) {
	const none = command.PushFilter(0)
	proven := func(change func(*command.Publish)) *command.Publish {
		return post("bob", func(p *command.Publish) {
			change(p)
			p.Proof.Key = keyHash("key of bob")
		})
	}
	replyAndMention := func(p *command.Publish) {
		relate(command.RelationReply, 1)(p)
		mention("ada")(p)
	}
	replyToJob := func(p *command.Publish) {
		p.Relation, p.Target = command.RelationReply, state.FormatID(state.TypeJob, 2)
	}
	for name, tt := range map[string]struct {
		body   command.Payload
		pushed map[command.PushFilter]string
	}{
		"reply": {post("eve", relate(command.RelationReply, 1)), map[command.PushFilter]string{
			none: "reply", command.NoReplies: "", command.NoMentions: "reply", command.NoJobs: "reply", command.OnlyProven: "",
		}},
		"proven reply": {proven(relate(command.RelationReply, 1)), map[command.PushFilter]string{
			none: "reply", command.NoReplies: "", command.NoMentions: "reply", command.NoJobs: "reply", command.OnlyProven: "reply",
		}},
		"mention": {post("eve", mention("ada")), map[command.PushFilter]string{
			none: "mention", command.NoReplies: "mention", command.NoMentions: "", command.NoJobs: "mention", command.OnlyProven: "",
		}},
		"reply that mentions": {post("eve", replyAndMention), map[command.PushFilter]string{
			none: "reply", command.NoReplies: "mention", command.NoMentions: "reply", command.NoReplies | command.NoMentions: "",
		}},
		"claim": {claim("eve", 2), map[command.PushFilter]string{
			none: "reply", command.NoReplies: "reply", command.NoMentions: "reply", command.NoJobs: "", command.OnlyProven: "",
		}},
		"result": {&command.FinishJob{JobAction: onJob("eve", 3), Result: "The result."}, map[command.PushFilter]string{
			command.NoReplies: "reply", command.NoJobs: "",
		}},
		"reply to a job": {post("eve", replyToJob), map[command.PushFilter]string{command.NoReplies: "reply", command.NoJobs: ""}},
	} {
		for filter, want := range tt.pushed {
			r := newRig(t)
			r.run(post("ada", nil), postJob("ada"), postJob("ada"), claim("eve", 3))
			r.run(hooked("ada", nil), register("bob", "key of bob", nil))
			before := r.outbox("ada")
			if got := r.run(notifies("ada", filter))[0]; got.Outcome != command.OutcomeDone && filter != none {
				t.Fatalf("%+v", got)
			}
			if after := r.outbox("ada"); after.Filter != filter || after.Active != before.Active {
				t.Errorf("outbox %+v, want filter %b", after, filter)
			}
			expect(t, r.run(tt.body)[0], command.OutcomeDone, "result")
			if want != "" {
				want += " e5 waiting"
			}
			check.Equal(t, r.summary("ada"), want, "%s, filter %b", name, filter)
		}
	}
}

// TestPushFilterStays holds that a filter lasts through restarts and other
// receivers, that what waits already stays, and that all is pushed by default.
func TestPushFilterStays(t *testing.T) {
	r := newRig(t)
	mentioned := func(want string) {
		t.Helper()
		r.run(post("eve", mention("ada")))
		check.Equal(t, r.summary("ada"), want, "summary")
	}
	r.run(hooked("ada", nil))
	mentioned("mention e1 waiting")
	r.run(notifies("ada", command.NoMentions))
	mentioned("mention e1 waiting")
	r.run(rehook("ada", "https://other.example.org/"))
	mentioned("mention e1 waiting")
	before := r.outbox("ada")
	must.Do(t, r.Close())
	r.Machine = openAt(t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
	check.Diff(t, r.outbox("ada"), before, "the outbox")
	mentioned("mention e1 waiting")
	r.run(notifies("ada", 0))
	mentioned("mention e1 waiting, mention e5 waiting")
}

// TestDigest collects the mentions of an hour in one event. A flood does not take a
// genuine one's place in its list, and what is sent stays as it is.
func TestDigest(t *testing.T) {
	r := newRig(t)
	from := func(sender string) *command.Publish {
		p := post("eve", mention("ada"))
		p.Proof.Sender = sender
		return p
	}
	r.run(hooked("ada", nil), notifies("ada", command.Digest), post("ada", nil))
	r.run(from("junk"), from("genuine"))
	first := r.now()
	for range 2 * command.MaxWaitingDeliveries {
		r.run(from("junk"))
	}
	r.run(post("eve", relate(command.RelationReply, 1)))
	o := r.outbox("ada")
	if o.Waiting != 2 || o.Newest[1].Mentions != 2*command.MaxWaitingDeliveries+2 || len(o.Newest[1].Listed) != command.MaxDigestEntries || o.Newest[1].Listed[1] != 3 {
		t.Fatalf("%d wait, digest %+v", o.Waiting, o.Newest[1])
	}
	if d := r.attempt("ada", command.AttemptDelivered, nil); d.Kind != outbox.DeliveryReply {
		t.Errorf("%v came first", d.Kind)
	}
	opened := o.Newest[1].QueuedAt
	if due := r.due(opened + command.HourMillis - 1); opened > first || len(due) > 0 {
		t.Errorf("opened at %d, due within the hour: %+v", opened, due)
	}
	r.later(opened + command.HourMillis - r.now())
	if d := r.attempt("ada", command.AttemptFailed, nil); d.Kind != outbox.DeliveryDigest {
		t.Errorf("%v after an hour", d.Kind)
	}
	r.run(from("late"))
	if o := r.outbox("ada"); o.Waiting != 2 || o.Newest[0].Mentions != 1 || o.Newest[2].Mentions != 2*command.MaxWaitingDeliveries+2 {
		t.Errorf("after a failed attempt %d wait: %+v", o.Waiting, o.Newest)
	}
}

// TestDigestIsNoProbe: a receiver that is down does not end the collecting.
func TestDigestIsNoProbe(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil), notifies("ada", command.Digest), post("ada", nil))
	for range outbox.DownAfter {
		r.run(post("eve", relate(command.RelationReply, 1)))
	}
	r.run(post("eve", mention("ada")))
	for range outbox.DownAfter {
		r.attempt("ada", command.AttemptGone, func(a *command.AckDelivery) { a.Outcome = command.AttemptFailed })
	}
	for range 2 * outbox.DownAfter {
		r.later(outbox.MaxProbePause * 2)
		if r.now() > r.outbox("ada").Newest[0].QueuedAt+command.HourMillis-minute {
			break
		}
		if d := r.attempt("ada", command.AttemptFailed, nil); d.Kind == outbox.DeliveryDigest {
			t.Fatal("it was sent before its hour was over")
		}
	}
	r.later(command.HourMillis)
	r.run(post("eve", mention("ada")))
	if o := r.outbox("ada"); o.Newest[0].Mentions != 2 {
		t.Errorf("not the same digest: %+v", o.Newest[0])
	}
}
