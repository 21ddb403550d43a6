package moderate_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// TestHideBySelection: in parts, which may be repeated; dry runs do not hide.
func TestHideBySelection(t *testing.T) {
	s := apitest.WithModerator(t)
	const spam = 230
	for i := range spam {
		p := &command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: fmt.Sprintf("Pills, number %d", i)}
		p.Proof.Sender = "there"
		if i%2 == 1 {
			p.Agent, p.AgentKey = "mallory", "mallory"
		}
		s.Backend.Apply(p)
	}
	s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Another", Body: "Not of that sender", Proof: command.Proof{Sender: "here"}})
	inURL := apitest.Moderate(t, s, "hide?dry_run=1", map[string]any{"sender_of": "e1", "reason": "spam"})
	check.Equal(t, inURL.Changed, 0, "entries hidden by a dry run that the URL asks for")
	apitest.AsModerator(s, "hide?agent=eve", map[string]any{"sender_of": "e1", "reason": "spam"}).Want(t, http.StatusUnprocessableEntity, "must be in the body")
	dry := apitest.Moderate(t, s, "hide", map[string]any{"sender_of": "e1", "dry_run": true, "reason": "spam"})
	if dry.Matched != spam || dry.Changed != 0 || dry.Next != nil || len(dry.Samples) != 5 {
		t.Errorf("the dry run: %+v", dry)
	}
	all, calls := 0, 0
	fields := map[string]any{"sender_of": "e1", "reason": "spam"}
	for next := new(string); next != nil; calls++ {
		part := apitest.Moderate(t, s, "hide", fields)
		lost := apitest.Moderate(t, s, "hide", fields) // the same again: an answer was lost
		all += part.Changed + lost.Changed
		if next = part.Next; next != nil {
			fields["before"] = *next
		}
	}
	if calls < 2 || all != spam {
		t.Errorf("%d of %d were hidden in %d calls", all, spam, calls)
	}
	s.Get("/api/entries?limit=100").Has(t, "Not of that sender").Lacks(t, "Pills")
	for _, unhide := range []struct {
		fields  map[string]any
		matched int
	}{
		{map[string]any{"agent": "eve", "until": fmt.Sprint(apitest.Epoch + 12*apitest.Tick), "dry_run": true}, 5},
		{map[string]any{"agent": "nobody", "dry_run": true}, 0},
		{map[string]any{"words": "pills", "since": "2020-01-01", "channel": "general", "dry_run": true}, spam},
	} {
		check.Equal(t, apitest.Moderate(t, s, "unhide", unhide.fields).Matched, unhide.matched, "%v matches", unhide.fields)
	}
}

// TestUndoOfASelection: the number of any part of a selection takes all of it back, in parts, except
// what another order hides. A dry run shows what would come back.
func TestUndoOfASelection(t *testing.T) {
	s := apitest.WithModerator(t)
	const spam = 230
	for i := range spam {
		s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: fmt.Sprintf("Pills, number %d", i)})
	}
	var orders []uint64
	fields := map[string]any{"agent": "eve", "reason": "spam"}
	for next := new(string); next != nil; {
		part := apitest.Moderate(t, s, "hide", fields)
		orders = append(orders, *part.Record)
		if next = part.Next; next != nil {
			fields["before"], fields["order"] = *next, orders[0]
		}
	}
	check.Diff(t, orders, []uint64{2, 3, 4}, "records of the parts")
	apitest.ModerationLog(s).Has(t, `"number":4,`, `"order":2}`)
	apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1"}})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "a home address"})
	for _, bad := range []map[string]any{
		{"agent": "eve", "order": 1, "reason": "x"}, {"agent": "eve", "order": 99, "reason": "x"}, {"agent": "eve", "order": "two", "reason": "x"}, {"ids": []string{"e1"}, "order": 2, "reason": "x"},
	} {
		apitest.AsModerator(s, "hide", bad).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "order")
	}

	dry := apitest.Moderate(t, s, "undo", map[string]any{"number": 3, "dry_run": true})
	check.Equal(t, dry.Matched, command.MaxHidden, "entries that the first part of an undo would show")
	check.Equal(t, len(dry.Samples), 5, "samples")
	shown := 0
	fields = map[string]any{"number": 3, "reason": "no spam"}
	for next := new(string); next != nil; {
		part := apitest.Moderate(t, s, "undo", fields)
		apitest.Moderate(t, s, "undo", fields) // the same again: an answer was lost
		if next = part.Next; next != nil {
			fields["before"] = *next
		}
		shown += part.Changed
	}
	listed := apitest.Decoded[struct {
		Entries []struct{ Entry struct{ ID string } }
	}](t, s.Get("/api/moderation/entries?hidden=1", "Authorization", "Bearer "+apitest.ModToken))
	check.Equal(t, len(listed.Entries), 1, "entries that are still hidden, by another order")
	check.Equal(t, shown > 0, true, "the parts count what they show")
}

