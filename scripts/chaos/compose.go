package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The scenarios with everything that the manual does with the containers of the compose
// file. All clients call the balancer.
const (
	behindBalancer     = "behind the balancer"
	behindBalancerLong = "behind the balancer with long pauses"
	balancedPause      = 200 * time.Millisecond // of each client: their connections are all new
	balancedLeast      = 10
	reloadBalancer     = "Put a node into or out of HAProxy" // without clients: calls may get 503 meanwhile
)

// balancedPlan is the part of these scenarios in which clients work. A pause is longer than
// a client may wait, and than gossip needs to miss a node.
func balancedPlan(pause time.Duration, grown ...event) []event {
	return inTurn(slices.Concat([]event{
		{For: 2 * time.Second, Fault: "kill", Target: leader},
		{For: pause, Fault: "pause", Target: leader},
		{For: pause, Fault: "pause", Target: follower},
		{For: time.Second, Fault: "Look", Target: cluster},
		{For: time.Second, Fault: "Move the leadership", Target: cluster},
		{For: time.Second, Fault: "Restart or upgrade", Target: cluster},
		{For: time.Second, Fault: "Roll an upgrade back", Target: cluster},
		{For: time.Second, Fault: "Replace a machine", Target: cluster},
		{For: time.Second, Fault: "Recreate", Target: cluster},
		{For: time.Second, Fault: "Add a node", Target: cluster},
	}, grown, []event{
		{For: time.Second, Fault: "Collect measurements", Target: cluster},
		{For: time.Second, Fault: "Get a debug bundle", Target: cluster},
		{For: time.Second, Fault: "Change the secret", Target: cluster},
	})...)
}

// afterwardsBalanced are the events of these scenarios when the clients have ended.
func afterwardsBalanced() []event {
	return inTurn(
		event{Fault: "Remove a node", Target: cluster},
		event{Fault: reloadBalancer, Target: cluster},
		event{Fault: "Back up", Target: cluster},
		event{Fault: "Try a restore", Target: cluster},
		event{Fault: "Restore a backup", Target: cluster},
		event{Fault: "Go on with one node", Target: cluster},
	)
}

// containerFaults are the faults of containers, and the work of operators on a project of
// Compose. The names of procedures are those of the manual, or capitalized: those that are not here
// are followed, and no more.
var containerFaults = map[string]fault{
	"kill":  {process: true, begin: each((*testbed).killContainer), end: each(repairContainer)},
	"pause": {process: true, begin: each((*testbed).pauseContainer), end: each(repairContainer)},

	"Roll an upgrade back": onProject((*testbed).rollBack),
	"Replace a machine":    onProject((*testbed).replaceDisk),
	"Recreate":             {interrupts: true, begin: ofProject((*testbed).recreate)},
	"Collect measurements": onProject((*testbed).collect),
	"Add a node":           resizing(following("Add a node")),
	"Remove a node":        resizing(following("Remove a node")),
	"Back up":              onProject(func(b *testbed) { b.containers.follow("Back up"); b.containers.cron() }),
	"Restore a backup":     keeping("Restore a backup"),
	"Go on with one node":  keeping("Go on with one node"),
}

func ofProject(do func(b *testbed)) func(*testbed, []*harness.Node) {
	return func(b *testbed, _ []*harness.Node) {
		do(b)
		b.adopt()
	}
}

func onProject(do func(b *testbed)) fault { return fault{begin: ofProject(do)} }

func following(title string) fault {
	return onProject(func(b *testbed) { b.containers.follow(title) })
}

func resizing(f fault) fault { f.resizes = true; return f }

// keeping follows a procedure after which the nodes list the same as before.
func keeping(title string) fault {
	return resizing(onProject(func(b *testbed) {
		b.containers.follow(title)
		b.adopt()
		b.settle()
		for _, n := range b.nodes {
			got := harness.Got(harness.Collect(n.Client(0).Strong().Entries(b.run.Ctx, client.EntryQuery{Limit: 100})))
			slices.Reverse(got)
			if want := b.kept; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				harness.Failf("%s lists %d entries, and not the %d from before", n.Name, len(got), len(want))
			}
		}
	}))
}

