package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// TestWebhookIsChecked holds that the receiver of news for moderators has to pass the check of all
// receivers, and that its address is not in the moderation log.
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
	_, log, err := c.Nodes[0].GetText("/api/moderation/log")
	if err != nil || strings.Count(log, "the receiver of news for moderators") != 2 || strings.Contains(log, "hooks.example") {
		t.Errorf("the moderation log: %s, %v", log, err)
	}
}
