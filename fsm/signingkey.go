package fsm

import (
	"github.com/commons-cluster/commons/fsm/command"
)

const (

	// SigningKeyOverlap is for how long a key that was replaced still signs beside
	// its successor and is published, in milliseconds of log time.
	SigningKeyOverlap = 7 * command.DayMillis
	// MaxSigningKeys is how many keys there are at most. Beyond it the oldest goes,
	// overlap or not.
	MaxSigningKeys = 4
)

func (tx *txn) applyRotateSigningKey(c *command.RotateSigningKey) command.Result {
	keys, _ := read(tx, keySigning, decodeSigningKeys)
	newest := uint64(0)
	if len(keys) > 0 {
		newest = keys[0].Number
	}
	if c.After != newest {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	if newest > 0 {
		keys[0].ReplacedAt = tx.now
	}
	next := []SigningKey{{Number: newest + 1, Public: c.Public, Sealed: c.Sealed, CreatedAt: tx.now}}
	for _, k := range keys {
		if k.signs(tx.now) && len(next) < MaxSigningKeys {
			next = append(next, k)
		}
	}
	tx.keep(keySigning, appendSigningKeys(nil, next))
	return command.Result{Outcome: command.OutcomeDone, Entry: newest + 1}
}

// SigningKey is a key that deliveries are signed with.
type SigningKey struct {
	Number     uint64 // counts from 1
	Public     []byte // ed25519
	Sealed     []byte // the private half, sealed under the cluster's data key
	CreatedAt  int64  // milliseconds since the epoch
	ReplacedAt int64  // the same; 0: it is the newest
}

// signs reports whether the key is in use at an instant.
func (k *SigningKey) signs(now int64) bool {
	return k.ReplacedAt == 0 || now < k.ReplacedAt+SigningKeyOverlap
}

// signingKeysVersion begins the row of spaceSigning:
//
//	version1 (number createdAt replacedAt public sealed)...
//
// Numbers are uvarints, the halves of the key are preceded by their length. The
// newest key comes first.
const signingKeysVersion = 1

func appendSigningKeys(dst []byte, keys []SigningKey) []byte {
	dst = append(dst, signingKeysVersion)
	for i := range keys {
		k := &keys[i]
		dst = appendUints(dst, k.Number, uint64(k.CreatedAt), uint64(k.ReplacedAt))
		dst = appendBlob(appendBlob(dst, k.Public), k.Sealed)
	}
	return dst
}

func decodeSigningKeys(row []byte) (keys []SigningKey, err error) {
	r := rowReader{rest: row}
	r.version(signingKeysVersion)
	for len(r.rest) > 0 && !r.bad {
		keys = append(keys, SigningKey{
			Number: r.uint(), CreatedAt: int64(r.uint()), ReplacedAt: int64(r.uint()),
			Public: []byte(r.text()), Sealed: []byte(r.text()),
		})
	}
	return keys, r.done("row of signing keys")
}

// SigningKeys returns the keys that deliveries are signed with and receivers check
// against, the newest first; none in a cluster that has made none yet.
func (v *View) SigningKeys() ([]SigningKey, error) {
	keys, _, err := load(v.snap, keySigning, decodeSigningKeys)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if !keys[i].signs(v.head.now) {
			return keys[:i], nil // those behind it were replaced earlier
		}
	}
	return keys, nil
}
