package fsm

import (
	"bytes"
	"errors"
)

// ResetKey gives a registered agent another edit_key, because it has lost the
// one that it had or somebody else has got hold of it. Only an operator asks for
// this. The sender that registered the agent proves nothing any more.
type ResetKey struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	NewKey   []byte `cbor:"2,keyasint"` // SHA-256 of the key
}

func (*ResetKey) op() Op { return OpResetKey }

func (c *ResetKey) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
	)
}

func (c *ResetKey) apply(tx *txn) Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return Result{Outcome: OutcomeRejected, Problems: []Problem{ProblemUnknownAgent}}
	}
	copy(p.key[:], c.NewKey)
	p.sender = ""
	p.used = true // nobody but an operator renews it
	tx.putProfile(c.AgentKey, &p)
	return Result{Outcome: OutcomeDone, KeyIssued: true}
}

// Reseal replaces the sealed data key by the same key, sealed under another
// secret. It changes nothing when another one came first.
type Reseal struct {
	Former        []byte `cbor:"1,keyasint"` // the sealed data key that is replaced
	SealedDataKey []byte `cbor:"2,keyasint"`
}

func (*Reseal) op() Op { return OpReseal }

// SealedDataKey returns the sealed data key that a state with this one has when the
// batch was applied.
func (b *Batch) SealedDataKey(sealed []byte) []byte {
	for _, g := range b.Groups {
		for _, c := range g.Commands {
			switch body := c.Body.(type) {
			case *Init:
				if len(sealed) == 0 {
					sealed = body.SealedDataKey
				}
			case *Reseal:
				if bytes.Equal(body.Former, sealed) {
					sealed = body.SealedDataKey
				}
			}
		}
	}
	return sealed
}

func (c *Reseal) check() error {
	return errors.Join(
		checkRange("former sealed data key", len(c.Former), 1, MaxSealedKeyBytes, "bytes"),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
}

func (c *Reseal) apply(tx *txn) Result {
	if tx.cluster.id == "" || !bytes.Equal(tx.cluster.sealedKey, c.Former) {
		return Result{Outcome: OutcomeUnchanged}
	}
	tx.cluster.sealedKey = c.SealedDataKey
	tx.set(keyCluster, tx.cluster.append(nil))
	return Result{Outcome: OutcomeDone}
}
