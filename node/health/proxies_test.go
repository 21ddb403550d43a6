package health

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
)

// TestProxies steps through the requests of proxies that are not trusted.
func TestProxies(t *testing.T) {
	var p proxies
	check.Equal(t, p.newest(0), "", "before the first request")
	for _, step := range []struct {
		at              time.Duration
		peer, log, then string
	}{
		{0, "10.0.0.1", "10.0.0.1", "10.0.0.1"},
		{proxyMemory - 1, "192.168.0.1", "", "192.168.0.1"},
		{proxyMemory, "198.51.100.7", publicProxy, publicProxy},
		{proxyMemory + 1, "2001:db8::1", "", publicProxy},
		{3 * proxyMemory, "::1", "::1", "::1"},
		{4 * proxyMemory, "fe80::1", "fe80::1", "fe80::1"},
	} {
		check.Equal(t, p.add(step.at, netip.MustParseAddr(step.peer)), step.log, "%v, %s: logs", step.at, step.peer)
		check.Equal(t, p.newest(step.at+proxyMemory-1), step.then, "%v, %s: shows", step.at, step.peer)
		check.Equal(t, p.newest(step.at+proxyMemory), "", "%v, %s: shows an hour later", step.at, step.peer)
	}
}

// TestUntrustedProxyIsLogged: many requests leave one line, and one warning.
func TestUntrustedProxyIsLogged(t *testing.T) {
	var lines bytes.Buffer
	h := New(Config{Started: time.Now(), Heartbeat: time.Second, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	for range 3 {
		h.NoteProxy(netip.MustParseAddr("10.0.0.1"))
	}
	check.Equal(t, strings.Count(lines.String(), "10.0.0.1 passes requests"), 1, "lines in %s", &lines)
	c := admin.Condition{Proxy: h.proxies.newest(h.sinceStart())}
	if got := h.Warnings(&c); len(got) != 1 || !strings.Contains(got[0], "10.0.0.1 passes requests") || !strings.Contains(got[0], "--trusted-proxies") {
		t.Errorf("warnings %q", got)
	}
}
