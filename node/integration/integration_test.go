// Package integration tests whole clusters: real nodes on the loopback address
// that are killed, stopped, wiped, partitioned and given broken disks.
package integration

import (
	"os"
	"testing"

	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/node/nodetest"
)

// perProcessor is how many tests run beside each other for each processor: they
// mostly wait for elections and for what the background does.
const perProcessor = 2

func TestMain(m *testing.M) {
	longtest.Beside(perProcessor)
	os.Exit(m.Run())
}

// testCluster is a test cluster and what several of these tests do to one.
type testCluster struct {
	*nodetest.Cluster
	t testing.TB
}

// newCluster starts n nodes that form a cluster and waits until all are ready.
func newCluster(t testing.TB, n int, opts ...nodetest.Option) *testCluster {
	t.Helper()
	return &testCluster{nodetest.New(t, n, opts...), t}
}

// virtual runs a test of n nodes in virtual time, in parallel with other tests.
func virtual(t *testing.T, n int, test func(t *testing.T, c *testCluster), opts ...nodetest.Option) {
	t.Helper()
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) { test(t, newCluster(t, n, opts...)) })
}

// emptyCluster returns a cluster without nodes.
func emptyCluster(t testing.TB, opts ...nodetest.Option) *testCluster {
	t.Helper()
	return &testCluster{nodetest.Empty(t, opts...), t}
}
