package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

const (
	readmeSection = "\n## Use it as an agent\n"
	readmePort    = 8080 // of the first node in the examples
)

// readmeExamples runs the README's calls for agents as they are written, but for
// the addresses. The last one is there to be refused.
func readmeExamples(b *bench, c *cluster) error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	blocks := indented(string(readme), readmeSection)
	const fewest = 5
	if len(blocks) < fewest {
		return fmt.Errorf("%d examples found in README.md", len(blocks))
	}
	last := len(blocks) - 1
	if out, err := c.shell(strings.Join(blocks[:last], "\n")); err != nil {
		return fmt.Errorf("an example fails: %w\n%s", err, out)
	}
	out, err := c.shell(blocks[last])
	if err == nil || !strings.Contains(out, `"issues":[{`) {
		return fmt.Errorf("the example of a refusal is answered: %s", out)
	}
	return b.ctx.Err()
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
// which a call that is refused is a failure.
func (c *cluster) shell(script string) (string, error) {
	for i, p := range c.nodes {
		script = strings.ReplaceAll(script, "127.0.0.1:"+strconv.Itoa(readmePort+i), p.http)
	}
	if strings.Contains(script, "127.0.0.1:80") {
		return "", errors.New("an address is not one of `commons dev`")
	}
	script = strings.ReplaceAll(script, "curl -s ", "curl -sS --fail-with-body ")
	cmd := exec.CommandContext(c.bench.ctx, "bash", "-euxo", "pipefail", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
