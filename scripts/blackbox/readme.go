package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

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

// setURL sets what the examples of the tour begin with.
const setURL = "URL=http://127.0.0.1:8081\n"

// readmeExamples runs the calls of the README and those of /docs/tour as they are
// written, but for the addresses. The last one of each is there to be rejected.
func readmeExamples(c *cluster) error {
	agents, errAgents := examples(readmeFile, "## For agents")
	start, errStart := examples(readmeFile, "## Quick start")
	visit, errVisit := examples(tourFile, "# A tour")
	if err := errors.Join(errAgents, errStart, errVisit); err != nil {
		return err
	}
	calls := slices.DeleteFunc(append(agents, start...), func(block string) bool { return !strings.HasPrefix(block, "curl ") })
	const fewest = 3
	if len(calls) < fewest || len(visit) < fewest {
		return fmt.Errorf("%d examples found in %s, %d in %s", len(calls), readmeFile, len(visit), tourFile)
	}
	if err := c.callExamples(calls); err != nil {
		return fmt.Errorf("%s: %w", readmeFile, err)
	}
	visit[0] = setURL + visit[0]
	if err := c.callExamples(visit); err != nil {
		return fmt.Errorf("%s: %w", tourFile, err)
	}
	return nil
}

// callExamples runs blocks of calls. The last one is to be rejected.
func (c *cluster) callExamples(blocks []string) error {
	const strictly = "curl() { command curl -sS --fail-with-body \"$@\"; }\n"
	last := len(blocks) - 1
	if out, err := c.shell(strictly + strings.Join(blocks[:last], "\n")); err != nil {
		return fmt.Errorf("an example fails: %w\n%s", err, out)
	}
	out, err := c.shell(strictly + setURL + blocks[last])
	if err == nil || !strings.Contains(out, `"issues":[{`) {
		return fmt.Errorf("the example of a rejection is answered: %s", out)
	}
	return nil
}

// operatorCommands runs the manual's commands for operators as they are written,
// but for names of files, addresses and nodes.
func operatorCommands(c *cluster) error {
	if err := c.operateSection("Commands for operators"); err != nil {
		return err
	}
	return c.WaitVoters()
}

// operateSection runs the examples in a section of the manual.
func (c *cluster) operateSection(title string) error {
	blocks, err := examples(manualFile, "## "+title)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		if out, err := c.shell(block); err != nil {
			return fmt.Errorf("a command fails: %w\n%s", err, out)
		}
	}
	return nil
}

// examples returns those under a heading of a document.
func examples(file, heading string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := harness.Examples(section)
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s has no examples under %q", file, heading)
	}
	return blocks, nil
}

// shell runs a script with the examples' names replaced by those of this run.
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
