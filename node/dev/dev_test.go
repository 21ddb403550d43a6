package dev

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node"
)

// fakeNode, when set in the environment, makes this test binary stand in for
// the commons binary: "ok", "stubborn" (ignores SIGTERM), "early" (dies of it),
// "rejects" or "left" (the third node has left its cluster).
const fakeNode = "COMMONS_DEV_FAKE_NODE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(fakeNode); kind != "" {
		os.Exit(runFakeNode(kind, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func runFakeNode(kind string, args []string) int {
	if args[0] != "serve" {
		return 3
	}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	values := map[string]*string{}
	for _, name := range []string{
		"node-id", "data-dir", "http-addr", "cluster-addr", "gossip-addr", "bootstrap-expect",
		"join", "secret-file", "write-rate", "write-burst", "log-format", "log-level",
	} {
		values[name] = flags.String(name, "", "")
	}
	if err := flags.Parse(args[1:]); err != nil || kind == "rejects" {
		fmt.Fprintln(os.Stderr, "fake: bad configuration")
		return exitConfig
	}
	if kind == "left" && *values["node-id"] == "n3" {
		return exitLeft
	}
	fmt.Fprintln(os.Stderr, "time=now level=INFO msg=args args="+strings.Join(args, " ")+" leak="+os.Getenv("COMMONS_HTTP_ADVERTISE"))
	fmt.Fprintln(os.Stderr, `time=now level=WARN msg="something odd"`)
	id := *values["node-id"]
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok leader") })
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		status := map[string]any{"role": map[bool]string{true: "leader", false: "follower"}[id == "n1"], "ready": true, "voter": true}
		if err := json.NewEncoder(w).Encode(status); err != nil {
			panic(err)
		}
	})
	listener, err := net.Listen("tcp", *values["http-addr"])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	end := make(chan os.Signal, 1)
	if kind != "early" {
		signal.Notify(end, syscall.SIGTERM)
	}
	go func() { fmt.Fprintln(os.Stderr, (&http.Server{Handler: mux}).Serve(listener)) }()
	<-end
	if kind == "stubborn" {
		select {}
	}
	fmt.Fprintln(os.Stderr, "time=now level=WARN msg=goodbye")
	return 0
}

// running is a `dev` that runs.
type running struct {
	options Options
	out     *await.Buffer
	cancel  func()
	ended   chan error
}

func start(t *testing.T, kind string) *running {
	t.Helper()
	out := &await.Buffer{}
	ctx, end := context.WithCancelCause(t.Context())
	cancel := func() { end(errors.New("signal: interrupt")) } // as signal.NotifyContext does
	c := &running{out: out, cancel: cancel, ended: make(chan error, 1), options: Options{
		Binary: os.Args[0], Env: []string{fakeNode + "=" + kind}, DataDir: filepath.Join(t.TempDir(), "dev"), Out: out,
		HTTPPort: freePorts(t), ClusterPort: freePorts(t), GossipPort: freePorts(t),
	}}
	if kind == "stubborn" {
		c.options.StopTimeout = 100 * time.Millisecond
	}
	go func() { c.ended <- Run(ctx, c.options) }()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("terminal:\n%s", out)
		}
	})
	return c
}

// wait waits until the terminal shows every pattern, and returns the last match.
func (c *running) wait(t *testing.T, patterns ...string) []string {
	t.Helper()
	var match []string
	for _, p := range patterns {
		re := regexp.MustCompile(p)
		await.Eventually(t, fmt.Sprintf("the terminal shows %q", p), func() bool {
			match = re.FindStringSubmatch(c.out.String())
			return match != nil
		})
	}
	return match
}

// stop ends the cluster as Ctrl-C does.
func (c *running) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	must.Do(t, c.end(t))
}

// end waits for the end of Run and returns its error.
func (c *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(await.Patience):
		t.Fatal("the cluster does not end")
		return nil
	}
}

func (c *running) pids(t *testing.T) []int {
	t.Helper()
	var pids []int
	for i := range nodeCount {
		pid := must.Get(strconv.Atoi(c.wait(t, fmt.Sprintf(`n%d runs as process (\d+)`, i+1))[1]))(t)
		pids = append(pids, pid)
	}
	return pids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func checkDead(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		check.Equal(t, alive(pid), false, "process %d lives on", pid)
	}
}

// freePorts returns the first of nodeCount successive ports free for TCP and UDP.
func freePorts(t *testing.T) int {
	t.Helper()
	return must.Get(freeport.Take(nodeCount))(t)
}

