package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/scripts/harness"
)

// manualSection is the section of the manual's pages whose procedures are run.
const manualSection = "## In containers\n"

// manualPages are the pages of the manual with procedures for a running project.
var manualPages = []string{"backup.md", "operate.md", "recover.md", "security.md", tasksPage}

// tasksPage is the page on which each section has commands for containers, too.
const tasksPage = "tasks.md"

// manual is the procedures of the manual: the commands by their titles, and the lines for
// cron.
type manual struct {
	scripts  map[string]string
	crontab  []string
	followed map[string]bool
}

func readManual() (*manual, error) {
	m := &manual{scripts: map[string]string{}, followed: map[string]bool{}}
	for _, page := range manualPages {
		text, err := os.ReadFile(filepath.Join(harness.ManualDir, page))
		if err != nil {
			return nil, err
		}
		section, below := string(text), "\n## "
		if page != tasksPage {
			_, section, _ = strings.Cut(section, "\n"+manualSection)
			section, _, _ = strings.Cut(section, below)
			below = "\n### "
		}
		if _, lines, is := strings.Cut(section, "\n```cron\n"); is {
			lines, _, _ = strings.Cut(lines, "```")
			m.crontab = strings.Split(strings.TrimSpace(lines), "\n")
		}
		for _, procedure := range strings.Split(section, below)[1:] {
			title, body, _ := strings.Cut(procedure, "\n")
			for _, block := range harness.Examples(body) {
				if strings.Contains(block, "docker compose ") {
					m.scripts[title] += block
				}
			}
		}
	}
	return m, nil
}

// allFollowed fails if a procedure was not followed.
func (m *manual) allFollowed() {
	missed := slices.DeleteFunc(slices.Sorted(maps.Keys(m.scripts)), func(title string) bool { return m.followed[title] })
	if len(missed) > 0 {
		harness.Failf("%s has procedures that are not tried: %s", harness.ManualDir, strings.Join(missed, ", "))
	}
}

// andRepeat is the end of a message about what is over soon, such as an election.
const andRepeat = ", and repeat"

// follow runs the commands of a procedure as they are written, except for the name of
// Compose.
func (p *containers) follow(title string) {
	script := p.manual.scripts[title]
	if script == "" {
		harness.Failf("%s has no commands under %q", harness.ManualDir, title)
	}
	p.manual.followed[title] = true
	script = strings.ReplaceAll(script, "docker compose ", strings.Join(p.compose, " ")+" ")
	err := await.Until(p.ctx, harness.ReadyTimeout, harness.PollEvery, func() error {
		_, err := p.do(p.ctx, "bash", "-euo", "pipefail", "-c", script)
		if err != nil && !strings.Contains(err.Error(), andRepeat) {
			err = await.Final(err)
		}
		return err
	})
	if err != nil {
		harness.Failf("%s, %s: %w", harness.ManualDir, title, err)
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
		harness.Failf("%s has no line for cron in %s: %q", harness.ManualDir, checkout, fields)
	}
	command := strings.NewReplacer(`\%`, "%", checkout, here, "docker compose ", strings.Join(p.compose, " ")+" ").Replace(fields[cronFields])
	if _, err := p.do(p.ctx, slices.Concat([]string{"env", "-i"}, env, []string{"/bin/sh", "-c", command})...); err != nil {
		harness.Failf("%s, for cron: %w", harness.ManualDir, err)
	}
}
