package fsm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notifies changes what is pushed to a registered agent.
func notifies(agent string, f PushFilter) *Register {
	return register(agent, "unused", func(c *Register) {
		c.Given, c.Description, c.Notify = FieldNotify, "", f
		c.Proof.Key = keyHash("key of " + agent)
	})
}

// TestPushFilter holds for each filter which entries are pushed through it.
func TestPushFilter(t *testing.T) {
	const none = PushFilter(0)
	proven := func(change func(*Publish)) *Publish {
		return post("bob", func(p *Publish) {
			change(p)
			p.Proof.Key = keyHash("key of bob")
		})
	}
	replyAndMention := func(p *Publish) {
		relate(RelationReply, 1)(p)
		mention("ada")(p)
	}
	replyToJob := func(p *Publish) { p.Relation, p.Target = RelationReply, FormatID(StyleJob, 2) }
	for name, tt := range map[string]struct {
		body   Body
		pushed map[PushFilter]string
	}{
		"reply": {post("eve", relate(RelationReply, 1)), map[PushFilter]string{
			none: "reply", NoReplies: "", NoMentions: "reply", NoJobs: "reply", OnlyProven: "",
		}},
		"proven reply": {proven(relate(RelationReply, 1)), map[PushFilter]string{
			none: "reply", NoReplies: "", NoMentions: "reply", NoJobs: "reply", OnlyProven: "reply",
		}},
		"mention": {post("eve", mention("ada")), map[PushFilter]string{
			none: "mention", NoReplies: "mention", NoMentions: "", NoJobs: "mention", OnlyProven: "",
		}},
		"reply that mentions": {post("eve", replyAndMention), map[PushFilter]string{
			none: "reply", NoReplies: "mention", NoMentions: "reply", NoReplies | NoMentions: "",
		}},
		"claim": {claim("eve", 2), map[PushFilter]string{
			none: "reply", NoReplies: "reply", NoMentions: "reply", NoJobs: "", OnlyProven: "",
		}},
		"result": {&FinishJob{JobAction: onJob("eve", 2), Result: "The result."}, map[PushFilter]string{
			NoReplies: "reply", NoJobs: "",
		}},
		"reply to a job": {post("eve", replyToJob), map[PushFilter]string{NoReplies: "reply", NoJobs: ""}},
	} {
		for filter, want := range tt.pushed {
			r := newRig(t)
			r.run(hooked("ada", nil), register("bob", "key of bob", nil), post("ada", nil), postJob("ada"))
			before := r.outbox("ada")
			if got := r.run(notifies("ada", filter))[0]; got.Outcome != OutcomeDone && filter != none {
				t.Fatalf("%+v", got)
			}
			if after := r.outbox("ada"); after.Filter != filter || after.Active != before.Active {
				t.Errorf("outbox %+v, want filter %b", after, filter)
			}
			if got := r.run(tt.body)[0]; got.Outcome != OutcomeDone {
				t.Fatalf("%+v", got)
			}
			if want != "" {
				want += " e3 waiting"
			}
			if got := r.summary("ada"); got != want {
				t.Errorf("%s, filter %b: %q, want %q", name, filter, got, want)
			}
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
		if got := r.summary("ada"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	r.run(hooked("ada", nil))
	mentioned("mention e1 waiting")
	r.run(notifies("ada", NoMentions))
	mentioned("mention e1 waiting")
	r.run(rehook("ada", "https://other.example.org/"))
	mentioned("mention e1 waiting")
	before := r.outbox("ada")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Machine = openAt(t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
	if diff := cmp.Diff(before, r.outbox("ada")); diff != "" {
		t.Errorf("the outbox (-before +after):\n%s", diff)
	}
	mentioned("mention e1 waiting")
	r.run(notifies("ada", 0))
	mentioned("mention e1 waiting, mention e5 waiting")
}
