package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/commons-cluster/commons/scripts/harness"
)

// nodeThatLeft lets a node leave and join again without its data.
func nodeThatLeft(c *cluster) {
	victim := c.Nodes[len(c.Nodes)-1]
	env := []string{"COMMONS_CLUSTER_ADDR=" + victim.Private, "COMMONS_SECRET_FILE=" + c.Secret}
	code, out, errs := c.Run.Command(env, "leave", "--json")
	var left struct{ ID string }
	if err := json.Unmarshal([]byte(out), &left); err != nil || code != 0 || left.ID == "" {
		harness.Failf("leave: exit code %d, %s%s", code, out, errs)
	}
	const exitLeft = 3 // service managers do not start it again
	if code, err := victim.Wait(); err != nil || code != exitLeft {
		harness.Failf("the node that left ended with exit code %d, %w\n%s", code, err, victim.LogTail())
	}
	harness.Must(os.RemoveAll(victim.Dir))
	harness.Must(victim.Start())
	harness.Must(c.WaitReady(harness.ReplaceTimeout, victim))
	harness.Must(c.WaitVoters())
}

// secretRotated runs the manual's rotation of the secret under load.
func secretRotated(c *cluster) {
	l := c.startLoad("secret-rotated", false)
	defer l.Stop()
	l.waitForMore()
	before := harness.Got(os.ReadFile(c.Secret))
	c.operateSection("The secret")
	after := harness.Got(os.ReadFile(c.Secret))
	if bytes.Equal(before, after) {
		harness.Failf("the secret is the former one")
	}
	l.waitForMore()
	l.end()
}

// backupRestored runs the manual's examples of a backup under load, and starts the node
// that they restore: a separate cluster with everything that was acknowledged before.
func backupRestored(c *cluster) {
	l := c.startLoad("backup", false)
	defer l.Stop()
	l.waitForMore()
	answer := harness.Got(c.Nodes[0].Publish(nil, map[string]any{"body": "before the backup", "channel": "restored"}, http.StatusCreated))
	c.operateSection("Backup without containers")
	l.end()
	restored := c.bench.newCluster("restored")
	p := restored.Nodes[0]
	p.Alone()
	p.Flags["node-id"], p.Flags["data-dir"], p.Flags["secret-file"] = "d", filepath.Join(c.Dir, "restored"), c.Secret
	harness.Must(p.Start())
	harness.Must(restored.WaitReady(harness.ReadyTimeout, p))
	entries := harness.Got(p.List(0, url.Values{"channel": {"restored"}}))
	if len(entries) != 1 || entries[0].ID != answer.Entry.ID {
		harness.Failf("the restored node has %v, want %s", entries, answer.Entry.ID)
	}
	harness.Must(p.Terminate())
}

// The documents whose examples are run.
const (
	readmeFile = "README.md"
	tourFile   = "api/docs/tour.md"
	manualFile = "docs/operating.md"
)

// Ports of the first node in the examples.
const (
	readmePort   = 8080
	commandsPort = 7100 // the private one
)

// setURL sets the URL at the start of the tour's examples.
const setURL = "URL=http://127.0.0.1:8081\n"

// readmeExamples runs the calls of the README and those of /docs/tour as they are
// written, except for the addresses. The last call of each must be rejected.
func readmeExamples(c *cluster) {
	visit := examples(tourFile, "# A tour")
	calls := slices.DeleteFunc(append(examples(readmeFile, "## For agents"), examples(readmeFile, "## Quick start")...), func(block string) bool { return !strings.HasPrefix(block, "curl ") })
	const fewest = 3
	if len(calls) < fewest || len(visit) < fewest {
		harness.Failf("%d examples found in %s, %d in %s", len(calls), readmeFile, len(visit), tourFile)
	}
	c.callExamples(calls)
	visit[0] = setURL + visit[0]
	c.callExamples(visit)
}

// callExamples runs blocks of calls. The last one must be rejected.
func (c *cluster) callExamples(blocks []string) {
	const strictly = "curl() { command curl -sS --fail-with-body \"$@\"; }\n"
	last := len(blocks) - 1
	if out, err := c.shell(strictly + strings.Join(blocks[:last], "\n")); err != nil {
		harness.Failf("an example fails: %w\n%s", err, out)
	}
	out, err := c.shell(strictly + setURL + blocks[last])
	if err == nil || !strings.Contains(out, `"issues":[{`) {
		harness.Failf("the example of a rejection is answered: %s", out)
	}
}

