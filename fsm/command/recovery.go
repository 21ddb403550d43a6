package command

import "errors"

// RecoveryCodePrefix begins every recovery code, so that the search for credentials in texts
// and logs recognizes it.
const RecoveryCodePrefix = "crc_"

// Recover asks for a code that replaces the lost edit_key of a name. It has the same result
// whether the name can be recovered or not. The code is not in the log: see RecoveryCode of
// node/datakey.
type Recover struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	Proof    Proof  `cbor:"2,keyasint"` // holds the sender
}

// Signature returns the name that the command is made under, and its proof.
func (c *Recover) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Recover) check() error {
	return errors.Join(checkBytes("agent key", c.AgentKey, MaxNameKeyBytes), c.Proof.check())
}

// Redeem replaces the edit_key of a name. The node that proposes it has checked the code.
type Redeem struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	Number   uint64 `cbor:"2,keyasint"` // of the code
	NewKey   []byte `cbor:"3,keyasint"` // SHA-256 of the key
	// RequestID is the client's idempotency key: with it the code issues another key for as
	// long as the first one may be lost. Empty means no key.
	RequestID string `cbor:"4,keyasint,omitempty"`
	Proof     Proof  `cbor:"5,keyasint"` // holds the sender
}

// Signature returns the name that the command is made under, and its proof.
func (c *Redeem) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Redeem) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		refuse(c.Number == 0, "a code without a number"),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
		checkText("request id", c.RequestID, 0, MaxRequestID),
		c.Proof.check(),
	)
}

func (*Recover) texts() []string     { return nil }
func (*Recover) content() [][]string { return nil }
func (*Redeem) texts() []string      { return nil }
func (*Redeem) content() [][]string  { return nil }