func TestClusterComesUpAndStops(t *testing.T) {
	t.Setenv("COMMONS_HTTP_ADVERTISE", "of-the-parent")
	c := start(t, "ok")
	c.wait(
		t, "n1 is ready", "n2 is ready", "n3 is ready", "the leader is n1",
		"n1  http://"+local(c.options.HTTPPort), "n3  http://"+local(c.options.HTTPPort+2),
		"curl -s http://"+local(c.options.HTTPPort)+"/api/entries -d", "The cluster is ready", `\n  go run \. status --cluster-addr `+local(c.options.ClusterPort)+" --secret-file ",
		`(?m)^n2\| time=now level=WARN msg="something odd"$`,
	)
	pids := c.pids(t)
	c.stop(t)
	checkDead(t, pids)
	if out := c.out.String(); strings.Contains(out, "level=INFO") || !strings.Contains(out, "n3| time=now level=WARN msg=goodbye") || strings.Contains(out, "killed") {
		t.Error("the terminal shows what it should not, or not what it should")
	}
	log := must.Get(os.ReadFile(filepath.Join(c.options.DataDir, "n2.log")))(t)
	for _, want := range []string{
		"level=INFO msg=args", "--node-id n2", "--write-rate 0", "--bootstrap-expect 3", "--http-addr " + local(c.options.HTTPPort+1),
		fmt.Sprintf("--join %s,%s,%s", local(c.options.GossipPort), local(c.options.GossipPort+1), local(c.options.GossipPort+2)),
	} {
		check.Contains(t, string(log), want, "the log")
	}
	check.Lacks(t, string(log), "leak=of-the-parent", "the log of the nodes")
}

func TestAKilledNodeComesBack(t *testing.T) {
	c := start(t, "ok")
	c.wait(t, "The cluster is ready")
	pid := c.pids(t)[1]
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	c.wait(t, `n2 died \(signal: killed\); it starts again in`)
	await.Eventually(t, "n2 is started again", func() bool { return strings.Count(c.out.String(), "n2 runs as process") == 2 })
	c.stop(t)
}

func TestAStubbornNodeIsKilled(t *testing.T) {
	c := start(t, "stubborn")
	c.wait(t, "The cluster is ready")
	pids := c.pids(t)
	c.stop(t)
	c.wait(t, "n1\\| did not end within 100ms and was killed")
	checkDead(t, pids)
}

// TestANodeThatHasJustBegun dies of the signal that asks it to end: that is no failure.
func TestANodeThatHasJustBegun(t *testing.T) {
	c := start(t, "early")
	c.wait(t, "The cluster is ready")
	c.stop(t)
	check.Lacks(t, c.out.String(), "signal: terminated", "the terminal")
}

func TestARejectedConfigurationEndsEverything(t *testing.T) {
	c := start(t, "rejects")
	err := c.end(t)
	check.ErrText(t, err, "rejects its configuration", "error")
	check.Contains(t, c.out.String(), "| fake: bad configuration", "the terminal")
}

func TestANodeThatLeftStaysAway(t *testing.T) {
	c := start(t, "left")
	c.wait(t, "n3 has left its cluster and is not started again")
	c.stop(t)
	check.Lacks(t, c.out.String(), "n3 died", "the terminal after a node has left")
}

func TestABinaryThatCannotBeStarted(t *testing.T) {
	err := Run(t.Context(), Options{
		Binary: filepath.Join(t.TempDir(), "none"), DataDir: t.TempDir(), Out: &await.Buffer{},
		HTTPPort: freePorts(t), ClusterPort: freePorts(t), GossipPort: freePorts(t),
	})
	check.Err(t, err, os.ErrNotExist, "error")
}

func TestBusyPortsAreAllListed(t *testing.T) {
	o := Options{HTTPPort: freePorts(t), ClusterPort: freePorts(t), GossipPort: freePorts(t), DataDir: t.TempDir(), Out: &await.Buffer{}}
	var config net.ListenConfig
	web := must.Get(config.Listen(t.Context(), "tcp", local(o.HTTPPort+1)))(t)
	defer web.Close()
	gossip, err := config.ListenPacket(t.Context(), "udp", local(o.GossipPort+2))
	must.Do(t, err)
	defer gossip.Close()
	err = Run(t.Context(), o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		local(o.HTTPPort+1) + " (n2 HTTP): ", local(o.GossipPort+2) + " (n3 gossip, UDP): ", "address already in use", "--http-port",
	} {
		check.Contains(t, err.Error(), want, "the error")
	}
	check.Equal(t, strings.Count(err.Error(), "\n  - "), 2, "addresses listed in %v", err)
}

func TestIsImportant(t *testing.T) {
	for line, want := range map[string]bool{
		`time=x level=INFO msg=hello`:                                        false,
		`time=x level=DEBUG msg="a level=ERROR quoted"`:                      false,
		`time=x level=WARN msg="vote failed" term=1`:                         true,
		`time=x level=ERROR msg=other`:                                       true,
		`time=x level=WARN msg="heartbeat timeout" node=n1 part=raft term=2`: false,
		`panic: runtime error`:                                               true,
	} {
		check.Equal(t, isImportant(line), want, "%s: shown", line)
	}
}

