package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestCheckLoopback(t *testing.T) {
	t.Parallel()
	lookup := func(_ context.Context, host string) ([]string, error) {
		switch host {
		case "inside.test":
			return []string{"127.0.0.1", "::1"}, nil
		case "mixed.test":
			return []string{"127.0.0.1", "192.0.2.1"}, nil
		case "empty.test":
			return nil, nil
		}
		return nil, errors.New("no such host")
	}
	for addr, want := range map[string]string{
		"127.0.0.1:7000": "", "127.0.0.1": "", "127.9.9.9:0": "", "[::1]:7000": "", "[::ffff:127.0.0.1]:1": "", "inside.test:7000": "",
		":7000": "all interfaces", "0.0.0.0:7000": "not a loopback", "[::]:7000": "not a loopback",
		"192.0.2.1:7000": "not a loopback", "mixed.test:7000": "192.0.2.1", "empty.test:1": "no addresses", "other.test:1": "no such host", "127.0.0.1:port": "not a number",
	} {
		err := checkLoopback(t.Context(), lookup, addr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
	check.Err(t, checkAllLoopback(net.DefaultResolver.LookupHost, "localhost:7000"), nil, "check loopback")
}

func TestAdvertiseAddr(t *testing.T) {
	t.Parallel()
	bound := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	for _, tt := range []struct{ advertise, bound, want string }{
		{"", "127.0.0.1:7000", "127.0.0.1:7000"},
		{"node1", "0.0.0.0:7000", "node1:7000"},
		{"node1:0", "0.0.0.0:7000", "node1:7000"},
		{"node1:17000", "0.0.0.0:7000", "node1:17000"},
		{"192.0.2.1", "[::]:7000", "192.0.2.1:7000"},
		{"[2001:db8::1]:1", "[::]:7000", "[2001:db8::1]:1"},
		{"", "[::1]:7000", "[::1]:7000"},
	} {
		check.Equal(t, must.Get(AdvertiseAddr(tt.advertise, bound(tt.bound)))(t), tt.want, "%q bound %s", tt.advertise, tt.bound)
	}
	check.Fails(AdvertiseAddr("h:port", bound("127.0.0.1:1")))(t, "accepted a port that is none")
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	var th Throttle
	if _, ok := th.Allow("a"); !ok {
		t.Error("the first was held back")
	}
	if _, ok := th.Allow("a"); ok {
		t.Error("the second was not")
	}
	th.kinds["a"].last = th.kinds["a"].last.Add(-logEvery)
	if n, ok := th.Allow("a"); !ok || n != 1 {
		t.Errorf("after a while: %d, %v", n, ok)
	}
	for i := range 4 * maxLogKinds {
		th.Allow(strings.Repeat("x", i+1))
	}
	if len(th.kinds) > maxLogKinds+1 {
		t.Errorf("%d kinds are remembered", len(th.kinds))
	}
	if _, ok := th.Allow("another"); ok {
		t.Error("the overflow is not throttled")
	}
}
