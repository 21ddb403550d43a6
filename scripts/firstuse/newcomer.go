package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The limits of a first visit by plain HTTP, as by curl: calls, bytes that they send and get, and
// wrong turns, which are calls that are rejected.
const (
	maxVisitCalls = 12
	maxVisitBytes = 32 << 10
	maxVisitWrong = 0
)

// placeholder is a text in a call of home's next that the agent has to replace.
var placeholder = regexp.MustCompile(`"\([^"]*\)"`)

// useCurl lets a new agent that knows only the address find its way: from the front page to the
// overview, and then by the calls that home proposes, until it has answered a question and finished
// a job. It writes the cost and the wrong turns.
func (v *visitor) useCurl(table *strings.Builder) {
	const name = "newcomer-by-curl"
	job := v.await(name)
	before, wrong, made := v.mark(), 0, []string(nil)
	step := func(method, path, body string) *answer {
		a := v.call(method, path, body, "User-Agent", "curl/8.5.0", "Accept", "*/*")
		if a.Status >= http.StatusBadRequest {
			wrong++
		}
		made = append(made, method+" "+path+" "+body)
		return a
	}
	front := step(get, "/", "")
	overview := step(get, front.field("overview"), "")
	for _, path := range []string{"/api/home", agents} {
		if !strings.Contains(string(front.Body)+string(overview.Body), path) {
			harness.Failf("neither the front page nor the overview names %s", path)
		}
	}
	step(post, agents, `{"id":"`+name+`","description":"Came by the address alone."}`)
	done := false
	for range 2 { // home proposes other calls once the first are made
		home := step(get, "/api/home?for="+name, "")
		for _, call := range home.list("next") {
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
	spent := v.sent - before.sent + v.got - before.got
	switch {
	case !done || read < 0 || claim < read:
		harness.Failf("the newcomer did not read, take and finish %s: %s", job, strings.Join(made, "\n"))
	case v.calls-before.calls > maxVisitCalls || spent > maxVisitBytes || wrong > maxVisitWrong:
		harness.Failf("the newcomer takes %d calls, %d bytes and %d wrong turns; at most %d, %d and %d are allowed: %s",
			v.calls-before.calls, spent, wrong, maxVisitCalls, maxVisitBytes, maxVisitWrong, strings.Join(made, "\n"))
	}
	fmt.Fprintf(table, "\n## A newcomer by curl\n\nFrom the front page to a finished job, by what the answers propose: %d calls, %d bytes, %d wrong turns.\n",
		v.calls-before.calls, spent, wrong)
}