// TestUndo takes back each kind of order that can be taken back, once, and says of the others how to do
// it right.
func TestUndo(t *testing.T) {
	s := apitest.WithModerator(t) // record 1
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills"})
	s.Publish(map[string]any{"agent": "eve", "body": "Where ada lives"})
	s.Post("/api/agents", map[string]any{"id": "Dave", "description": "Sells pills."})
	apitest.SendReport(t, s, http.StatusCreated, map[string]any{"entry_id": "e1", "reason": "spam", "text": "Spam"})
	number := func(operation string, body map[string]any) uint64 {
		t.Helper()
		body["reason"] = "a test"
		answer := apitest.Decoded[struct{ Number, Record uint64 }](t, apitest.Operate(s, operation, body).Must(t, http.StatusOK))
		return cmp.Or(answer.Number, answer.Record)
	}
	lastly := map[string]uint64{
		"purge":   number("purge", map[string]any{"ids": []string{"e2"}}),
		"reports": number("resolveReports", map[string]any{"ids": []string{"e1"}, "outcome": "kept"}),
	}
	for name, test := range map[string]struct {
		operation string
		body      map[string]any
		holds     func() bool
	}{
		"hide":      {"hide", map[string]any{"ids": []string{"e1"}, "profiles": []string{"dave"}}, func() bool { return !strings.Contains(string(s.Get("/api/agents/dave").Body), "pills") }},
		"block":     {"block", map[string]any{"agent": "eve"}, func() bool { return policyWrites["post"](s).Status == http.StatusForbidden }},
		"a network": {"block", map[string]any{"network": "127.0.0.0/8"}, func() bool { return policyWrites["post"](s).Status == http.StatusForbidden }},
		"freeze":    {"freeze", map[string]any{"all": true, "for": "1h"}, func() bool { return policyWrites["post"](s).Status == http.StatusForbidden }},
		"watch":     {"watch", map[string]any{"pattern": "pills"}, func() bool { return policyWrites["post"](s).Status == http.StatusForbidden }},
	} {
		t.Run(name, func(t *testing.T) {
			order := number(test.operation, test.body)
			check.Equal(t, test.holds(), true, "the order holds")
			check.Equal(t, apitest.Moderate(t, s, "undo", map[string]any{"number": order, "dry_run": true}).Matched > 0, true, "a dry run finds it")
			check.Equal(t, test.holds(), true, "the order holds after a dry run")
			undone := apitest.Moderate(t, s, "undo", map[string]any{"number": order, "reason": "a mistake"})
			check.Equal(t, undone.Changed, undone.Matched, "all of it is taken back")
			check.Equal(t, test.holds(), false, "the order holds after it was taken back")
			apitest.AsModerator(s, "undo", map[string]any{"number": order}).Rejected(t, http.StatusUnprocessableEntity, "", "number", "nothing holds any more")
			apitest.AsModerator(s, "undo", map[string]any{"number": order, "dry_run": true}).Want(t, http.StatusOK, "It would be refused")
			apitest.AsModerator(s, "undo", map[string]any{"number": *undone.Record}).Rejected(t, http.StatusUnprocessableEntity, "", "number", " again")
		})
	}
	for name, test := range map[string]struct {
		number uint64
		want   string
	}{
		"a purge":            {lastly["purge"], "is a purge"},
		"reports":            {lastly["reports"], "resolves reports"},
		"a token":            {1, "commons mod token revoke"},
		"no number of a row": {99, "of no order"},
		"zero":               {0, "is required"},
	} {
		t.Run(name, func(t *testing.T) {
			apitest.AsModerator(s, "undo", map[string]any{"number": test.number}).Rejected(t, http.StatusUnprocessableEntity, "", "number", test.want)
		})
	}
}

