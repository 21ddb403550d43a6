package delivery

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// TestOwnHosts holds what a node takes for this service itself when it advertises a
// name, also while DNS is away.
func TestOwnHosts(t *testing.T) {
	t.Parallel()
	names := pushtest.NewNames(t)
	names.Set("node1.example.net", "192.0.2.7", "2001:db8::7")
	node := cluster.Member{Meta: cluster.Meta{HTTPAddr: "node1.example.net:8080", ClusterAddr: "127.0.0.1:7000"}}
	h := newTestbed(t, func(c *Config) {
		c.PublicURL, c.Push.Resolver = "https://commons.example.org", names.Resolver()
		c.Members = func() []cluster.Member { return []cluster.Member{node} }
	})
	for _, host := range []string{"node1.example.net", "commons.example.org"} {
		if !slices.Contains(h.OwnHosts(), host) {
			t.Errorf("own hosts %q, without %s", h.OwnHosts(), host)
		}
	}
	owns := func() string {
		own := ""
		for _, addr := range []string{"127.0.0.1", "192.0.2.7", "2001:db8::7", "192.0.2.8"} {
			if h.ownAddress(netip.MustParseAddr(addr)) {
				own += addr + " "
			}
		}
		return own
	}
	h.lookUpOwnNames(t.Context())
	await.Eventually(t, "the addresses of a name", func() bool { return owns() == "127.0.0.1 192.0.2.7 2001:db8::7 " })
	names.Silence()
	h.lookUpOwnNames(t.Context())
	check.Equal(t, owns(), "127.0.0.1 192.0.2.7 2001:db8::7 ", "without DNS")
}
