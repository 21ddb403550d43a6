package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// laterVariable names the image of a later version, which knows one more format and needs
// it for entries in laterChannel (later.go.txt). imageOfNodes names the image of the nodes.
const (
	laterVariable = "COMMONS_LATER_IMAGE"
	imageOfNodes  = "COMMONS_IMAGE"
	laterChannel  = "later"
)

// Formats of this version and of the later one.
const (
	format      = 1
	laterFormat = 2
)

// lateNode is the old node that wants to join.
const lateNode = "node4"

// tooOld is what it says.
const tooOld = "run a newer version of this program: format 2, and this one knows up to 1"

// useImage sets the image of nodes that are made from now on, and returns the former one.
func (p *project) useImage(image string) (former string) {
	prefix := imageOfNodes + "="
	p.env = slices.DeleteFunc(slices.Clone(p.env), func(variable string) bool {
		value, is := strings.CutPrefix(variable, prefix)
		if is {
			former = value
		}
		return is
	})
	p.env = append(p.env, prefix+image)
	return former
}

// upgrade puts a later version in the place of this one, node by node, while clients work:
// none of them notices. What the old version cannot read is taken when the last node is
// upgraded and not before. After that the old version cannot join.
func upgrade(p *project) {
	later := os.Getenv(laterVariable)
	if later == "" {
		fmt.Println("   left out: there is no image of a later version here")
		return
	}
	old := p.useImage(later)
	for i, node := range three {
		p.wantFormat(format)
		p.up("up", "--detach", "--no-deps", "--force-recreate", node)
		p.waitReady(harness.ReadyTimeout, three...)
		harness.Must(p.load.WaitForMore(enoughWrites))
		if i < len(three)-1 {
			p.wantFormat(format)
			harness.Must(p.publishLater(node, http.StatusServiceUnavailable))
		}
	}
	harness.Must(p.eventually(harness.ReadyTimeout, func() error { return p.hasFormat(laterFormat) }))
	for _, node := range three {
		harness.Must(p.publishLater(node, http.StatusCreated))
	}
	harness.Must(p.load.WaitForMore(enoughWrites))
	p.load.cutShort(0)

	// From its name's first address to its first check, HAProxy 2.6 sends calls to a node
	// that is not ready: no client calls meanwhile.
	p.load.Stop()
	harness.Must(p.load.Failed())
	p.load.verifyOn(three...)
	p.useImage(old)
	p.up("--profile", "five", "up", "--detach", "--no-deps", lateNode)
	start := time.Now()
	harness.Must(p.eventually(harness.ReadyTimeout, p.lateIsRejected))
	fmt.Printf("   the old version was rejected after %v\n", time.Since(start).Round(time.Millisecond))
	p.up("--profile", "five", "rm", "--stop", "--force", lateNode)
	harness.Got(p.docker("volume", "rm", p.name+"_"+lateNode))
	p.useImage(later)
	p.load.start()
	p.settled(three...)
	p.load.cutShort(0)
}

// hasFormat wants each node's state to have a format.
func (p *project) hasFormat(want int) error {
	for _, node := range three {
		if s, err := p.status(node); err != nil || s.Format != want {
			return errors.Join(err, fmt.Errorf("%s has format %d, not %d", node, s.Format, want))
		}
	}
	return nil
}

func (p *project) wantFormat(want int) { harness.Must(p.hasFormat(want)) }

// publishLater publishes through a node what only the later version can read.
func (p *project) publishLater(node string, want int) error {
	base, err := p.nodeURL(node)
	if err != nil {
		return err
	}
	entry := map[string]any{"agent": "compose", "channel": laterChannel, "body": "Written through " + node + "."}
	_, err = p.client.Call(p.ctx, http.MethodPost, base+"/api/entries", nil, entry, nil, want)
	return err
}

// lateIsRejected wants the old node to say why it cannot join, and no other node to count it.
func (p *project) lateIsRejected() error {
	log, err := p.onContainer(lateNode, "logs")
	if err != nil {
		return err
	}
	if !strings.Contains(log, tooOld) {
		return fmt.Errorf("%s does not say why it does not join:\n%s", lateNode, log)
	}
	url, err := p.nodeURL(lateNode)
	if err != nil {
		return err
	}
	if err := p.get(url+"/readyz", nil, http.StatusServiceUnavailable); err != nil {
		return err
	}
	s, err := p.status(three[0])
	if err == nil && len(s.Voters) != len(three) {
		err = harness.Final(fmt.Errorf("the voters are %v", s.Voters))
	}
	return err
}
