package node

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/node/push/pushtest"
)

// TestOwnHosts holds what a node takes for this service itself when it advertises a
// name, also while DNS is away.
func TestOwnHosts(t *testing.T) {
	names := pushtest.NewNames(t)
	names.Set("node1.example.net", "192.0.2.7", "2001:db8::7")
	c := local(t)
	c.HTTPAdvertise, c.PublicURL, c.Tuning.Resolver = "node1.example.net:8080", "https://commons.example.org", names.Resolver()
	n := mustStart(t, c)
	for _, host := range []string{"node1.example.net", "commons.example.org"} {
		if !slices.Contains(n.ownHosts(), host) || n.notifyRules().Problem("https://"+host+"/hook") == "" {
			t.Errorf("own hosts %q, without %s", n.ownHosts(), host)
		}
	}
	owns := func() string {
		own := ""
		for _, addr := range []string{"127.0.0.1", "192.0.2.7", "2001:db8::7", "192.0.2.8"} {
			if n.ownAddress(netip.MustParseAddr(addr)) {
				own += addr + " "
			}
		}
		return own
	}
	until(t, "the addresses of a name", func() bool { return owns() == "127.0.0.1 192.0.2.7 2001:db8::7 " })
	names.Silence()
	n.lookUpOwnNames(t.Context())
	if got := owns(); got != "127.0.0.1 192.0.2.7 2001:db8::7 " {
		t.Errorf("without DNS: %s", got)
	}
}
