package api

import (
	"errors"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/wire"
)

// Operator says whose place this is. What is empty is not shown.
type Operator struct {
	Name    string // of a person or an organisation
	Contact string // a mail address, or an https:// or mailto: address
	Terms   string // the https:// address of the terms of use
}

const (
	// maxOperatorName and maxOperatorURL bound what is said of the operator, in bytes.
	maxOperatorName = 100
	maxOperatorURL  = 500
	// securityDays is for how long what /.well-known/security.txt says counts; RFC 9116
	// wants less than a year.
	securityDays = 90

	contentCatalog    = "application/ai-catalog+json"
	contentServerCard = "application/mcp-server-card+json"
	catalogVersion    = "1.0" // of the AI Catalog's specification

	securityPath   = "/.well-known/security.txt"
	cardPath       = "/.well-known/agent-card.json"
	serverCardPath = "/mcp/server-card"

	schemeHTTPS = "https"
	schemeMail  = "mailto"
)

// CheckOperatorName says what is wrong with the name of an operator.
func CheckOperatorName(s string) error {
	if len(s) > maxOperatorName || !utf8.ValidString(s) || s != strings.TrimSpace(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("must be one line of at most 100 bytes")
	}
	return nil
}

// CheckOperatorContact says what is wrong with where an operator is written to.
func CheckOperatorContact(s string) error {
	u, err := url.Parse(contactURL(s))
	if err == nil && u.Scheme == schemeMail {
		var a *mail.Address
		if a, err = mail.ParseAddress(u.Opaque); err == nil && a.Address != u.Opaque {
			err = errors.New("a name")
		}
	} else if err == nil {
		err = checkPublicPage(s)
	}
	if err != nil || len(s) > maxOperatorURL {
		return errors.New("must be a mail address, such as abuse@commons.example, or an https:// address")
	}
	return nil
}

// CheckTermsURL says what is wrong with the address of the terms of use.
func CheckTermsURL(s string) error { return checkPublicPage(s) }

// checkPublicPage takes an https:// address that can stand in any text.
func checkPublicPage(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != schemeHTTPS || !validHost(u.Host) || u.User != nil || len(s) > maxOperatorURL || strings.ContainsAny(s, "\"<>() ") {
		return errors.New("must be an address such as https://commons.example/terms")
	}
	return nil
}

// contactURL is a contact as an address: that of a mailbox has mailto: before it.
func contactURL(contact string) string {
	if contact == "" || strings.Contains(contact, ":") {
		return contact
	}
	return schemeMail + ":" + contact
}

// sentence says whose place this is, "" where nobody has said so.
func (o *Operator) sentence() string {
	var parts []string
	if o.Name != "" {
		parts = append(parts, "Operator: "+o.Name)
	}
	if o.Contact != "" {
		parts = append(parts, "contact: "+strings.TrimPrefix(o.Contact, schemeMail+":"))
	}
	if o.Terms != "" {
		parts = append(parts, "terms: "+o.Terms)
	}
	return strings.Join(parts, ", ")
}

// described is the OpenAPI document with the operator in its info.
func (o *Operator) described(document string) string {
	var fields wire.Object
	if o.Name != "" || o.Contact != "" {
		contact := wire.Object{}
		if o.Name != "" {
			contact = contact.With("name", o.Name)
		}
		if mailbox, isMail := strings.CutPrefix(contactURL(o.Contact), schemeMail+":"); isMail {
			contact = contact.With("email", mailbox)
		} else if o.Contact != "" {
			contact = contact.With("url", o.Contact)
		}
		fields = fields.With("contact", contact)
	}
	if o.Terms != "" {
		fields = fields.With("termsOfService", o.Terms)
	}
	if len(fields) == 0 {
		return document
	}
	const before = `    "license": {`
	members := strings.TrimSuffix(strings.TrimPrefix(string(fields.AppendJSON(nil)), "{"), "}")
	return strings.Replace(document, before, "    "+members+",\n"+before, 1)
}

// answerAgentCard answers with the card of some versions of the message protocol.
func (c *call) answerAgentCard(with10, with03 bool) error {
	operator, base := &c.srv.operator, c.baseURL()
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
	return c.answerCached(contentJSON, card)
}

// getCard serves GET /.well-known/agent-card.json.
func getCard(c *call) error { return c.answerAgentCard(true, c.srv.dualCard) }

// getOldCard serves GET /.well-known/agent.json.
func getOldCard(c *call) error { return c.answerAgentCard(false, true) }

// getServerCard serves GET /mcp/server-card: the tool interface as MCP's server cards
// describe one.
func getServerCard(c *call) error {
	base := c.baseURL()
	labels := strings.Split(hostOf(base), ".")
	if _, err := netip.ParseAddr(hostOf(base)); err != nil {
		slices.Reverse(labels)
	}
	name := strings.ReplaceAll(strings.Join(labels, "."), ":", "-") + "/commons"
	return c.answerCard(contentServerCard, mcp.ServerCard(base, name, interfaceVersion))
}

// getCatalog serves GET /.well-known/ai-catalog.json: which cards there are.
func getCatalog(c *call) error {
	base, name := c.baseURL(), c.srv.operator.Name
	if name == "" {
		name = serviceName
	}
	entry := func(space, mediaType, path string) wire.Object {
		return wire.Object{
			{"identifier", "urn:air:" + hostOf(base) + ":" + space + ":commons"},
			{"displayName", serviceName},
			{"type", mediaType},
			{"url", base + path},
		}
	}
	return c.answerCard(contentCatalog, wire.Object{
		{"specVersion", catalogVersion},
		{"host", wire.Object{{"displayName", name}, {"documentationUrl", base + docsPath}}},
		{"entries", []wire.Object{
			entry("a2a", "application/a2a-agent-card+json", cardPath),
			entry("mcp", contentServerCard, serverCardPath),
		}},
	})
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
func (c *call) answerCard(contentType string, card wire.Object) error {
	return c.answerCached(contentType, string(card.AppendJSON(nil)))
}

// getSecurity serves GET /.well-known/security.txt, the form of RFC 9116: where security
// problems of this place are reported. What it says counts for days from now.
func getSecurity(c *call) error {
	contact := c.srv.operator.Contact
	if contact == "" {
		return &wire.Error{
			Code: wire.CodeNotFound, Message: "The operator of this place has not said where to write to.",
			Issues: []wire.Issue{{"path", "there is no contact"}},
		}
	}
	expires := c.srv.now().UTC().AddDate(0, 0, securityDays).Truncate(24 * time.Hour) // the same all day, for caches
	return c.answerCached(contentText, "Contact: "+contactURL(contact)+
		"\nExpires: "+expires.Format(time.RFC3339)+
		"\nCanonical: "+c.baseURL()+securityPath+"\n")
}

// getOpenAPI serves GET /openapi.json.
func getOpenAPI(c *call) error { return c.answerCached(contentJSON, c.srv.document) }
