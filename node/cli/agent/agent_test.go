package agent_test

import (
	"encoding/json"
	"errors"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/cli/agent"
)

// The limits of a first visit: commands, and bytes that they print.
const (
	maxCommands = 6
	maxPrinted  = 3 << 10
)

// TestFirstVisit registers, reads home, answers a question, takes a job and finishes it.
func TestFirstVisit(t *testing.T) {
	p := newPlace(t)
	bob := p.shell("bob")
	bob.must("post", "@ada, when is high water at Brest?", "-c", "ops", "-t", "tides")
	bob.must("job", "post", "Count the boats", "Those in the harbour, at noon.", "-t", "harbour")
	ada := p.shell("")
	commands := [][]string{
		{"login", "ada", "--url", p.URL, "--description", "Knows about tides."},
		{"home"},
		{"reply", "e1", "At ten past ten, local time."},
		{"show", "j2"},
		{"job", "take", "j2"},
		{"job", "finish", "j2", "Seven boats and a raft."},
	}
	for _, args := range commands {
		ada.must(args...)
	}
	if len(commands) > maxCommands || ada.outputs > maxPrinted {
		t.Errorf("%d commands printed %d bytes; at most %d and %d are allowed", len(commands), ada.outputs, maxCommands, maxPrinted)
	}
	t.Logf("%d commands printed %d bytes", len(commands), ada.outputs)
	ada.compare("visit.txt")
	job := must.Get(p.client().Job(t.Context(), "j2"))(t)
	if job.Status != "done" || len(job.Results) != 1 || !job.NameVerified {
		t.Errorf("the job is %+v", job)
	}
}

// TestReadme runs the commands of the README, with another address, after those of its quick
// start.
func TestReadme(t *testing.T) {
	p := newPlace(t)
	must.Get(p.client().Publish(t.Context(), client.NewEntry{Agent: "ada", Body: "Hello from Ada. Is anybody here?"}))(t)
	sh := p.shell("")
	readme := string(must.Get(os.ReadFile("../../../README.md"))(t))
	commands := regexp.MustCompile(`(?m)^    bin/commons (login .*(?:\n    bin/commons .*)*)`).FindStringSubmatch(readme)
	if commands == nil {
		t.Fatal("the README has no commands for agents")
	}
	n := 0
	for line := range strings.Lines(commands[1]) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "bin/commons ")
		line = regexp.MustCompile(`--duration \S+`).ReplaceAllString(line, "--duration 1ms")
		sh.must(sh.words(regexp.MustCompile(`http\S+`).ReplaceAllString(line, p.URL))...)
		n++
	}
	if n < 8 || !strings.Contains(sh.script.String(), "e1 ada in general: Hello from Ada.") {
		t.Errorf("%d commands:\n%s", n, sh.script.String())
	}
}

// TestConnect runs the commands of the page that says how to connect an agent.
func TestConnect(t *testing.T) {
	p := newPlace(t)
	t.Setenv("COMMONS_URL", p.URL)
	sh := p.shell("")
	page := string(apitest.Browse(t, p.Server, "/connect?with=Command+line", http.StatusOK).Body)
	for _, line := range regexp.MustCompile(`(?m)^commons ([^<\n]+)`).FindAllStringSubmatch(page, -1) {
		sh.must(sh.words(html.UnescapeString(line[1]))...)
	}
	check.Contains(t, sh.script.String(), " in playground: Hello from a shell.", "what the last command reads")
}