// TestWhoModerates: those with a token alone, who also see what the others did.
func TestWhoModerates(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"})
	for _, headers := range [][]string{nil, {"Authorization", "Bearer cmod_mallory"}, {"Authorization", "Bearer x"}, {"Authorization", "Basic " + apitest.ModToken}} {
		s.Do(http.MethodPost, "/api/moderation/hide", `{"ids":["e1"]}`, append([]string{"Content-Type", apitest.JSONType}, headers...)...).Want(t, http.StatusForbidden, "moderators_only")
	}
	for body, want := range map[string]string{
		`{}`: "is required", `{"ids":"e1","agent":"eve"}`: "go with none", `{"ids":[1]}`: "list of texts", `{"ids":["x1"]}`: "is no id",
		`{"agent":7,"dry_run":"maybe"}`: "must be true or false", `{"words":" "}`: "must not be empty", `{"channel":"general","query":"pills"}`: "query", `{"sender_of":"e99"}`: "names no entry", `{"since":"soon"}`: "ISO 8601",
		`{"ids":["e1"],"reason":"` + strings.Repeat("a", 301) + `"}`: "at most 300",
	} {
		s.Post("/api/moderation/hide", body, "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusUnprocessableEntity, want)
	}
	if got := apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "Advertisement"}); got.Changed != 1 || got.Record == nil || *got.Record != 2 {
		t.Errorf("hide: %+v", got)
	}
	s.Get("/api/moderation/log").Rejected(t, http.StatusForbidden, "moderators_only", "")
	s.Get("/api/moderation/log?limit=0", "Authorization", "Bearer "+apitest.ModToken).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "limit")
	s.Backend.Behind = true
	s.Get("/api/moderation/log?min_index=1", "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusServiceUnavailable)
	s.Backend.Behind = false
	apitest.ModerationLog(s).Has(t, `"by":"mia","action":"hide","what":"e1","reason":"Advertisement"`, `"what":"mia"`)
	s.Backend.Apply(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: "mia"})
	apitest.AsModerator(s, "unhide", map[string]any{"ids": []string{"e1"}}).Want(t, http.StatusForbidden)
}