// rollBack takes the image's name away, as if a new one had it, and checks that each node runs the
// former image afterwards, which is the same program here.
func (b *testbed) rollBack() {
	p := b.containers
	harness.Got(p.docker("tag", p.image, p.formerImage()))
	harness.Got(p.docker("image", "rm", p.image))
	p.follow("Roll an upgrade back")
	p.follow("Restart or upgrade")
	former := harness.Got(p.docker("image", "inspect", "--format", "{{.Id}}", p.formerImage()))
	for _, n := range b.nodes {
		if image := harness.Got(p.on(n.Name, "inspect", "--format", "{{.Image}}")); image != former {
			harness.Failf("%s runs image %s, and not the former one, %s", n.Name, image, former)
		}
	}
}

// replaceDisk checks that the manual's node comes back as a new server, which takes the
// place of the old one.
func (b *testbed) replaceDisk() {
	n := b.named([]string{"node2"})[0]
	old := harness.Got(n.Status())
	b.containers.follow("Replace a machine")
	harness.Must(b.containers.find(n))
	b.settle()
	if now := harness.Got(n.Status()); now.Node == old.Node || slices.Contains(now.Voters, old.Node) {
		harness.Failf("%s lost its disk; it is %s now, and the voters are %v", old.Node, now.Node, now.Voters)
	}
}

// recreate stops every container cleanly and makes new ones in another order, so that
// addresses change hands.
func (b *testbed) recreate() {
	p := b.containers
	addresses := func() (all []string) {
		for _, n := range b.nodes {
			all = append(all, harness.Got(p.address(n.Name)))
		}
		return all
	}
	before := addresses()
	p.up("stop")
	for _, n := range b.nodes {
		if code := harness.Got(p.on(n.Name, "inspect", "--format", "{{.State.ExitCode}}")); code != "0" {
			harness.Failf("%s ended with code %s", n.Name, code)
		}
	}
	p.up("down")
	for _, service := range []string{"node3", "node1", "node2", balancerService} {
		p.up("up", "--detach", "--no-deps", service)
	}
	if after := addresses(); slices.Equal(before, after) {
		harness.Failf("the addresses are still %v: the scenario did not test another order", after)
	}
}

// collect starts Prometheus: it has to find every node and the balancer, and to evaluate
// every rule, and no rule may fire with healthy nodes.
func (b *testbed) collect() {
	p := b.containers
	if os.Getenv("PROMETHEUS_IMAGE") == "" {
		fmt.Println("   left out: there is no image of Prometheus here")
		return
	}
	p.up("--profile", "five", "--profile", "observability", "up", "--detach", "prometheus")
	prometheus := b.run.Remote("prometheus", p.prometheus, "", "")
	const found = `up == 1 and on (instance) (commons_ready == 1 or haproxy_frontend_http_requests_total{proxy="public"} > 0)`
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		var answer struct {
			Data struct{ Result []struct{} }
		}
		err := prometheus.Do(http.MethodGet, "/api/v1/query?"+url.Values{"query": {found}}.Encode(), nil, &answer)
		if got, want := len(answer.Data.Result), len(b.nodes)+1; err == nil && got != want {
			err = fmt.Errorf("%s has %d samples, want %d", found, got, want)
		}
		return err
	}))
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		rules, err := prometheus.Raw(http.MethodGet, "/api/v1/rules", "", http.StatusOK)
		if err != nil {
			return err
		}
		text := string(rules.Body)
		if alerts := strings.Count(text, `"alerts":`); alerts == 0 || strings.Count(text, `"health":"ok"`) != alerts || strings.Contains(text, `"state":"firing"`) {
			return fmt.Errorf("of %d alerts, not all are evaluated, or one fires: %s", alerts, text)
		}
		return nil
	}))
}
