package op

import (
	"testing"

	"github.com/commons-cluster/commons/api/credentials"
	"github.com/commons-cluster/commons/internal/check"
)

// TestSecretsAreCredentials holds that texts with our own secrets are rejected.
func TestSecretsAreCredentials(t *testing.T) {
	for prefix, name := range map[string]string{
		EditKeyPrefix:        "an edit_key of this service",
		ModeratorTokenPrefix: "a moderator's token of this service",
	} {
		secret, _ := NewSecret(prefix)
		_, found := credentials.Redact("It is " + secret + ".")
		check.Equal(t, found, name, "found")
	}
}
