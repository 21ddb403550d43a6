package resource_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// deliveries is the answer of listDeliveries.
type deliveries struct {
	Active  bool
	Waiting int
	Next    *struct {
		ID            string
		NextAttemptAt *int64
	}
	Deliveries []struct {
		ID, Type, Status string
		Entry            *string
	}
}

func TestDeliveriesGolden(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	s.Post("/api/agents", map[string]any{"id": "bob", "note": "Later."})
	mention := map[string]any{"agent": "eve", "body": "Is @ada about?", "channel": "den"}
	s.Publish(mention)
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "For @ada", "body": "Count the birds."})
	first := command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}
	s.Backend.Apply(&command.BeginDeliveries{Holder: command.BootID{1}, Attempts: []command.Attempt{first}})
	s.Backend.Apply(&command.AckDelivery{Attempt: first, Outcome: command.AttemptFailed, Reason: "status_500"})
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
	}{
		{"delivery_test", http.MethodPost, apitest.DeliveriesPath + "/test", "", apitest.Bearer},
		{"deliveries", http.MethodGet, "/api/agents/ADA/deliveries", "", []string{"Authorization", "bearer  " + apitest.AgentKey}},
		{"deliveries_no_key", http.MethodGet, apitest.DeliveriesPath, "", nil},
		{"deliveries_wrong_key", http.MethodGet, apitest.DeliveriesPath, "", []string{"Authorization", "Bearer ck_other" + apitest.AgentKey[len("ck_other"):]}},
		{"deliveries_key_in_url", http.MethodGet, apitest.DeliveriesPath + "?edit_key=" + apitest.AgentKey, "", apitest.Bearer},
		{"deliveries_unknown", http.MethodGet, "/api/agents/nobody/deliveries", "", apitest.Bearer},
		{"delivery_test_no_key", http.MethodPost, apitest.DeliveriesPath + "/test", `{"edit_key":"` + apitest.AgentKey + `"}`, nil},
		{"delivery_test_wrong_key", http.MethodPost, apitest.DeliveriesPath + "/test", "", []string{"Authorization", "Bearer ck_other" + apitest.AgentKey[len("ck_other"):]}},
		{"delivery_test_malformed", http.MethodPost, apitest.DeliveriesPath + "/test", `{"a":`, apitest.Bearer},
	} {
		apitest.CheckGolden(t, s, test.name, test.method, test.path, apitest.JSONType, test.body, test.headers...)
	}
}

