package nodetest

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
)

// bubbles has the networks' seeds of the tests that run in virtual time.
var bubbles sync.Map

// startClock starts fasthttp's clock of Date headers. It lives as long as the process, so
// that it must not belong to a bubble.
var startClock = sync.OnceFunc(func() {
	var h fasthttp.ResponseHeader
	_ = h.String()
})

// Virtual runs a test in virtual time (testing/synctest): time passes at once when all of
// its goroutines wait. Its clusters use a network in memory. The test must not use
// sockets of the system, nor t.Run and t.Parallel.
//
// Its clock begins at the present time. All nodes of the process share the measurements of
// Raft, and Prometheus moves the window of a summary step by step: from the usual begin of
// a bubble, in the year 2000, to the present it would take minutes.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	VirtualSeed(t, 1, test)
}

// VirtualSeed is Virtual with another seed for the delays of the network.
func VirtualSeed(t *testing.T, seed uint64, test func(t *testing.T)) {
	t.Helper()
	startClock()
	begin := time.Now().Round(0) // without the monotonic clock, which a bubble does not share
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		bubbles.Store(t, seed)
		defer bubbles.Delete(t)
		test(t)
	})
}

const (
	// clientHost and operatorHost are the hosts of a virtual cluster's clients and of its
	// operators. The nodes have the addresses from 127.0.0.1 on.
	clientHost, operatorHost = "127.0.0.200", "127.0.0.201"
	// idleWorkers is longer than fasthttp takes to end its idle workers. A bubble ends
	// when all of its goroutines have ended.
	idleWorkers = time.Minute
)

// newNet returns the network of a cluster, nil if it has the system's.
func newNet(t testing.TB) *simnet.Net {
	seed, virtual := bubbles.Load(t)
	if !virtual {
		return nil
	}
	return simnet.New(seed.(uint64))
}

// Net returns the network of a virtual cluster, in which the host of a node is that of its
// addresses.
func (c *Cluster) Net() *simnet.Net { return c.net }

// Host returns the node's host in the network of a virtual cluster.
func (nd *Node) Host() string { return host(nd.index) }

// network returns the network of a host of the cluster: the system's, or one in memory.
func (c *Cluster) network(host string) cluster.Network {
	if c.net == nil {
		return cluster.Network{}
	}
	h := c.net.Host(host)
	return cluster.Network{Listen: h.Listen, DialContext: h.DialContext, Packets: h.Packets}
}

// Operators returns the network of operators' programs.
func (c *Cluster) Operators() cluster.Network { return c.network(operatorHost) }

// Ports of the nodes of a virtual cluster. Each node is a host.
const (
	httpPort    = 8080
	privatePort = 7000
	gossipPort  = 7946
)

// address returns an address for a node, which it keeps over restarts and no other node is given.
func (c *Cluster) address(i, port int) string {
	c.t.Helper()
	if c.net == nil {
		return must.Get(freeport.Addr())(c.t)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(host(i)), uint16(port)).String()
}

// host returns the host of a node of a virtual cluster.
func host(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }
