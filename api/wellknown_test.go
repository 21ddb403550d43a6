package api_test

import (
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

var somebody = api.Operator{Name: `Example "e.V."`, Contact: "abuse@commons.example", Terms: "https://commons.example/terms"}

// TestOperatorIsShown holds where a stranger sees who runs a place.
func TestOperatorIsShown(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)
	s := apitest.New(t, func(c *api.Config) {
		c.Operator, c.PublicURL, c.Now = somebody, "https://commons.example", func() time.Time { return now }
	})
	sentence := `Operator: Example "e.V.", contact: abuse@commons.example, terms: https://commons.example/terms`
	for _, path := range []string{"/llms.txt", "/docs/moderation"} {
		s.Get(path).Has(t, "\n"+sentence+"\n")
	}
	for _, path := range []string{"/.well-known/agent-card.json", "/.well-known/agent.json"} {
		var card struct {
			Description string
			Provider    struct{ Organization, URL string }
		}
		s.Get(path).Decode(t, &card)
		if !strings.HasSuffix(card.Description, " "+sentence) || card.Provider.Organization != somebody.Name || card.Provider.URL != somebody.Terms {
			t.Errorf("%s: %+v", path, card)
		}
	}
	const shown = "Operator: Example &#34;e.V.&#34;, contact: abuse@commons.example, "
	s.Get("/", "Accept", "text/html").Has(t, shown)
	var document struct {
		Info struct {
			TermsOfService string
			Contact        struct{ Name, Email, URL string }
		}
	}
	s.Get("/openapi.json").Decode(t, &document)
	if i := document.Info; i.TermsOfService != somebody.Terms || i.Contact.Name != somebody.Name || i.Contact.Email != somebody.Contact || i.Contact.URL != "" {
		t.Errorf("%+v", i)
	}
	const security = "Contact: mailto:abuse@commons.example\nExpires: 2026-04-01T00:00:00Z\nCanonical: https://commons.example/.well-known/security.txt\n"
	r := s.Get("/.well-known/security.txt")
	if string(r.Body) != security || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%s %s", r.Header.Get("Content-Type"), r.Body)
	}
	s.Get("/.well-known/security.txt", "If-None-Match", r.Header.Get("ETag")).Want(t, http.StatusNotModified)
	now = now.AddDate(0, 0, 1)
	s.Get("/.well-known/security.txt", "If-None-Match", r.Header.Get("ETag")).Has(t, "Expires: 2026-04-02T")
}

// TestNobodyIsNamed holds the same where no operator is known.
func TestNobodyIsNamed(t *testing.T) {
	s := apitest.New(t)
	for _, path := range []string{"/llms.txt", "/docs/moderation", "/.well-known/agent-card.json", "/openapi.json"} {
		for _, word := range []string{"Operator: ", "$OPERATOR", `"provider":{`, `"contact":{`, `"termsOfService":`, "\n\n\n"} {
			s.Get(path).Lacks(t, word)
		}
	}
	s.Get("/.well-known/security.txt").Want(t, http.StatusNotFound)
}

// TestOperatorForms holds which names, contacts and addresses are taken.
func TestOperatorForms(t *testing.T) {
	for _, test := range []struct {
		check     func(string) error
		good, bad []string
	}{
		{api.CheckOperatorName, []string{"A", "Näh e.V."}, []string{" A", "a\nb", "\xff", strings.Repeat("a", 101)}},
		{
			api.CheckOperatorContact,
			[]string{"a@b.example", "mailto:a@b.example", "https://b.example/contact"},
			[]string{"nobody", "A <a@b.example>", "mailto:A <a@b.example>", "http://b.example", "tel:+1", "a@b\nc", "https://b.example/\nExpires: x"},
		},
		{api.CheckTermsURL, []string{"https://b.example/terms?x=1#y"}, []string{"b.example", "http://b.example", "https://a:b@b.example", `https://b.example/"`, "https:///x"}},
	} {
		for _, s := range test.good {
			check.Err(t, test.check(s), nil, "check of %q", s)
		}
		for _, s := range test.bad {
			if test.check(s) == nil {
				t.Errorf("%q was taken", s)
			}
		}
	}
	contact := apitest.New(t, func(c *api.Config) { c.Operator.Contact = "https://b.example/contact" })
	if r := contact.Get("/.well-known/security.txt"); !strings.HasPrefix(string(r.Body), "Contact: https://b.example/contact\n") {
		t.Errorf("%s", r.Body)
	}
	contact.Get("/openapi.json").Has(t, `"contact":{"url":"https://b.example/contact"}`)
}

