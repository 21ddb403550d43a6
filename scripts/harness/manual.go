package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ManualDir is the directory of the operating manual.
const ManualDir = "docs/operating"

// Ports of the first node in the examples of documents, as in `commons dev`.
const (
	examplePort        = 8080
	examplePrivatePort = 7100
)

// Section returns the examples under a heading of a document.
func Section(file, heading string) []string {
	text := Got(os.ReadFile(file))
	_, section, _ := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := Examples(section)
	if len(blocks) == 0 {
		Failf("%s has no examples under %q", file, heading)
	}
	return blocks
}

// Examples returns the blocks of indented lines of a document, without the
// indentation.
func Examples(text string) []string {
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

// Follow runs the examples in a section of a page of the manual.
func (c *Cluster) Follow(page, title string) {
	for _, block := range Section(filepath.Join(ManualDir, page), "## "+title) {
		if out, err := c.Shell(block); err != nil {
			Failf("%s, %s: a command fails: %w\n%s", page, title, err, out)
		}
	}
}

// Shell runs an example, with the names of this cluster in place of those of `commons dev`.
func (c *Cluster) Shell(script string) (string, error) {
	for i, n := range c.Nodes {
		script = strings.NewReplacer("127.0.0.1:"+strconv.Itoa(examplePort+i), n.HTTP, "127.0.0.1:"+strconv.Itoa(examplePrivatePort+i), n.Private).Replace(script)
	}
	if strings.Contains(script, "127.0.0.1:80") {
		return "", errors.New("an address is not one of `commons dev`")
	}
	script = strings.NewReplacer("bin/commons ", c.Run.Binary+" ", "data/secret", c.Secret, "data/", c.Dir+"/",
		"transfer-leader b", "transfer-leader "+c.Nodes[1].Name).Replace(script)
	cmd := exec.CommandContext(c.Run.Ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Env = Environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
