package datakey

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

func TestFingerprint(t *testing.T) {
	one, other := newHasher([]byte("one key")), newHasher([]byte("another key"))
	fp := func(of *hasher, addr string) string { return of.fingerprint(netip.MustParseAddr(addr)) }
	for range 2 { // a hasher is used again
		check.Equal(t, fp(one, "192.0.2.1"), "c3ed3c7f93c07cb44587dbfdba56aa7c", "fingerprint of the same sender")
	}
	same := [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8::1", "2001:db8:0:0:ffff::2"},
		{"fe80::1%eth0", "fe80::1%eth1"},
	}
	for _, s := range same {
		check.Equal(t, fp(one, s[0]), fp(one, s[1]), "%s and %s differ", s[0], s[1])
	}
	for _, s := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8:0:1::1"}} {
		if fp(one, s[0]) == fp(one, s[1]) {
			t.Errorf("%s and %s are the same", s[0], s[1])
		}
	}
	// Those of one site share its bounds, those of two do not.
	for other, same := range map[string]bool{"2001:db8:0:1::1": true, "2001:db8:1::1": false} {
		a, b := command.NetworkOf(fp(one, "2001:db8::1")), command.NetworkOf(fp(one, other))
		if a == "" || (a == b) != same || command.MaxFingerprintBytes < len(fp(one, other)) {
			t.Errorf("%s: networks %q and %q", other, a, b)
		}
	}
	check.Equal(t, command.NetworkOf(fp(one, "192.0.2.1")), "", "an IPv4 address is a part of")
	if fp(one, "192.0.2.1") == fp(other, "192.0.2.1") {
		t.Error("the key makes no difference")
	}
	if got := fp(one, "192.0.2.1"); len(got) != 2*fingerprintBytes || strings.Contains(got, "192") {
		t.Errorf("fingerprint %q", got)
	}
}