// TestTexts compares what the commands print.
func TestTexts(t *testing.T) {
	p := newPlace(t)
	bob := p.shell("bob")
	for _, args := range [][]string{
		{"post", "Tide tables\nThe tables of the port are exact to five minutes.", "-k", "knowledge"},
		{"reply", "e1", "Thank you, @ada uses them."},
		{"correct", "e2", "Thank you, @ada and @cyd use them."},
		{"retract", "e3", "--erase"},
		{"job", "post", "Count the boats", "Those in the harbour.", "-t", "harbour", "-t", "a, b"},
		{"post", "Only a try", "--dry-run"},
		{"read", "-n", "2"},
		{"read", "-a", "bob", "-k", "knowledge"},
		{"read", "-c", "nowhere"},
		{"read", "--since", "2030-01-01"},
		{"search", "port", "tab"},
		{"search", "--any", "boats", "exact", "minutes"},
		{"search", "\"port are\""},
		{"search", "--", "tables", "-thank"},
		{"read", "-c", "knowledge,nowhere", "-a", "bob", "-a", "ada", "--since=-1d", "--unanswered"},
		{"read", "--since=-1y"},
		{"show", "e2"},
		{"show", "j5"},
		{"jobs"},
		{"jobs", "-s", "done"},
		{"jobs", "-t", "harbour", "-t", "c"},
		{"profile", "set", "--note", "Wait for @ada.", "--capability", "tides", "--capability", "boats, rafts", "--protected"},
		{"profile"},
		{"profile", "bob"},
		{"profile", "set", "--clear", "note", "--no-protected"},
		{"home"},
		{"job", "post", "Paint the boats", "Those on land."},
		{"job", "close", "j6"},
		{"job", "close", "j6"},
		{"job", "next"},
		{"watch", "--after", position(t, p), "--count", "2"},
	} {
		bob.run(args...)
	}
	bob.hide = append(bob.hide, strings.TrimSuffix(position(t, p), "-1-1"), "CLUSTER")
	bob.compare("texts.txt")
	ada := p.shell("ada")
	for _, args := range [][]string{
		{"home", "--brief"},
		{"home", "--since", "1767225600000"},
		{"seen", "e2"},
		{"home"},
		{"job", "next", "-q", "boats", "--max-age-hours", "1", "--dry-run"},
		{"job", "take", "j5", "--note", "By noon."},
		{"jobs", "--status=claimed"},
		{"show", "j5"},
		{"home"},
		{"home", "--brief"},
		{"job", "release", "j5"},
		{"job", "take", "j5"},
		{"ask", "Look at the sea", "Say what colour it is.", "--context", "A bet.", "-t", "sea"},
		{"show", "h9"},
		{"job", "finish", "j5", "Seven boats."},
		{"show", "j5"},
		{"job", "post", "Mend a net", "By hand, please."},
		{"job", "take", "jb", "--as", "cyd"},
		{"jobs", "--status=claimed"},
		{"show", "jb"},
	} {
		ada.run(args...)
	}
	ada.compare("home.txt")
}

// position returns the position before the first event.
func position(t *testing.T, p *place) string {
	t.Helper()
	var batch struct{ LastEventID string }
	p.Get("/api/events").Decode(t, &batch)
	cluster, _, _ := strings.Cut(batch.LastEventID, "-")
	return cluster + "-1-1"
}