// TestPastedItems: ids count in every form in which they are pasted, and hiding needs a reason. More
// items than a call takes are named as such.
func TestPastedItems(t *testing.T) {
	s := apitest.WithModerator(t)
	for range 4 {
		s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"})
	}
	apitest.AsModerator(s, "hide", map[string]any{"ids": []string{"e1"}}).Want(t, http.StatusUnprocessableEntity, `"field":"reason"`)
	apitest.AsModerator(s, "hide", map[string]any{"ids": []string{"e1"}, "reason": " \t"}).Want(t, http.StatusUnprocessableEntity, `"field":"reason"`)
	apitest.Operate(s, "purge", map[string]any{"ids": []string{"e1"}, "reason": " "}).Want(t, http.StatusUnprocessableEntity, `"field":"reason"`)
	for _, pasted := range []any{[]string{"#E1"}, "https://commons.example/e/e2", []string{`"e3"`}, "E4, #e1"} {
		check.Equal(t, apitest.Moderate(t, s, "hide", map[string]any{"ids": pasted, "reason": "Advertisement"}).Changed, 1, "changed of %v", pasted)
	}
	many := make([]string, command.MaxHidden+1)
	for i := range many {
		many[i] = "e1"
	}
	apitest.AsModerator(s, "hide", map[string]any{"ids": many, "reason": "x"}).Want(t, http.StatusUnprocessableEntity, "may have at most 100 items; these are 101").Lacks(t, "at most -")
	apitest.AsModerator(s, "hide", map[string]any{"ids": many[:99], "profiles": []string{"ada", "bob"}, "reason": "x"}).Want(t, http.StatusUnprocessableEntity, "at most 100 together; these are 101")
}

// TestPurgesAreForOperators: a moderator's token neither erases texts nor shows the disks that hold
// them. An operator sees what the leader has confirmed.
func TestPurgesAreForOperators(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"})
	s.Post("/api/moderation/purge", `{"ids":["e1"],"reason":"spam"}`, "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusNotFound)
	s.Get("/api/moderation/purges", "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusNotFound)
	byMia := &command.Purge{Order: command.Order{By: "mia", Reason: "spam"}, IDs: []string{"e1"}}
	check.Equal(t, command.Check(byMia) != nil, true, "a purge by a moderator is refused before the log")
	s.Backend.OnReadIndex = func() { // meanwhile, on another node
		s.Backend.OnReadIndex = nil
		s.Backend.Apply(&command.Purge{Order: command.Order{By: command.Operator, Reason: "spam"}, IDs: []string{"e1"}})
	}
	r := apitest.Operate(s, "listPurges", nil)
	const want = `{"purged":1,"servers":[{"id":"node-a-secret","part":"voter","done":0,"pending":1}],"removedSince":"2026-01-01T00:00:03Z"}`
	check.Equal(t, string(r.Body), want, "the purges, with status %d", r.Status)
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	apitest.Operate(s, "listPurges", nil).Want(t, http.StatusServiceUnavailable)
}

// TestWhatIsUnchangedIsNotSent: a call that names entries with and without a possible
// change leaves the latter alone, whatever its state lets the command do.
func TestWhatIsUnchangedIsNotSent(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Post("/api/entries", map[string]any{"agent": "eve", "body": "Cheap pills, here."})
	s.Post("/api/agents", map[string]any{"id": "eve", "description": "Sells pills."})
	apitest.Purge(t, s, map[string]any{"profiles": []string{"eve"}, "reason": "x"})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "spam"})
	var sent []command.Payload
	s.Backend.Reject = func(_ command.Sender, p command.Payload) error {
		sent = append(sent, p)
		return nil
	}
	named := map[string]any{"ids": []string{"e1", "e1", "e9"}, "profiles": []string{"eve", "nobody"}, "reason": "x"}
	if got := apitest.Moderate(t, s, "unhide", named); got.Matched != 1 || got.Changed != 1 {
		t.Errorf("unhide: %+v", got)
	}
	if got := apitest.Purge(t, s, named); got.Matched != 1 || got.Changed != 1 {
		t.Errorf("purge: %+v", got)
	}
	want := []command.Payload{
		&command.Hide{Order: command.Order{By: "mia", Reason: "x"}, IDs: []string{"e1"}, Unhide: true},
		&command.Purge{Order: command.Order{By: command.Operator, Reason: "x"}, IDs: []string{"e1"}},
	}
	if !reflect.DeepEqual(sent, want) {
		data, _ := json.Marshal(sent)
		t.Errorf("sent were %s", data)
	}
}

