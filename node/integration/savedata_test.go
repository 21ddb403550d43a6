package integration

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/nodetest"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// saveData has TestSaveData write a data directory of this version.
var saveData = flag.String("save-data", "", "write a data directory of this version to files that begin with this name")

const (
	savedEntries = 60
	// maxSavedBytes bounds what is unpacked, and maxSavedFile what is kept.
	maxSavedBytes = 64 << 20
	maxSavedFile  = 200 << 10
	// savedSecret is the cluster secret under which saved data is sealed.
	savedSecret = "the secret of all saved data, which everybody may know\n"
	// savedClaimTTL is how long a claim lasts until its end was saved, too.
	savedClaimTTL = 10 * time.Millisecond
)

// savedState is the expected content of a saved data directory.
type savedState struct {
	Index     uint64            `json:"index"`
	Digest    string            `json:"digest"`
	Rows      string            `json:"rows"`
	First     string            `json:"first"`     // id of the entry with the request_id saved-0001
	Claimed   string            `json:"claimed"`   // id of a claimed job
	Jobs      map[string]string `json:"jobs"`      // status of other jobs
	Retracted string            `json:"retracted"` // id of an entry
	FormerKey string            `json:"formerKey"` // of Ada, before an operator gave her EditKey
	EditKey   string            `json:"editKey"`
}

// TestSaveData makes a data directory for later versions to open:
//
//	go test ./node/integration -run TestSaveData -save-data ../testdata/data-vN
//
// The first release freezes data-v1. A command of a later format that populate does not lead to is added there.
func TestSaveData(t *testing.T) {
	if *saveData == "" {
		t.Skip("-save-data is not given")
	}
	h := newHooks(t)
	c := emptyCluster(t, h.reach, func(cfg *config.Config) { cfg.ClockOffset = -longAgo })
	nd := c.Add(1)
	nd.Config.Tuning.ClaimTTL = savedClaimTTL
	c.Start(0)
	c.waitNewestFormat()
	lapsed := c.populateLapsed()
	old := c.MustPublish(0, nodetest.Post{Agent: "mary", Channel: "old", Body: "Nobody will read this."}).Entry.ID
	c.Join() // and leaves again: the record has changes of the configuration
	c.WaitVoters()
	mustOperate[admin.ServerRef](c, 1, admin.PathLeave, nil)
	must.Do(t, c.Nodes[1].Wait())
	c.Stop(0)

	nd.Config.Tuning.ClaimTTL, nd.Config.ClockOffset, nd.Config.SecretFile = 24*time.Hour, 0, secretFile(t) // the data key is sealed anew
	c.Start(0)
	c.waitNewestFormat()
	var saved savedState
	c.populateEntries(&saved)
	c.populateJobs(&saved)
	saved.Jobs[lapsed] = "open"
	c.populateDeliveries(h)
	c.save(0)
	sender := command.DefaultSettings.SenderBytes / 2
	mustOperate[admin.SettingsReport](c, 0, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{SenderBytes: &sender}})
	c.populateSwept(old)
	purged := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "To be erased."}).Entry.ID
	hidden := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "To be hidden."}).Entry.ID
	reported := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "To be reported."}).Entry.ID
	for _, id := range []string{purged, reported} {
		body := map[string]string{"entry_id": id, "reason": "spam", "text": "To be looked at."}
		c.mustPost(0, "/api/reports", body, &struct{}{})
	}
	var rule []byte // the number of the newest
	for _, call := range []admin.Moderation{
		{Operation: "purge", Body: []byte(`{"ids":["` + purged + `"],"reason":"a test"}`)},
		{Operation: "resolveReports", Body: []byte(`{"ids":["` + purged + `"],"outcome":"erased","reason":"a test"}`)},
		{Operation: "setModerator", Body: []byte(`{"name":"mia","for":"366d"}`)},
		{Operation: "block", Body: []byte(`{"agent":"spammer","for":"1h","reason":"a test"}`)},
		{Operation: "block", Body: []byte(`{"network":"192.0.2.0/24","for":"1h","reason":"a test"}`)},
		{Operation: "undo", Body: []byte(`{"number":RULE,"reason":"a test"}`)},
		{Operation: "hide", Body: []byte(`{"words":"saved","reason":"a test"}`)},
		{Operation: "unhide", Body: []byte(`{"words":"saved","reason":"a test"}`)},
		{Operation: "hide", Body: []byte(`{"ids":["` + hidden + `"],"reason":"a test"}`)},
	} {
		call.Body = bytes.Replace(call.Body, []byte("RULE"), rule, 1)
		answer := mustOperate[json.RawMessage](c, 0, admin.PathModerate, call)
		if numbered := regexp.MustCompile(`"number": ?(\d+)`).FindSubmatch(answer); numbered != nil {
			rule = numbered[1]
		}
	}
	for _, on := range []bool{true, false} {
		mustOperate[admin.Protection](c, 0, admin.PathProtectName, admin.Protection{Agent: "ada", Protected: on})
	}
	key := mustOperate[admin.KeyAnswer](c, 0, admin.PathResetKey, admin.AgentRef{Agent: "ada"})
	saved.FormerKey, saved.EditKey = saved.EditKey, key.EditKey
	c.Stop(0)

	checkSavedCommands(t, logIn(t, nd.DataDir()))
	state := stateIn(t, nd.DataDir())
	saved.Index, saved.Digest, saved.Rows = state.Index, state.Digest, state.Rows
	doc := must.Get(json.MarshalIndent(saved, "", "  "))(t)
	if t.Failed() {
		return
	}
	must.Do(t, os.WriteFile(*saveData+".json", append(doc, '\n'), 0o600))
	packDir(t, *saveData+".tar.zst", nd.DataDir())
}