// TestCorrections runs commands that are rejected, and then the commands that the
// rejections propose.
func TestCorrections(t *testing.T) {
	p := newPlace(t)
	bob, ada := p.shell("bob"), p.shell("ada")
	bob.must("job", "post", "Count the boats", "Those in the harbour.")
	bob.must("job", "post", "Count the lights", "Those on the piers.")
	t.Chdir(t.TempDir())
	for _, key := range keys(bob) {
		must.Do(t, os.WriteFile("FILE", []byte(key), 0o600)) // what a correction calls it
	}
	for _, test := range []struct {
		name string
		args []string
		try  string
	}{
		{"placeholder", []string{"post", "no", "-t", "it's", "-c", "ops"}, "commons post --dry-run --channel ops --tag 'it'\\''s' 'Your text, 4 to 5000 characters.'"},
		{"tags", []string{"post", "A text of mine", "-t1", "-t2", "-t3", "-t4", "-t5", "-t6", "-t7", "-t8", "-t9"}, "commons post --tag 1 --tag 2 --tag 3 --tag 4 --tag 5 --tag 6 --tag 7 --tag 8 'A text of mine'"},
		{"dropped title", []string{"post", "--json", "--title", "x", "--", "-5 degrees"}, "commons post --json -- '-5 degrees'"},
		{"reference", []string{"reply", "e99", "To whom?"}, "commons reply --dry-run e"},
		{"another command", []string{"job", "finish", "j1", "Seven boats."}, "commons job take j1"},
		{"another relation", []string{"retract", "j2", "Not mine."}, "commons reply --dry-run j2 'Not mine.'"},
		{"another command of an account", []string{"job", "finish", "j2", "Two.", "--as", "ada", "--url", p.URL}, "commons job take --url " + p.URL + " --as ada j2"},
		{"list", []string{"read", "-n", "1000", "-a", "bob"}, "commons read --agent bob --limit 100"},
		{"name", []string{"post", "A text of mine", "--as", "%"}, "commons post --as your-name --dry-run 'A text of mine'"},
		{"key", []string{"post", "A text of mine", "--as", "bob"}, "commons post --as bob --key-file FILE --dry-run 'A text of mine'"},
		{"request_id", []string{"post", "A text of mine", "--request-id", "x"}, ""},
		{"seen", []string{"seen", "it all"}, "commons seen"},
		{"profile", []string{"profile", "set", "--endpoint", "http://x.example"}, "commons profile set --description 'Knows about tides.'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ada.t = t
			failed := ada.run(test.args...)
			check.Equal(t, failed.code, agent.ExitRejected, "exit code")
			check.Equal(t, strings.Contains(failed.err, "\n- "), !strings.HasPrefix(test.name, "another command"), "problems below a sentence without them")
			check.Contains(t, failed.err, "\ntry: "+test.try, "the error that proposes %s", test.try)
			check.Equal(t, ada.retry(failed).code, cli.ExitOK, "what it proposes is rejected")
		})
	}
}

// TestNoCommandOfTheExample: an example without a relation is shown as JSON, not as a retraction.
func TestNoCommandOfTheExample(t *testing.T) {
	ada := newPlace(t).shell("ada")
	failed := ada.run("retract", "e1", "There is no entry.")
	check.Equal(t, failed.code, agent.ExitRejected, "exit code")
	check.Contains(t, failed.err, "\ntry: {", "output")
}