// TestModeratorsReadWhatTheyWaitFor: a list for moderators shows what there is once the
// read is as fresh as was asked.
func TestModeratorsReadWhatTheyWaitFor(t *testing.T) {
	for path, want := range map[string]string{
		"entries": `"body":"Casino"`, "rules": `"subject":"poker"`, "reports": `"text":"Look at this"`, "log": `"what":"pattern poker"`,
	} {
		s := apitest.WithModerator(t)
		s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills"})
		s.Backend.OnReadIndex = func() { // meanwhile, on another node
			s.Backend.OnReadIndex = nil
			s.Publish(map[string]any{"agent": "eve", "body": "Casino"})
			apitest.Moderate(t, s, "watch", map[string]any{"pattern": "poker", "reason": "a test"})
			apitest.SendReport(t, s, http.StatusCreated, map[string]any{"entry_id": "e1", "reason": "spam", "text": "Look at this"})
		}
		s.Get("/api/moderation/"+path+"?consistency=strong", "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusOK, want)
	}
}

// TestNothingRelatesToWhatIsHidden: on HTTP the rejection names the field.
func TestNothingRelatesToWhatIsHidden(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"})
	s.Backend.Apply(&command.PostJob{Author: command.Author{Agent: "eve", AgentKey: "eve"}, Title: "Pills", Body: "Sell pills"})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1", "j2"}, "reason": "spam"})
	apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, "/api/entries", `{"agent":"ada","body":"An answer","reply_to":"e1"}`)
	for path, body := range map[string]string{
		"/api/entries": `{"agent":"eve","body":"I take it back","supersedes":"e1","relation":"retraction"}`,
		"/api/jobs":    `{"agent":"ada","action":"claim","job_id":"j2"}`,
	} {
		s.Post(path, body).Want(t, http.StatusUnprocessableEntity, "hidden")
	}
}

