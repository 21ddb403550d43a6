package fsm

import (
	"crypto/subtle"

	"github.com/commons-cluster/commons/fsm/command"
)

// opens reports whether a key is the profile's.
func (p *profileRow) opens(key []byte) bool {
	return len(key) == command.KeyHashBytes && subtle.ConstantTimeCompare(key, p.key[:]) == 1
}

// proves reports whether a write is by whoever registered the profile.
func (p *profileRow) proves(proof *command.Proof) bool {
	return p.opens(proof.Key) || proof.Sender != "" && proof.Sender == p.sender
}

// verify reports whether the name of a write is a registered one and the write's
// own. A key counts as used from then on.
func (tx *txn) verify(agentKey string, proof *command.Proof) bool {
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
func (v *View) Proves(agentKey string, proof *command.Proof) (bool, error) {
	p, known, err := v.profile(agentKey)
	return known && p.proves(proof), err
}