// TestChildrenDieWithTheirParent runs a `dev` in a process of its own and kills it.
func TestChildrenDieWithTheirParent(t *testing.T) {
	if os.Getenv("DEV_TEST_PARENT") != "" {
		c := start(t, "ok")
		c.wait(t, "The cluster is ready")
		fmt.Println("PIDS", c.pids(t))
		select {}
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("only Linux kills children with their parent")
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	parent.Env = append(os.Environ(), "DEV_TEST_PARENT=1")
	out := &await.Buffer{}
	parent.Stdout, parent.Stderr = out, out
	must.Do(t, parent.Start())
	c := &running{out: out}
	match := c.wait(t, `PIDS \[(\d+) (\d+) (\d+)\]`)
	must.Do(t, parent.Process.Kill())
	// The children hold the parent's pipes only until they die.
	_ = parent.Wait()
	for _, text := range match[1:] {
		pid := must.Get(strconv.Atoi(text))(t)
		await.Eventually(t, fmt.Sprintf("process %d ends with its parent", pid), func() bool { return !alive(pid) || zombie(pid) })
	}
}

// zombie reports whether a process is dead and its parent has not waited for it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestDemo holds that the demo fills a new cluster, with entries of two weeks and jobs and requests
// in each state, and no other cluster.
func TestDemo(t *testing.T) {
	o := Options{DataDir: t.TempDir(), HTTPPort: freePorts(t), ClusterPort: freePorts(t), GossipPort: freePorts(t)}
	m, secret := o.members()[0], filepath.Join(o.DataDir, "secret")
	must.Get(cluster.KeepSecretFile(secret))(t)
	must.Do(t, fillDemo(t.Context(), m, secret))
	n := must.Get(node.Start(t.Context(), demoConfig(m, secret, nil), slog.New(slog.DiscardHandler)))(t)
	defer n.Kill()
	c := must.Get(client.New(client.Config{URLs: []string{"http://" + m.http}}))(t)
	entries := must.Get(c.EntryPage(t.Context(), client.EntryQuery{Limit: 100}))(t).Items
	channels := map[string]bool{}
	for _, e := range entries {
		channels[e.Channel] = true
	}
	check.Equal(t, len(channels), 6, "channels")
	check.Equal(t, len(entries) >= 55 && len(entries) <= 65, true, "about 60 entries, and not %d", len(entries))
	age := func(e client.Entry) time.Duration { return time.Since(time.UnixMilli(e.CreatedAt)) }
	if newest, oldest := age(entries[0]), age(entries[len(entries)-1]); newest > 3*time.Hour || oldest < 13*24*time.Hour || oldest > 15*24*time.Hour {
		t.Errorf("the newest entry is %v old, the oldest %v", newest, oldest)
	}
	for list, states := range map[string][]string{"jobs": {"open", "claimed", "done", "closed"}, "human-requests": {"open", "answered", "closed"}} {
		for _, status := range states {
			var some struct{ Jobs, Requests []client.Entry }
			must.Do(t, c.Do(t.Context(), http.MethodGet, "/api/"+list+"?status="+status, nil, &some))
			check.Equal(t, len(some.Jobs)+len(some.Requests) > 0, true, "%s %s", status, list)
		}
	}
	check.Contains(t, fillDemo(t.Context(), m, secret).Error(), "--demo fills a new cluster", "a cluster that has data")
}

func TestClusterIsReadyWithThreeVotes(t *testing.T) {
	t.Parallel()
	out := &await.Buffer{}
	w := newWatch(Options{HTTPPort: 8080}.members(), &terminal{out: out}, "status")
	states := []state{
		{up: true, ready: true, Role: "leader", Voter: true}, {up: true, ready: true, Voter: true}, {up: true, ready: true},
	}
	w.compare(slices.Clone(states))
	if shown := out.String(); !strings.Contains(shown, "n3 is ready") || strings.Contains(shown, "The cluster is ready") {
		t.Errorf("without the vote of n3, the terminal shows:\n%s", shown)
	}
	states[2].Voter = true
	w.compare(states)
	check.Contains(t, out.String(), "The cluster is ready", "the terminal with three votes")
}

// TestOperatorsCommand: a cluster that `go run` started is looked at by `go run`, also from the build cache.
func TestOperatorsCommand(t *testing.T) {
	for binary, want := range map[string]string{
		"/usr/bin/commons":                               "/usr/bin/commons status",
		"/tmp/go-build123/b001/exe/commons":              "go run . status",
		"/cache/a6/" + strings.Repeat("a6", 32) + "-d/x": "go run . status",
	} {
		check.Contains(t, Options{Binary: binary}.operator(member{}, "s"), want, "the command of %s", binary)
	}
}
