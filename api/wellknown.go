package api

import (
	"cmp"
	"time"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
)

const (
	// securityDays is the validity of /.well-known/security.txt. RFC 9116 wants less than a year.
	securityDays = 90

	securityPath = "/.well-known/security.txt"
	cardPath     = "/.well-known/agent-card.json"
)

// getAgentCard serves the card of this service, with the fields of both versions of the message
// protocol.
func getAgentCard(x *exchange) error {
	operator, base := &x.http.cfg.Operator, x.baseURL()
	about := a2a.About{Base: base, Version: interfaceVersion, Operator: operator.sentence()}
	if operator.Name != "" {
		about.Provider = wire.Object{{"organization", operator.Name}, {"url", cmp.Or(operator.Terms, base)}}
	}
	card, err := a2a.Card(about)
	if err != nil {
		return err
	}
	return x.AnswerCached(op.ContentJSON, card)
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
