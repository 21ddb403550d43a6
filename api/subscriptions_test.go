package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
)

// subscriber returns a server on which ada, who has the key hookKey, may subscribe.
func subscriber(t *testing.T) *apitest.Server {
	t.Helper()
	s := start(t)
	hook(s.Backend)
	s.Backend.Ahead += 8 * 24 * time.Hour
	return s
}

// subscribedHome is the part of home that subscriptions are about.
type subscribedHome struct {
	Now            int64
	ForYou, New    []client.Item
	Subscribed     []client.Item
	MoreSubscribed *string
	IDs            map[string][]string
}

func (h *subscribedHome) String() string {
	var words []string
	for _, item := range h.Subscribed {
		words = append(words, item.ID+" by "+item.Subscription)
	}
	return strings.Join(words, ", ")
}

// TestSubscribeCalls makes, lists and ends subscriptions in every form.
func TestSubscribeCalls(t *testing.T) {
	s := subscriber(t)
	s.Publish(map[string]any{"agent": "eve", "body": "A thread."})
	post := func(body string, status int, shows string) {
		t.Helper()
		s.Post(subscriptionsPath, body, bearer...).Want(t, status, shows)
	}
	post(`{"filter":{"channel":"General","tag":["#Go","rust"]}}`, http.StatusCreated, `"subscription":{"id":"s1","way":"home","filter":{"channel":["general"],"tag":["go","rust"]}`)
	post(`{"filter":{"channel":["GENERAL"],"tag":["rust","go"]}}`, http.StatusOK, `"duplicate":true`)
	post(`{"way":"push","filter":{"thread":"e1"}}`, http.StatusCreated, `"filter":{"thread":"e1"}`)
	post(`{"way":"digest","filter":"q=raft+log&kind=knowledge"}`, http.StatusCreated, `"filter":{"kind":["knowledge"],"q":"raft log"}`)
	post(`{"filter":{"q":"`+letters(command.MaxSearch+1)+`"}}`, http.StatusUnprocessableEntity, "q: may have at most")
	post(`{"filter":{}}`, http.StatusUnprocessableEntity, "at least one of")
	post(`{"id":"s1"}`, http.StatusUnprocessableEntity, "alone")
	form := url.Values{"way": {"mute"}, "filter": {"agent=spam"}}
	s.Do(http.MethodPost, subscriptionsPath, form.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, bearer...)...).
		Want(t, http.StatusCreated, `"way":"mute","filter":{"agent":["spam"]}`)
	s.Do(http.MethodDelete, subscriptionsPath+"/s1", "", bearer...).Want(t, http.StatusOK, `"deleted":"s1"`)
	s.Do(http.MethodDelete, subscriptionsPath+"/s1", "", bearer...).Want(t, http.StatusNotFound)
	s.Do(http.MethodDelete, subscriptionsPath+"/s2?edit_key="+hookKey, "").Want(t, http.StatusUnprocessableEntity, "never be in a URL")
	post(`{"id":"s2","delete":true}`, http.StatusOK, `"deleted":"s2"`)
	list := apitest.Decoded[client.Subscriptions](t, s.Get(subscriptionsPath, bearer...))
	if len(list.Subscriptions) != 2 || list.Subscriptions[0].ID != "s3" || list.Subscriptions[1].Way != client.WayMute || list.Agent != "Ada" {
		t.Errorf("%+v", list)
	}
	s.Get(subscriptionsPath).Want(t, http.StatusForbidden)
	several := `"filter":{"channel":["general","tides"],"agent":["bob","eve"],"kind":["knowledge","message"]}`
	post(`{`+several+`}`, http.StatusCreated, several)
	post(`{"filter":{"channel":["a-1","a-2","a-3","a-4","a-5","a-6","a-7","a-8","a-9"]}}`, http.StatusUnprocessableEntity, "at most 8 values")
}

// TestSubscribedInHome pages through the entries of subscriptions. Only a call with the key has
// them, and now does not depend on them.
func TestSubscribedInHome(t *testing.T) {
	s := subscriber(t)
	s.Post(subscriptionsPath, `{"filter":{"channel":"tides"}}`, bearer...).Must(t, http.StatusCreated)
	for i := range command.MaxSubscribed + 2 {
		s.Publish(map[string]any{"agent": "eve", "channel": "tides", "body": fmt.Sprint("Tide ", i)})
	}
	s.Publish(map[string]any{"agent": "ada", "channel": "tides", "body": "My own tide."})
	s.Get("/api/home?for=ada&since=1").Lacks(t, "ubscribed\"")
	first := apitest.Decoded[subscribedHome](t, s.Get("/api/home?for=ada&since=1", bearer...))
	if len(first.Subscribed) != command.MaxSubscribed || first.Subscribed[0].Subscription != "s1" || first.MoreSubscribed == nil {
		t.Fatalf("%+v", first)
	}
	next := apitest.Decoded[subscribedHome](t, s.Get("/api/home?for=ada&since=1&subscribed="+*first.MoreSubscribed, bearer...))
	apitest.Equal(t, "the next page", next.String(), "e2 by s1, e1 by s1")
	apitest.Equal(t, "now", next.Now, first.Now)
	if next.MoreSubscribed != nil {
		t.Errorf("a page after the last one: %s", *next.MoreSubscribed)
	}
	brief := apitest.Decoded[subscribedHome](t, s.Get(fmt.Sprint("/api/home?for=ada&brief=1&since=", first.Now), bearer...))
	apitest.Equal(t, "ids without news", fmt.Sprint(brief.IDs["subscribed"]), "[]")
	for _, bad := range []string{"x", "1-0", "1-2-3", "01-2"} {
		s.Get("/api/home?for=ada&subscribed="+bad, bearer...).Want(t, http.StatusUnprocessableEntity, "moreSubscribed")
	}
}

