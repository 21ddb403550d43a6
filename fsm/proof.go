package fsm

import (
	"crypto/subtle"
	"errors"
	"fmt"
)

const (
	// KeyHashBytes is the length of the hash of an edit_key: SHA-256. The key
	// itself never enters the log.
	KeyHashBytes = 32
	// MaxFingerprintBytes bounds the pseudonym of a sender.
	MaxFingerprintBytes = 64
)

// Proof is what a write brings along for the name that it is made under. It
// proves the same sender over time, never an identity. The zero value proves
// nothing.
type Proof struct {
	// Key is the SHA-256 of the edit_key that came with the write; empty: none.
	Key []byte `cbor:"1,keyasint,omitempty"`
	// Sender is the fingerprint of the sender's address; "": not told.
	Sender string `cbor:"2,keyasint,omitempty"`
}

func (p *Proof) check() error {
	return errors.Join(checkKeyHash("edit key", p.Key), checkRange("sender", len(p.Sender), 0, MaxFingerprintBytes, "bytes"))
}

// checkKeyHash insists on a hash, or nothing.
func checkKeyHash(field string, hash []byte) error {
	if len(hash) != 0 && len(hash) != KeyHashBytes {
		return fmt.Errorf("%s: a hash of %d bytes", field, len(hash))
	}
	return nil
}

// opens reports whether a key is the profile's.
func (p *profileRow) opens(key []byte) bool {
	return len(key) == KeyHashBytes && subtle.ConstantTimeCompare(key, p.key[:]) == 1
}

// proves reports whether a write is by whoever registered the profile.
func (p *profileRow) proves(proof *Proof) bool {
	return p.opens(proof.Key) || proof.Sender != "" && proof.Sender == p.sender
}

// verify reports whether the name of a write is a registered one and the write's
// own. A key counts as used from then on.
func (tx *txn) verify(agentKey string, proof *Proof) bool {
	if len(proof.Key) == 0 && proof.Sender == "" {
		return false
	}
	p, known := tx.profile(agentKey)
	if !known {
		return false
	}
	if p.opens(proof.Key) {
		tx.useKey(agentKey, &p)
	}
	return p.proves(proof)
}

// useKey notes that the agent has its key: it is not made anew any more.
func (tx *txn) useKey(agentKey string, p *profileRow) {
	if !p.used {
		p.used = true
		tx.putProfile(agentKey, p)
	}
}

// Proves reports whether a write with this proof is by whoever registered the
// name, as far as the view knows.
func (v *View) Proves(agentKey string, proof *Proof) (bool, error) {
	p, known, err := v.profile(agentKey)
	return known && p.proves(proof), err
}