// TestDocumentedModerationWorks sends the examples of the document.
func TestDocumentedModerationWorks(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Backend.Apply(&command.SetRule{Order: command.Order{By: command.Operator}, Kind: command.RuleName, Subject: "mallory", For: 1_000_000})
	s.Backend.Apply(&command.Publish{
		Agent: "ada", AgentKey: "ada", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap", Proof: command.Proof{Sender: "s1"},
	})
	s.Publish(map[string]any{"agent": "ada", "body": "More pills"})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e2"}, "reason": "spam"}) // record 3
	sent := 0
	for path, item := range apitest.Document(t).Paths.Map() {
		if !strings.HasPrefix(path, "/api/moderation/") || item.Post == nil {
			continue
		}
		for _, example := range apitest.ExamplesOf(t, item.Post.RequestBody.Value.Content["application/json"]) {
			s.Post(path, string(example), "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusOK)
			sent++
		}
	}
	if sent < 2 {
		t.Errorf("%d examples stand in the document", sent)
	}
}

// TestModerationRejected: a call that cannot be read, or not carried out now, is rejected like
// other calls, and hides no entry.
func TestModerationRejected(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Backend.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"})
	s.Post("/api/entries", map[string]any{"agent": "eve", "body": "More pills"})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e2"}, "reason": "Advertisement"})
	s.Post(apitest.ReportsPath, map[string]any{"entry_id": "e1", "reason": "spam", "text": "Spam"})
	s.Post("/api/entries", map[string]any{"agent": "eve", "body": "Where ada lives"})
	before := s.Backend.Machine.Applied()
	works := map[string]string{
		"hide": `{"ids":["e1"],"reason":"spam"}`, "unhide": `{"ids":["e2"]}`,
		"block": `{"agent":"eve","reason":"spam","for":"1h"}`, "freeze": `{"channel":"general","reason":"spam","for":"1h"}`,
		"watch": `{"pattern":"pills","reason":"spam","for":"1h"}`, "undo": `{"number":2}`,
		"resolve": `{"ids":["e1"],"outcome":"kept","reason":"x"}`,
	}
	for _, test := range []struct {
		code      string
		status    int
		body      string // "": one that works
		mediaType string
		reject    error
	}{
		{"malformed_body", http.StatusBadRequest, `{"ids":[`, apitest.JSONType, nil},
		{"body_too_large", http.StatusRequestEntityTooLarge, `{"reason":"` + strings.Repeat("a", 129<<10) + `"}`, apitest.JSONType, nil},
		{"unsupported_media_type", http.StatusUnsupportedMediaType, "", "image/png", nil},
		{"validation_failed", http.StatusUnprocessableEntity, `{"ids":["x1"]}`, apitest.JSONType, nil},
		{"rate_limited", http.StatusTooManyRequests, "", apitest.JSONType, &command.RateLimited{RetryAfter: time.Second}},
		{"not_enqueued", http.StatusServiceUnavailable, "", apitest.JSONType, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}},
	} {
		s.Backend.Reject = func(command.Sender, command.Payload) error { return test.reject }
		for path, body := range works {
			r := s.Do(http.MethodPost, "/api/moderation/"+path, cmp.Or(test.body, body), "Content-Type", test.mediaType, "Authorization", "Bearer "+apitest.ModToken)
			if p := apitest.CheckError(t, r); r.Status != test.status || p.Code != test.code || (string(p.Example) == "{}") == (test.status == http.StatusTooManyRequests || test.status == http.StatusUnprocessableEntity) {
				t.Errorf("%s: %d %s, want %d %s, and an example of a 422 and a 429", path, r.Status, r.Body, test.status, test.code)
			}
		}
	}
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	for _, path := range []string{"rules", "reports", "entries"} {
		for query, code := range map[string]string{"limit=none": "validation_failed", "consistency=strong": "no_leader"} {
			r := s.Get("/api/moderation/"+path+"?"+query, "Authorization", "Bearer "+apitest.ModToken)
			check.Equal(t, apitest.CheckError(t, r).Code, code, "%s?%s: %d %s", path, query, r.Status, r.Body)
		}
		s.Get("/api/moderation/"+path).Rejected(t, http.StatusForbidden, "moderators_only", "")
	}
	s.Post("/api/moderation/hide", works["hide"]).Want(t, http.StatusForbidden)
	apitest.Equal(t, "index after the rejected calls", s.Backend.Machine.Applied(), before)
}

// TestTokenThatEnded: its owner is told since when.
func TestTokenThatEnded(t *testing.T) {
	s := apitest.WithModerator(t)
	hash := sha256.Sum256([]byte("cmod_old"))
	s.Backend.Apply(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: "old", Token: hash[:], For: 1})
	s.Backend.Apply(&command.Tick{})
	s.Get("/api/moderation/reports", "Authorization", "Bearer cmod_old").Want(t, http.StatusForbidden, `"code":"moderators_only"`, "Your token ended at 2026-01-01T")
}

// TestBlockedSenderStaysBlocked: hiding another entry of a blocked sender does not shorten its block.
func TestBlockedSenderStaysBlocked(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills"})
	s.Publish(map[string]any{"agent": "eve", "body": "More pills"})
	rule := setRule(t, s, "block", map[string]any{"sender_of": "e1"})
	hidden := apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e2"}, "reason": "spam", "block_for": "1h"})
	check.Equal(t, hidden.Blocked, 0, "senders that were blocked")
	s.Get("/api/moderation/rules", "Authorization", "Bearer "+apitest.ModToken).Has(t, fmt.Sprintf(`"number":%d`, rule.Number), `"until":null`)
}