// TestKeysInURLs rejects them under every name, with the other problems and an example that works.
func TestKeysInURLs(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	for _, query := range []string{"?edit_key=x", "?EDIT_KEY=x", "?key=x", "?token=x", "?access_token=x", "?authorization=Bearer+x", "?q=" + apitest.AgentKey} {
		for path, method := range map[string]string{apitest.DeliveriesPath: http.MethodGet, apitest.DeliveriesPath + "/test": http.MethodPost} {
			r := s.Do(method, path+query, "", apitest.Bearer...)
			problem := apitest.CheckError(t, r)
			if r.Status != http.StatusUnprocessableEntity || problem.Issues[0].Field != "edit_key" || strings.Contains(string(r.Body), apitest.AgentKey) {
				t.Errorf("%s%s: %d %s", path, query, r.Status, r.Body)
			}
		}
	}
	s.Get(apitest.DeliveriesPath+"?min_index=1&consistency=strong", apitest.Bearer...).Want(t, http.StatusOK)
	p := s.Post("/api/agents?token=x", `{"id":"z","description":"Looks around."}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "edit_key id")
	s.Post("/api/agents", string(p.Example)).Must(t, http.StatusOK) // a dry run
}

// TestTestDelivery queues test events, to the last one for which there is room.
func TestTestDelivery(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	var answer struct {
		Delivery struct{ ID, Type, Status, Reason string }
		Notes    []string
	}
	for i := range command.MaxWaitingDeliveries + 1 {
		r := s.Do(http.MethodPost, apitest.DeliveriesPath+"/test", "", apitest.Bearer...)
		r.Decode(t, &answer)
		want := "waiting"
		if i == command.MaxWaitingDeliveries {
			want = "dropped"
		}
		if r.Status != http.StatusCreated || answer.Delivery.Status != want || len(answer.Notes) != 1 {
			t.Fatalf("test %d: %d %s", i, r.Status, r.Body)
		}
	}
	if answer.Delivery.Reason != outbox.ReasonQueueFull || !strings.HasPrefix(answer.Notes[0], "It was dropped") {
		t.Errorf("%+v", answer)
	}
	var list deliveries
	r := s.Get(apitest.DeliveriesPath, apitest.Bearer...)
	r.Decode(t, &list)
	if list.Waiting != command.MaxWaitingDeliveries || len(list.Deliveries) != command.MaxListedDeliveries || !list.Active || list.Next == nil || list.Next.NextAttemptAt == nil {
		t.Errorf("%s", r.Body)
	}
	if list.Deliveries[0].ID != answer.Delivery.ID || list.Deliveries[0].Entry != nil {
		t.Errorf("the newest: %+v", list.Deliveries[0])
	}
	if from := s.Backend.LastSender(); from.AgentKey != "ada" || from.Fingerprint == "" {
		t.Errorf("limited as %+v", from)
	}
}

// TestTestDeliveryNeedsReceiver asks for agents without a receiver.
func TestTestDeliveryNeedsReceiver(t *testing.T) {
	s := apitest.New(t)
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "bob", "note": "Later."}).EditKey
	s.Do(http.MethodPost, "/api/agents/bob/deliveries/test", "", "Authorization", "Bearer "+key).Rejected(t, http.StatusConflict, "no_receiver", "", `"retryable":false`)
	list := apitest.Decoded[deliveries](t, s.Get("/api/agents/bob/deliveries", "Authorization", "Bearer "+key))
	if list.Active || list.Waiting != 0 || list.Next != nil || list.Deliveries == nil || len(list.Deliveries) != 0 {
		t.Errorf("%+v", list)
	}
	s.Do(http.MethodPost, "/api/agents/nobody/deliveries/test", "", "Authorization", "Bearer "+key).Want(t, http.StatusNotFound)
	s.Do(http.MethodHead, "/api/agents/bob/deliveries", "", "Authorization", "Bearer "+key).Want(t, http.StatusOK)
}

// TestDeliveriesAreTheAgentsOwn checks that only the agent sees its receiver.
func TestDeliveriesAreTheAgentsOwn(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	s.Publish(map[string]any{"agent": "eve", "body": "Is @ada about?"})
	for _, path := range []string{"/api/agents", "/api/agents/ada", "/api/home?for=ada", apitest.DeliveriesPath} {
		r := s.Get(path, apitest.Bearer...)
		if !json.Valid(r.Body) || r.Status != http.StatusOK || strings.Contains(string(r.Body), "example.org") || strings.Contains(string(r.Body), apitest.AgentKey) {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
}

const hookURL = "https://example.org/hook"

// receivers notes which receivers were asked and answers with err.
type receivers struct {
	mu    sync.Mutex
	asked []string
	err   error
}

func (r *receivers) verify(agent, notifyURL string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, agent+" "+notifyURL)
	return r.err
}

// took returns who was asked since the last call.
func (r *receivers) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

func (r *receivers) answer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func startWithReceivers(t *testing.T) (*apitest.Server, *receivers) {
	t.Helper()
	s, r := apitest.New(t), &receivers{}
	s.Backend.Verify = r.verify
	return s, r
}

// TestNotifySecret holds which calls return the secret of a receiver, and which make another one.
func TestNotifySecret(t *testing.T) {
	s, _ := startWithReceivers(t)
	fields := map[string]any{"id": "ada", "description": "Answers.", "notify_url": hookURL, "request_id": "ada-register-1"}
	first := apitest.Register(t, s, http.StatusCreated, fields)
	if !regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`).MatchString(first.NotifySecret) {
		t.Errorf("the secret is %q", first.NotifySecret)
	}
	again := apitest.Register(t, s, http.StatusCreated, fields) // the answer was lost
	apitest.Equal(t, "the secret of the repeated registration", again.NotifySecret, first.NotifySecret)
	const changeID = "ada-changes-1"
	known := first.NotifySecret
	for _, step := range []struct {
		name    string
		body    map[string]any
		returns string // the kind of the secret in the answer
	}{
		{"another field", map[string]any{"note": "Hm.", "edit_key": again.EditKey}, "none"},
		{"the same receiver without the key", map[string]any{"notify_url": hookURL}, "none"},
		{"the same receiver", map[string]any{"notify_url": hookURL, "edit_key": again.EditKey, "request_id": changeID}, "new"},
		{"the same request", map[string]any{"notify_url": hookURL, "edit_key": again.EditKey, "request_id": changeID}, "known"},
		{"the same request without the key", map[string]any{"notify_url": hookURL, "request_id": changeID}, "none"},
		{"another receiver", map[string]any{"notify_url": hookURL + "/2", "edit_key": again.EditKey}, "new"},
		{"off", map[string]any{"notify_url": "off", "edit_key": again.EditKey}, "none"},
	} {
		step.body["id"] = "ada"
		got := apitest.Register(t, s, http.StatusCreated, step.body).NotifySecret
		returned := "new"
		switch got {
		case "":
			returned = "none"
		case known:
			returned = "known"
		}
		apitest.Equal(t, step.name, returned, step.returns)
		if got != "" {
			known = got
		}
	}
	s.Post("/api/entries", `{"body":"My secret is `+known+`."}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "body")
	dry := s.Post("/api/agents", map[string]any{"id": "bob", "description": "Answers.", "notify_url": hookURL, "dry_run": true}).Must(t, http.StatusOK)
	dry.Lacks(t, "whsec_")
}

// TestReceiversAreAsked holds who is asked and who is not.
func TestReceiversAreAsked(t *testing.T) {
	s, r := startWithReceivers(t)
	fields := map[string]any{"id": "Ada", "description": "Answers questions.", "notify_url": hookURL, "request_id": "ada-register-1"}
	first := apitest.Register(t, s, http.StatusCreated, fields)
	check.Diff(t, r.took(), []string{"Ada " + hookURL}, "at the registration: asked")
	check.Contains(t, strings.Join(first.Notes, " "), "answered the challenge", "notes")
	view := s.Backend.View()
	defer view.Release()
	if salt, err := view.NotifySalt("ada", hookURL); salt == "" || err != nil {
		t.Errorf("not hooked: %v", err)
	}
	for _, step := range []struct {
		name   string
		status int
		body   map[string]any
		asked  []string
	}{
		{"no address", http.StatusCreated, map[string]any{"id": "ada", "note": "Hm.", "edit_key": first.EditKey}, nil},
		{"the same request", http.StatusCreated, fields, nil},
		{"the same request_id with another address", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL + "/2", "request_id": "ada-register-1"}, nil},
		{"the same address", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL, "edit_key": first.EditKey}, nil},
		{"another without key", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL + "/3"}, nil},
		{"another with a wrong key", http.StatusForbidden, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "edit_key": "ck_nope"}, nil},
		{"another with another problem", http.StatusUnprocessableEntity, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "note": 5, "edit_key": first.EditKey}, nil},
		{"another", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "edit_key": first.EditKey}, []string{"ada " + hookURL + "/3"}},
		{"off", http.StatusCreated, map[string]any{"id": "ada", "notify_url": "off", "edit_key": first.EditKey}, nil},
		{"on again", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL, "edit_key": first.EditKey}, []string{"ada " + hookURL}},
		{"a new name without a description", http.StatusUnprocessableEntity, map[string]any{"id": "bob", "notify_url": hookURL}, nil},
	} {
		s.Post("/api/agents", step.body).Want(t, step.status)
		check.Diff(t, r.took(), step.asked, "%s: asked", step.name)
	}
}

// TestReceiverIsTakenBackMeanwhile checks that no unverified notify_url is stored if others write
// between the look at the profile and the write.
func TestReceiverIsTakenBackMeanwhile(t *testing.T) {
	for _, times := range []int{1, 2, 5} {
		s, r := startWithReceivers(t)
		first := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers.", "notify_url": hookURL})
		r.took()
		key := sha256.Sum256([]byte(first.EditKey))
		set := func(url string) {
			c := &command.Register{
				Agent: "ada", AgentKey: "ada", Given: command.FieldNotifyURL, NotifyURL: url, NotifyVerified: url != "",
				NewKey: key[:], NewRecovery: key[:], Proof: command.Proof{Key: key[:]},
			}
			if url != "" {
				c.NotifySalt = key[:command.SaltBytes]
			}
			s.Backend.Apply(c)
		}
		again := 0
		s.Backend.Reject = func(command.Sender, command.Payload) error {
			if again++; again <= times {
				set("")
			}
			return nil
		}
		s.Backend.OnReadIndex = func() {
			if again > 0 && again < times {
				set(hookURL)
			}
		}
		got := s.Post("/api/agents", map[string]any{"id": "ada", "description": "Answers more.", "notify_url": hookURL, "edit_key": first.EditKey})
		view := s.Backend.View()
		salt, err := view.NotifySalt("ada", hookURL)
		view.Release()
		must.Do(t, err)
		asked := r.took()
		if times < 5 {
			if got.Status != http.StatusCreated || salt == "" || len(asked) != 1 || !strings.Contains(string(got.Body), "answered the challenge") {
				t.Errorf("taken back %d times: %d %s, pushed to: %v, asked %q", times, got.Status, got.Body, salt != "", asked)
			}
			continue
		}
		problem := apitest.CheckError(t, got)
		if got.Status != http.StatusUnprocessableEntity || salt != "" || len(problem.Issues) != 1 || problem.Issues[0].Field != "notify_url" {
			t.Errorf("taken back %d times: %d %s, pushed to: %v, asked %q", times, got.Status, got.Body, salt != "", asked)
		}
	}
}

// TestReceiverFails holds what the sender of a registration is told.
func TestReceiverFails(t *testing.T) {
	s, r := startWithReceivers(t)
	body := map[string]any{"id": "ada", "description": "Answers questions.", "notify_url": hookURL}
	r.answer(&op.ReceiverFailed{Reason: "answered with the status 404"})
	problem := s.Post("/api/agents", body).Rejected(t, http.StatusUnprocessableEntity, "", "notify_url", "the receiver answered with the status 404. It has to")
	s.Get("/api/agents/ada").Want(t, http.StatusNotFound)
	want := `{"id":"ada","description":"Answers questions.","notify_url":"https://example.org/your-receiver","dry_run":true}`
	check.Equal(t, string(problem.Example), want, "the example")

	body = map[string]any{"id": "eve", "description": "Answers questions.", "notify_url": hookURL, "capabilities": []string{""}}
	other := apitest.CheckError(t, s.Post("/api/agents", body))
	if len(other.Issues) != 1 || other.Issues[0].Field != "capabilities" {
		t.Errorf("another problem: %+v", other.Issues)
	}

	body = map[string]any{"id": "bob", "description": "Answers questions.", "notify_url": hookURL}
	r.answer(&command.RateLimited{RetryAfter: 90 * time.Second, Limit: &command.RateLimit{
		Name: "verifications", Quota: 10, Window: time.Hour, Message: "Too many checks.", Field: "notify_url",
	}})
	limited := s.Post("/api/agents", body)
	for header, want := range map[string]string{
		"Retry-After": "90", "RateLimit": `"verifications";r=0;t=90`, "RateLimit-Policy": `"verifications";q=10;w=3600`,
	} {
		apitest.Equal(t, header, limited.Header.Get(header), want)
	}
	check.Equal(t, limited.Status, http.StatusTooManyRequests, "too many checks: status")
	check.Equal(t, apitest.CheckError(t, limited).Error, "Too many checks. Wait 90 seconds.", "too many checks: error")

	r.took()
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	if got := s.Post("/api/agents", body); got.Status != http.StatusServiceUnavailable || len(r.took()) > 0 {
		t.Errorf("without a leader: %d %s", got.Status, got.Body)
	}
	s.Backend.ReadIndexErr = nil

	r.answer(context.DeadlineExceeded)
	if got := s.Post("/api/agents", body); got.Status != http.StatusServiceUnavailable || apitest.CheckError(t, got).Code != "not_enqueued" {
		t.Errorf("no answer in time: %d %s", got.Status, got.Body)
	}
}