// secretFile returns a file with the secret of saved data.
func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(savedSecret), 0o600))
	return file
}

// waitNewestFormat waits until every command may enter the log.
func (c *testCluster) waitNewestFormat() {
	c.t.Helper()
	c.WaitReady()
	c.Eventually("the newest format", func() error {
		s := c.Nodes[0].Status()
		return nodetest.ErrorIf(s.Format != command.MaxFormat, "format %d", s.Format)
	})
}

// populateSwept has an entry become a stub because of a retention, which ends then:
// whoever opens the data later would sweep what is in it.
func (c *testCluster) populateSwept(old string) {
	c.t.Helper()
	retain := func(days uint64) {
		c.t.Helper()
		mustOperate[admin.SettingsReport](c, 0, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{RetentionDays: &days}})
	}
	retain(1) // an open job is kept
	defer retain(0)
	c.Eventually("a stub", func() error {
		report, err := operate[admin.SettingsReport](c, 0, admin.PathSettings, admin.SettingsChange{})
		return nodetest.ErrorIf(err != nil || report.Swept == 0, "%+v, %v: %s is to be swept", report, err, old)
	})
}

// populateLapsed leaves a job whose claim came to its end without a write.
func (c *testCluster) populateLapsed() (job string) {
	c.t.Helper()
	job = c.mustJob(0, client.JobAction{Action: client.PostJob, Agent: "mary", Title: "A forgotten job", Body: "Who will do it?"}).ID
	c.mustJob(0, claimOf("grace", job))
	c.waitJob(job, "open")
	return job
}