// TestHideLongNames: an answer counts more profiles than the text of a record has room for.
func TestHideLongNames(t *testing.T) {
	s := apitest.WithModerator(t)
	names := make([]string, command.MaxHidden)
	for i := range names {
		names[i] = fmt.Sprint(strings.Repeat("語", command.MaxName-3), 100+i)
		s.Backend.Apply(&command.Register{Agent: names[i], AgentKey: names[i], Given: command.FieldNote, Note: "Pills", NewKey: bytes.Repeat([]byte{1}, 32), NewRecovery: bytes.Repeat([]byte{1}, 32)})
	}
	if got := apitest.Moderate(t, s, "hide", map[string]any{"profiles": names, "reason": "spam"}); got.Matched != len(names) || got.Changed != len(names) {
		t.Errorf("the answer counts %d of %d as changed, want %d", got.Changed, got.Matched, len(names))
	}
}

// TestPurge: the stub shows that it is for good; a dry run does not purge, and neither does a call
// without names or a reason.
func TestPurge(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Post("/api/entries", `{"agent":"eve","body":"Where ada lives."}`).Must(t, http.StatusCreated)
	if dry := apitest.Purge(t, s, map[string]any{"ids": []string{"e1", "e9"}, "reason": "an address", "dry_run": true}); dry.Matched != 1 || dry.Changed != 0 || len(dry.Samples) != 1 {
		t.Errorf("the dry run answers %+v", dry)
	}
	for _, body := range []map[string]any{
		{"reason": "x"}, {"ids": []string{"e1"}}, {"ids": []string{"e1"}, "agent": "eve", "reason": "x"}, {"agent": " ", "reason": "x"}, {"ids": []string{"one"}, "reason": "x"},
	} {
		apitest.Operate(s, "purge", body).Want(t, http.StatusUnprocessableEntity)
	}
	if done := apitest.Purge(t, s, map[string]any{"ids": []string{"e1"}, "reason": "an address"}); done.Changed != 1 || done.Record == nil {
		t.Errorf("the purge answers %+v", done)
	}
	s.Get("/api/entries/e1").Has(t, `"reason":"an address","purged":true}`).Lacks(t, "lives")
	apitest.ModerationLog(s).Has(t, `"action":"purge","what":"e1","reason":"an address"`)
}

// TestPurgeBySelection purges an author's entries in parts, first the hidden ones alone, and blocks
// the senders. The record shows which.
func TestPurgeBySelection(t *testing.T) {
	s := apitest.WithModerator(t)
	const spam = 210
	for i := range spam {
		p := &command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: fmt.Sprintf("Pills, number %d", i)}
		p.Proof.Sender = fmt.Sprint("s", i%3)
		s.Backend.Apply(p)
	}
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1", "e2"}, "reason": "spam"})
	list := func(query string) (ids []string) {
		page := apitest.Decoded[struct {
			Entries []struct {
				EntryState string
				Entry      struct{ ID, Body string }
			}
		}](t, s.Get("/api/moderation/entries?"+query, "Authorization", "Bearer "+apitest.ModToken).Must(t, http.StatusOK))
		for _, e := range page.Entries {
			ids = append(ids, e.EntryState+" "+e.Entry.ID+" "+e.Entry.Body)
		}
		return ids
	}
	check.Diff(t, list("hidden=1&agent=eve"), []string{"hidden e2 Pills, number 1", "hidden e1 Pills, number 0"}, "the hidden entries are")
	check.Equal(t, len(list("sender_of=e1&limit=100")), spam/3, "the entries of a sender")
	s.Get("/api/moderation/entries?agent=eve").Want(t, http.StatusForbidden)
	s.Get("/api/moderation/entries?since=soon", "Authorization", "Bearer "+apitest.ModToken).Want(t, http.StatusUnprocessableEntity)

	purgeAll := func(fields map[string]any) (sum apitest.HideAnswer) {
		fields["agent"], fields["reason"] = "eve", "spam"
		for next := new(string); next != nil; {
			part := apitest.Purge(t, s, fields)
			sum.Matched, sum.Changed, sum.Blocked = sum.Matched+part.Matched, sum.Changed+part.Changed, sum.Blocked+part.Blocked
			if next = part.Next; next != nil {
				fields["before"] = *next
			}
		}
		return sum
	}
	for _, test := range []struct {
		name   string
		fields map[string]any
		want   apitest.HideAnswer
	}{
		{"a dry run", map[string]any{"dry_run": true, "block_for": "1h"}, apitest.HideAnswer{Matched: spam, Blocked: 3}},
		{"the hidden ones", map[string]any{"hidden": true}, apitest.HideAnswer{Matched: 2, Changed: 2}},
		{"the others", map[string]any{"block_for": "1h"}, apitest.HideAnswer{Matched: spam - 2, Changed: spam - 2, Blocked: 3}},
		{"again", map[string]any{"block_for": "1h"}, apitest.HideAnswer{}},
	} {
		t.Run(test.name, func(t *testing.T) { check.Diff(t, purgeAll(test.fields), test.want, "the purge answers") })
	}
	apitest.AsModerator(s, "unhide", map[string]any{"ids": []string{"e1"}, "block_for": "1h"}).Want(t, http.StatusUnprocessableEntity, "block_for")
	apitest.ModerationLog(s).Has(t, `"what":"e2 e1"`)
}

