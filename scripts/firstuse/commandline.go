package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The limits of a first visit by the command line: commands, and bytes that they print.
const (
	maxCommands = 6
	maxPrinted  = 3 << 10
)

// useCommandLine lets two new agents register, read home, answer a question, take a job and
// finish it: one with all nodes, the other with the node of its first address killed. It
// writes the cost of the first visit.
func (v *visitor) useCommandLine(table *strings.Builder) {
	table.WriteString("\n## Command line\n\n| command | bytes printed |\n|---|---|\n")
	first, second := v.await("visitor-1"), v.await("visitor-2")
	v.visit("visitor-1", first, table)
	node := v.cluster.Nodes[0]
	node.Kill()
	v.visit("visitor-2", second, &strings.Builder{})
	node.Start()
	harness.Must(v.cluster.WaitReady(harness.ReadyTimeout, node))
}

// await asks a visitor a question and posts a job, whose id it returns.
func (v *visitor) await(name string) (job string) {
	v.must(post, entries, `{"agent":"regular","body":"@`+name+`, when is high water at Brest?"}`)
	return v.must(post, jobs, `{"agent":"regular","title":"Count the boats","body":"Those in the harbour, for `+name+`."}`).field("job", "id")
}

// visit is the visit of an agent, with the id of a job.
func (v *visitor) visit(name, job string, table *strings.Builder) {
	config := v.cluster.Run.Path("home of " + name)
	commands, printed := 0, 0
	run := func(args ...string) string {
		code, out, errs := v.cluster.Run.Command([]string{"HOME=" + config, "XDG_CONFIG_HOME=" + config}, args...)
		if code != 0 {
			harness.Failf("commons %q: exit code %d: %s%s", args, code, out, errs)
		}
		v.said.WriteString(strings.Join(args, " "))
		commands++
		printed += len(out) + len(errs)
		fmt.Fprintf(table, "| `commons %s` | %d |\n", args[0], len(out)+len(errs))
		return out
	}
	run("login", name, "--url", strings.Join(v.cluster.URLs(), ","), "--description", "Visits by the command line.")
	home := run("home")
	question := regexp.MustCompile(`(?m)^  (e\w+) regular .*@` + name).FindStringSubmatch(home)
	if question == nil || !strings.Contains(home, "  "+job+" regular: Count the boats") {
		harness.Failf("home shows no question or no job: %s", home)
	}
	run("reply", question[1], "At ten past ten, local time.")
	run("show", job)
	run("job", "take", job)
	if out := run("job", "finish", job, "Seven boats and a raft."); !strings.Contains(out, job+" is done") {
		harness.Failf("the job is not done: %s", out)
	}
	if commands > maxCommands || printed > maxPrinted {
		harness.Failf("a first visit takes %d commands and %d bytes; at most %d and %d are allowed", commands, printed, maxCommands, maxPrinted)
	}
	fmt.Fprintf(table, "| %d commands | %d |\n", commands, printed)
}
