package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// quorumTimeout is how long a cluster may take to be ready after all nodes were killed.
const quorumTimeout = 15 * time.Second

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
	harness.Must(b.cluster.WaitReady(quorumTimeout, nodes...))
}

// leave has a node leave, and join again without its data.
func (b *testbed) leave(n *harness.Node) {
	code, out, errs := b.run.Command([]string{"COMMONS_CLUSTER_ADDR=" + n.Private, "COMMONS_SECRET_FILE=" + b.cluster.Secret}, "leave", "--json")
	var left struct{ ID string }
	if err := json.Unmarshal([]byte(out), &left); err != nil || code != 0 || left.ID == "" {
		harness.Failf("leave: exit code %d, %s%s", code, out, errs)
	}
	const exitLeft = 3 // service managers do not start it again
	n.Wait(exitLeft)
	harness.Must(os.RemoveAll(n.Dir))
	b.start(n)
}

// awaitVoters waits until every voter of the run counts so many voters.
func (b *testbed) awaitVoters(want int) {
	harness.Must(b.run.Eventually(harness.ReplaceTimeout, func() error {
		for _, n := range b.voters {
			if s, err := n.Status(); err != nil || len(s.Voters) != want {
				return fmt.Errorf("%s counts the voters %v, want %d: %w", n.Name, s.Voters, want, err)
			}
		}
		return nil
	}))
}

// rotateSecret follows the manual.
func (b *testbed) rotateSecret([]*harness.Node) {
	before := harness.Got(os.ReadFile(b.cluster.Secret))
	b.cluster.Follow("security.md", "The secret")
	if after := harness.Got(os.ReadFile(b.cluster.Secret)); bytes.Equal(before, after) {
		harness.Failf("the secret is the former one")
	}
}

// backUp follows the manual, and starts the nodes that are restored, from a file and from a
// store: separate clusters with everything that was acknowledged before.
func (b *testbed) backUp([]*harness.Node) {
	published := harness.Got(b.nodes[0].Publish(client.NewEntry{Body: "before the backup", Channel: "restored"}))
	b.cluster.Follow("backup.md", "Without containers")
	b.cluster.Follow("backup.md", "In a mounted directory")
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
	n.Alone()
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
	for _, command := range []struct {
		run  *harness.Run
		args []string
	}{
		{b.run, []string{"save", backup, "--cluster-addr", b.nodes[0].Private, "--secret-file", b.cluster.Secret}},
		{later, []string{"restore", backup, "--data-dir", n.Dir, "--node-id", n.Name, "--purged-from", b.nodes[0].Private, "--secret-file", b.cluster.Secret}},
	} {
		if code, out, errs := command.run.Command(nil, append([]string{"snapshot"}, command.args...)...); code != 0 {
			harness.Failf("snapshot %s: exit code %d, %s%s", command.args[0], code, out, errs)
		}
	}
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
