package api

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
)

const (
	// securityDays is the validity of /.well-known/security.txt. RFC 9116 wants less than a year.
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
	operator, base := &x.http.cfg.Operator, x.baseURL()
	about := a2a.About{Base: base, Version: interfaceVersion, Operator: operator.sentence(), With10: with10, With03: with03}
	if operator.Name != "" {
		about.Provider = wire.Object{{"organization", operator.Name}, {"url", cmp.Or(operator.Terms, base)}}
	}
	card, err := a2a.Card(about)
	if err != nil {
		return err
	}
	return x.AnswerCached(op.ContentJSON, card)
}

// getServerCard serves GET /mcp/server-card: the card of the tool interface.
func getServerCard(x *exchange) error {
	base := x.baseURL()
	labels := strings.Split(hostOf(base), ".")
	if _, err := netip.ParseAddr(hostOf(base)); err != nil {
		slices.Reverse(labels)
	}
	name := strings.ReplaceAll(strings.Join(labels, "."), ":", "-") + "/commons"
	return x.AnswerCached(contentServerCard, string(mcp.ServerCard(base, name, interfaceVersion).AppendJSON(nil)))
}

// getCatalog serves GET /.well-known/ai-catalog.json: the list of cards.
func getCatalog(x *exchange) error {
	base, name := x.baseURL(), cmp.Or(x.http.cfg.Operator.Name, serviceName)
	return x.AnswerCached(contentCatalog, string(wire.Object{
		{"specVersion", catalogVersion},
		{"host", wire.Object{{"displayName", name}, {"documentationUrl", base + docsPath}}},
		{"entries", []wire.Object{
			catalogEntry(base, "a2a", contentAgentCard, cardPath),
			catalogEntry(base, "mcp", contentServerCard, serverCardPath),
		}},
	}.AppendJSON(nil)))
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

// hostOf returns the host of a base URL, without a port.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// getSecurity serves GET /.well-known/security.txt (RFC 9116).
func getSecurity(x *exchange) error {
	contact := x.http.cfg.Operator.Contact
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
