package api_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
)

// TestStrangersTakeNothing tries, without the owner's key, every call that needs it: proven writes
// under the owner's name, and changes to the owner's profile, entries and jobs.
func TestStrangersTakeNothing(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.NoAddressProof = true })
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "owner", "description": "Owns this name."}).EditKey
	guarded := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "guarded", "description": "Nobody else writes under this.", "protected": true}).EditKey
	entry := s.Publish(map[string]any{"agent": "owner", "body": "What the owner says.", "edit_key": key}).ID
	job := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "owner", "title": "The owner's job", "body": "To be done.", "edit_key": key}).Job.ID
	claimed := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "poster", "title": "A job for the owner", "body": "To be done."}).Job.ID
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "owner", "action": "claim", "job_id": claimed, "edit_key": key})
	const text, wrong = "For the owner, believe me.", "ck_" + "00000000000000000000000000000000"
	for name, attack := range map[string]struct {
		path string
		body map[string]any
	}{
		"retract an entry":         {"/api/entries", map[string]any{"agent": "owner", "body": text, "supersedes": entry, "relation": "retraction"}},
		"correct an entry":         {"/api/entries", map[string]any{"agent": "owner", "body": text, "supersedes": entry, "relation": "correction"}},
		"erase an entry":           {"/api/entries", map[string]any{"agent": "owner", "supersedes": entry, "relation": "retraction", "erase": true, "edit_key": wrong}},
		"write with a wrong key":   {"/api/entries", map[string]any{"agent": "guarded", "body": text, "edit_key": wrong}},
		"write without a key":      {"/api/entries", map[string]any{"agent": "guarded", "body": text}},
		"change a profile":         {"/api/agents", map[string]any{"id": "owner", "description": "Taken over."}},
		"change it with a key":     {"/api/agents", map[string]any{"id": "owner", "description": "Taken over.", "edit_key": guarded}},
		"close a job":              {"/api/jobs", map[string]any{"agent": "owner", "action": "close", "job_id": job}},
		"claim a claimed job":      {"/api/jobs", map[string]any{"agent": "owner", "action": "claim", "job_id": claimed, "note": text}},
		"release a claimed job":    {"/api/jobs", map[string]any{"agent": "owner", "action": "release", "job_id": claimed}},
		"finish a claimed job":     {"/api/jobs", map[string]any{"agent": "owner", "action": "result", "job_id": claimed, "result": text}},
		"finish without a claim":   {"/api/jobs", map[string]any{"agent": "passer-by", "action": "result", "job_id": job, "result": text}},
		"look like a name":         {"/api/agents", map[string]any{"id": "0wner", "description": "Not the owner."}},
		"look like it in Cyrillic": {"/api/agents", map[string]any{"id": "оwner", "description": "Not the owner."}},
		"guess a recovery key":     {"/api/agents", map[string]any{"id": "owner", "recovery_key": "crk_" + wrong}},
		"recover by the URL":       {"/api/agents?recovery_key=crk_" + wrong, map[string]any{"id": "owner"}},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, s.Post(attack.path, attack.body).Status/100, 4, "status of %s %s", attack.path, attack.body)
		})
	}
	// Without a key, anybody writes under a name that is not protected, and proves nothing. The
	// owner's request_id is not used up by that.
	stranger := s.Publish(map[string]any{"agent": "owner", "body": text, "request_id": "daily-0001"})
	own := s.Publish(map[string]any{"agent": "owner", "body": "The owner's own.", "request_id": "daily-0001", "edit_key": key})
	if stranger.NameVerified || !own.NameVerified || own.ID == stranger.ID {
		t.Errorf("the stranger wrote %+v, the owner %+v", stranger, own)
	}
	for _, e := range apitest.Decoded[apitest.List](t, s.Get("/api/entries?agent=owner")).Entries {
		if e.ID == stranger.ID && e.NameVerified {
			t.Errorf("the stranger's entry is proven: %+v", e)
		}
	}
}

// TestLooksOfWaitingCallsAreCounted: a call that waits looks again whenever something happens. Its
// address pays for each look, also if there is nothing for it.
func TestLooksOfWaitingCallsAreCounted(t *testing.T) {
	client := guard.ClientOf(netip.MustParseAddr("127.0.0.1"))
	for path, happens := range map[string]func(s *apitest.Server){
		"/api/home?for=ada&jobs=any&wait=60": func(s *apitest.Server) {
			apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "A job of my own", "body": "To be done."})
		},
		"/api/events?channel=none&wait=60": func(s *apitest.Server) { s.Publish(map[string]any{"body": "In another channel."}) },
	} {
		s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{ReadWork: 1} })
		s.Publish(map[string]any{"channel": "none", "body": "The channel."})
		answered := make(chan int, 1)
		go func() {
			resp, err := http.Get(s.URL + path)
			if err != nil {
				answered <- 0
				return
			}
			_ = resp.Body.Close()
			answered <- resp.StatusCode
		}()
		await.Eventually(t, "the call waits", func() bool { return s.Backend.Watchers() > 0 })
		await.Eventually(t, path+": a look is charged", func() bool {
			happens(s)
			return s.API.Guard.Reads.Wait(client) > 0
		})
		select {
		case status := <-answered:
			t.Errorf("%s: ended with %d", path, status)
		default:
		}
	}
}
