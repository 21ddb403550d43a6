package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/scripts/harness"
)

// laterVariable names the image of a later version, which knows one more format and needs
// it for entries in laterChannel (later.go.txt). imageOfNodes names the image of the nodes.
const (
	laterVariable = "COMMONS_LATER_IMAGE"
	imageOfNodes  = "COMMONS_IMAGE"
	laterChannel  = "later"
	// format is the one of this version, and laterFormat that of the later one.
	format      = 1
	laterFormat = 2
	// lateNode is the old node that wants to join, and tooOld its error message.
	lateNode = "node4"
	tooOld   = "run a newer version of this program: format 2, and this one knows up to 1"
)

// useImage sets the image of nodes that are made from now on, by the variable that names it.
func (p *containers) useImage(variable string) {
	p.env = append(p.env, imageOfNodes+"="+os.Getenv(variable)) // the last one counts
}

// upgrade replaces this version by a later one, node by node. The nodes reject entries that
// the old version cannot read until the last one is upgraded.
func (b *bench) upgrade() {
	p := b.containers
	if os.Getenv(laterVariable) == "" {
		fmt.Println("   left out: there is no image of a later version here")
		return
	}
	p.useImage(laterVariable)
	for i, n := range b.nodes {
		harness.Must(b.hasFormat(format))
		p.up("up", "--detach", "--no-deps", "--force-recreate", n.Name)
		harness.Must(p.find(n))
		b.settle()
		if i < len(b.nodes)-1 {
			harness.Must(b.hasFormat(format))
			harness.Must(publishLater(n, http.StatusServiceUnavailable))
		}
	}
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error { return b.hasFormat(laterFormat) }))
	for _, n := range b.nodes {
		harness.Must(publishLater(n, http.StatusCreated))
	}
}

// rejectOld starts a node of the version from before upgrade. It must not join.
func (b *bench) rejectOld() {
	p := b.containers
	if os.Getenv(laterVariable) == "" {
		return
	}
	p.useImage(imageOfNodes)
	p.up("--profile", "five", "up", "--detach", "--no-deps", lateNode)
	late := b.run.Remote(lateNode, "http://"+lateNode+":"+httpPort, "", b.secret())
	harness.Must(p.find(late))
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		log, err := p.on(lateNode, "logs")
		if err == nil && !strings.Contains(log, tooOld) {
			err = fmt.Errorf("%s does not say why it does not join:\n%s", lateNode, log)
		}
		if err == nil {
			_, err = late.Raw(http.MethodGet, "/readyz", "", http.StatusServiceUnavailable)
		}
		if err != nil {
			return err
		}
		s, err := b.nodes[0].Status()
		if err == nil && len(s.Voters) != len(b.nodes) {
			err = await.Final(fmt.Errorf("the voters are %v", s.Voters))
		}
		return err
	}))
	p.up("--profile", "five", "rm", "--stop", "--force", lateNode)
	harness.Got(p.docker("volume", "rm", p.name+"_"+lateNode))
	p.useImage(laterVariable)
}

// hasFormat wants each node's state to have a format.
func (b *bench) hasFormat(want int) error {
	for _, n := range b.nodes {
		if s, err := n.Status(); err != nil || s.Format != want {
			return errors.Join(err, fmt.Errorf("%s has format %d, not %d", n.Name, s.Format, want))
		}
	}
	return nil
}

// publishLater publishes an entry that only the later version can read.
func publishLater(n *harness.Node, want int) error {
	_, err := n.Publish(client.NewEntry{Agent: "compose", Channel: laterChannel, Body: "Written through " + n.Name + "."})
	if rejection, is := errors.AsType[*client.Error](err); is && rejection.Status == want {
		return nil
	}
	if err == nil && want != http.StatusCreated {
		err = fmt.Errorf("%s accepts an entry that no other node can read", n.Name)
	}
	return err
}
