package api_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
)

// card is an agent card of either version.
type card struct {
	Name, Description, Version, ProtocolVersion, URL, PreferredTransport string
	SupportedInterfaces                                                  []struct{ URL, ProtocolBinding, ProtocolVersion string }
	AdditionalInterfaces                                                 []struct{ URL, Transport string }
	Capabilities                                                         struct{ Streaming, PushNotifications, ExtendedAgentCard bool }
	Skills                                                               []struct{ ID, Name, Description string }
}

// TestCard holds the forms of the card and its caching.
func TestCard(t *testing.T) {
	s := start(t)
	r := s.Get("/.well-known/agent-card.json")
	var c card
	r.Decode(t, &c)
	if len(c.SupportedInterfaces) != 4 || c.SupportedInterfaces[0].URL != s.URL+"/a2a" || c.SupportedInterfaces[1].URL != s.URL+"/a2a/v1" ||
		c.SupportedInterfaces[0].ProtocolVersion != "1.0" || c.ProtocolVersion != "" || c.URL != "" || len(c.Skills) == 0 ||
		c.Capabilities.Streaming || c.Capabilities.PushNotifications || c.Capabilities.ExtendedAgentCard {
		t.Errorf("%s", r.Body)
	}
	var document struct{ Info struct{ Version string } }
	if s.Get("/openapi.json").Decode(t, &document); c.Version == "" || c.Version != document.Info.Version {
		t.Errorf("the card's version is %q, the document's %q", c.Version, document.Info.Version)
	}
	tag := r.Header.Get("ETag")
	if again := s.Get("/.well-known/agent-card.json", "If-None-Match", tag); again.Status != http.StatusNotModified || tag == "" ||
		!strings.Contains(r.Header.Get("Cache-Control"), "max-age") || again.Header.Get("ETag") != tag {
		t.Errorf("%d %v", again.Status, again.Header)
	}
	var old card
	r = s.Get("/.well-known/agent.json")
	if r.Decode(t, &old); old.ProtocolVersion != "0.3.0" || old.URL != s.URL+"/a2a" || old.PreferredTransport != "JSONRPC" ||
		len(old.AdditionalInterfaces) != 2 || old.SupportedInterfaces != nil {
		t.Errorf("%s", r.Body)
	}
	dual := start(t, func(c *api.Config) { c.DualCard = true })
	var both card
	r = dual.Get("/.well-known/agent-card.json")
	if r.Decode(t, &both); both.ProtocolVersion != "0.3.0" || len(both.SupportedInterfaces) != 4 || both.URL == "" {
		t.Errorf("%s", r.Body)
	}
}

// TestCardAddresses holds which addresses a card shows behind a load balancer.
func TestCardAddresses(t *testing.T) {
	plain, trusting := start(t), start(t, func(c *api.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	public := start(t, func(c *api.Config) { c.PublicURL = "https://commons.example/" })
	for _, test := range []struct {
		s           *apitest.Server
		host, proto string
		want        string
	}{
		{plain, "commons.example", "", "http://commons.example/a2a"},
		{plain, "commons.example:", "", "http://commons.example/a2a"}, // RFC 9110, 4.2.3
		{plain, "commons.example:8443", "https", "http://commons.example:8443/a2a"},
		{trusting, "commons.example", "https", "https://commons.example/a2a"},
		{trusting, "commons.example", "https, http", "http://commons.example/a2a"},
		{trusting, "[2001:db8::1]:80", "", "http://[2001:db8::1]:80/a2a"},
		{public, "other.example", "http", "https://commons.example/a2a"},
	} {
		r := raw(t, test.s, "GET /.well-known/agent-card.json HTTP/1.1\r\nHost: "+test.host+"\r\nX-Forwarded-Proto: "+test.proto+"\r\nConnection: close\r\n\r\n")
		if !strings.Contains(r, `"url":"`+test.want+`"`) {
			t.Errorf("%s %s: %s", test.host, test.proto, r)
		}
	}
	// The address of the node itself is shown to nobody.
	if r := raw(t, plain, "GET /.well-known/agent-card.json HTTP/1.0\r\n\r\n"); !strings.Contains(r, `"url":"http://localhost/a2a"`) {
		t.Errorf("without a Host: %s", r)
	}
}

// TestPublicURLs holds which bases of addresses are taken.
func TestPublicURLs(t *testing.T) {
	for _, good := range []string{"https://commons.example", "http://127.0.0.1:8080/", "https://[::1]"} {
		if err := api.CheckPublicURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "commons.example", "ftp://a.example", "https://", "https://a.example/x", "https://a.example?x", "https://u@a.example", "https://a b"} {
		if api.CheckPublicURL(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// raw sends a request as it is written and returns the whole answer.
func raw(t *testing.T, s *apitest.Server, request string) string {
	t.Helper()
	conn := dial(t, s.Addr)
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