// TestMuteInHome leaves a name out of home in a call with the key, and unproven ones with
// only_proven. It never sends 304 to one of them for the other.
func TestMuteInHome(t *testing.T) {
	s := subscriber(t)
	s.Publish(map[string]any{"agent": "eve", "body": "@ada hello"})
	open := s.Get("/api/home?for=ada&since=1")
	s.Post(subscriptionsPath, `{"way":"mute","filter":{"agent":"eve"}}`, bearer...).Must(t, http.StatusCreated)
	muted := s.Get("/api/home?for=ada&since=1", append([]string{"If-None-Match", open.Header.Get("ETag")}, bearer...)...).Must(t, http.StatusOK)
	if h := apitest.Decoded[subscribedHome](t, muted); len(h.ForYou)+len(h.New) != 0 {
		t.Errorf("%s", muted.Body)
	}
	s.Get("/api/home?for=ada&since=1", "If-None-Match", open.Header.Get("ETag")).Want(t, http.StatusNotModified)
	s.Get("/api/home?for=ada&since=1&only_proven=1", "If-None-Match", open.Header.Get("ETag")).Want(t, http.StatusOK, `"forYou":[]`)
	s.Get("/api/home?for=ada&since=1&only_proven=2").Want(t, http.StatusUnprocessableEntity)
}

// TestEventsOfSubscriptions follows the subscriptions of a name, given its key.
func TestEventsOfSubscriptions(t *testing.T) {
	s := subscriber(t)
	s.Post(subscriptionsPath, `{"way":"push","filter":{"agent":"bob"}}`, bearer...).Must(t, http.StatusCreated)
	s.Post(subscriptionsPath, `{"filter":{"channel":"tides"}}`, bearer...).Must(t, http.StatusCreated)
	s.Post(subscriptionsPath, `{"way":"mute","filter":{"agent":"spam"}}`, bearer...).Must(t, http.StatusCreated)
	for _, e := range [][2]string{{"bob", "general"}, {"eve", "general"}, {"eve", "tides"}, {"ada", "tides"}, {"spam", "tides"}, {"bob", "tides"}} {
		s.Publish(map[string]any{"agent": e[0], "channel": e[1], "body": "Some text."})
	}
	openStream(t, s, "/api/events?subscriptions=ada", "test-1-0", bearer...).expect("entry e1", "entry e3", "entry e6")
	batch := apitest.Decoded[struct{ Events []told }](t, s.Get("/api/events?subscriptions=ADA&last_event_id=test-1-0", bearer...))
	apitest.Equal(t, "events", fmt.Sprint(batch.Events), "[entry e1 entry e3 entry e6]")
	s.Get("/api/events?subscriptions=ada").Want(t, http.StatusForbidden)
	s.Get("/api/events?subscriptions=eve", bearer...).Want(t, http.StatusForbidden)
}

// TestSubscriptionsRejected: a call that cannot be read, or not carried out now, is rejected like
// other calls, and ends no subscription.
func TestSubscriptionsRejected(t *testing.T) {
	s := subscriber(t)
	s.Post(subscriptionsPath, `{"filter":{"channel":"tides"}}`, bearer...).Must(t, http.StatusCreated)
	for _, test := range []struct {
		code            string
		status          int
		body, mediaType string
		key             string
		reject          error
	}{
		{"malformed_body", http.StatusBadRequest, `{"id":`, jsonType, hookKey, nil},
		{"body_too_large", http.StatusRequestEntityTooLarge, strings.Repeat("x", 129<<10), jsonType, hookKey, nil},
		{"unsupported_media_type", http.StatusUnsupportedMediaType, "{}", "image/png", hookKey, nil},
		{"proof_required", http.StatusForbidden, `{"agent":"ada"}`, jsonType, "wrong", nil},
		{"rate_limited", http.StatusTooManyRequests, "", jsonType, hookKey, &command.RateLimited{RetryAfter: time.Second}},
		{"not_enqueued", http.StatusServiceUnavailable, "", jsonType, hookKey, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}},
	} {
		t.Run(test.code, func(t *testing.T) {
			s.Backend.Reject = func(command.Sender, command.Payload) error { return test.reject }
			s.Do(http.MethodDelete, subscriptionsPath+"/s1", test.body, "Content-Type", test.mediaType, "Authorization", "Bearer "+test.key).
				Rejected(t, test.status, test.code, "")
		})
	}
	s.Get(subscriptionsPath+"?consistency=weak", bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "consistency")
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	s.Get(subscriptionsPath+"?consistency=strong", bearer...).Rejected(t, http.StatusServiceUnavailable, "no_leader", "")
	s.Backend.ReadIndexErr = nil
	s.Get(subscriptionsPath, bearer...).Want(t, http.StatusOK, `"id":"s1"`)
}
