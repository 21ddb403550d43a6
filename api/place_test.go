package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
)

var somebody = api.Operator{Name: `Example "e.V."`, Contact: "abuse@commons.example", Terms: "https://commons.example/terms"}

// TestOperatorIsShown holds where a stranger sees who runs a place.
func TestOperatorIsShown(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)
	s := start(t, func(c *api.Config) {
		c.Operator, c.PublicURL, c.Now = somebody, "https://commons.example", func() time.Time { return now }
	})
	sentence := `Operator: Example "e.V.", contact: abuse@commons.example, terms: https://commons.example/terms`
	for _, path := range []string{"/llms.txt", "/docs/moderation"} {
		if body := string(s.Get(path).Body); !strings.Contains(body, "\n"+sentence+"\n") {
			t.Errorf("%s: %s", path, body)
		}
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
	if body := string(s.Get("/", "Accept", "text/html").Body); !strings.Contains(body, shown) {
		t.Errorf("/ as a page: %s", body)
	}
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
	if again := s.Get("/.well-known/security.txt", "If-None-Match", r.Header.Get("ETag")); again.Status != http.StatusNotModified {
		t.Errorf("the same day: %d %s", again.Status, again.Body)
	}
	now = now.AddDate(0, 0, 1)
	if later := s.Get("/.well-known/security.txt", "If-None-Match", r.Header.Get("ETag")); !strings.Contains(string(later.Body), "Expires: 2026-04-02T") {
		t.Errorf("a day later: %d %s", later.Status, later.Body)
	}
}

// TestNobodyIsNamed holds the same where no operator is known.
func TestNobodyIsNamed(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/llms.txt", "/docs/moderation", "/.well-known/agent-card.json", "/openapi.json"} {
		for _, word := range []string{"Operator: ", "$OPERATOR", `"provider":{`, `"contact":{`, `"termsOfService":`, "\n\n\n"} {
			if body := string(s.Get(path).Body); strings.Contains(body, word) {
				t.Errorf("%s has %q: %.500s", path, word, body)
			}
		}
	}
	if r := s.Get("/.well-known/security.txt"); r.Status != http.StatusNotFound {
		t.Errorf("%d %s", r.Status, r.Body)
	}
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
			if err := test.check(s); err != nil {
				t.Errorf("%q: %v", s, err)
			}
		}
		for _, s := range test.bad {
			if test.check(s) == nil {
				t.Errorf("%q was taken", s)
			}
		}
	}
	contact := start(t, func(c *api.Config) { c.Operator.Contact = "https://b.example/contact" })
	if r := contact.Get("/.well-known/security.txt"); !strings.HasPrefix(string(r.Body), "Contact: https://b.example/contact\n") {
		t.Errorf("%s", r.Body)
	}
	if body := string(contact.Get("/openapi.json").Body); !strings.Contains(body, `"contact":{"url":"https://b.example/contact"}`) {
		t.Errorf("%.300s", body)
	}
}

// TestCatalog follows the catalog to the cards, and holds that all of them and the
// interface's document have one version.
func TestCatalog(t *testing.T) {
	s := start(t)
	var catalog struct {
		SpecVersion string
		Host        struct{ DisplayName string }
		Entries     []struct{ Identifier, Type, URL string }
	}
	r := s.Get("/.well-known/ai-catalog.json")
	if r.Decode(t, &catalog); r.Header.Get("Content-Type") != "application/ai-catalog+json" || catalog.SpecVersion != "1.0" || catalog.Host.DisplayName != "Commons" || len(catalog.Entries) != 2 {
		t.Errorf("%s %s", r.Header.Get("Content-Type"), r.Body)
	}
	versions := map[string]string{}
	for _, e := range catalog.Entries {
		path, ours := strings.CutPrefix(e.URL, s.URL)
		var card struct{ Version string }
		r := s.Get(path)
		if r.Decode(t, &card); !ours || r.Status != http.StatusOK || !strings.HasPrefix(e.Identifier, "urn:air:127.0.0.1:") {
			t.Errorf("%+v: %d", e, r.Status)
		}
		versions[e.Type] = card.Version
	}
	var document struct{ Info struct{ Version string } }
	s.Get("/openapi.json").Decode(t, &document)
	versions["document"] = document.Info.Version
	var started struct {
		Result struct{ ServerInfo struct{ Version string } }
	}
	s.Do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		"Content-Type", jsonType).Decode(t, &started)
	versions["server"] = started.Result.ServerInfo.Version
	page, err := os.ReadFile("../docs/interface.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, version := range versions {
		if version == "" || version != document.Info.Version || !strings.Contains(string(page), "This is version "+version+".") {
			t.Errorf("the version of %s is %q, of the document %q", what, version, document.Info.Version)
		}
	}
	if len(versions) != 4 {
		t.Errorf("%v", versions)
	}
}

// TestServerCard holds the name of the server card, and what it leads to.
func TestServerCard(t *testing.T) {
	for base, name := range map[string]string{
		"": "127.0.0.1/commons", "https://commons.example:8443": "example.commons/commons", "http://[::1]:8080": "--1/commons",
	} {
		s := start(t, func(c *api.Config) { c.PublicURL = base })
		if base == "" {
			base = s.URL
		}
		var card struct {
			Name    string
			Remotes []struct {
				Type, URL                 string
				SupportedProtocolVersions []string
			}
		}
		r := s.Get("/mcp/server-card")
		if err := json.Unmarshal(r.Body, &card); err != nil || r.Header.Get("Content-Type") != "application/mcp-server-card+json" {
			t.Fatalf("%v: %s", err, r.Body)
		}
		if card.Name != name || len(card.Remotes) != 1 || card.Remotes[0].URL != base+"/mcp" || card.Remotes[0].Type != "streamable-http" || len(card.Remotes[0].SupportedProtocolVersions) == 0 {
			t.Errorf("%s: %s", base, r.Body)
		}
		if again := s.Get("/mcp/server-card", "If-None-Match", r.Header.Get("ETag")); again.Status != http.StatusNotModified {
			t.Errorf("%d", again.Status)
		}
	}
}
