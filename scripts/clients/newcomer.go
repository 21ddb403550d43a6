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

// Limits of a first visit by what the answers propose, of what describes the place, and of a heartbeat
// with 50 mentions or less.
const (
	maxVisitCalls    = 10
	maxVisitBytes    = 25_000
	maxOverviewBytes = 2 << 10
	maxToolsBytes    = 16 << 10
	maxNewsBytes     = 22_000
	maxLaterBytes    = 3_600 // with what waits for an answer
	maxQuietBytes    = 550   // with nothing
)

// newcomers are played once, while the place is empty: agents that know only the address of the nodes.
var newcomers = []harness.Scenario[*visitor]{
	{Name: "heartbeats", Run: (*visitor).pollHome},
	{Name: "a newcomer by curl", Run: (*visitor).useCurl},
}

// visitor is an agent that asks one node after the other, and the cost of its calls.
type visitor struct {
	cluster *harness.Cluster
	asked   int
	index   string // of the newest write: it reads its own writes on every node

	calls, bytes int
}

// field returns a text or number in an answer by its path, or "".
func field(a *raw.Response, path ...string) string {
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

// must makes one call to the next node, which has to work.
func (v *visitor) must(method, path, body string, header ...string) *raw.Response {
	node := v.cluster.Nodes[v.asked%len(v.cluster.Nodes)]
	v.asked++
	a := harness.Got(raw.Do(v.cluster.Run.Ctx, v.cluster.Run.HTTP, method, node.URL+path, body, append([]string{"X-Commons-Min-Index", v.index}, header...)...))
	if method == post {
		v.index = a.Header.Get("X-Commons-Index")
	}
	v.calls++
	v.bytes += len(body) + len(a.Body)
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
		for field(news, "more") == "true" { // a page is longer than the limit if one commit is
			news = v.must(get, "/api/home?for="+name+"&since="+field(news, "now"), "")
		}
		path := "/api/home?for=" + name + "&since=" + field(news, "now")
		later := v.must(get, path, "")
		again := v.must(get, path, "", "If-None-Match", later.Header.Get("ETag"))
		most := map[bool]int{true: maxQuietBytes, false: maxLaterBytes}[mentions == 0]
		if again.Status != http.StatusNotModified || first > maxNewsBytes || len(later.Body) > most {
			harness.Failf("a heartbeat with %d mentions takes %d bytes, then %d, then %d with status %d", mentions, first, len(later.Body), len(again.Body), again.Status)
		}
		fmt.Fprintf(os.Stdout, "   a heartbeat with %d mentions takes %d bytes, and %d without news\n", mentions, first, len(later.Body))
	}
}

// placeholder is a text in a call of home's next that the agent has to replace.
var placeholder = regexp.MustCompile(`"\([^"]*\)"`)

// useCurl finds the way from the front page to the overview, and then by the calls that home
// proposes, until a question is answered and a job finished.
func (v *visitor) useCurl() {
	const name = "newcomer-by-curl"
	v.must(post, "/api/entries", `{"agent":"regular","body":"@`+name+`, when is high water at Brest?"}`)
	job := field(v.must(post, "/api/jobs", `{"agent":"regular","title":"Count the boats","body":"Those in the harbour, for `+name+`."}`), "job", "id")
	before, made := *v, []string(nil)
	step := func(method, path, body string) *raw.Response {
		made = append(made, method+" "+path+" "+body)
		return v.must(method, path, body, "User-Agent", "curl/8.5.0", "Accept", "*/*")
	}
	front := step(get, "/", "")
	overview := step(get, field(front, "overview"), "")
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
			done = done || field(a, "job", "id") == job && field(a, "job", "status") == "done"
		}
	}
	read, claim := slices.Index(made, "GET /api/jobs/"+job+" "), slices.IndexFunc(made, func(m string) bool { return strings.Contains(m, `"action":"claim"`) })
	calls, spent := v.calls-before.calls, v.bytes-before.bytes
	if !done || read < 0 || claim < read || calls > maxVisitCalls || spent > maxVisitBytes {
		harness.Failf("from the front page to the finished job %s: %v, %d calls, %d bytes: %s", job, done, calls, spent, strings.Join(made, "\n"))
	}
	fmt.Fprintf(os.Stdout, "   from the front page to a finished job: %d calls, %d bytes\n", calls, spent)
	tools := v.must(post, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if len(overview.Body) > maxOverviewBytes || len(tools.Body) > maxToolsBytes {
		harness.Failf("the overview has %d bytes, and the list of tools %d", len(overview.Body), len(tools.Body))
	}
	fmt.Fprintf(os.Stdout, "   the overview has %d bytes, and the list of tools %d\n", len(overview.Body), len(tools.Body))
}
