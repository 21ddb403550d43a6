package op

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestNotifyURLs(t *testing.T) {
	for _, s := range []string{
		"https://example.org", "https://example.org/", "https://example.org:443/hook?a=b", "HTTPS://Example.ORG/Hook", "https://a-b.xn--bcher-kva.example/",
		"https://example.org./x", "https://1password.com/", "https://3.example.org/", "https://local.example.org/",
	} {
		check.Equal(t, (NotifyRules{}).Problem(s), "", "%s", s)
	}
	for _, s := range []string{
		"", "off", "http://example.org", "https:/example.org", "https://", "https:///x", "//example.org", "ftp://example.org", "javascript:alert(1)",
		"https://example.org:8443/", "https://example.org:80/", "https://example.org:/", "https://example.org:99999/",
		"https://ada@example.org/", "https://ada:secret@example.org/", "https://example.org@10.0.0.1/",
		"https://127.0.0.1/", "https://8.8.8.8/", "https://[::1]/", "https://[2001:db8::1]:443/", "https://[fe80::1%25eth0]/",
		"https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://017700000001/", "https://1.2.3.4./", "https://example.0x1f/",
		"https://localhost/", "https://LOCALHOST./", "https://sub.localhost/", "https://printer.local/", "https://vault.internal/", "https://metadata.google.internal/",
		"https://intranet/", "https://host.lan/", "https://router.home.arpa/", "https://1.0.0.127.in-addr.arpa/", "https://x.onion/", "https://x.test/", "https://x.invalid/",
		"https://bücher.example/", "https://ex%61mple.org/", "https://exa_mple.org/", "https://example。org/", "https://-a.example.org/", "https://a..example.org/", "https://.example.org/",
		"https://example.org/a b", "https://example.org\\@10.0.0.1/", "https://example.org/\t", "https://" + strings.Repeat("a", 64) + ".org/",
		"https://example.org/" + strings.Repeat("a", 2000),
	} {
		if (NotifyRules{}).Problem(s) == "" {
			t.Errorf("%q passes", s)
		}
	}
	for s, ok := range map[string]bool{
		"https://example.org": true, "https://10.0.0.1:8443/": true, "https://bücher.example/": true, "https://localhost": true,
		"https://ada@example.org": false, "http://example.org": false, "https://": false, "https://a b/": false,
	} {
		check.Equal(t, PublicURLProblem(s) == "", ok, "endpoint %s passes, with the problem %q", s, PublicURLProblem(s))
	}
}

func TestNotifyRules(t *testing.T) {
	rules := NotifyRules{OwnHosts: func() []string { return []string{"Commons.example."} }, Port: 8443, Local: true}
	for s, ok := range map[string]bool{
		"https://example.org:8443/": true, "https://example.org:443/": true, "https://example.org": true, "https://localhost:8443/hook": true,
		"https://receiver.test/": true, "https://hooks.commons.example": true,
		"https://example.org:8444/": false, "https://example.org:08443/": false, "https://127.0.0.1:8443/": false,
		"https://commons.example/": false, "https://COMMONS.example.:8443/": false,
	} {
		reason := rules.Problem(s)
		check.Equal(t, reason == "", ok, "%s passes, with the problem %q", s, reason)
	}
}
