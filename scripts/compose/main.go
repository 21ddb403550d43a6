// Compose runs docker-compose.cluster.yml for real: it publishes through the
// balancer without a pause while containers are killed, paused, restarted, wiped,
// recreated under new addresses and joined by two more, and checks what clients
// were promised. Everything that it starts it removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Deadlines of waits. The balancer waits 75 s for a node if the call itself waits.
const (
	callTimeout    = 80 * time.Second
	commandTimeout = 3 * time.Minute
	cleanupTimeout = 2 * time.Minute
)

// How long a node is paused: longer than maxGap, and than gossip needs to miss it.
const (
	shortPause = 25 * time.Second
	longPause  = 60 * time.Second
)

// exitSkipped says that nothing was run, because nothing could be.
const exitSkipped = 77

var errNoEngine = errors.New("no container engine")

func main() {
	keep := flag.Bool("keep", false, "leave the containers of a failed run")
	long := flag.Bool("long", false, "pause nodes for "+longPause.String()+" instead of "+shortPause.String()+", and restart five as well as three")
	flag.Parse()
	pause := shortPause
	if *long {
		pause = longPause
	}
	err := run(*keep, pause)
	switch {
	case errors.Is(err, errNoEngine):
		fmt.Println("compose: skipped:", err)
		os.Exit(exitSkipped)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compose: FAILED:", err)
		os.Exit(1)
	}
}

func run(keep bool, pause time.Duration) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := newProject(ctx, pause)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.showLogs()
			if keep {
				fmt.Fprintln(os.Stderr, "compose: the containers are kept in project", p.name)
				return
			}
		}
		err = errors.Join(err, p.remove())
	}()
	p.load = newLoad(p)
	defer p.load.Stop()
	return harness.Play(ctx, p, "", []harness.Scenario[*project]{
		{Name: "three nodes come up behind the balancer", Run: comeUp},
		{Name: "the leader's container is killed", Run: killLeader},
		{Name: "the leader's container is paused", Run: pauseLeader},
		{Name: "a follower's container is paused", Run: pauseFollower},
		{Name: "the manual: look, move the leadership", Run: look},
		{Name: "the manual: restart or upgrade", Run: restartEach},
		{Name: "the manual: replace a disk", Run: replaceDisk},
		{Name: "all containers end, and are recreated under new addresses", Run: recreateAll},
		{Name: "a later version takes the place of this one", Run: upgrade},
		{Name: "the manual: grow to five", Run: growToFive},
		{Name: "measurements are collected", Run: measure},
		{Name: "the manual: change the secret", Run: changeSecret},
		{Name: "everything that was acknowledged is there", Run: verifyAll},
		{Name: "the manual: shrink", Run: shrink},
		{Name: "the manual: back up and restore", Run: restoreBackup},
		{Name: "the manual: go on with one node", Run: goOnWithOne},
		{Name: "the manual has no other procedures", Run: allFollowed},
	}...)
}

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

// follow runs the commands of a procedure as they are written, except for the name of
// Compose.
func (p *project) follow(title string) {
	script := p.manual.scripts[title]
	if script == "" {
		harness.Failf("%s has no commands under %q", manualFile, title)
	}
	p.manual.followed[title] = true
	script = strings.ReplaceAll(script, "docker compose ", strings.Join(p.compose, " ")+" ")
	_, err := p.do(p.ctx, "bash", "-euo", "pipefail", "-c", script)
	if err != nil {
		harness.Failf("%s, %s: %w", manualFile, title, err)
	}
}

// cronFields is how many fields of a line of cron stand before its command.
const cronFields = 5

// checkout is where the manual has the repository.
const checkout = "/srv/commons"

// cron runs the manual's lines for cron, as cron does: a percent sign is escaped, and
// the only variables are those in the lines and in the file .env.
func (p *project) cron() {
	here := harness.Got(os.Getwd())
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
			harness.Failf("%s has no line for cron in %s: %q", manualFile, checkout, line)
		}
		command := strings.NewReplacer(`\%`, "%", checkout, here, "docker compose ", strings.Join(p.compose, " ")+" ").Replace(fields[cronFields])
		if _, err := p.do(p.ctx, slices.Concat([]string{"env", "-i"}, env, []string{"/bin/sh", "-c", command})...); err != nil {
			harness.Failf("%s, for cron: %w", manualFile, err)
		}
	}
}

// look follows what only shows.
func look(p *project) {
	p.follow("Look")
	p.follow("Move the leadership")
}

// changeSecret gives the cluster another secret under load.
func changeSecret(p *project) {
	p.follow("Change the secret")
	p.settled(five...)
	p.load.cutShort(0)
}

// restoreBackup saves everything, takes the cluster away, and makes another one
// of what was saved.
func restoreBackup(p *project) {
	p.follow("Back up")
	p.cron()
	p.follow("Try a restore")
	p.follow("Restore a backup")
	p.waitReady(harness.ReplaceTimeout, three...)
	p.load.verifyOn(three...)
}

// goOnWithOne loses two of three nodes for good.
func goOnWithOne(p *project) {
	p.follow("Go on with one node")
	p.waitReady(harness.ReplaceTimeout, three...)
	p.load.verifyOn(three...)
}

// allFollowed fails if a procedure has not been tried.
func allFollowed(p *project) {
	var missed []string
	for title := range p.manual.scripts {
		if !p.manual.followed[title] {
			missed = append(missed, title)
		}
	}
	slices.Sort(missed)
	if len(missed) > 0 {
		harness.Failf("%s has procedures that are not tried: %s", manualFile, strings.Join(missed, ", "))
	}
	fmt.Printf("   %d procedures\n", len(p.manual.scripts))
}
