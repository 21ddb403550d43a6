package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// publishAndList publishes through each node and reads it back from each.
func publishAndList(c *harness.Cluster) {
	forms := []struct{ contentType, body string }{
		{"application/json", `{"body":"Grüße aus dem ersten Knoten","agent":"ada","channel":"rounds","tags":["a","b"]}`},
		{"application/x-www-form-urlencoded", "body=from+the+second+node&agent=ada&channel=rounds"},
		{"text/plain", "from the third node"},
	}
	for i, p := range c.Nodes {
		res := harness.Got(p.Raw(http.MethodPost, "/api/entries", forms[i].body, http.StatusCreated, "Content-Type", forms[i].contentType))
		var answer client.Published
		harness.Must(res.Decode(&answer))
		index := harness.Got(strconv.ParseUint(res.Header.Get("X-Commons-Index"), 10, 64))
		for _, reader := range c.Nodes {
			entries := harness.Got(reader.List(index, client.EntryQuery{Agent: answer.Entry.Agent}))
			if len(entries) == 0 || entries[0].ID != answer.Entry.ID || entries[0].Body != answer.Entry.Body {
				harness.Failf("%s lists %v at index %d, want %s first", reader.Name, entries, index, answer.Entry.ID)
			}
		}
	}
	found := harness.Got(c.Nodes[1].List(0, client.EntryQuery{Words: "grusse knot", Tag: "a"}))
	if len(found) != 1 {
		harness.Failf("a search without accents finds %v, want one entry", found)
	}
	for _, p := range c.Nodes {
		if code, out, errs := c.Run.Command([]string{"COMMONS_HTTP_ADDR=" + p.HTTP}, "health"); code != 0 {
			harness.Failf("health of %s: exit code %d, %s%s", p.Name, code, out, errs)
		}
	}
	rejection := func(body string) *client.Error {
		err := c.Nodes[2].Do(http.MethodPost, "/api/entries", json.RawMessage(body), nil)
		rejected, is := errors.AsType[*client.Error](err)
		if !is || rejected.Status != http.StatusUnprocessableEntity {
			harness.Failf("%s is answered: %w", body, err)
		}
		return rejected
	}
	if rejected := rejection(`{"body":"x","kind":"song"}`); len(rejected.Issues) != 2 {
		harness.Failf("two problems give the issues %v", rejected.Issues)
	}
	// An example of what only the sender could correct is a dry run; that of too many tags writes.
	rejected := rejection(`{"body":"A song for everybody","tags":"a,b,c,d,e,f,g,h,i"}`)
	harness.Must(c.Nodes[2].Do(http.MethodPost, "/api/entries", rejected.Example, nil))
}

// The documents whose examples are run.
const (
	readmeFile = "README.md"
	tourFile   = "api/docs/tour.md"
)

// setURL sets the URL at the start of the tour's examples.
const setURL = "URL=http://127.0.0.1:8081\n"

// readmeExamples runs the calls of the README and those of /docs/tour as they are
// written, except for the addresses. The last call of each must be rejected.
func readmeExamples(c *harness.Cluster) {
	visit := harness.Section(tourFile, "# A tour")
	calls := slices.DeleteFunc(append(harness.Section(readmeFile, "## For agents"), harness.Section(readmeFile, "## Quick start")...), func(block string) bool { return !strings.HasPrefix(block, "curl ") })
	const fewest = 3
	if len(calls) < fewest || len(visit) < fewest {
		harness.Failf("%d examples found in %s, %d in %s", len(calls), readmeFile, len(visit), tourFile)
	}
	callExamples(c, calls)
	visit[0] = setURL + visit[0]
	callExamples(c, visit)
}

// callExamples runs blocks of calls. The last one must be rejected.
func callExamples(c *harness.Cluster, blocks []string) {
	const strictly = "curl() { command curl -sS --fail-with-body \"$@\"; }\n"
	last := len(blocks) - 1
	if out, err := c.Shell(strictly + strings.Join(blocks[:last], "\n")); err != nil {
		harness.Failf("an example fails: %w\n%s", err, out)
	}
	out, err := c.Shell(strictly + setURL + blocks[last])
	if err == nil || !strings.Contains(out, `"issues":[{`) {
		harness.Failf("the example of a rejection is answered: %s", out)
	}
}

// operatorCommands runs the manual's commands for operators as they are written,
// except for names of files, addresses and nodes.
func operatorCommands(c *harness.Cluster) {
	c.Follow("operate.md", "Commands for operators")
	c.WaitVoters()
}
