package command

import "errors"

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
