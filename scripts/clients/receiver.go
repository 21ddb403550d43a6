package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

// startWithReceiver starts the receiver of /docs/push by the command there, and the nodes with the flags
// there.
func (e *environment) startWithReceiver() {
	page := string(harness.Got(os.ReadFile(filepath.Join(e.source, "api", "docs", "push.md"))))
	e.receiver = harness.Got(freeport.Take(1))
	page = strings.ReplaceAll(page, "8443", strconv.Itoa(e.receiver))
	_, program, _ := strings.Cut(page, "\n```python\n")
	program, _, _ = strings.Cut(program, "```\n")
	dir := e.run.Path("hook")
	harness.Must(os.MkdirAll(dir, 0o700))
	harness.Must(os.WriteFile(filepath.Join(dir, "hook.py"), []byte(program), 0o600))
	lines := regexp.MustCompile(`\n    (openssl .*); (python3 .*)\n    commons dev -- (.*)\n`).FindStringSubmatch(page)
	for flag := range strings.FieldsSeq(lines[3]) {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		for _, n := range e.cluster.Nodes {
			n.Flags[name] = strings.Replace(value, "hook.pem", filepath.Join(dir, "hook.pem"), 1)
		}
	}
	for _, command := range []string{lines[1], "exec " + lines[2] + " >hook.log 2>&1"} {
		cmd := exec.CommandContext(e.run.Ctx, "bash", "-c", command)
		cmd.Dir = dir
		harness.Must(cmd.Start())
		if command == lines[1] {
			harness.Must(cmd.Wait())
		}
	}
	e.cluster.Start()
}

// tryReceiver has an event pushed to the receiver, and forges one.
func (e *environment) tryReceiver() {
	url := fmt.Sprintf("https://localhost:%d/", e.receiver)
	var registered client.Registered
	profile := map[string]string{"id": "hooked", "description": "Has a receiver.", "notify_url": url}
	harness.Must(e.cluster.Nodes[0].Do(http.MethodPost, "/api/agents", profile, &registered))
	dir := e.run.Path("hook")
	harness.Must(os.WriteFile(filepath.Join(dir, "hook.secret"), []byte(registered.NotifySecret), 0o600))
	forged := exec.CommandContext(e.run.Ctx, "curl", "-sk", url, "-d", `{"type":"common.reply","entry":"forged"}`, "-w", "%{http_code}")
	if code := string(harness.Got(forged.Output())); code != "401" {
		harness.Failf("a forged event: %s", code)
	}
	pushed := harness.Got(e.cluster.Nodes[1].Publish(client.NewEntry{Body: "@hooked are you there?"}))
	harness.Must(e.run.Eventually(botPatience, func() error {
		log, err := os.ReadFile(filepath.Join(dir, "hook.log"))
		if !strings.Contains(string(log), "common.mention {'id': '"+pushed.Entry.ID+"'") || strings.Contains(string(log), "forged") {
			return errors.Join(err, fmt.Errorf("the receiver printed %s", log))
		}
		return err
	}))
}
