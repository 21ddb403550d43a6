package push_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/push"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// challengeOf reads a challenge as a receiver would.
func challengeOf(t *testing.T, body []byte) (challenge, decoy, replyWith string) {
	t.Helper()
	var got struct {
		Type, Agent, Challenge, Decoy string
		ReplyWith                     json.RawMessage `json:"reply_with"`
	}
	check.Err(t, json.Unmarshal(body, &got), nil, "read the challenge")
	if got.Type != "common.verify" || got.Agent != "Ada" || len(got.Challenge) < 20 || len(got.Decoy) != len(got.Challenge) || got.Decoy == got.Challenge {
		t.Errorf("challenge %s", body)
	}
	return got.Challenge, got.Decoy, string(got.ReplyWith)
}

func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		answer func(challenge, decoy, replyWith string) string
		reason push.Reason
	}{
		{"the challenge", http.StatusOK, func(c, _, _ string) string { return c }, ""},
		{"what it was told to reply", http.StatusAccepted, func(_, _, r string) string { return r }, ""},
		{"at the end of 2000 characters", http.StatusOK, func(c, _, _ string) string { return strings.Repeat("é", 2000-len(c)) + c }, ""},
		{"beyond 2000 characters", http.StatusOK, func(c, _, _ string) string { return strings.Repeat("é", 2001-len(c)) + c }, push.ChallengeMissing},
		{"nothing", http.StatusNoContent, func(_, _, _ string) string { return "" }, push.ChallengeMissing},
		{"something else", http.StatusOK, func(c, _, _ string) string { return strings.ToLower(c) }, push.ChallengeMissing},
		{"the challenge with an error", http.StatusNotFound, func(c, _, _ string) string { return c }, "status_404"},
		{"the decoy alone", http.StatusOK, func(_, d, _ string) string { return d }, push.ChallengeMissing},
		{"the challenge and the decoy", http.StatusOK, func(c, d, _ string) string { return c + d }, push.DecoyRepeated},
		{"the decoy far behind the challenge", http.StatusOK, func(c, d, _ string) string { return c + strings.Repeat("x", 3000) + d }, push.DecoyRepeated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGround(t, func(w http.ResponseWriter, got pushtest.Received, _ *http.Request) {
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.answer(challengeOf(t, got.Body)))
			})
			check.Equal(t, g.client.Verify(t.Context(), g.url, "Ada").Reason, tt.reason, "answer")
			header := g.receiver.Received()[0].Header
			if id := header.Get(push.HeaderID); strings.Contains(id, ".") || id == "" {
				t.Errorf("id %q", id)
			}
			check.Equal(t, header.Get(push.HeaderSignature), "", "signature, although the receiver has no secret yet,")
		})
	}
}

// TestEchoServiceDoesNotPass holds that a service which sends back whatever it gets does not
// pass.
func TestEchoServiceDoesNotPass(t *testing.T) {
	g := newGround(t, func(w http.ResponseWriter, got pushtest.Received, _ *http.Request) { _, _ = w.Write(got.Body) })
	a := g.client.Verify(t.Context(), g.url, "Ada")
	if a.Reason != push.DecoyRepeated || !strings.Contains(a.Reason.Sentence(), "decoy") {
		t.Errorf("answer %+v, %s", a, a.Reason.Sentence())
	}
}
