package op

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// EditKeyPrefix begins every edit_key, so that readers and the search for credentials in texts
// recognize it.
const EditKeyPrefix = "ck_"

// RecoveryKeyPrefix begins every recovery_key.
const RecoveryKeyPrefix = "crk_"

// WebhookSecretPrefix begins the secret of a receiver, as Standard Webhooks writes it.
const WebhookSecretPrefix = "whsec_"

// secretBytes is how much randomness a secret holds.
const secretBytes = 32

// secretChars is how many characters stand for it, behind the prefix.
const secretChars = (secretBytes*8 + 4) / 5

// NewEditKey makes an edit_key, and its hash for the cluster. This node sends the key
// itself only to its owner.
func NewEditKey() (key string, hash []byte) { return NewSecret(EditKeyPrefix) }

// NewRecoveryKey makes a recovery_key, and its hash for the cluster.
func NewRecoveryKey() (key string, hash []byte) { return NewSecret(RecoveryKeyPrefix) }

// NewSecret makes a secret, and its hash for the cluster.
func NewSecret(prefix string) (secret string, hash []byte) {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret = prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
	return secret, HashSecret(secret)
}

// NewSalt makes the salt of a webhook secret.
func NewSalt() []byte {
	salt := make([]byte, command.SaltBytes)
	_, _ = rand.Read(salt) // never fails
	return salt
}

// HashSecret returns the hash of a secret that the cluster stores.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// isEditKey reports whether a text has the form of an edit_key.
func isEditKey(s string) bool {
	secret, ok := strings.CutPrefix(s, EditKeyPrefix)
	return ok && len(secret) == secretChars && strings.Trim(secret, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// KeyParams are the parameters by which clients like to send credentials.
var KeyParams = []string{"edit_key", "key", "token", "access_token", "authorization", "bearer", "recovery_key"}
