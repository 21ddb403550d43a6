package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The write limits of a run whose lanes stay just below them.
const (
	closeRate, closeBurst = 1200, 2 // a minute
	closePause            = time.Minute * 100 / (98 * closeRate)
)

// procedures are the work of operators on a cluster of processes, by name.
var procedures = map[string]fault{
	"kill and start all":  {process: true, begin: (*testbed).killAndStart},
	"leave and join":      {process: true, resizes: true, begin: each((*testbed).leave)},
	"rotate the secret":   {begin: (*testbed).rotateSecret},
	"back up and restore": {begin: (*testbed).backUp},
	"exceed the limits":   {begin: (*testbed).exceedLimits},
	"wave of spam":        {begin: (*testbed).endWave},

	"upgrade":                        upgradeFault(func(o *options) string { return o.later }),
	"roll back":                      upgradeFault(func(*options) string { return "" }),
	"reject the later format":        {begin: (*testbed).rejectLater},
	"use the later format":           {begin: (*testbed).useLater},
	"join with the former version":   {begin: (*testbed).rejectOld},
	"restore with the later version": {begin: (*testbed).restoreLater},
}

// killAndStart kills nodes and starts them.
func (b *testbed) killAndStart(nodes []*harness.Node) {
	each(func(_ *testbed, n *harness.Node) { n.Kill() })(b, nodes)
	each((*testbed).start)(b, nodes)
	harness.Must(b.cluster.WaitReady(harness.ReadyTimeout, nodes...))
}

// leave has a node leave, and join again without its data.
func (b *testbed) leave(n *harness.Node) {
	harness.Got(harness.Operate(b.run.Ctx, []*harness.Node{n}, "leave"))
	const exitLeft = 3 // service managers do not start it again
	n.Wait(exitLeft)
	harness.Must(os.RemoveAll(n.Dir))
	b.start(n)
}

// rotateSecret follows the manual.
func (b *testbed) rotateSecret([]*harness.Node) {
	before := harness.Got(os.ReadFile(b.cluster.Secret))
	b.follow("security.md", "The secret")
	if after := harness.Got(os.ReadFile(b.cluster.Secret)); bytes.Equal(before, after) {
		harness.Failf("the secret is the former one")
	}
}

// backUp follows the manual, and starts the nodes that are restored, from a file and from a
// store: separate clusters with everything that was acknowledged before.
func (b *testbed) backUp([]*harness.Node) {
	published := harness.Got(b.nodes[0].Publish(client.NewEntry{Body: "before the backup", Channel: "restored"}))
	b.follow("backup.md", "Without containers")
	b.follow("backup.md", "In a mounted directory")
	for name, dir := range map[string]string{"d": "restored", "e": "fromstore"} {
		restored := b.run.NewCluster(dir, 1)
		n := restored.Nodes[0]
		n.Flags["node-id"], n.Flags["data-dir"] = name, filepath.Join(b.cluster.Dir, dir)
		b.tryRestored(restored, published)
	}
}

// tryRestored starts the restored node of a separate cluster, and checks that it has an entry.
func (b *testbed) tryRestored(c *harness.Cluster, published client.Published) {
	n := c.Nodes[0]
	delete(n.Flags, "bootstrap-expect")
	delete(n.Flags, "join")
	n.Flags["secret-file"] = b.cluster.Secret
	n.Start()
	defer n.Terminate()
	harness.Must(c.WaitReady(harness.ReadyTimeout, n))
	if entries := harness.Got(n.List(0, client.EntryQuery{Channel: published.Entry.Channel})); len(entries) != 1 || entries[0].ID != published.Entry.ID {
		harness.Failf("the node with the data of %s has %v, want %s", n.Flags["data-dir"], entries, published.Entry.ID)
	}
}

// restoreLater checks that a later version restores a backup of this one: a separate cluster of
// one node has the entry that was acknowledged before.
func (b *testbed) restoreLater([]*harness.Node) {
	const name = "later"
	published := harness.Got(b.nodes[0].Publish(client.NewEntry{Body: "before the upgrade", Channel: name}))
	later := harness.NewRun(b.run.Ctx, b.o.later, b.run.Path(name))
	restored := later.NewCluster("restored", 1)
	n := restored.Nodes[0]
	backup := later.Path("backup")
	harness.Got(harness.Operate(b.run.Ctx, b.nodes[:1], "snapshot", "save", backup))
	harness.Got(harness.Operate(b.run.Ctx, restored.Nodes, "snapshot", "restore", backup,
		"--data-dir", n.Dir, "--node-id", n.Name, "--purged-from", b.nodes[0].Private, "--secret-file", b.cluster.Secret))
	b.tryRestored(restored, published)
}

// exceedLimits checks that limits work: some of many writes at once are rejected.
func (b *testbed) exceedLimits([]*harness.Node) {
	const atOnce = 80
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		var rejected atomic.Bool
		var group sync.WaitGroup
		for i := range atOnce {
			group.Go(func() {
				_, err := b.nodes[i%len(b.nodes)].Publish(client.NewEntry{Agent: "writer", Body: "one of too many: " + strconv.Itoa(i)})
				if rejection, is := errors.AsType[*client.Error](err); is && rejection.Status == http.StatusTooManyRequests {
					rejected.Store(true)
				}
			})
		}
		group.Wait()
		if !rejected.Load() {
			return errors.New("no limit rejects any of many writes")
		}
		return nil
	}))
}

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
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		log, err := os.ReadFile(old.Log)
		if err == nil && !strings.Contains(string(log), tooOld) {
			err = fmt.Errorf("%s has not logged %q", old.Name, tooOld)
		}
		return err
	}))
	old.Kill()
}
