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
func comeUp(p *project) error {
	start := time.Now()
	if err := p.up("up", "--detach"); err != nil {
		return err
	}
	if err := p.balanced(harness.ReadyTimeout); err != nil {
		return err
	}
	fmt.Printf("   ready behind the balancer after %v\n", time.Since(start).Round(time.Millisecond))
	if err := p.waitReady(harness.ReadyTimeout, three...); err != nil {
		return err
	}
	for _, path := range []string{"/metrics", "/metrics/", "/metrics//", "/metrics///?x", "//metrics", "/./metrics", "/%6detrics"} {
		if err := p.get(p.url+path, nil, http.StatusNotFound); err != nil {
			return fmt.Errorf("measurements are not for everybody: %w", err)
		}
	}
	p.load.start()
	return p.load.WaitForMore(enoughWrites)
}

// balanced waits until the balancer reaches a node that is ready.
func (p *project) balanced(timeout time.Duration) error {
	return p.eventually(timeout, func() error {
		return p.get(p.url+"/readyz", nil, http.StatusOK)
	})
}

// killLeader kills the leader's container. Only what was under way there may be
// lost, and only until it is sent again.
func killLeader(p *project) error {
	leader, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	if _, err := p.onContainer(leader, "kill", "--signal", "KILL"); err != nil {
		return err
	}
	if err := p.load.WaitForMore(enoughWrites); err != nil {
		return err
	}
	next, _, err := p.leader(others...)
	if err != nil {
		return err
	}
	fmt.Printf("   %s was killed, %s leads\n", leader, next)
	if _, err := p.onContainer(leader, "start"); err != nil {
		return err
	}
	return errors.Join(p.settled(three...), p.load.cutShort(writers))
}

// settled waits until the nodes are ready and the service is normal.
func (p *project) settled(nodes ...string) error {
	if err := p.waitReady(harness.ReadyTimeout, nodes...); err != nil {
		return err
	}
	return p.load.WaitForMore(enoughWrites)
}

// pauseLeader and pauseFollower stop a node without a word: the others go on, and
// nobody takes its vote away.
func pauseLeader(p *project) error {
	leader, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	return pause(p, leader, others[0])
}

func pauseFollower(p *project) error {
	_, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	return pause(p, others[0], others[1])
}

// maxGap is the longest that a client may wait while a node is paused. It is shorter
// than the pause, so that a call that hangs for all of it is noticed.
const maxGap = 20 * time.Second

// pause pauses a node for a time that clients must not notice: no read fails, no
// client waits longer than maxGap, and of the writes only those are lost, until they
// are sent again, that the node had.
func pause(p *project, paused, witness string) error {
	if err := errors.Join(p.load.cutShort(0), p.load.withoutGap(maxGap)); err != nil {
		return err
	}
	if _, err := p.onContainer(paused, "pause"); err != nil {
		return err
	}
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
	if _, unpauseErr := p.onContainer(paused, "unpause"); unpauseErr != nil {
		return errors.Join(err, unpauseErr)
	}
	if err != nil {
		return err
	}
	return errors.Join(p.settled(three...), p.load.cutShort(writers), p.load.withoutGap(maxGap))
}

// restartEach restarts one node after the other. Nobody may notice.
func restartEach(p *project) error {
	if err := p.follow("Restart or upgrade"); err != nil {
		return err
	}
	return errors.Join(p.settled(three...), p.load.cutShort(0))
}

// diskReplaced is the node whose disk the manual replaces.
const diskReplaced = "node2"

// replaceDisk takes a node's data away: it has to come back under a new server
// id, and take the place of the old one.
func replaceDisk(p *project) error {
	old, err := p.status(diskReplaced)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := p.follow("Replace a disk"); err != nil {
		return err
	}
	if err := p.waitReady(harness.ReplaceTimeout, three...); err != nil {
		return err
	}
	now, err := p.status(diskReplaced)
	if err != nil {
		return err
	}
	if now.Node == old.Node || slices.Contains(now.Voters, old.Node) {
		return fmt.Errorf("%s lost its disk; it is %s now, and the voters are %v", old.Node, now.Node, now.Voters)
	}
	fmt.Printf("   %s took the place of %s after %v\n", now.Node, old.Node, time.Since(start).Round(time.Millisecond))
	return errors.Join(p.load.WaitForMore(enoughWrites), p.load.cutShort(0))
}

// recreateAll ends every container in good order and makes new ones in another
// one, so that addresses change hands. Nobody publishes meanwhile: nobody could.
func recreateAll(p *project) error {
	p.load.Stop()
	if err := p.load.Failed(); err != nil {
		return err
	}
	before, err := p.addresses(three)
	if err != nil {
		return err
	}
	if err := p.endAll(); err != nil {
		return err
	}
	if err := p.up("down"); err != nil {
		return err
	}
	start := time.Now()
	for _, service := range []string{"node3", "node1", "node2", "balancer"} {
		if err := p.up("up", "--detach", "--no-deps", service); err != nil {
			return err
		}
	}
	if err := errors.Join(p.balanced(harness.ReadyTimeout), p.waitReady(harness.ReadyTimeout, three...)); err != nil {
		return err
	}
	took := time.Since(start).Round(time.Millisecond)
	after, err := p.addresses(three)
	if err != nil {
		return err
	}
	if slices.Equal(before, after) {
		return fmt.Errorf("the addresses stayed %v: nothing was tried", after)
	}
	fmt.Printf("   %v became %v; all ready after %v\n", before, after, took)
	p.load.start()
	return errors.Join(p.load.WaitForMore(enoughWrites), p.load.cutShort(0))
}

// endAll stops every container; the nodes must end with code 0.
func (p *project) endAll() error {
	if err := p.up("stop"); err != nil {
		return err
	}
	for _, node := range three {
		code, err := p.onContainer(node, "inspect", "--format", "{{.State.ExitCode}}")
		if err != nil {
			return err
		}
		if code != "0" {
			return fmt.Errorf("%s ended with code %s", node, code)
		}
	}
	return nil
}

func (p *project) addresses(nodes []string) ([]string, error) {
	var list []string
	for _, node := range nodes {
		address, err := p.address(node)
		if err != nil {
			return nil, err
		}
		list = append(list, address)
	}
	return list, nil
}

// growToFive adds two nodes under load, and in a long run restarts all five.
func growToFive(p *project) error {
	start := time.Now()
	if err := p.follow("Grow to five"); err != nil {
		return err
	}
	if err := p.waitReady(harness.ReplaceTimeout, five...); err != nil {
		return err
	}
	fmt.Printf("   five voters after %v\n", time.Since(start).Round(time.Millisecond))
	if p.pause == longPause {
		if err := p.follow("Restart or upgrade"); err != nil {
			return err
		}
		if err := p.settled(five...); err != nil {
			return err
		}
	}
	return errors.Join(p.load.WaitForMore(enoughWrites), p.load.cutShort(0))
}

// verifyAll compares every node with what was acknowledged.
func verifyAll(p *project) error {
	p.load.Stop()
	if err := p.load.Failed(); err != nil {
		return err
	}
	return p.load.verifyOn(five...)
}

// shrink takes two nodes away again.
func shrink(p *project) error {
	if err := p.follow("Shrink"); err != nil {
		return err
	}
	return p.waitReady(harness.ReplaceTimeout, three...)
}