// TestStandardInput publishes a text from standard input, also after a correction.
func TestStandardInput(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	const text = "Two lines\nof text."
	failed := ada.pipe(text+"\n", "post", "-", "--title", "x")
	check.Equal(t, failed.code, agent.ExitRejected, "exit code")
	check.Contains(t, failed.err, "\ntry: commons post -\n", "output")
	check.Equal(t, ada.pipe(text+"\n", "post", "-").code, cli.ExitOK, "exit code")
	check.Equal(t, must.Get(p.client().Entry(t.Context(), "e1"))(t).Body, text, "published")
	check.Equal(t, ada.pipe("\ufeff"+text, "post", "-", "--title", "With a mark").code, cli.ExitOK, "exit code")
	check.Equal(t, must.Get(p.client().Entry(t.Context(), "e2"))(t).Body, text, "published")
	if r := ada.pipe("Caf\xe9 in Latin-1", "post", "-"); r.code == cli.ExitOK || !strings.Contains(r.err, "not UTF-8") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

// TestExitCodes compares the exit codes of failures, and what is printed.
func TestExitCodes(t *testing.T) {
	down := "http://" + must.Get(freeport.Addr())(t)
	for _, test := range []struct {
		name    string
		answer  http.HandlerFunc // nil means no server
		args    []string
		code    int
		printed string
	}{
		{name: "accepted", answer: handler(http.StatusCreated, [2]string{}, `{"entry":{"id":"e1","channel":"ops"},"notes":["A note."]}`), args: []string{"post", "A text"}, printed: "note: A note."},
		{name: "no text", args: []string{"post"}, code: 2, printed: "<text>"},
		{name: "text that begins with a hyphen", args: []string{"post", "- text"}, code: 2, printed: "comes after --"},
		{name: "text like a flag", args: []string{"post", "--flag x"}, code: 2, printed: "comes after --"},
		{name: "a wrong flag, and a text behind --", args: []string{"post", "--bad", "--", "- text"}, code: 2, printed: "\"--tag\"?\n"},
		{name: "text like a flag that is there", args: []string{"post", "-the tide"}, code: 2, printed: "comes after --"},
		{name: "profile without a login", args: []string{"profile", "set", "--as", "cyd", "--description", "Knows about tides.", "--url", down}, code: 2, printed: "log in first: commons login NAME"},
		{name: "no address", args: []string{"post", "A text", "--url="}, code: 2, printed: "commons login NAME"},
		{name: "no URL", args: []string{"post", "A text", "--url", "commons.example"}, code: 2, printed: "is not an address"},
		{name: "no key in the file", args: []string{"post", "A text", "--key-file", os.DevNull}, code: 2, printed: "--key-file: it is empty"},
		{name: "rejected", answer: handler(http.StatusConflict, [2]string{}, `{"error":"No.","issues":[{"field":"job_id","message":"is bad"}],"example":{},"code":"job_done"}`), args: []string{"job", "take", "j1"}, code: 3, printed: "409 job_done: No.\n- job_id is bad\n"},
		{name: "unknown field in the example", answer: handler(http.StatusUnprocessableEntity, [2]string{}, `{"error":"No.","issues":[],"example":{"body":"Text","new":1},"code":"validation_failed"}`), args: []string{"post", "x"}, code: 3, printed: `try: {"body":"Text","new":1}`},
		{name: "not written", answer: handler(http.StatusServiceUnavailable, [2]string{}, `{"error":"Later.","code":"not_enqueued","retryable":true}`), args: []string{"post", "A text"}, code: 4, printed: "503 not_enqueued: Later."},
		{name: "too many", answer: handler(http.StatusTooManyRequests, [2]string{"Retry-After", "3600"}, `{"error":"Later.","code":"rate_limited","retryable":true,"example":{"body":"A text"}}`), args: []string{"post", "A text", "--patience", "1m"}, code: 4, printed: "429 rate_limited"},
		{name: "no connection", args: []string{"post", "A text", "--url", down}, code: 4, printed: "refused"},
		{name: "read without a connection", args: []string{"read", "--url", down}, code: 4, printed: "refused"},
		{name: "unknown", answer: handler(http.StatusServiceUnavailable, [2]string{}, `{"error":"Lost.","code":"outcome_unknown","retryable":true}`), args: []string{"job", "post", "A title", "It's here"}, code: 5, printed: "\ntry: commons job post --request-id "},
		{name: "broken connection", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, args: []string{"retract", "e1"}, code: 5, printed: "\ntry: commons retract --request-id "},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{test.args[0]}, test.args[1:]...)
			if !strings.Contains(strings.Join(args, " "), "--patience") {
				args = append(args, "--patience=0s")
			}
			if test.answer != nil {
				server := httptest.NewServer(test.answer)
				defer server.Close()
				t.Setenv("COMMONS_URL", server.URL)
			}
			r := newShell(t).run(args...)
			check.Equal(t, r.code, test.code, "exit code")
			check.Contains(t, r.err, test.printed, "output")
		})
	}
}

// loseAnswers is an error of the backend after a write: its outcome is unknown.
func loseAnswers(command.Payload) error {
	return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "lost"}
}

// TestUnknownOutcome repeats a write whose answer was lost, as the command proposes.
func TestUnknownOutcome(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	p.Backend.Lost = loseAnswers
	failed := ada.run("post", "It's written once.", "--patience=0s")
	p.Backend.Lost = nil
	again := ada.retry(failed)
	check.Equal(t, failed.code, 5, "exit code")
	check.Equal(t, again.code, cli.ExitOK, "exit code")
	page := must.Get(p.client().EntryPage(t.Context(), client.EntryQuery{}))(t)
	if len(page.Items) != 1 || page.Items[0].Body != "It's written once." {
		t.Errorf("written: %+v", page.Items)
	}
}

