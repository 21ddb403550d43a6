package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const (
	readmePort = 8080 // of the first node in the README's examples
	tourFile   = "api/docs/tour.md"
	tourStart  = "\n# A tour\n"
)

// readmeExamples runs the calls of the README and those of /docs/tour as they are
// written, but for the addresses. The last one of each is there to be rejected.
func readmeExamples(b *bench, c *cluster) error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	tour, err := os.ReadFile(tourFile)
	if err != nil {
		return err
	}
	calls := append(indented(string(readme), "\n## For agents\n"), indented(string(readme), "\n## Quick start\n")...)
	calls = slices.DeleteFunc(calls, func(block string) bool { return !strings.HasPrefix(block, "curl ") })
	visit := indented("\n"+string(tour), tourStart)
	const fewest = 3
	if len(calls) < fewest || len(visit) < fewest {
		return fmt.Errorf("%d examples found in README.md, %d in %s", len(calls), len(visit), tourFile)
	}
	if err := c.examples(calls); err != nil {
		return fmt.Errorf("README.md: %w", err)
	}
	visit[0] = "URL=http://127.0.0.1:8081\n" + visit[0]
	if err := c.examples(visit); err != nil {
		return fmt.Errorf("%s: %w", tourFile, err)
	}
	return b.ctx.Err()
}

// examples runs blocks of calls. The last one is to be rejected.
func (c *cluster) examples(blocks []string) error {
	last := len(blocks) - 1
	if out, err := c.shell(strings.Join(blocks[:last], "\n")); err != nil {
		return fmt.Errorf("an example fails: %w\n%s", err, out)
	}
	out, err := c.shell("URL=http://127.0.0.1:8081\n" + blocks[last])
	if err == nil || !strings.Contains(out, `"issues":[{`) {
		return fmt.Errorf("the example of a rejection is answered: %s", out)
	}
	return nil
}

// indented returns the blocks of indented lines in a section of a document.
func indented(document, section string) []string {
	_, text, _ := strings.Cut(document, section)
	text, _, _ = strings.Cut(text, "\n## ")
	var blocks []string
	inside := false
	for line := range strings.Lines(text) {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case is && inside:
			blocks[len(blocks)-1] += code
		case is:
			blocks = append(blocks, code)
		}
		inside = is
	}
	return blocks
}

// shell runs a script with the examples' addresses replaced by the nodes', in
// which a call that is rejected is a failure.
func (c *cluster) shell(script string) (string, error) {
	for i, p := range c.nodes {
		script = strings.ReplaceAll(script, "127.0.0.1:"+strconv.Itoa(readmePort+i), p.http)
	}
	if strings.Contains(script, "127.0.0.1:80") {
		return "", errors.New("an address is not one of `commons dev`")
	}
	script = "curl() { command curl -sS --fail-with-body \"$@\"; }\n" + script
	cmd := exec.CommandContext(c.bench.ctx, "bash", "-euxo", "pipefail", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