// populateEntries writes profiles and entries of every kind and relation.
func (c *testCluster) populateEntries(saved *savedState) {
	c.t.Helper()
	post := func(path string, body map[string]any) (entry nodetest.Entry) {
		c.t.Helper()
		var a nodetest.Answer
		c.mustPost(0, path, body, &a)
		return a.Entry
	}
	profile, status := c.register(0, map[string]any{"id": "Ada", "description": "Keeps what is old.", "capabilities": []string{"memory"}})
	must.Equal(c.t, status, http.StatusCreated, "register: %+v", profile)
	saved.EditKey = profile.EditKey
	post("/api/agents", map[string]any{"id": "Ada", "note": "Open the old data.", "edit_key": profile.EditKey})
	first := c.MustPublish(0, nodetest.Post{Agent: "Ada", Channel: "saved", Body: "The first entry, @grace: is it there?", RequestID: "saved-0001"})
	saved.First = first.Entry.ID
	for i := range savedEntries {
		body := strings.Repeat("words of entry number ", i%7+1)
		post("/api/entries", map[string]any{"agent": "grace", "body": body, "reply_to": first.Entry.ID, "tags": []string{"old", "saved"}})
	}
	post("/api/entries", map[string]any{"agent": "Ada", "body": "A correction of it.", "supersedes": first.Entry.ID})
	post("/api/home/seen", map[string]any{"agent": "Ada", "ids": []string{first.Entry.ID}, "edit_key": profile.EditKey})
	post("/api/entries", map[string]any{"agent": "linus", "kind": "knowledge", "body": "Ünïcode und 漢字 sind auch da."})
	post("/api/entries", map[string]any{"agent": "linus", "kind": "feature_request", "title": "More of it", "body": "Keep more of what is old."})
	saved.Retracted = post("/api/entries", map[string]any{"agent": "rosa", "body": "This is going to be taken back."}).ID
	post("/api/entries", map[string]any{"agent": "rosa", "body": "It was wrong.", "supersedes": saved.Retracted, "relation": "retraction"})
	post("/api/entries", map[string]any{"agent": "rosa", "body": "This follows it.", "supersedes": saved.Retracted, "relation": "follow_up"})
	for _, answer := range []map[string]any{nil, {"agent": "mary", "relation": "reply"}, {"agent": "linus", "relation": "retraction"}} {
		request := post("/api/human-requests", map[string]any{
			"agent": "linus", "goal": "Keep this", "requested_action": "Keep it for long.", "context": fmt.Sprint("Answered by ", answer["agent"]),
		})
		if answer != nil {
			answer["body"], answer["supersedes"] = "It is kept.", request.ID
			post("/api/entries", answer)
		}
	}
}

// populateJobs leaves a job in every state, by every way there is into it.
func (c *testCluster) populateJobs(saved *savedState) {
	c.t.Helper()
	job := func(status string, actions ...client.JobAction) (id string) {
		c.t.Helper()
		id = c.mustJob(0, client.JobAction{Action: client.PostJob, Agent: "mary", Title: "An old job", Body: "To become " + status + "."}).ID
		for _, action := range actions {
			action.JobID = id
			c.mustJob(0, action)
		}
		return id
	}
	claim := func(note string) client.JobAction {
		return client.JobAction{Action: client.ClaimJob, Agent: "grace", Note: note}
	}
	result := client.JobAction{Action: client.FinishJob, Agent: "grace", Result: "Done, as you see."}
	saved.Claimed = job("claimed", claim(""))
	saved.Jobs = map[string]string{
		job("done", claim("I know how to do this."), claim("It takes longer."), result):             "done",
		job("done at once", claim("ok"), result):                                                    "done",
		job("open again", claim("ok"), client.JobAction{Action: client.ReleaseJob, Agent: "grace"}): "open",
		job("closed", client.JobAction{Action: client.CloseJob, Agent: "mary"}):                     "closed",
		c.populateEndedClaim(): "closed",
	}
}

// populateEndedClaim leaves a job that its poster has closed by key while it was claimed.
func (c *testCluster) populateEndedClaim() (id string) {
	c.t.Helper()
	var emmy client.Registered
	c.mustPost(0, "/api/agents", map[string]any{"id": "emmy", "description": "Posts jobs and changes her mind."}, &emmy)
	act := func(fields map[string]any) {
		c.t.Helper()
		var answer struct{ Job struct{ ID string } }
		c.mustPost(0, "/api/jobs", fields, &answer)
		id = answer.Job.ID
	}
	act(map[string]any{"agent": "emmy", "action": "post", "title": "A job of emmy", "body": "To become closed.", "edit_key": emmy.EditKey})
	act(map[string]any{"agent": "linus", "action": "claim", "next": map[string]any{"poster": "emmy"}})
	act(map[string]any{"agent": "emmy", "action": "close", "job_id": id, "edit_key": emmy.EditKey})
	return id
}

