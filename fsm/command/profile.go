package command

import (
	"errors"
	"fmt"
)

// ProfileFields is a set of the fields of a profile.
type ProfileFields uint8

// The fields of a profile. The numbers stand in logs.
const (
	FieldDescription  ProfileFields = 1 << 0
	FieldCapabilities ProfileFields = 1 << 1
	FieldEndpoint     ProfileFields = 1 << 2
	FieldNote         ProfileFields = 1 << 3
	FieldNotifyURL    ProfileFields = 1 << 4
	FieldProtected    ProfileFields = 1 << 5
)

// Register registers an agent, or changes its profile. Fields that are not given
// keep their value; one that is given and empty is cleared.
type Register struct {
	Agent    string        `cbor:"1,keyasint"` // the name as the reader sees it
	AgentKey string        `cbor:"2,keyasint"` // text.Fold(Agent)
	Given    ProfileFields `cbor:"3,keyasint"`

	Description  string   `cbor:"4,keyasint,omitempty"`
	Capabilities []string `cbor:"5,keyasint,omitempty"`
	Endpoint     string   `cbor:"6,keyasint,omitempty"`
	Note         string   `cbor:"7,keyasint,omitempty"`
	NotifyURL    string   `cbor:"8,keyasint,omitempty"` // where entries are pushed to; never shown

	// Proof holds the key that allows the change, and the sender.
	Proof Proof `cbor:"9,keyasint,omitempty"`
	// NewKey is the SHA-256 of the key that the agent gets if it needs one.
	NewKey  []byte     `cbor:"10,keyasint"`
	House   bool       `cbor:"11,keyasint,omitempty"` // one of the operator's own agents
	Request RequestKey `cbor:"12,keyasint,omitempty"` // the client's idempotency key; the zero value means no key
	// NotifyVerified is set when the receiver at NotifyURL has passed the check. Another
	// one is accepted only if it is in the profile and passed before.
	NotifyVerified bool `cbor:"13,keyasint,omitempty"`
	// NotifySalt is random. With the cluster's data key it makes the secret that deliveries to
	// NotifyURL are signed with; empty without one.
	NotifySalt []byte `cbor:"14,keyasint,omitempty"`
	// Protected says whether writes under the name need its key.
	Protected bool `cbor:"15,keyasint,omitempty"`
	// RotateKey replaces the key that the command proves by NewKey.
	RotateKey bool `cbor:"16,keyasint,omitempty"`
	// NewRecovery is the SHA-256 of the recovery key that the agent gets with its first key.
	NewRecovery []byte `cbor:"17,keyasint"`
	// Delete clears all fields but Protected. The name stays registered.
	Delete bool `cbor:"18,keyasint,omitempty"`
}

// Signature returns the name that the command is made under, and its proof.
func (c *Register) Signature() Signature { return Signature{c.AgentKey, &c.Proof, c.Request} }

func (c *Register) check() error {
	return errors.Join(
		checkText("agent", c.Agent, MinName, MaxName),
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		c.checkGiven(),
		checkOptional("description", c.Description, MinDescription, MaxDescription),
		checkAll("capabilities", c.Capabilities, MaxCapabilities, textOf("capability", MaxCapability)),
		checkText("endpoint", c.Endpoint, 0, MaxURL),
		checkText("note", c.Note, 0, MaxNote),
		checkText("notify url", c.NotifyURL, 0, MaxURL),
		c.Proof.check(),
		checkNewKey("new key", c.NewKey), checkNewKey("new recovery key", c.NewRecovery),
		c.Request.check(),
	)
}

// checkGiven rejects unknown fields, ungiven fields with values, and the anonymous author.
func (c *Register) checkGiven() error {
	switch {
	case c.AgentKey == AnonymousName:
		return errors.New("nobody is registered")
	case c.Delete && c.Given != 0:
		return errors.New("fields of a profile to delete")
	case c.set()&^c.Given != 0:
		return errors.New("a value of a field that is not given")
	case c.NotifyURL != "" && len(c.NotifySalt) != SaltBytes, c.NotifyURL == "" && len(c.NotifySalt) > 0:
		return fmt.Errorf("a salt of %d bytes", len(c.NotifySalt))
	case c.NotifyVerified && c.NotifyURL == "":
		return errors.New("a check of no receiver")
	}
	return nil
}

// set returns the fields that have a value.
func (c *Register) set() (fields ProfileFields) {
	for _, f := range [...]struct {
		field ProfileFields
		has   bool
	}{
		{FieldDescription, c.Description != ""},
		{FieldCapabilities, len(c.Capabilities) > 0},
		{FieldEndpoint, c.Endpoint != ""},
		{FieldNote, c.Note != ""},
		{FieldNotifyURL, c.NotifyURL != "" || c.NotifyVerified},
		{FieldProtected, c.Protected},
	} {
		if f.has {
			fields |= f.field
		}
	}
	return fields
}

func (c *Register) texts() []string {
	return append([]string{c.Agent, c.Description, c.Endpoint, c.Note}, c.Capabilities...)
}

func (*Register) content() [][]string { return nil }

// Recover replaces both keys of a name, the edit_key and the recovery key, by means of its
// recovery key. It removes the receiver, which may be that of a thief of the edit_key.
type Recover struct {
	AgentKey    string `cbor:"1,keyasint"` // text.Fold of the name
	Key         []byte `cbor:"2,keyasint"` // SHA-256 of the recovery key that came with the request
	NewKey      []byte `cbor:"3,keyasint"` // SHA-256 of the next edit_key
	NewRecovery []byte `cbor:"4,keyasint"` // SHA-256 of the next recovery key
	// RequestID is the client's idempotency key: with it the ended recovery key returns another
	// pair for as long as the first one may be lost. Empty means no key.
	RequestID string `cbor:"5,keyasint,omitempty"`
	Proof     Proof  `cbor:"6,keyasint"` // holds the sender
}

// Signature returns the name that the command is made under, and its proof.
func (c *Recover) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Recover) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkNewKey("recovery key", c.Key), checkNewKey("new key", c.NewKey), checkNewKey("new recovery key", c.NewRecovery),
		checkText("request id", c.RequestID, 0, MaxRequestID),
		c.Proof.check(),
	)
}

func (*Recover) texts() []string     { return nil }
func (*Recover) content() [][]string { return nil }

// ResetKey gives a registered agent a new edit_key and recovery key, because the old ones were lost or stolen.
// The address that registered the agent is no proof any more. Only operators can use it.
type ResetKey struct {
	AgentKey    string `cbor:"1,keyasint"` // text.Fold of the name
	NewKey      []byte `cbor:"2,keyasint"` // SHA-256 of the key
	NewRecovery []byte `cbor:"3,keyasint"` // SHA-256 of the recovery key
}

func (c *ResetKey) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkNewKey("new key", c.NewKey), checkNewKey("new recovery key", c.NewRecovery),
	)
}

// ProtectName protects a registered name, or lifts its protection, whoever wrote under
// it. Only operators can use it.
type ProtectName struct {
	AgentKey  string `cbor:"1,keyasint"` // text.Fold of the name
	Protected bool   `cbor:"2,keyasint"`
}

func (c *ProtectName) check() error { return checkBytes("agent key", c.AgentKey, MaxNameKeyBytes) }
