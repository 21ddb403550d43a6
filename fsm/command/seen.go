package command

import "errors"

// MarkSeen removes open items of an agent: they need no answer any more.
type MarkSeen struct {
	AgentKey string   `cbor:"1,keyasint"` // text.Fold of the name
	Entries  []uint64 `cbor:"2,keyasint"` // their seqs
	Proof    Proof    `cbor:"3,keyasint"` // of the name
}

// Signature returns the name that the command is made under, and its proof.
func (c *MarkSeen) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *MarkSeen) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkRange("entries", len(c.Entries), 1, MaxSeen, ""),
		c.Proof.check(),
	)
}

func (*MarkSeen) texts() []string     { return nil }
func (*MarkSeen) content() [][]string { return nil }