// TestEveryRetryIsACommand: the command line proposed after an unknown outcome works.
func TestEveryRetryIsACommand(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	for _, args := range [][]string{
		{"profile", "set", "--note", "A note to myself", "--patience=0s"},
		{"seen", "e1", "--patience=0s"},
	} {
		p.Backend.Lost = loseAnswers
		failed := ada.run(args...)
		p.Backend.Lost = nil
		again := ada.retry(failed)
		if failed.code != 5 || again.code == cli.ExitUsage {
			t.Errorf("%q: exit codes %d and %d: %s%s", args, failed.code, again.code, failed.err, again.err)
		}
	}
}

// recoveryFile registers a name and returns the file with its recovery key.
func recoveryFile(sh *shell, name string) string {
	sh.t.Helper()
	_, key, _ := strings.Cut(sh.must("login", name, "--description", "Loses keys."), "keep it elsewhere: ")
	key, _, _ = strings.Cut(key, "\n")
	file := filepath.Join(sh.t.TempDir(), "recovery-key")
	must.Do(sh.t, os.WriteFile(file, []byte(key), 0o600))
	return file
}

// TestLostRecovery repeats a recovery whose answer was lost.
func TestLostRecovery(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	file := recoveryFile(ada, "bob")
	p.Backend.Lost = loseAnswers
	failed := ada.run("key", "recover", "--recovery-key-file", file, "--patience=0s")
	p.Backend.Lost = nil
	if again := ada.retry(failed); failed.code != 5 || again.code != cli.ExitOK {
		t.Errorf("exit codes %d and %d: %s%s", failed.code, again.code, failed.err, again.err)
	}
	ada.must("profile", "set", "--note", "By the new key.")
}

// TestLostRegistration: after a registration whose answer was lost, login gets the keys of the name.
func TestLostRegistration(t *testing.T) {
	p := newPlace(t)
	sh := p.shell("")
	login := []string{"login", "ada", "--url", p.URL, "--description", "Knows about tides.", "--patience=0s"}
	p.Backend.Lost = loseAnswers
	check.Equal(t, sh.run(login...).code, 5, "exit code")
	p.Backend.Lost = nil
	check.Contains(t, sh.must(login...), "ada is registered; its key is in ", "login")
	check.Equal(t, len(keys(sh)), 1, "keys that are stored")
}

// TestNotProtected: login says that a name is not protected, because others wrote under it, also
// where it prints no text. Nor is a name protected that should not be.
func TestNotProtected(t *testing.T) {
	p := newPlace(t)
	p.Backend.Apply(&command.Publish{
		Agent: "cyd", AgentKey: "cyd", Kind: command.KindMessage, Title: "Hello", Body: "Hello", Proof: command.Proof{Sender: "elsewhere"},
	})
	for _, flag := range []string{"--dry-run", "--json"} {
		r := p.shell("").run("login", "cyd", "--url", p.URL, "--description", "Knows about tides.", flag)
		check.Equal(t, r.code, cli.ExitOK, "exit code of %s", flag)
		check.Contains(t, r.err, "note: Others wrote under the name in the last 30 days, so it is not protected.\n", "%s", flag)
	}
	open := p.shell("")
	open.must("login", "dan", "--url", p.URL, "--description", "Knows about tides.", "--no-protected")
	check.Lacks(t, open.must("profile"), "protected", "a name that should not be protected")
}

// TestPositions holds that home shows each item once for each name and address.
func TestPositions(t *testing.T) {
	here, there := newPlace(t), newPlace(t)
	for _, p := range []*place{here, there} {
		must.Get(p.client().Publish(t.Context(), client.NewEntry{Agent: "bob", Body: "@ada and @cyd, good morning."}))(t)
	}
	sh := newShell(t)
	for _, test := range []struct {
		name, agent, url string
		news             bool
	}{
		{"first", "ada", here.URL, true},
		{"again", "Ada", here.URL + "/", false},
		{"another name", "cyd", here.URL, true},
		{"another address", "ada", there.URL, true},
		{"the first again", "ada", here.URL, false},
		{"another name again", "cyd", here.URL, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sh.t = t
			t.Setenv("COMMONS_URL", test.url)
			t.Setenv("COMMONS_AGENT", test.agent)
			out := sh.must("home")
			if strings.Contains(out, "good morning") != test.news || strings.Count(out, "\n") == 1 == test.news {
				t.Errorf("news: %v, printed %s", test.news, out)
			}
		})
	}
}

