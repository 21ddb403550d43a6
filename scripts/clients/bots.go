package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

// bots are the programs of /docs/bot, with the most lines that they may have.
var bots = []harness.Scenario[*environment]{
	{Name: "a bot in Python", Run: func(e *environment) { e.tryBot("python", 20, "python3", "bot") }},
	{Name: "a bot in Bash", Run: func(e *environment) { e.tryBot("bash", 20, "bash", "bot") }},
	{Name: "a bot in JavaScript", Run: func(e *environment) { e.tryBot("js", 30, "node", "bot.mjs") }},
	{Name: "a bot in Go", Run: func(e *environment) { e.tryBot("go", 45, "./bot") }},
	{Name: "a receiver", Run: (*environment).tryReceiver},
}

const botPatience = time.Minute

// bot is a program of /docs/bot.
type bot struct {
	env       *environment
	name, dir string
	command   []string
	cmd       *exec.Cmd
	want      map[string]int // entries by what they answer
}

// tryBot runs the bot of a language through a balancer that answers 502 once, and kills it, its
// balancer's node, and it again while it works: each mention has one answer, each job one result.
func (e *environment) tryBot(language string, mostLines int, command ...string) {
	node := e.cluster.Nodes[0]
	f := newFront(node, pass, "502")
	defer f.stop()
	b := &bot{env: e, name: "tides-" + language, dir: e.run.Path(language), command: command, want: map[string]int{"": 1}} // hello
	program := b.write(language, mostLines, f.url)
	b.start()
	b.await(1)
	b.ask(5)
	b.await(3)
	b.kill()
	node.Kill()
	b.ask(5)
	b.start()
	b.await(14)
	b.kill()
	b.start()
	b.await(19) // all
	b.kill()
	node.Start()
	harness.Must(e.cluster.WaitReady(harness.ReadyTimeout, node))
	fmt.Fprintf(os.Stdout, "   %s: %d lines, %d bytes, %d calls through the balancer\n", language, strings.Count(program, "\n"), len(program), len(f.attempts()))
}

// write writes the program to its directory, and returns it as it is in /docs/bot. Its first address is
// the balancer.
func (b *bot) write(language string, mostLines int, balancer string) (program string) {
	node := b.env.cluster.Nodes[1]
	_, program, _ = strings.Cut(string(harness.Got(node.Raw(http.MethodGet, "/docs/bot.md", "", http.StatusOK)).Body), "\n```"+language+"\n")
	program, _, _ = strings.Cut(program, "```\n")
	if n := strings.Count(program, "\n"); n == 0 || n > mostLines {
		harness.Failf("/docs/bot has %d lines of %s, at most %d are allowed", n, language, mostLines)
	}
	separator := map[bool]string{true: ",", false: `", "`}[language == "bash"]
	urls := strings.Join([]string{balancer, node.URL, b.env.cluster.Nodes[2].URL}, separator)
	file := filepath.Join(b.dir, b.command[len(b.command)-1])
	source := file + map[bool]string{true: ".go"}[language == "go"]
	harness.Must(os.MkdirAll(b.dir, 0o700))
	harness.Must(os.WriteFile(source, []byte(strings.NewReplacer(node.URL, urls, "tides", b.name).Replace(program)), 0o600))
	if source != file {
		build := exec.CommandContext(b.env.run.Ctx, "go", "build", "-o", file, source)
		build.Stderr = os.Stderr
		harness.Must(build.Run())
	}
	return program
}

// start starts the program in a process group of its own.
func (b *bot) start() {
	log := harness.Got(os.OpenFile(filepath.Join(b.dir, "bot.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	b.cmd = exec.CommandContext(b.env.run.Ctx, b.command[0], b.command[1:]...)
	b.cmd.Dir, b.cmd.Stdout, b.cmd.Stderr = b.dir, log, log
	b.cmd.Env = append(harness.Environment(), "XDG_CONFIG_HOME="+b.dir, "PATH="+filepath.Dir(b.env.run.Binary)+":"+os.Getenv("PATH"))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	harness.Must(b.cmd.Start())
}

// kill ends the program and its children, as a power failure would.
func (b *bot) kill() {
	harness.Must(syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL))
	_ = b.cmd.Wait() // it was killed
}

// ask mentions the bot n times, and posts two jobs.
func (b *bot) ask(n int) {
	node := b.env.cluster.Nodes[1]
	for i := range n {
		asked := harness.Got(node.Publish(client.NewEntry{Agent: "regular", Body: fmt.Sprintf("@%s when is high water on day %d?", b.name, i)}))
		b.want[asked.Entry.ID] = 1
	}
	for range 2 {
		job := client.JobAction{Action: client.PostJob, Agent: "regular", Title: "Count the boats", Body: "Those in the harbour.", Tags: []string{"boats"}}
		id := harness.Got(node.Client(0).ActOnJob(b.env.run.Ctx, job)).Job.ID
		b.want[id+" claimed"], b.want[id+" done"] = 1, 1
	}
}

// await waits until the bot has written n entries, or those that are wanted.
func (b *bot) await(n int) {
	err := b.env.run.Eventually(botPatience, func() error {
		entries, err := b.env.cluster.Nodes[1].List(0, client.EntryQuery{Agent: b.name})
		written := map[string]int{}
		for i := range entries {
			item := entries[i].Supersedes
			switch title := entries[i].Title; {
			case strings.HasPrefix(title, "Claimed: "): // may be extended, if one was under way at a kill
				written[item+" claimed"] = 1
			case strings.HasPrefix(title, "Result: "):
				written[item+" done"]++
			default:
				written[item]++
			}
			if !entries[i].NameVerified {
				err = errors.Join(err, fmt.Errorf("%s is not proven", entries[i].ID))
			}
		}
		if len(entries) < n || n >= len(b.want) && !maps.Equal(written, b.want) {
			err = errors.Join(err, fmt.Errorf("entries of %s by what they answer: %v, want %v", b.name, written, b.want))
		}
		return err
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(b.dir, "bot.log")) // empty if it is missing
		harness.Failf("%w\n%s", err, log)
	}
}

// startWithReceiver starts the receiver of /docs/push by the command there, and the nodes with the flags
// there.
func (e *environment) startWithReceiver() {
	page := string(harness.Got(os.ReadFile("api/docs/push.md")))
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
