package api

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/wire"
)

const (
	// securityDays is for how long what /.well-known/security.txt says counts; RFC 9116
	// wants less than a year.
	securityDays = 90

	contentCatalog    = "application/ai-catalog+json"
	contentAgentCard  = "application/a2a-agent-card+json"
	contentServerCard = "application/mcp-server-card+json"
	catalogVersion    = "1.0" // of the AI Catalog's specification

	securityPath   = "/.well-known/security.txt"
	cardPath       = "/.well-known/agent-card.json"
	serverCardPath = "/mcp/server-card"
)

// answerAgentCard answers with the card of some versions of the message protocol.
func (x *exchange) answerAgentCard(with10, with03 bool) error {
	operator, base := &x.http.operator, x.baseURL()
	about := a2a.About{Base: base, Version: interfaceVersion, Operator: operator.sentence(), With10: with10, With03: with03}
	if operator.Name != "" {
		page := operator.Terms
		if page == "" {
			page = base
		}
		about.Provider = wire.Object{{"organization", operator.Name}, {"url", page}}
	}
	card, err := a2a.Card(about)
	if err != nil {
		return err
	}
	return x.AnswerCached(op.ContentJSON, card)
}

// getCard serves GET /.well-known/agent-card.json.
func getCard(x *exchange) error { return x.answerAgentCard(true, x.http.dualCard) }

// getOldCard serves GET /.well-known/agent.json.
func getOldCard(x *exchange) error { return x.answerAgentCard(false, true) }

// getServerCard serves GET /mcp/server-card: the tool interface as MCP's server cards
// describe one.
func getServerCard(x *exchange) error {
	base := x.baseURL()
	labels := strings.Split(hostOf(base), ".")
	if _, err := netip.ParseAddr(hostOf(base)); err != nil {
		slices.Reverse(labels)
	}
	name := strings.ReplaceAll(strings.Join(labels, "."), ":", "-") + "/commons"
	return x.answerCard(contentServerCard, mcp.ServerCard(base, name, interfaceVersion))
}

// getCatalog serves GET /.well-known/ai-catalog.json: which cards there are.
func getCatalog(x *exchange) error {
	base, name := x.baseURL(), x.http.operator.Name
	if name == "" {
		name = serviceName
	}
	return x.answerCard(contentCatalog, wire.Object{
		{"specVersion", catalogVersion},
		{"host", wire.Object{{"displayName", name}, {"documentationUrl", base + docsPath}}},
		{"entries", []wire.Object{
			catalogEntry(base, "a2a", contentAgentCard, cardPath),
			catalogEntry(base, "mcp", contentServerCard, serverCardPath),
		}},
	})
}

// catalogEntry returns an entry of the AI catalog and of the ARD manifest.
func catalogEntry(base, space, mediaType, path string) wire.Object {
	return wire.Object{
		{"identifier", "urn:air:" + hostOf(base) + ":" + space + ":commons"},
		{"displayName", serviceName},
		{"type", mediaType},
		{"url", base + path},
	}
}

// hostOf is the host of a base, without a port.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// answerCard answers with a card, or with 304 where the client has it.
func (x *exchange) answerCard(contentType string, card wire.Object) error {
	return x.AnswerCached(contentType, string(card.AppendJSON(nil)))
}

// getSecurity serves GET /.well-known/security.txt, the form of RFC 9116: where security
// problems of this place are reported. What it says counts for days from now.
func getSecurity(x *exchange) error {
	contact := x.http.operator.Contact
	if contact == "" {
		return &wire.Error{
			Code: wire.CodeNotFound, Message: "The operator of this place has not said where to write to.",
			Issues: []wire.Issue{{"path", "there is no contact"}},
		}
	}
	expires := x.Env.Now().UTC().AddDate(0, 0, securityDays).Truncate(24 * time.Hour) // the same all day, for caches
	return x.AnswerCached(op.ContentText, "Contact: "+contactURL(contact)+
		"\nExpires: "+expires.Format(time.RFC3339)+
		"\nCanonical: "+x.baseURL()+securityPath+"\n")
}

// getOpenAPI serves GET /openapi.json.
func getOpenAPI(x *exchange) error { return x.AnswerCached(op.ContentJSON, x.http.document) }
