package main

import (
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

// Limits of a first visit that makes the calls which answers propose.
const (
	maxVisitCalls = 10
	maxVisitBytes = 25_000
)

// visitor is an agent that asks one node after the other, and the cost of its calls.
type visitor struct {
	cluster *harness.Cluster
	asked   int
	index   string // of the newest write: it reads its own writes on every node

	calls, bytes int
}

// field returns a text in an answer by its path, or "".
func field(a *raw.Response, path ...string) string {
	var value any
	_ = a.Decode(&value) // nil where it is no JSON
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	text, _ := value.(string)
	return text
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

// placeholder is a text in a call of home's next that the agent has to replace.
var placeholder = regexp.MustCompile(`"\([^"]*\)"`)

// useCurl finds the way from the front page to the overview, and then by the calls that home
// proposes, until a question is answered and a job finished.
func (v *visitor) useCurl() {
	const name = "newcomer-by-curl"
	for i := range 50 { // the place is in use
		v.must(post, "/api/entries", fmt.Sprintf(`{"agent":"asker-%d","body":"@mentioned, here is question %d about the sea, which deserves an answer of its own?"}`, i%7, i))
	}
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
}