// operatorCommands runs the manual's commands for operators as they are written,
// except for names of files, addresses and nodes.
func operatorCommands(c *cluster) {
	c.operateSection("Commands for operators")
	harness.Must(c.WaitVoters())
}

// operateSection runs the examples in a section of the manual.
func (c *cluster) operateSection(title string) {
	blocks := examples(manualFile, "## "+title)
	for _, block := range blocks {
		if out, err := c.shell(block); err != nil {
			harness.Failf("a command fails: %w\n%s", err, out)
		}
	}
}

// examples returns the examples under a heading of a document.
func examples(file, heading string) []string {
	text := harness.Got(os.ReadFile(file))
	_, section, _ := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := harness.Examples(section)
	if len(blocks) == 0 {
		harness.Failf("%s has no examples under %q", file, heading)
	}
	return blocks
}

// shell runs a script after replacing the examples' names with the names of this run.
func (c *cluster) shell(script string) (string, error) {
	for i, p := range c.Nodes {
		script = strings.NewReplacer("127.0.0.1:"+strconv.Itoa(readmePort+i), p.HTTP, "127.0.0.1:"+strconv.Itoa(commandsPort+i), p.Private).Replace(script)
	}
	if strings.Contains(script, "127.0.0.1:80") {
		return "", errors.New("an address is not one of `commons dev`")
	}
	script = strings.NewReplacer("bin/commons ", c.Run.Binary+" ", "data/secret", c.Secret, "data/", c.Dir+"/",
		"transfer-leader b", "transfer-leader "+c.Nodes[1].Name).Replace(script)
	cmd := exec.CommandContext(c.Run.Ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Env = harness.Environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Limits for thousands of waiting calls.
const (
	waiters      = 5000
	waitersMB    = 300  // RssAnon of the node that holds them
	filesForRest = 1000 // that a process opens in addition to one for each waiter
)

// measured is the part of a `commons bench` report that is checked.
type measured struct {
	Requests, Errors  uint64
	RequestsPerSecond float64
	Held              int64
	PeakRSSAnonMB     float64
	LatencyMs         map[string]struct{ P50, P99 float64 }
}

// measure runs `commons bench`, which must see no error.
func (c *cluster) measure(mode string, args ...string) (m measured) {
	code, out, errs := c.Run.Command(nil, append([]string{"bench", mode, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 {
		harness.Failf("exit code %d, %s%s", code, out, errs)
	}
	if m.Requests == 0 || m.Errors != 0 {
		harness.Failf("report %s", out)
	}
	return m
}

// benchRuns measures for a moment, and fails if there is an error.
func benchRuns(c *cluster) {
	urls := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		urls[i] = p.URL
	}
	report := c.measure("mixed", "--fill", "200", "--duration", "2s", "--url", strings.Join(urls, ","))
	fmt.Printf("   %.0f mixed requests a second\n", report.RequestsPerSecond)
}

// thousandsWait has thousands of agents wait at home on one node, and wakes some of them
// all the time.
func thousandsWait(c *cluster) {
	if !filesFor(waiters) {
		return
	}
	node := c.Nodes[0]
	report := c.measure("wait", "--connections", strconv.Itoa(waiters), "--duration", "2s", "--url", node.URL, "--pid", strconv.Itoa(node.PID()))
	wake := report.LatencyMs["wake"]
	fmt.Printf("   %d calls held in %.0f MB, woken after %.1f ms (p50), %.1f ms (p99)\n", report.Held, report.PeakRSSAnonMB, wake.P50, wake.P99)
	if report.Held < waiters*99/100 || report.PeakRSSAnonMB > waitersMB || wake.P50 == 0 {
		harness.Failf("wanted %d calls held in %d MB, and some of them woken", waiters, waitersMB)
	}
}

// filesFor reports whether a process may open that many connections here, and prints a
// note if it may not.
func filesFor(conns uint64) bool {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Max < conns+filesForRest {
		fmt.Printf("   left out: a process may open %d files here\n", files.Max)
		return false
	}
	return true
}