// populateDeliveries leaves deliveries that were taken, that wait for another
// attempt, and that ended because their receiver was gone.
func (c *testCluster) populateDeliveries(h *hooks) {
	c.t.Helper()
	answers := map[string]int{"well": http.StatusNoContent, "slow": http.StatusServiceUnavailable, "gone": http.StatusGone}
	h.onEvent(func(w http.ResponseWriter, got pushtest.Received, _ *http.Request) {
		var event struct{ Agent string }
		if err := json.Unmarshal(got.Body, &event); err != nil || answers[event.Agent] == 0 {
			c.t.Errorf("an event for nobody here: %s, %v", got.Body, err)
		}
		w.WriteHeader(answers[event.Agent])
	})
	for i, agent := range []string{"well", "slow", "gone"} {
		key := c.listen(h, agent, i)
		c.testEvent(agent, key)
		c.MustPublish(0, nodetest.Post{Agent: "rosa", Body: "Are you there, @" + agent + "?"})
		c.Eventually("an attempt for "+agent, func() error {
			list, active, err := deliveriesOf(c.Nodes[0], agent, key)
			return nodetest.ErrorIf(err != nil || len(list) != 2 || active == (agent == "gone") || list[1].Attempts == 0 || agent == "well" && list[0].Status != "delivered", "%+v, active %v, %v", list, active, err)
		})
	}
	lost, status := c.register(0, map[string]any{"id": "lost", "description": "Loses keys."})
	must.Equal(c.t, status, http.StatusCreated, "registration: status")
	c.recover(0, "lost", lost.RecoveryKey)
}

// logIn returns the log in a data directory that no node uses.
func logIn(t *testing.T, dir string) (entries []*raft.Log) {
	t.Helper()
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(dir, "raft.db"), Existing: true, Fatal: func(err error) { t.Error(err) }}))(t)
	defer func() {
		check.Err(t, log.Close(), nil, "close")
	}()
	first, err := log.FirstIndex()
	last, lastErr := log.LastIndex()
	if err := errors.Join(err, lastErr); err != nil || first != 1 {
		t.Fatalf("the log begins at %d, %v", first, err)
	}
	for index := first; index <= last; index++ {
		entry := new(raft.Log)
		must.Do(t, log.GetLog(index, entry))
		entries = append(entries, entry)
	}
	return entries
}

// countCommands returns how many commands of each kind are in a log.
func countCommands(t *testing.T, log []*raft.Log) map[command.Op]int {
	t.Helper()
	count := map[command.Op]int{}
	for _, entry := range log {
		if entry.Type != raft.LogCommand {
			continue
		}
		batch, err := command.DecodeBatch(entry.Data)
		if err != nil {
			t.Fatalf("log entry %d: %v", entry.Index, err)
		}
		for _, g := range batch.Groups {
			for _, cmd := range g.Commands {
				count[command.OpOf(cmd.Payload)]++
			}
		}
	}
	return count
}

// checkSavedCommands holds that a log has every command of the command table.
func checkSavedCommands(t *testing.T, log []*raft.Log) {
	t.Helper()
	count := countCommands(t, log)
	for _, op := range command.Ops() {
		// No cluster raises its format as long as there is but one.
		if op == command.OpSetFormat && command.MaxFormat == command.InitialFormat {
			continue
		}
		if count[op] == 0 {
			t.Errorf("no command %s was saved: let TestSaveData lead to one, and write the saved data anew", op)
		}
	}
}

// packDir writes a directory to a compressed archive.
func packDir(t *testing.T, file, dir string) {
	t.Helper()
	f := must.Get(os.Create(file))(t)
	z := must.Get(zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression)))(t)
	w := tar.NewWriter(z)
	err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close())
	info, statErr := f.Stat()
	must.Do(t, errors.Join(err, statErr, f.Close()))
	if info.Size() > maxSavedFile {
		t.Errorf("%d bytes are too many to keep", info.Size())
	}
}
