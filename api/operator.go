package api

import (
	"errors"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/commons-cluster/commons/api/wire"
)

// Operator is the operator of the service. Empty fields are not shown.
type Operator struct {
	Name    string // of a person or an organisation
	Contact string // a mail address, or an https:// or mailto: address
	Terms   string // the https:// address of the terms of use
}

// The limits of the texts about an operator, in bytes, and the schemes of its addresses.
const (
	maxOperatorName = 100
	maxOperatorURL  = 500

	schemeHTTPS = "https"
	schemeMail  = "mailto"
)

// CheckOperatorName returns an error if the name of an operator is invalid.
func CheckOperatorName(s string) error {
	if len(s) > maxOperatorName || !utf8.ValidString(s) || s != strings.TrimSpace(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("must be one line of at most 100 bytes")
	}
	return nil
}

// CheckOperatorContact returns an error if the contact of an operator is invalid.
func CheckOperatorContact(s string) error {
	u, err := url.Parse(contactURL(s))
	if err == nil && u.Scheme == schemeMail {
		var a *mail.Address
		if a, err = mail.ParseAddress(u.Opaque); err == nil && a.Address != u.Opaque {
			err = errors.New("a name")
		}
	} else if err == nil {
		err = CheckTermsURL(s)
	}
	if err != nil || len(s) > maxOperatorURL {
		return errors.New("must be a mail address, such as abuse@commons.example, or an https:// address")
	}
	return nil
}

// CheckTermsURL returns an error unless s is an https:// address that is safe in any text.
func CheckTermsURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != schemeHTTPS || !validHost(u.Host) || u.User != nil || len(s) > maxOperatorURL || strings.ContainsAny(s, "\"<>() ") {
		return errors.New("must be an address such as https://commons.example/terms")
	}
	return nil
}

// contactURL returns a contact as a URL: a mail address gets the scheme mailto.
func contactURL(contact string) string {
	if contact == "" || strings.Contains(contact, ":") {
		return contact
	}
	return schemeMail + ":" + contact
}

// sentence describes the operator, or returns "".
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

// described returns the OpenAPI document with the operator in its info.
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
