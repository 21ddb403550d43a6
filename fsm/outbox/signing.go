package outbox

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// SigningKeyOverlap is for how long a key that was replaced still signs beside
	// its successor and is published, in milliseconds of log time.
	SigningKeyOverlap = 7 * command.DayMillis
	// MaxSigningKeys bounds the keys. Beyond it the oldest is removed, overlap or not.
	MaxSigningKeys = 4
)

// SigningKey is a key that deliveries are signed with.
type SigningKey struct {
	Number     uint64 // counts from 1
	Public     []byte // ed25519
	Sealed     []byte // the private half, sealed under the cluster's data key
	CreatedAt  int64  // milliseconds since the epoch
	ReplacedAt int64  // the same; 0 for the newest
}

// Signs reports whether the key is in use at an instant.
func (k *SigningKey) Signs(now int64) bool {
	return k.ReplacedAt == 0 || now < k.ReplacedAt+SigningKeyOverlap
}

// signingKeysVersion begins the row of spaceSigning:
//
//	version1 (number CreatedAt replacedAt public sealed)...
//
// Numbers are uvarints, the halves of the key are preceded by their length. The
// newest key comes first.
const signingKeysVersion = 1

// AppendSigningKeys encodes the row of spaceSigning.
func AppendSigningKeys(dst []byte, keys []SigningKey) []byte {
	dst = append(dst, signingKeysVersion)
	for i := range keys {
		k := &keys[i]
		dst = state.AppendUints(dst, k.Number, uint64(k.CreatedAt), uint64(k.ReplacedAt))
		dst = state.AppendBlob(state.AppendBlob(dst, k.Public), k.Sealed)
	}
	return dst
}

// DecodeSigningKeys decodes the row of spaceSigning.
func DecodeSigningKeys(row []byte) (keys []SigningKey, err error) {
	r := state.RowReader{Rest: row}
	r.Version(signingKeysVersion)
	for len(r.Rest) > 0 && !r.Bad {
		keys = append(keys, SigningKey{
			Number: r.Uint(), CreatedAt: int64(r.Uint()), ReplacedAt: int64(r.Uint()),
			Public: []byte(r.Text()), Sealed: []byte(r.Text()),
		})
	}
	return keys, r.Done("row of signing keys")
}