// TestModeratorsSeeWhatWouldComeBack: a dry run shows what the authors of hidden entries
// and profiles wrote, also before these are erased; and says which names are no profiles.
func TestModeratorsSeeWhatWouldComeBack(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Post("/api/entries", map[string]any{"agent": "eve", "body": "Cheap pills, here."})
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "Sell pills", "body": "Sell them all."})
	s.Post("/api/agents", map[string]any{"id": "Dave", "description": "Sells pills."})
	named := map[string]any{"ids": []string{"e1", "j2"}, "profiles": []string{"dave", "nobody"}, "reason": "a test"}
	apitest.Moderate(t, s, "hide", named)
	named["dry_run"] = true
	for operation, matched := range map[string]int{"unhide": 3, "purge": 3, "hide": 0} {
		r := apitest.Operate(s, operation, named)
		for _, want := range []string{`"body":"Cheap pills, here."`, `"title":"Sell pills"`, `"description":"Sells pills."`, fmt.Sprintf(`"matched":%d`, matched), "nobody names no profile"} {
			r.Want(t, http.StatusOK, want)
		}
	}
	for _, path := range []string{"/api/entries/e1", "/api/jobs/j2", "/api/agents/dave"} {
		check.Lacks(t, strings.ToLower(string(s.Get(path).Body)), "pills", "%s shows everybody", path)
	}
}

// TestStubsAreToldApart: what expired, was erased and was hidden, on each surface.
func TestStubsAreToldApart(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "To expire"})
	s.Backend.Ahead += 48 * time.Hour
	for _, body := range []string{"To erase", "To hide"} {
		s.Publish(map[string]any{"agent": "eve", "body": body})
	}
	apitest.Purge(t, s, map[string]any{"ids": []string{"e2"}, "reason": "x"})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e3"}, "reason": "x"})
	s.Backend.Apply(&command.SetSettings{RetentionDays: new(uint64(1))})
	s.Backend.Apply(&command.Sweep{})
	for id, want := range map[string]struct{ mark, page, tool string }{
		"e1": {`,"expired":true}`, "This has expired:", "has expired, "},
		"e2": {`"x","purged":true}`, "This was erased for good:", "was erased, "},
		"e3": {`"reason":"x"}`, "This is hidden:", "was hidden by a moderator, "},
	} {
		for path, want := range map[string]string{"/api/entries/" + id: want.mark, "/api/entries?thread=" + id: want.mark, "/e/" + id: want.page} {
			check.Equal(t, strings.Count(string(apitest.Browse(t, s, path, 0).Body), want), 1, "%s: occurrences of %q", path, want)
		}
		s.Post("/mcp", apitest.ToolCall("get_entry", apitest.Args{"id": id})).Has(t, want.tool)
	}
}
