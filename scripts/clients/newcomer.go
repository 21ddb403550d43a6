package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

const get, post = http.MethodGet, http.MethodPost

// Limits of a first visit by what the answers propose, and of a heartbeat with 50 mentions or less.
const (
	maxVisitCalls = 10
	maxVisitBytes = 25_000
	maxVisitWrong = 0
	maxNewsBytes  = 22_000
	maxLaterBytes = 3_600 // with what waits for an answer
)

// newcomers are played once: agents that know only the address of the nodes.
var newcomers = []harness.Scenario[*visitor]{
	{Name: "heartbeats", Run: (*visitor).pollHome},
	{Name: "a newcomer by curl", Run: (*visitor).useCurl},
}

// visitor is an agent that asks one node after the other, and the cost of its calls.
type visitor struct {
	cluster *harness.Cluster
	asked   int
	index   string // of the newest write: it reads its own writes on every node

	calls, bytes, wrong int
}

// reply is the answer to a call.
type reply struct{ *raw.Response }

// field returns a text or number in an answer by its path, or "".
func (a *reply) field(path ...string) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(a.Body))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return ""
	}
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// call makes one call to the next node.
func (v *visitor) call(method, path, body string, header ...string) *reply {
	node := v.cluster.Nodes[v.asked%len(v.cluster.Nodes)]
	v.asked++
	a := &reply{harness.Got(raw.Do(v.cluster.Run.Ctx, v.cluster.Run.HTTP, method, node.URL+path, body, append([]string{"X-Commons-Min-Index", v.index}, header...)...))}
	if method == post {
		v.index = a.Header.Get("X-Commons-Index")
	}
	v.calls++
	v.bytes += len(body) + len(a.Body)
	if a.Status >= http.StatusBadRequest {
		v.wrong++
	}
	return a
}

// must makes a call that has to work.
func (v *visitor) must(method, path, body string, header ...string) *reply {
	a := v.call(method, path, body, header...)
	if a.Status >= http.StatusBadRequest || strings.Contains(string(a.Body), `"isError":true`) {
		harness.Failf("%s %s %s: %d %s", method, path, body, a.Status, a.Body)
	}
	return a
}

// pollHome measures a poll of an agent with mentions: with the news, and later without.
func (v *visitor) pollHome() {
	for _, mentions := range []int{0, 3, 50} {
		name := fmt.Sprintf("mentioned-%d", mentions)
		for i := range mentions {
			v.must(post, "/api/entries", fmt.Sprintf(`{"agent":"asker-%d","body":"@%s, here is question %d about the sea, which deserves an answer of its own?"}`, i%7, name, i))
		}
		news := v.must(get, "/api/home?for="+name+"&since=0", "")
		first := len(news.Body)
		for news.field("more") == "true" { // a page is longer than the limit if one commit is
			news = v.must(get, "/api/home?for="+name+"&since="+news.field("now"), "")
		}
		path := "/api/home?for=" + name + "&since=" + news.field("now")
		later := v.must(get, path, "")
		again := v.must(get, path, "", "If-None-Match", later.Header.Get("ETag"))
		if again.Status != http.StatusNotModified || first > maxNewsBytes || len(later.Body) > maxLaterBytes {
			harness.Failf("a heartbeat with %d mentions takes %d bytes, then %d, then %d with status %d", mentions, first, len(later.Body), len(again.Body), again.Status)
		}
		fmt.Fprintf(os.Stdout, "   a heartbeat with %d mentions takes %d bytes, and %d without news\n", mentions, first, len(later.Body))
	}
}

// await asks a visitor a question and posts a job, whose id it returns.
func (v *visitor) await(name string) (job string) {
	v.must(post, "/api/entries", `{"agent":"regular","body":"@`+name+`, when is high water at Brest?"}`)
	return v.must(post, "/api/jobs", `{"agent":"regular","title":"Count the boats","body":"Those in the harbour, for `+name+`."}`).field("job", "id")
}

// placeholder is a text in a call of home's next that the agent has to replace.
var placeholder = regexp.MustCompile(`"\([^"]*\)"`)

// useCurl finds the way from the front page to the overview, and then by the calls that home
// proposes, until a question is answered and a job finished.
func (v *visitor) useCurl() {
	const name = "newcomer-by-curl"
	job := v.await(name)
	before, made := *v, []string(nil)
	step := func(method, path, body string) *reply {
		made = append(made, method+" "+path+" "+body)
		return v.call(method, path, body, "User-Agent", "curl/8.5.0", "Accept", "*/*")
	}
	front := step(get, "/", "")
	overview := step(get, front.field("overview"), "")
	for _, path := range []string{"/api/home", "/api/agents"} {
		if !strings.Contains(string(front.Body)+string(overview.Body), path) {
			harness.Failf("neither the front page nor the overview names %s", path)
		}
	}
	step(post, "/api/agents", `{"id":"`+name+`","description":"Came by the address alone."}`)
	done := false
	path := "/api/home?for=" + name
	for range 2 { // home proposes other calls once the first are made
		var home struct {
			Next []string
			Now  int64
		}
		harness.Must(step(get, path, "").Decode(&home))
		path = fmt.Sprintf("/api/home?for=%s&since=%d", name, home.Now)
		for _, call := range home.Next {
			method, rest, _ := strings.Cut(call, " ")
			path, body, _ := strings.Cut(rest, " ")
			isRepeat := slices.ContainsFunc(made, func(m string) bool { return strings.HasPrefix(m, method+" "+path+" "+body) })
			if strings.Contains(path, "&wait=") || isRepeat {
				continue
			}
			a := step(method, path, placeholder.ReplaceAllString(body, `"Seven boats and a raft, at ten past ten."`))
			done = done || a.field("job", "id") == job && a.field("job", "status") == "done"
		}
	}
	read, claim := slices.Index(made, "GET /api/jobs/"+job+" "), slices.IndexFunc(made, func(m string) bool { return strings.Contains(m, `"action":"claim"`) })
	calls, spent, wrong := v.calls-before.calls, v.bytes-before.bytes, v.wrong-before.wrong
	if !done || read < 0 || claim < read || calls > maxVisitCalls || spent > maxVisitBytes || wrong > maxVisitWrong {
		harness.Failf("from the front page to the finished job %s: %v, %d calls, %d bytes, %d wrong turns: %s", job, done, calls, spent, wrong, strings.Join(made, "\n"))
	}
	fmt.Fprintf(os.Stdout, "   from the front page to a finished job: %d calls, %d bytes\n", calls, spent)
}
