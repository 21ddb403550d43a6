package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func webhook(url string) *command.SetWebhook {
	return &command.SetWebhook{Order: byOperator, URL: url}
}

// news returns the deliveries of news for moderators that the next log entry may begin after some
// time.
func (r *rig) news(after int64) (due []outbox.Delivery) {
	r.t.Helper()
	for _, d := range r.due(r.now() + after) {
		if d.AgentKey == outbox.Moderators {
			due = append(due, d)
		}
	}
	return due
}

// TestNewsAreGathered holds that news of a minute are one delivery, to the receiver that the
// operator has set, and that news during an attempt are another one.
func TestNewsAreGathered(t *testing.T) {
	const receiver = "https://mods.example/hook"
	r := newRig(t)
	for range 3 {
		r.publish(nil)
	}
	r.only(report(1, "e1", "s1"), command.OutcomeDone, 0)
	check.Equal(t, len(r.news(command.NewsMillis)), 0, "deliveries without a receiver")
	r.wantDone(webhook(receiver))
	r.only(report(2, "e2", "s1"), command.OutcomeDone, 0)
	check.Equal(t, len(r.news(command.NewsMillis-1)), 0, "deliveries within the minute")
	r.only(report(3, "e3", "s1"), command.OutcomeDone, 0)
	r.later(command.NewsMillis)
	due := r.news(0)
	check.Equal(t, len(due), 1, "deliveries after the minute")
	check.Equal(t, due[0].URL, receiver, "the receiver")
	check.Equal(t, due[0].Kind, outbox.DeliveryNews, "the kind")
	check.Equal(t, len(r.beginAll(due[0].NextAttempt())), 1, "attempts that begin")
	r.only(report(4, "e1", "s2"), command.OutcomeDone, 0)
	r.only(report(5, "e2", "s2"), command.OutcomeDone, 0)
	r.wantDone(&command.AckDelivery{Attempt: due[0].NextAttempt(), Outcome: command.AttemptGone, Reason: "status_410"})
	check.Equal(t, len(r.news(command.NewsMillis/2)), 0, "deliveries right after an attempt")
	r.later(command.NewsMillis)
	check.Equal(t, len(r.news(0)), 1, "deliveries of the news during the attempt, to a receiver that was gone")
	r.wantDone(webhook(""))
	check.Equal(t, len(r.news(command.NewsMillis)), 0, "deliveries after the receiver is removed")
	v := r.View()
	defer v.Release()
	waiting, err := v.WaitingDeliveries()
	must.Do(t, err)
	check.Equal(t, waiting, 0, "deliveries that wait")
}

// TestWhatIsNews holds what moderators are told of, and how it is counted.
func TestWhatIsNews(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(r *rig)
		want view.News
	}{
		"reports": {func(r *rig) {
			r.only(report(1, "e1", "s1"), command.OutcomeDone, 0)
			r.only(report(2, "e2", "s1"), command.OutcomeDone, 0)
			r.only(report(3, "e1", "s2"), command.OutcomeDone, 0)
		}, view.News{Reports: 3, Entries: []string{"e1", "e2"}}},
		"a held entry": {func(r *rig) {
			r.publish(func(p *command.Publish) { p.Proof.Held = 1 })
		}, view.News{Held: 1}},
		"a purge that waits": {func(r *rig) {
			r.grant("mia", command.RolePurge, command.TokenMillis)
			r.wantDone(purgeBy("mia", state.EntryID(2)))
		}, view.News{Purges: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.publish(nil)
			r.publish(nil)
			r.wantDone(webhook("https://mods.example/hook"))
			tt.does(r)
			check.Equal(t, len(r.news(command.NewsMillis)), 1, "deliveries")
			v := r.View()
			defer v.Release()
			check.Diff(t, must.Get(v.News())(t), tt.want, "the news")
		})
	}
}

// TestReportsWake holds that a report wakes those who wait for one, and that other commands do not.
func TestReportsWake(t *testing.T) {
	r := newRig(t)
	wake, stop := r.Watch(state.WatchReports)
	defer stop()
	r.publish(nil)
	check.Equal(t, woken(wake), false, "an entry wakes")
	r.only(report(1, "e1", "s1"), command.OutcomeDone, 0)
	check.Equal(t, woken(wake), true, "a report wakes")
}
