package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

var (
	three = []string{"node1", "node2", "node3"}
	five  = []string{"node1", "node2", "node3", "node4", "node5"}
)

// comeUp starts the cluster and publishes through the balancer.
func comeUp(p *project) {
	start := time.Now()
	p.up("up", "--detach")
	p.balanced(harness.ReadyTimeout)
	fmt.Printf("   ready behind the balancer after %v\n", time.Since(start).Round(time.Millisecond))
	p.waitReady(harness.ReadyTimeout, three...)
	for _, path := range []string{"/metrics", "/metrics/", "/metrics//", "/metrics///?x", "//metrics", "/./metrics", "/%6detrics"} {
		if err := p.get(p.url+path, nil, http.StatusNotFound); err != nil {
			harness.Failf("measurements are not for everybody: %w", err)
		}
	}
	p.load.start()
	harness.Must(p.load.WaitForMore(enoughWrites))
}

// balanced waits until the balancer reaches a node that is ready.
func (p *project) balanced(timeout time.Duration) {
	harness.Must(p.eventually(timeout, func() error {
		return p.get(p.url+"/readyz", nil, http.StatusOK)
	}))
}

// killLeader kills the leader's container. Only what was under way there may be
// lost, and only until it is sent again.
func killLeader(p *project) {
	leader, others := p.leader(three...)
	harness.Got(p.onContainer(leader, "kill", "--signal", "KILL"))
	harness.Must(p.load.WaitForMore(enoughWrites))
	next, _ := p.leader(others...)
	fmt.Printf("   %s was killed, %s leads\n", leader, next)
	harness.Got(p.onContainer(leader, "start"))
	p.settled(three...)
	p.load.cutShort(writers)
}

// settled waits until the nodes are ready and the service is normal.
func (p *project) settled(nodes ...string) {
	p.waitReady(harness.ReadyTimeout, nodes...)
	harness.Must(p.load.WaitForMore(enoughWrites))
}

// pauseLeader and pauseFollower stop a node without notice: the others continue, and the
// node keeps its vote.
func pauseLeader(p *project) {
	leader, others := p.leader(three...)
	pause(p, leader, others[0])
}

func pauseFollower(p *project) {
	_, others := p.leader(three...)
	pause(p, others[0], others[1])
}

// maxGap is the longest that a client may wait while a node is paused. It is shorter
// than the pause, so that a call that hangs for all of it is noticed.
const maxGap = 20 * time.Second

// pause pauses a node for a time that clients must not notice: no read fails, no
// client waits longer than maxGap, and the only writes that fail, until they are sent
// again, are those that the node had.
func pause(p *project, paused, witness string) {
	p.load.cutShort(0)
	p.load.withoutGap(maxGap)
	harness.Got(p.onContainer(paused, "pause"))
	var few error
	until := time.Now().Add(p.pause)
	err := p.eventually(p.pause+harness.ReadyTimeout, func() error {
		s, err := p.status(witness)
		if err == nil && len(s.Voters) != len(three) {
			few = fmt.Errorf("%s counts the voters %v", witness, s.Voters)
		}
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("%v left of the pause", left)
		}
		return err
	})
	err = errors.Join(err, few, p.load.WaitForMore(enoughWrites))
	_, unpauseErr := p.onContainer(paused, "unpause")
	harness.Must(errors.Join(err, unpauseErr))
	p.settled(three...)
	p.load.cutShort(writers)
	p.load.withoutGap(maxGap)
}

// restartEach restarts one node after the other. No client may notice.
func restartEach(p *project) {
	p.follow("Restart or upgrade")
	p.settled(three...)
	p.load.cutShort(0)
}

// diskReplaced is the node whose disk the manual replaces.
const diskReplaced = "node2"

// replaceDisk takes a node's data away: it has to come back under a new server
// id, and take the place of the old one.
func replaceDisk(p *project) {
	old := harness.Got(p.status(diskReplaced))
	start := time.Now()
	p.follow("Replace a disk")
	p.waitReady(harness.ReplaceTimeout, three...)
	now := harness.Got(p.status(diskReplaced))
	if now.Node == old.Node || slices.Contains(now.Voters, old.Node) {
		harness.Failf("%s lost its disk; it is %s now, and the voters are %v", old.Node, now.Node, now.Voters)
	}
	fmt.Printf("   %s took the place of %s after %v\n", now.Node, old.Node, time.Since(start).Round(time.Millisecond))
	harness.Must(p.load.WaitForMore(enoughWrites))
	p.load.cutShort(0)
}

// recreateAll stops every container cleanly and makes new ones in another order, so that
// addresses change hands. No client publishes meanwhile: none could.
func recreateAll(p *project) {
	p.load.Stop()
	harness.Must(p.load.Failed())
	before := p.addresses(three)
	p.endAll()
	p.up("down")
	start := time.Now()
	for _, service := range []string{"node3", "node1", "node2", "balancer"} {
		p.up("up", "--detach", "--no-deps", service)
	}
	p.balanced(harness.ReadyTimeout)
	p.waitReady(harness.ReadyTimeout, three...)
	took := time.Since(start).Round(time.Millisecond)
	after := p.addresses(three)
	if slices.Equal(before, after) {
		harness.Failf("the addresses stayed %v: nothing was tried", after)
	}
	fmt.Printf("   %v became %v; all ready after %v\n", before, after, took)
	p.load.start()
	harness.Must(p.load.WaitForMore(enoughWrites))
	p.load.cutShort(0)
}

// endAll stops every container; the nodes must end with code 0.
func (p *project) endAll() {
	p.up("stop")
	for _, node := range three {
		code := harness.Got(p.onContainer(node, "inspect", "--format", "{{.State.ExitCode}}"))
		if code != "0" {
			harness.Failf("%s ended with code %s", node, code)
		}
	}
}

func (p *project) addresses(nodes []string) []string {
	list := make([]string, 0, len(nodes))
	for _, node := range nodes {
		address := harness.Got(p.address(node))
		list = append(list, address)
	}
	return list
}

// growToFive adds two nodes under load, and in a long run restarts all five.
func growToFive(p *project) {
	start := time.Now()
	p.follow("Grow to five")
	p.waitReady(harness.ReplaceTimeout, five...)
	fmt.Printf("   five voters after %v\n", time.Since(start).Round(time.Millisecond))
	if p.pause == longPause {
		p.follow("Restart or upgrade")
		p.settled(five...)
	}
	harness.Must(p.load.WaitForMore(enoughWrites))
	p.load.cutShort(0)
}

// verifyAll compares every node with what was acknowledged.
func verifyAll(p *project) {
	p.load.Stop()
	harness.Must(p.load.Failed())
	p.load.verifyOn(five...)
}

// shrink takes two nodes away again.
func shrink(p *project) {
	p.follow("Shrink")
	p.waitReady(harness.ReplaceTimeout, three...)
}
