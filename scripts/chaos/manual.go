package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/scripts/harness"
)

// manualDir is the directory of the operating manual.
const manualDir = "docs/operating"

// manualPages are the pages of the manual with procedures for a running project.
var manualPages = []string{"backup.md", "operate.md", "recover.md", "security.md", tasksPage}

// tasksPage is the page on which each section has commands for containers, too. On the others,
// these are in the section "In containers".
const tasksPage = "tasks.md"

// manual is the procedures of the manual: the commands by their titles, and the lines for
// cron.
type manual struct {
	scripts  map[string]string
	crontab  []string
	followed map[string]bool
}

func readManual() *manual {
	m := &manual{scripts: map[string]string{}, followed: map[string]bool{}}
	for _, page := range manualPages {
		text, below := textUnder(page, "## In containers"), "\n### "
		if page == tasksPage {
			text, below = readPage(page), "\n## "
		}
		if _, lines, is := strings.Cut(text, "\n```cron\n"); is {
			lines, _, _ = strings.Cut(lines, "```")
			m.crontab = strings.Split(strings.TrimSpace(lines), "\n")
		}
		for _, procedure := range strings.Split(text, below)[1:] {
			title, body, _ := strings.Cut(procedure, "\n")
			for _, block := range examples(body) {
				if strings.Contains(block, "docker ") {
					m.scripts[title] += block
				}
			}
		}
	}
	return m
}

func readPage(page string) string {
	return string(harness.Got(os.ReadFile(filepath.Join(manualDir, page))))
}

// textUnder returns the text of a page from a heading to the next section.
func textUnder(page, heading string) string {
	_, section, _ := strings.Cut("\n"+readPage(page), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// commandsUnder returns the examples under a heading of a page.
func commandsUnder(page, heading string) []string {
	blocks := examples(textUnder(page, heading))
	if len(blocks) == 0 {
		harness.Failf("%s has no examples under %q", page, heading)
	}
	return blocks
}

// examples returns the blocks of indented lines of a text, without the indentation.
func examples(text string) []string {
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

// follow runs the examples in a section of a page on the cluster of processes.
func (b *testbed) follow(page, title string) {
	for _, block := range commandsUnder(page, "## "+title) {
		if out, err := b.shell(block); err != nil {
			harness.Failf("%s, %s: a command fails: %w\n%s", page, title, err, out)
		}
	}
}

// shell runs an example, with the names of this cluster in place of those of the README's nodes.
func (b *testbed) shell(script string) (string, error) {
	script = strings.NewReplacer("127.0.0.1:7100", b.nodes[0].Private,
		"bin/commons ", b.run.Binary+" ", "data/secret", b.cluster.Secret, "data/", b.cluster.Dir+"/").Replace(script)
	cmd := exec.CommandContext(b.run.Ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Env = harness.Environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// allFollowed fails if a procedure was not followed.
func (m *manual) allFollowed() {
	missed := slices.DeleteFunc(slices.Sorted(maps.Keys(m.scripts)), func(title string) bool { return m.followed[title] })
	if len(missed) > 0 {
		harness.Failf("%s has procedures that are not tried: %s", manualDir, strings.Join(missed, ", "))
	}
}

// andRepeat is the end of a message about what is over soon, such as an election.
const andRepeat = ", and repeat"

// follow runs the commands of a procedure as they are written, except for the name of
// Compose.
func (p *containers) follow(title string) {
	script := p.manual.scripts[title]
	if script == "" {
		harness.Failf("%s has no commands under %q", manualDir, title)
	}
	p.manual.followed[title] = true
	script = strings.NewReplacer("docker compose ", strings.Join(p.compose, " ")+" ", "commons:former", p.formerImage(), "commons:local", p.image).Replace(script)
	err := await.Until(p.ctx, harness.ReadyTimeout, harness.PollEvery, func() error {
		_, err := p.do(p.ctx, "bash", "-euo", "pipefail", "-c", script)
		if err != nil && !strings.Contains(err.Error(), andRepeat) {
			err = await.Final(err)
		}
		return err
	})
	if err != nil {
		harness.Failf("%s, %s: %w", manualDir, title, err)
	}
}

const (
	// cronFields is how many fields of a line of cron stand before its command.
	cronFields = 5
	// checkout is the directory of the repository in the manual.
	checkout = "/srv/commons"
)

// cron runs the manual's lines for cron, as cron does: a percent sign is escaped, and
// the only variables are those in the lines and in the file .env.
func (p *containers) cron() {
	here := harness.Got(os.Getwd())
	env := slices.DeleteFunc(slices.Clone(p.env), func(variable string) bool {
		return !strings.HasPrefix(variable, "COMMONS_") && !strings.Contains(variable, "_IMAGE=")
	})
	last := len(p.manual.crontab) - 1
	for _, line := range p.manual.crontab[:last] {
		env = append(env, strings.ReplaceAll(line, "COMPOSE_PROJECT_NAME=commons", "COMPOSE_PROJECT_NAME="+p.name))
	}
	fields := strings.SplitN(p.manual.crontab[last], " ", cronFields+1)
	if len(fields) <= cronFields || !strings.Contains(fields[cronFields], checkout) {
		harness.Failf("%s has no line for cron in %s: %q", manualDir, checkout, fields)
	}
	command := strings.NewReplacer(`\%`, "%", checkout, here, "docker compose ", strings.Join(p.compose, " ")+" ").Replace(fields[cronFields])
	if _, err := p.do(p.ctx, slices.Concat([]string{"env", "-i"}, env, []string{"/bin/sh", "-c", command})...); err != nil {
		harness.Failf("%s, for cron: %w", manualDir, err)
	}
}