// TestVersions holds that the cards, the tool interface, the interface's page and its document have
// one version.
func TestVersions(t *testing.T) {
	s := apitest.New(t)
	versions := map[string]string{}
	for _, path := range []string{"/.well-known/agent-card.json", "/.well-known/agent.json"} {
		versions[path] = apitest.Decoded[apitest.AgentCard](t, s.Get(path)).Version
	}
	document := apitest.Decoded[struct{ Info struct{ Version string } }](t, s.Get("/openapi.json"))
	var started struct {
		Result struct{ ServerInfo struct{ Version string } }
	}
	s.Do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		"Content-Type", apitest.JSONType).Decode(t, &started)
	versions["server"] = started.Result.ServerInfo.Version
	page := must.Get(os.ReadFile("../docs/interface.md"))(t)
	for what, version := range versions {
		if version == "" || version != document.Info.Version || !strings.Contains(string(page), "This is version "+version+".") {
			t.Errorf("the version of %s is %q, of the document %q", what, version, document.Info.Version)
		}
	}
}

// TestRootLinks follows the header Link of GET /, for agents and for browsers.
func TestRootLinks(t *testing.T) {
	s := apitest.New(t)
	target := regexp.MustCompile(`<([^>]+)>; rel="([^"]+)"`)
	for _, accept := range []string{"", "text/html"} {
		var relations []string
		for _, match := range target.FindAllStringSubmatch(s.Get("/", "Accept", accept).Header.Get("Link"), -1) {
			relations = append(relations, match[2])
			s.Get(match[1]).Want(t, http.StatusOK)
		}
		apitest.Equal(t, "relations", strings.Join(relations, " "), "service-desc service-doc describedby")
	}
}

// TestCard holds the forms of the card and its caching.
func TestCard(t *testing.T) {
	s := apitest.New(t)
	r := s.Get("/.well-known/agent-card.json")
	c := apitest.Decoded[apitest.AgentCard](t, r)
	if len(c.SupportedInterfaces) != 4 || c.SupportedInterfaces[0].URL != s.URL+"/a2a" || c.SupportedInterfaces[1].URL != s.URL+"/a2a/v1" ||
		c.SupportedInterfaces[0].ProtocolVersion != "1.0" || len(c.Skills) == 0 ||
		c.Capabilities.Streaming || c.Capabilities.PushNotifications || c.Capabilities.ExtendedAgentCard {
		t.Errorf("%s", r.Body)
	}
	if document := apitest.Decoded[struct{ Info struct{ Version string } }](t, s.Get("/openapi.json")); c.Version == "" || c.Version != document.Info.Version {
		t.Errorf("the card's version is %q, the document's %q", c.Version, document.Info.Version)
	}
	tag := r.Header.Get("ETag")
	if again := s.Get("/.well-known/agent-card.json", "If-None-Match", tag); again.Status != http.StatusNotModified || tag == "" ||
		!strings.Contains(r.Header.Get("Cache-Control"), "max-age") || again.Header.Get("ETag") != tag {
		t.Errorf("%d %v", again.Status, again.Header)
	}
	// Clients of 0.3 read these, at either address.
	if c.ProtocolVersion != "0.3.0" || c.URL != s.URL+"/a2a" || c.PreferredTransport != "JSONRPC" || len(c.AdditionalInterfaces) != 2 {
		t.Errorf("%s", r.Body)
	}
	check.Equal(t, string(s.Get("/.well-known/agent.json").Body), string(r.Body), "the card at its former address")
}

// TestCardAddresses holds which addresses a card shows behind a load balancer.
func TestCardAddresses(t *testing.T) {
	plain, trusting := apitest.New(t), apitest.New(t, func(c *api.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	public := apitest.New(t, func(c *api.Config) { c.PublicURL = "https://commons.example/" })
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
		check.Contains(t, r, `"url":"`+test.want+`"`, "the card for %s by %s", test.host, test.proto)
	}
	// The address of the node itself is never shown.
	check.Contains(t, raw(t, plain, "GET /.well-known/agent-card.json HTTP/1.0\r\n\r\n"), `"url":"http://localhost/a2a"`, "without a Host")
}

// TestPublicURLs holds which bases of addresses are taken.
func TestPublicURLs(t *testing.T) {
	for _, good := range []string{"https://commons.example", "http://127.0.0.1:8080/", "https://[::1]"} {
		check.Err(t, api.CheckPublicURL(good), nil, "the address %s", good)
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
	c := talk(t, s)
	c.say(request)
	answer := must.Get(io.ReadAll(c.in))(t)
	return string(answer)
}
