package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

var (
	three = []string{"node1", "node2", "node3"}
	five  = []string{"node1", "node2", "node3", "node4", "node5"}
)

// comeUp starts the cluster and publishes through the balancer.
func comeUp(p *project, l *load) error {
	start := time.Now()
	if err := p.up("up", "--detach"); err != nil {
		return err
	}
	if err := p.balanced(readyTimeout); err != nil {
		return err
	}
	fmt.Printf("   ready behind the balancer after %v\n", time.Since(start).Round(time.Millisecond))
	if err := p.waitReady(readyTimeout, three...); err != nil {
		return err
	}
	for _, path := range []string{"/metrics", "/metrics/", "/metrics//", "/metrics///?x", "//metrics", "/./metrics", "/%6detrics"} {
		if err := call(p.ctx, http.MethodGet, p.url+path, nil, nil, http.StatusNotFound); err != nil {
			return fmt.Errorf("measurements are not for everybody: %w", err)
		}
	}
	l.start()
	return l.waitForMore()
}

// balanced waits until the balancer reaches a node that is ready.
func (p *project) balanced(timeout time.Duration) error {
	return p.eventually(timeout, func() error {
		return call(p.ctx, http.MethodGet, p.url+"/readyz", nil, nil, http.StatusOK)
	})
}

// killLeader kills the leader's container. Only what was under way there may be
// lost, and only until it is sent again.
func killLeader(p *project, l *load) error {
	leader, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	if _, err := p.onContainer(leader, "kill", "--signal", "KILL"); err != nil {
		return err
	}
	if err := l.waitForMore(); err != nil {
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
	return errors.Join(p.settled(l, three...), l.cutShort(writers))
}

// settled waits until the nodes are ready and the service is normal.
func (p *project) settled(l *load, nodes ...string) error {
	if err := p.waitReady(readyTimeout, nodes...); err != nil {
		return err
	}
	return l.waitForMore()
}

// pauseLeader and pauseFollower stop a node without a word: the others go on, and
// nobody takes its vote away.
func pauseLeader(p *project, l *load) error {
	leader, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	return pause(p, l, leader, others[0])
}

func pauseFollower(p *project, l *load) error {
	_, others, err := p.leader(three...)
	if err != nil {
		return err
	}
	return pause(p, l, others[0], others[1])
}

// maxGap is the longest that a client may wait while a node is paused. It is shorter
// than the pause, so that a call that hangs for all of it is noticed.
const maxGap = 20 * time.Second

// pause pauses a node for a time that clients must not notice: no read fails, no
// client waits longer than maxGap, and of the writes only those are lost, until they
// are sent again, that the node had.
func pause(p *project, l *load, paused, witness string) error {
	if err := errors.Join(l.cutShort(0), l.withoutGap(maxGap)); err != nil {
		return err
	}
	if _, err := p.onContainer(paused, "pause"); err != nil {
		return err
	}
	var few error
	until := time.Now().Add(p.pause)
	err := p.eventually(p.pause+readyTimeout, func() error {
		s, err := p.status(witness)
		if err == nil && len(s.Voters) != len(three) {
			few = fmt.Errorf("%s counts the voters %v", witness, s.Voters)
		}
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("%v left of the pause", left)
		}
		return err
	})
	err = errors.Join(err, few, l.waitForMore())
	if _, unpauseErr := p.onContainer(paused, "unpause"); unpauseErr != nil {
		return errors.Join(err, unpauseErr)
	}
	if err != nil {
		return err
	}
	return errors.Join(p.settled(l, three...), l.cutShort(writers), l.withoutGap(maxGap))
}

// restartEach restarts one node after the other. Nobody may notice.
func restartEach(p *project, l *load) error {
	if err := p.follow("Restart or upgrade"); err != nil {
		return err
	}
	return errors.Join(p.settled(l, three...), l.cutShort(0))
}

// diskReplaced is the node whose disk the manual replaces.
const diskReplaced = "node2"

// replaceDisk takes a node's data away: it has to come back under a new server
// id, and take the place of the old one.
func replaceDisk(p *project, l *load) error {
	old, err := p.status(diskReplaced)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := p.follow("Replace a disk"); err != nil {
		return err
	}
	if err := p.waitReady(replaceTimeout, three...); err != nil {
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
	return errors.Join(l.waitForMore(), l.cutShort(0))
}

// recreateAll ends every container in good order and makes new ones in another
// one, so that addresses change hands. Nobody publishes meanwhile: nobody could.
func recreateAll(p *project, l *load) error {
	l.stop()
	if err := l.failed(); err != nil {
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
	if err := errors.Join(p.balanced(readyTimeout), p.waitReady(readyTimeout, three...)); err != nil {
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
	l.start()
	return errors.Join(l.waitForMore(), l.cutShort(0))
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
func growToFive(p *project, l *load) error {
	start := time.Now()
	if err := p.follow("Grow to five"); err != nil {
		return err
	}
	if err := p.waitReady(replaceTimeout, five...); err != nil {
		return err
	}
	fmt.Printf("   five voters after %v\n", time.Since(start).Round(time.Millisecond))
	if p.pause == longPause {
		if err := p.follow("Restart or upgrade"); err != nil {
			return err
		}
		if err := p.settled(l, five...); err != nil {
			return err
		}
	}
	return errors.Join(l.waitForMore(), l.cutShort(0))
}

// verifyAll compares every node with what was acknowledged.
func verifyAll(_ *project, l *load) error {
	l.stop()
	if err := l.failed(); err != nil {
		return err
	}
	return l.verifyOn(five...)
}

// verifyOn compares nodes with what was acknowledged.
func (l *load) verifyOn(nodes ...string) error {
	for _, node := range nodes {
		base, err := l.p.nodeURL(node)
		if err != nil {
			return err
		}
		if err := l.verify(base); err != nil {
			return fmt.Errorf("on %s: %w", node, err)
		}
	}
	fmt.Printf("   all %d publications are there, once, on each of %d nodes\n", l.count(), len(nodes))
	return nil
}

// shrink takes two nodes away again.
func shrink(p *project, _ *load) error {
	if err := p.follow("Shrink"); err != nil {
		return err
	}
	return p.waitReady(replaceTimeout, three...)
}
