package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

const manualFile = "docs/operating.md"

// The sections of the manual whose commands are run.
var manualSections = []string{"## Backups\n", "## Containers day by day\n", "## Losing things\n"}

// manual is the procedures of docs/operating.md: the commands by their titles, and
// the lines for cron.
type manual struct {
	scripts  map[string]string
	crontab  []string
	followed map[string]bool
}

func readManual() (*manual, error) {
	text, err := os.ReadFile(manualFile)
	if err != nil {
		return nil, err
	}
	m := &manual{scripts: map[string]string{}, followed: map[string]bool{}}
	_, lines, _ := strings.Cut(string(text), "\n```cron\n")
	lines, _, _ = strings.Cut(lines, "```")
	m.crontab = strings.Split(strings.TrimSpace(lines), "\n")
	for _, heading := range manualSections {
		_, section, found := strings.Cut(string(text), "\n"+heading)
		if !found {
			return nil, fmt.Errorf("%s has no section %q", manualFile, heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, procedure := range strings.Split(section, "\n### ")[1:] {
			title, body, _ := strings.Cut(procedure, "\n")
			m.scripts[title] = strings.Join(harness.Examples(body), "")
		}
	}
	return m, nil
}

// follow runs the commands of a procedure as they are written, but for the name
// of Compose.
func (p *project) follow(title string) error {
	script := p.manual.scripts[title]
	if script == "" {
		return fmt.Errorf("%s has no commands under %q", manualFile, title)
	}
	p.manual.followed[title] = true
	script = strings.ReplaceAll(script, "docker compose ", strings.Join(p.compose, " ")+" ")
	_, err := p.do(p.ctx, "bash", "-euo", "pipefail", "-c", script)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", manualFile, title, err)
	}
	return nil
}

// cronFields is how many fields of a line of cron stand before its command.
const cronFields = 5

// checkout is where the manual has the repository.
const checkout = "/srv/commons"

// cron runs what the manual has for cron, as cron does: a percent sign is escaped,
// and nothing is set but what stands there and in the file .env.
func (p *project) cron() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(slices.Clone(p.env), func(variable string) bool {
		return !strings.HasPrefix(variable, "COMMONS_") && !strings.Contains(variable, "_IMAGE=")
	})
	for i, line := range p.manual.crontab {
		if i < len(p.manual.crontab)-1 {
			env = append(env, strings.ReplaceAll(line, "COMPOSE_PROJECT_NAME=commons", "COMPOSE_PROJECT_NAME="+p.name))
			continue
		}
		fields := strings.SplitN(line, " ", cronFields+1)
		if len(fields) <= cronFields || !strings.Contains(fields[cronFields], checkout) {
			return fmt.Errorf("%s has no line for cron in %s: %q", manualFile, checkout, line)
		}
		command := strings.NewReplacer(`\%`, "%", checkout, here, "docker compose ", strings.Join(p.compose, " ")+" ").Replace(fields[cronFields])
		if _, err := p.do(p.ctx, slices.Concat([]string{"env", "-i"}, env, []string{"/bin/sh", "-c", command})...); err != nil {
			return fmt.Errorf("%s, for cron: %w", manualFile, err)
		}
	}
	return nil
}

// look follows what only shows.
func look(p *project) error {
	return errors.Join(p.follow("Look"), p.follow("Move the leadership"))
}

// changeSecret gives the cluster another secret under load.
func changeSecret(p *project) error {
	if err := p.follow("Change the secret"); err != nil {
		return err
	}
	return errors.Join(p.settled(five...), p.load.cutShort(0))
}

// restoreBackup saves everything, takes the cluster away, and makes another one
// of what was saved.
func restoreBackup(p *project) error {
	for _, step := range []func() error{
		func() error { return p.follow("Back up") },
		p.cron,
		func() error { return p.follow("Try a restore") },
		func() error { return p.follow("Restore a backup") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := p.waitReady(harness.ReplaceTimeout, three...); err != nil {
		return err
	}
	return p.load.verifyOn(three...)
}

// goOnWithOne loses two of three nodes for good.
func goOnWithOne(p *project) error {
	if err := p.follow("Go on with one node"); err != nil {
		return err
	}
	if err := p.waitReady(harness.ReplaceTimeout, three...); err != nil {
		return err
	}
	return p.load.verifyOn(three...)
}

// allFollowed wants no procedure left that nothing has tried.
func allFollowed(p *project) error {
	var missed []string
	for title := range p.manual.scripts {
		if !p.manual.followed[title] {
			missed = append(missed, title)
		}
	}
	slices.Sort(missed)
	if len(missed) > 0 {
		return fmt.Errorf("%s has procedures that are not tried: %s", manualFile, strings.Join(missed, ", "))
	}
	fmt.Printf("   %d procedures\n", len(p.manual.scripts))
	return nil
}
