package op

import (
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Proof returns the proof of the request itself: the key of its header, and the
// address, unless a page in a browser can have sent it.
func (c *Call) Proof() command.Proof {
	proof := command.Proof{Address: c.Header(HeaderOrigin) == "", Shared: c.Env.NoAddressProof || c.Origin().Proxied}
	if key := c.BearerKey(); key != "" {
		proof.Key = HashSecret(key)
	}
	proof.Sender, proof.Unlimited = c.Env.Backend.Fingerprint(c.Sender()), c.Env.Unlimited
	return proof
}

// bearerScheme comes before the edit_key in an Authorization header.
const bearerScheme = "Bearer"

// bearer returns the token of the Authorization header, or "".
func (c *Call) bearer() string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(c.Header(HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, bearerScheme) {
		return ""
	}
	return strings.TrimSpace(token)
}

// BearerKey returns the edit_key of the Authorization header, or "".
func (c *Call) BearerKey() string {
	if key := c.bearer(); isEditKey(key) {
		return key
	}
	return "" // gateways send tokens of their own
}

// KeyOwner returns the agent of an edit_key, or "". An empty edit_key means that of the
// header. An unknown key may be newer than this node's state: then the call waits for that of
// the leader, and sets KeyErr if the wait fails.
func (c *Call) KeyOwner(editKey string) string {
	if editKey == "" {
		editKey = c.BearerKey()
	}
	if !isEditKey(editKey) {
		return ""
	}
	find := func() (owner string) {
		view := c.Env.Backend.View()
		defer view.Release()
		owner, c.KeyErr = view.KeyOwner(HashSecret(editKey))
		return owner
	}
	if owner := find(); owner != "" || c.CheckOnly || c.KeyErr != nil {
		return owner
	}
	if c.KeyErr = c.Await(Freshness{Strong: true}); c.KeyErr != nil {
		return ""
	}
	return find()
}

// ModeratorTokenPrefix begins every token of a moderator.
const ModeratorTokenPrefix = "cmod_"

// Moderator returns the moderator who makes the call, or an error for other callers.
func (c *Call) Moderator() (m state.Moderator, err error) {
	if c.Relay != nil && c.Relay.Operator {
		return state.Moderator{Name: command.Operator}, nil
	}
	token := c.bearer()
	if !strings.HasPrefix(token, ModeratorTokenPrefix) {
		return m, NotModerator()
	}
	m, ended, err := c.View().Moderator(HashSecret(token))
	c.Release() // the answer may have to wait for a newer view
	switch {
	case err != nil:
	case m.Name == "":
		err = NotModerator()
	case ended:
		refusal := NotModerator()
		refusal.Message = "Your token ended at " + time.UnixMilli(m.Until).UTC().Format(time.RFC3339) + "."
		err = refusal
	}
	return m, err
}

// NotModerator returns the error for a caller without a moderator's token.
func NotModerator() *wire.Error {
	return &wire.Error{
		Code: wire.CodeNotModerator, Message: "This is for moderators.",
		Issues: []wire.Issue{{HeaderAuthorization, "must be " + bearerScheme + " and a moderator's token, which the operator gives out"}},
	}
}

// KeyInHeader names the place of an edit_key outside the body.
const KeyInHeader = "in the header Authorization: " + bearerScheme + " " + wire.ExampleKey

// Body returns the body of the request, and notes a hint of its decoder.
func (c *Call) Body() (wire.Document, error) {
	doc, err := c.Input.Body()
	if doc.Hint != "" {
		c.Notes = append(c.Notes, doc.Hint)
	}
	c.LookUp(&doc)
	return doc, err
}

// LookUp lets a document find the owners of keys, and registered names.
func (c *Call) LookUp(doc *wire.Document) {
	doc.Owner = c.KeyOwner
	doc.Registered = func(agentKey string) bool {
		view := c.Env.Backend.View()
		defer view.Release()
		_, known, err := view.Profile(agentKey)
		return known && err == nil // an unknown name may be mentioned, too
	}
}
