package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

// visitor is an agent that asks one node after the other, and what its calls cost.
type visitor struct {
	cluster *harness.Cluster
	asked   int
	index   string // of the newest write: it reads its own writes on every node
	said    strings.Builder

	calls, sent, got int
}

// answer is the answer to a call.
type answer struct{ *raw.Response }

// field returns a text or number in an answer by its path, or "".
func (a *answer) field(path ...string) string {
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

// list returns the texts of a member that is a list.
func (a *answer) list(name string) []string {
	var lists map[string]json.RawMessage
	var texts []string
	harness.Must(json.Unmarshal(a.Body, &lists))
	harness.Must(json.Unmarshal(lists[name], &texts))
	return texts
}

// example returns the example of a rejection, or "".
func (a *answer) example() string {
	var rejection struct{ Example json.RawMessage }
	if json.Unmarshal(a.Body, &rejection) != nil || len(rejection.Example) == 0 || string(rejection.Example) == "{}" {
		return ""
	}
	return string(rejection.Example)
}

// call makes one call to the next node. A body that begins with a brace is JSON, any
// other one a form.
func (v *visitor) call(method, path, body string, header ...string) *answer {
	node := v.cluster.Nodes[v.asked%len(v.cluster.Nodes)]
	v.asked++
	a := &answer{harness.Got(raw.Do(v.cluster.Run.Ctx, v.cluster.Run.HTTP, method, node.URL+path, body, append([]string{"X-Commons-Min-Index", v.index}, header...)...))}
	if a.Status == http.StatusCreated || method == http.MethodPost {
		v.index = a.Header.Get("X-Commons-Index")
	}
	v.calls++
	v.sent += len(body)
	v.got += len(a.Body)
	v.said.WriteString(body + "\n" + harness.Got(url.PathUnescape(strings.ReplaceAll(path, "+", " "))) + "\n")
	return a
}

// must makes a call that has to work.
func (v *visitor) must(method, path, body string, header ...string) *answer {
	a := v.call(method, path, body, header...)
	if a.Status >= http.StatusBadRequest {
		harness.Failf("%s %s %s: %d %s", method, path, body, a.Status, a.Body)
	}
	return a
}

// cost is the cost since a mark.
func (v *visitor) cost(since visitor) string {
	return fmt.Sprintf("%d | %d | %d", v.calls-since.calls, v.sent-since.sent, v.got-since.got)
}

// mark is the count so far.
func (v *visitor) mark() visitor { return visitor{calls: v.calls, sent: v.sent, got: v.got} }

// checkNoise verifies that every entry has the agent's own words, and no words of an
// example.
func (v *visitor) checkNoise() {
	said := v.said.String()
	for _, e := range harness.Got(v.cluster.Nodes[0].List(0, client.EntryQuery{})) {
		quoted := harness.Got(json.Marshal(e.Body))
		own := strings.Trim(string(quoted), `"`)
		switch {
		case strings.Contains(said, own), strings.Contains(said, e.Body), e.Body == "Retracted.", e.Channel == "human-help":
		case e.Channel == "jobs" && e.Supersedes != "": // a claim without a note
		default:
			harness.Failf("%s was published as %s, and nobody has said it: %q", e.ID, e.Agent, e.Body)
		}
	}
}

// prepare makes the entries and jobs that mistakes refer to, and returns their names.
func (v *visitor) prepare(n int, m *mistake) *strings.Replacer {
	const tooLong = 5001
	id := strconv.Itoa(n)
	pairs := []string{"{N}", id, "{long}", strings.Repeat("long ", tooLong/5+1)}
	all := m.path + m.body + m.says + m.then + m.holds
	needs := func(name string) bool { return strings.Contains(all, name) }
	job := func() string {
		return v.must(post, jobs, `{"agent":"theirs","title":"Their job `+id+`","body":"To be done by somebody."}`).field("job", "id")
	}
	if needs("{mine}") {
		pairs = append(pairs, "{mine}", v.must(post, entries, `{"agent":"me-`+id+`","body":"An entry of mine, `+id+`"}`).field("entry", "id"))
	}
	if needs("{theirs}") || needs("{THEIRS}") {
		theirs := v.must(post, entries, `{"agent":"theirs","body":"An entry of theirs for a visitor, `+id+`"}`).field("entry", "id")
		pairs = append(pairs, "{theirs}", theirs, "{THEIRS}", strings.ToUpper(theirs), "{number}", theirs[1:])
	}
	if needs("{open}") {
		pairs = append(pairs, "{open}", job())
	}
	if needs("{taken}") {
		taken := job()
		v.must(post, jobs, `{"agent":"third","action":"claim","job_id":"`+taken+`"}`)
		pairs = append(pairs, "{taken}", taken)
	}
	if needs("{held}") {
		held := job()
		claim := v.must(post, jobs, `{"agent":"me-`+id+`","action":"claim","job_id":"`+held+`"}`)
		pairs = append(pairs, "{held}", held, "{claim}", claim.field("claim", "id"))
	}
	if needs("{registered}") {
		a := v.must(post, agents, `{"id":"registered-`+id+`","description":"Is here already."}`)
		pairs = append(pairs, "{registered}", "registered-"+id, "{key}", a.field("edit_key"))
	}
	return strings.NewReplacer(pairs...)
}

// query writes an example of parameters as a URL has them.
func query(example string) string {
	var params map[string]any
	harness.Must(json.Unmarshal([]byte(example), &params))
	values := url.Values{}
	for name, value := range params {
		values.Set(name, fmt.Sprint(value))
	}
	return values.Encode()
}
