package integration

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/propose"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// TestWebhookIsChecked holds that the receiver of news for moderators has to pass the check of all
// receivers.
func TestWebhookIsChecked(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := newCluster(t, 1, h.reach)
	set := func(url string) error {
		_, err := operate[struct{ URL string }](c, 0, admin.PathModerate, admin.Moderation{Operation: "setWebhook", Body: []byte(`{"url":"` + url + `"}`)})
		return err
	}
	for url, reason := range map[string]string{"http://mods.example/": "must start with https://", "https://192.0.2.1/": "must name its host"} {
		if err := set(url); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", url, err, reason)
		}
	}
	h.onChallenge(func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if err := set(h.url(0)); err == nil || !strings.Contains(err.Error(), "did not pass the check") {
		t.Errorf("a receiver that agrees to nothing: %v", err)
	}
	h.onChallenge(func(w http.ResponseWriter, got pushtest.Received, _ *http.Request) { pushtest.Agree(w, got) })
	for _, url := range []string{h.url(1), ""} {
		if err := set(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
	check.Equal(t, h.challenges(), 2, "challenges")
}

// lateClock is a clock of which time has passed.
type lateClock struct {
	propose.Clock
	by *atomic.Int64
}

func (c lateClock) Read() (time.Time, time.Duration) {
	wall, mono := c.Clock.Read()
	by := time.Duration(c.by.Load())
	return wall.Add(by), mono + by
}

// TestNewsArrive holds that the receiver of moderators is told of a report once, by counts and ids,
// with a signature, also when the leader dies before it is sent.
func TestNewsArrive(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	var passed atomic.Int64
	c := newCluster(t, 3, h.reach, func(cfg *config.Config) { cfg.Tuning.Clock = lateClock{propose.WallClock(0), &passed} })
	mustOperate[struct{ URL string }](c, 0, admin.PathModerate, admin.Moderation{Operation: "setWebhook", Body: []byte(`{"url":"` + h.url(0) + `"}`)})
	reported := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Cheap pills of eve."}).Entry.ID
	for _, text := range []string{"It is spam.", "It is spam again."} {
		c.mustPost(1, "/api/reports", map[string]string{"entry_id": reported, "reason": "spam", "text": text}, &struct{}{})
	}
	c.Kill(c.WaitLeader())
	left := c.Running()
	leader := c.WaitLeader(left...)
	must.Equal(t, len(h.pushed(t, "")), 0, "events before news are gathered")
	passed.Store(int64(2 * command.NewsMillis * time.Millisecond))
	c.MustPublish(leader, nodetest.Post{Agent: "ada", Body: "Time has passed."})
	c.waitPushed(h, 1)
	news := h.pushed(t, "")[0]
	if body := string(news.Body); news.Event.Type != "common.moderation" || strings.Count(body, `"reports":1,"held":0,"purges":0,"entries":["`+reported+`"]}`) != 1 || strings.Contains(body, "pills") || strings.Contains(body, "spam") {
		t.Errorf("the receiver got %s", body)
	}
	if keys := must.Get(publicKeys(c.Nodes[leader]))(t); !signed(&news, keys) {
		t.Errorf("it is not signed: %v", news.Header)
	}
}