// TestLogins registers two names and uses each, at its address alone.
func TestLogins(t *testing.T) {
	p := newPlace(t)
	sent := ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"entry":{"id":"e1","agent":"anonymous"},"notes":[]}`)
	}))
	defer other.Close()
	sh := p.shell("ada")
	sh.must("login", "bob", "--url", p.URL, "--description", "Asks about tides.")
	author := func(args ...string) string {
		t.Helper()
		var published struct{ Entry client.Entry }
		must.Do(t, json.Unmarshal([]byte(sh.must(append(args, "--json")...)), &published))
		return published.Entry.Agent + map[bool]string{true: " proven"}[published.Entry.NameVerified]
	}
	var got []string
	got = append(got, author("post", "As the last login"), author("post", "As another login", "--as", "ADA"))
	sh.must("login", "ada", "--url", p.URL)
	got = append(got, author("post", "As the login that was chosen"), author("post", "As a stranger", "--url", other.URL), author("post", "As somebody else", "--as", "cyd"))
	if diff := cmp.Diff([]string{"bob proven", "ada proven", "ada proven", "anonymous", "cyd"}, got); diff != "" {
		t.Error(diff)
	}
	check.Equal(t, sent, "", "another address was sent")
	stranger := p.shell("")
	if r := stranger.run("login", "ada", "--url", p.URL, "--description", "Also knows tides."); r.code != agent.ExitRejected || !strings.Contains(r.err, "try: commons login ada --url "+p.URL+" --key-file FILE") {
		t.Errorf("a name that is taken: exit code %d: %s", r.code, r.err)
	}
}

// keys returns the keys in the files of a user, by the name of the file, and checks that
// the user alone can read the files.
func keys(sh *shell) map[string]string {
	sh.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(sh.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info := must.Get(d.Info())(sh.t)
		check.Equal(sh.t, info.Mode().Perm(), 0o600, "mode of %s", path)
		data := must.Get(os.ReadFile(path))(sh.t)
		check.Equal(sh.t, strings.HasSuffix(path, ".request"), false, "%s is left", path)
		if strings.Contains(string(data), "crk_") {
			sh.t.Errorf("%s has a recovery key", path)
		}
		if key := regexp.MustCompile(`ck_[a-z0-9]+`).FindString(string(data)); key != "" {
			found[filepath.Base(path)] = key
		}
		return nil
	})
	must.Do(sh.t, err)
	return found
}

// TestKeys gives a key in each way that works, and rotates it.
func TestKeys(t *testing.T) {
	p := newPlace(t)
	sh := p.shell("ada")
	before := keys(sh)
	must.Equal(t, len(before), 1, "stored: %v", before)
	sh.must("key", "rotate")
	var key string
	for stored, now := range keys(sh) {
		if key = now; before[stored] == "" || before[stored] == key {
			t.Errorf("%s has the key %s after %s", stored, key, before[stored])
		}
	}
	sh.must("profile", "set", "--note", "With the new key")

	other := p.shell("")
	other.t.Setenv("COMMONS_URL", p.URL)
	other.t.Setenv("COMMONS_AGENT", "ada")
	file := filepath.Join(other.home, "key")
	must.Do(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	t.Run("file", func(t *testing.T) {
		t.Setenv("COMMONS_KEY_FILE", file)
		other.t = t
		other.must("key", "rotate")
		if now := keys(other)["key"]; now == "" || now == key {
			t.Errorf("the file has the key %q after %q", now, key)
		}
		key = keys(other)["key"]
		other.must("profile", "set", "--note", "With the key of the file")
	})
	t.Run("standard input", func(t *testing.T) {
		other.t = t
		if r := other.pipe(key+"\n", "profile", "set", "--key-file", "-", "--note", "From a pipe"); r.code != cli.ExitOK {
			t.Error(r.err)
		}
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv(agent.KeyVariable, key)
		other.t = t
		if out := other.must("key", "rotate"); !strings.HasPrefix(out, "the new key is ck_") {
			t.Error(out)
		} else {
			key = strings.TrimSpace(strings.TrimPrefix(out, "the new key is "))
		}
		check.Contains(t, other.must("profile", "set", "--as", "eve", "--description", "Is new."), "eve is registered; its key is in ", "a new name")
	})
	t.Run("argument", func(t *testing.T) {
		other.t = t
		if r := other.run("profile", "set", "--key", key, "--note", "By argument"); r.code != cli.ExitUsage || !strings.Contains(r.err, "a key is not an argument") || strings.Contains(r.err, key) {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
	})
	t.Run("login checks it", func(t *testing.T) {
		other.t = t
		wrong := other.pipe("ck_"+strings.Repeat("a", len(key)-3), "login", "ada", "--key-file", "-")
		right := other.pipe(key, "login", "ada", "--key-file", "-")
		check.Equal(t, wrong.code, agent.ExitRejected, "exit code")
		check.Equal(t, right.code, cli.ExitOK, "exit code")
		other.must("profile", "set", "--note", "With the stored key")
	})
}

// TestHomeShowsHiddenEntries: home says which entries of the agent moderators have hidden, and why.
func TestHomeShowsHiddenEntries(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	ada.must("post", "Good pills of the bakery")
	p.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "Advertisement"}, IDs: []string{"e1"}})
	check.Contains(t, ada.must("home"), "yours, hidden 1", "without news")
	must.Get(p.client().Publish(t.Context(), client.NewEntry{Agent: "bob", Body: "Hello @ada"}))(t)
	if out := ada.must("home"); !strings.Contains(out, "yours, hidden by moderators:\n  e1 ada in general, hidden (Advertisement): Good pills of the bakery") {
		t.Errorf("with news: %s", out)
	}
}

// TestCloseEndsAClaim: close withdraws a job, by key also a claimed one.
func TestCloseEndsAClaim(t *testing.T) {
	p := newPlace(t)
	ada, bob := p.shell("ada"), p.shell("bob")
	ada.must("job", "post", "Count the boats", "Those in the harbour.")
	bob.must("job", "take", "j1")
	check.Contains(t, ada.must("job", "close", "j1"), "j1 is closed", "close")
}

// TestAskWaits waits for the answer to a request for help, past a mention.
func TestAskWaits(t *testing.T) {
	p := newPlace(t)
	ada := p.shell("ada")
	answered := make(chan error, 1)
	go func() {
		c := p.client()
		answered <- await.Until(t.Context(), await.Patience, await.Every, func() error {
			var page client.Page[client.HumanRequest]
			err := c.Do(t.Context(), http.MethodGet, "/api/human-requests", nil, &page)
			if err != nil || len(page.Items) == 0 {
				return errors.Join(err, errors.New("no request"))
			}
			_, err = c.Publish(t.Context(), client.NewEntry{Agent: "bob", Body: "@ada, I am looking."})
			_, errReply := c.Publish(t.Context(), client.NewEntry{Agent: "carl", ReplyTo: page.Items[0].ID, Body: "It is green.\nAnd calm."})
			return errors.Join(err, errReply)
		})
	}()
	out := ada.must("ask", "Look at the sea", "Say what colour it is.", "--wait")
	must.Do(t, <-answered)
	if !strings.Contains(out, "h1 is open\n") || !strings.HasSuffix(out, "\nIt is green.\nAnd calm.\n") || strings.Contains(out, "looking") {
		t.Error(out)
	}
	check.Contains(t, ada.must("home"), "I am looking", "home once more")
}

// TestWatchResumes follows events over a node that cuts the stream, and from one command to
// the next.
func TestWatchResumes(t *testing.T) {
	p := newPlace(t)
	sh := p.shell("ada")
	for _, text := range []string{"Number one", "Number two", "Number three", "Number four"} {
		sh.must("post", text, "-c", "watched")
	}
	target := must.Get(url.Parse(p.URL))(t)
	var streams atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if streams.Add(1) == 1 {
			r.Body = &apitest.OneEvent{ReadCloser: r.Body}
		}
		return nil
	}
	cutting := httptest.NewServer(proxy)
	defer cutting.Close()
	watch := func(after, count string) result {
		return sh.run("watch", "-c", "watched", "--url", cutting.URL+","+p.URL, "--after", after, "--count", count)
	}
	first := watch(position(t, p), "3")
	_, last, _ := strings.Cut(strings.TrimSpace(first.err), "continue with --after ")
	second := watch(last, "1")
	want := "entry e1 ada in watched: Number one\nentry e2 ada in watched: Number two\nentry e3 ada in watched: Number three\n"
	if diff := cmp.Diff(want, first.out); diff != "" || streams.Load() == 0 {
		t.Errorf("%d streams through the node that cuts them: %s%s", streams.Load(), diff, first.err)
	}
	check.Diff(t, second.out, "entry e4 ada in watched: Number four\n", "after %s", last)
	start := time.Now()
	if r := sh.run("watch", "-c", "watched", "--duration", "10ms", "--json"); r.code != cli.ExitOK || r.out != "" || time.Since(start) > await.Patience {
		t.Errorf("without events: exit code %d: %s%s", r.code, r.out, r.err)
	}
}

// TestJSON holds that --json prints the answers of the service as they came.
func TestJSON(t *testing.T) {
	p := newPlace(t)
	ada, visitor := p.shell("ada"), p.shell("") // home has more for the holder of the key
	ada.must("post", "A text for all")
	for _, test := range []struct {
		sh            *shell
		path, command string
	}{
		{ada, "/api/entries?limit=20", "read"},
		{ada, "/api/entries/e1", "show e1"},
		{ada, "/api/jobs?limit=20", "jobs"},
		{ada, "/api/agents/ada", "profile"},
		{visitor, "/api/home?for=ada&since=1", "home --since 1 --as ada --url " + p.URL},
	} {
		t.Run(test.command, func(t *testing.T) {
			sh := test.sh
			sh.t = t
			want := p.client()
			var body json.RawMessage
			must.Do(t, want.Do(t.Context(), http.MethodGet, test.path, nil, &body))
			if diff := cmp.Diff(string(body)+"\n", sh.must(append(strings.Fields(test.command), "--json")...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRecoverKey brings the recovery key by standard input, and goes on with the new keys; then it
// deletes the profile.
func TestRecoverKey(t *testing.T) {
	p := newPlace(t)
	sh := p.shell("ada")
	file := recoveryFile(sh, "bob")
	key := string(must.Get(os.ReadFile(file))(t))
	before := keys(sh)
	if r := sh.run("key", "recover", key); r.code == cli.ExitOK {
		t.Error("a key was taken as an argument")
	}
	r := sh.pipe(key+"\n", "key", "recover", "--recovery-key-file", "-")
	if r.code != cli.ExitOK || strings.Contains(r.out, "ck_") || !strings.Contains(r.out, "keep it elsewhere: crk_") {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
	if r := sh.run("key", "recover", "--recovery-key-file", file); r.code == cli.ExitOK {
		t.Error("the former recovery key was accepted")
	}
	changed := 0
	for stored, now := range keys(sh) {
		if now != before[stored] {
			changed++
		}
	}
	check.Equal(t, changed, 1, "changed keys")
	sh.must("profile", "delete")
	if r := sh.run("profile", "show", "bob"); r.code == cli.ExitOK {
		t.Errorf("shown: %s", r.out)
	}
	sh.must("profile", "set", "--note", "Back again.")
}
