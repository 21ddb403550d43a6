package main

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The made-up later version (scripts/later.sh) knows one more format, and needs it for entries in
// laterChannel.
const (
	laterChannel = "later"
	laterFormat  = 2
	// tooOld is the error message of an old node that wants to join.
	tooOld = "run a newer version of this program: format 2, and this one knows up to 1"
)

// upgradeFault replaces the binary of nodes. An empty one is that of the run.
func upgradeFault(binary func(o *options) string) fault {
	return fault{process: true, begin: send(syscall.SIGTERM), end: each(func(b *testbed, n *harness.Node) {
		n.Binary = binary(b.o)
		b.startAgain(n)
	})}
}

// rejectLater checks that upgraded nodes reject entries that the former version cannot read, while a node
// of it is there.
func (b *testbed) rejectLater([]*harness.Node) {
	for _, n := range b.nodes {
		if n.Binary == "" {
			continue
		}
		_, err := n.Publish(client.NewEntry{Channel: laterChannel, Body: "Written too early through " + n.Name + "."})
		if rejection, is := errors.AsType[*client.Error](err); !is || rejection.Status != http.StatusServiceUnavailable {
			harness.Failf("%s accepts an entry that no other node can read: %v", n.Name, err)
		}
	}
}

// useLater writes entries that only the later version can read, once it may.
func (b *testbed) useLater([]*harness.Node) {
	for _, n := range b.nodes {
		harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
			s, err := n.Status()
			if err == nil && s.Format != laterFormat {
				err = fmt.Errorf("%s has format %d, not %d", n.Name, s.Format, laterFormat)
			}
			return err
		}))
		harness.Got(n.Publish(client.NewEntry{Channel: laterChannel, Body: "Written through " + n.Name + "."}))
	}
}

// rejectOld starts a node of the former version. It must not join.
func (b *testbed) rejectOld([]*harness.Node) {
	old := b.run.NewCluster("old", 1).Nodes[0]
	old.Name = "old"
	old.Flags["node-id"], old.Flags["bootstrap-expect"] = old.Name, "1"
	old.Flags["join"], old.Flags["secret-file"] = b.nodes[0].Flags["join"], b.cluster.Secret
	b.start(old)
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error { return old.Logged(tooOld) }))
	old.Kill()
	b.awaitVoters(len(b.voters))
}
