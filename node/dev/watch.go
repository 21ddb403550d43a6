package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

// Times and limits of the watch.
const (
	pollEvery   = 500 * time.Millisecond
	pollTimeout = 2 * time.Second
	slowStart   = 20 * time.Second // after which a line names the members that are not ready
	maxAnswer   = 1 << 20          // bytes read of an answer
)

// state is a member's report about itself.
type state struct {
	up     bool
	ready  bool
	detail string // why it is not ready
	Role   string `json:"role"`
	Voter  bool   `json:"voter"`
}

// watch polls the members and prints what changes.
type watch struct {
	members []member
	out     *terminal
	look    string // the command that shows the cluster to an operator

	started   time.Time
	announced bool // that the cluster is ready
	warned    bool // that it takes long
	last      []state
	leader    string
}

func newWatch(members []member, out *terminal, look string) *watch {
	return &watch{members: members, out: out, look: look, started: time.Now(), last: make([]state, len(members))}
}

func (w *watch) run(ctx context.Context) {
	client := &http.Client{Timeout: pollTimeout}
	defer client.CloseIdleConnections()
	for loop.Pause(ctx, pollEvery) {
		states := make([]state, len(w.members))
		for i, m := range w.members {
			states[i] = poll(ctx, client, m)
		}
		if ctx.Err() == nil {
			w.compare(states)
		}
	}
}

func poll(ctx context.Context, client *http.Client, m member) (s state) {
	code, body, err := get(ctx, client, m, "/readyz")
	if err != nil {
		return s
	}
	s.up, s.ready = true, code == http.StatusOK
	s.detail = strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; ")
	if code, body, err = get(ctx, client, m, "/status"); err == nil && code == http.StatusOK {
		// Anything but a status leaves the role empty.
		_ = json.Unmarshal(body, &s)
	}
	return s
}

func get(ctx context.Context, client *http.Client, m member, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+path, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, body, err
}

// compare prints the differences between the last states and these.
func (w *watch) compare(states []state) {
	for i, s := range states {
		switch last := w.last[i]; {
		case s.ready && !last.ready:
			w.out.printf("%s is ready", w.members[i].name)
		case s.up && !s.ready && last.ready:
			w.out.printf("%s is not ready: %s", w.members[i].name, s.detail)
		case !s.up && last.up:
			w.out.printf("%s is gone", w.members[i].name)
		}
	}
	w.last = states
	if leader := w.leaderOf(states); leader != w.leader {
		w.leader = leader
		if leader == "" {
			w.out.printf("there is no leader")
		} else {
			w.out.printf("the leader is %s", leader)
		}
	}
	w.announce(states)
}

// leaderOf returns the name of the member that leads. It returns "" without a leader, or if
// a former one has not noticed yet that another leads.
func (w *watch) leaderOf(states []state) (leader string) {
	for i, s := range states {
		switch {
		case s.Role != "leader":
		case leader != "":
			return ""
		default:
			leader = w.members[i].name
		}
	}
	return leader
}

// announce prints once that the cluster is ready, or that it takes long. Nodes that joined a first
// one, as with the demo, are ready before they vote; only with three votes may one of them fail.
func (w *watch) announce(states []state) {
	if w.announced {
		return
	}
	if !slices.ContainsFunc(states, func(s state) bool { return !s.ready || !s.Voter }) {
		w.announced = true
		w.out.block(w.welcome())
		return
	}
	if !w.warned && time.Since(w.started) > slowStart {
		w.warned = true
		for i, s := range states {
			if !s.ready || !s.Voter {
				w.out.printf("still waiting for %s (%s); see %s", w.members[i].name, s.detail, w.members[i].logPath)
			}
		}
	}
}

// welcome returns the text for people when the cluster is ready.
func (w *watch) welcome() string {
	var b strings.Builder
	b.WriteString("\nThe cluster is ready. Every node takes every call:\n")
	for _, m := range w.members {
		fmt.Fprintf(&b, "  %s  http://%s\n", m.name, m.http)
	}
	fmt.Fprintf(&b, `
Publish an entry:
  curl -s http://%s/api/entries -d 'agent=me' -d 'body=Hello from my first agent'
List the newest ones, from another node:
  curl -s 'http://%s/api/entries?limit=5'
Look at the cluster, as its operator does:
  %s
More is at http://%s/docs; the nodes' logs are in %s.
Ctrl-C stops all nodes.

`, w.members[0].http, w.members[len(w.members)-1].http, w.look, w.members[0].http, filepath.Dir(w.members[0].logPath))
	return b.String()
}

var (
	levelOf = regexp.MustCompile(`(?:^|\s)level=(\w+)`)
	partOf  = regexp.MustCompile(`\spart=\w+`)
)

// isImportant picks the lines of a log that people should see at once: warnings and
// errors of the node, and anything that is not a log line, such as a panic. Warnings
// and errors of its parts, above all of Raft, stay in the file: they warn of every
// election, and the leader is shown anyway.
func isImportant(line string) bool {
	level := levelOf.FindStringSubmatch(line)
	return len(level) == 0 || level[1] != "INFO" && level[1] != "DEBUG" && !partOf.MatchString(line)
}
