package delivery

import (
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/must"
)

// TestSigningKeysAreSealed holds that only keys that were sealed under the same data key are
// opened.
func TestSigningKeysAreSealed(t *testing.T) {
	sealer := must.Get(newSigningSealer([]byte("a data key")))(t)
	other := must.Get(newSigningSealer([]byte("another data key")))(t)
	var keys []outbox.SigningKey
	for after := range uint64(2) {
		c := must.Get(newSigningKey(sealer, after))(t)
		if err := command.Check(c); err != nil || c.After != after {
			t.Fatalf("%+v: %v", c, err)
		}
		keys = append(keys, outbox.SigningKey{Number: after + 1, Public: c.Public, Sealed: c.Sealed})
	}
	private := must.Get(openSigningKeys(sealer, keys))(t)
	for i, key := range private {
		signature := ed25519.Sign(key, []byte("a message"))
		for j := range keys {
			if ed25519.Verify(keys[j].Public, []byte("a message"), signature) != (i == j) {
				t.Errorf("key %d does not belong to its public half", i+1)
			}
		}
	}
	if _, err := openSigningKeys(other, keys); err == nil {
		t.Error("another data key opens them")
	}
	keys[0].Public, keys[1].Public = keys[1].Public, keys[0].Public
	if _, err := openSigningKeys(sealer, keys); err == nil {
		t.Error("a key opens under another public half")
	}
	keys[0].Sealed = keys[0].Sealed[:10]
	if _, err := openSigningKeys(sealer, keys[:1]); err == nil {
		t.Error("half a key opens")
	}
}

// TestSigningKeyIsMade holds that a cluster makes itself a key, once.
func TestSigningKeyIsMade(t *testing.T) {
	h := newTestbed(t, nil)
	var first []ed25519.PrivateKey
	made := func() bool {
		keys, err := h.signingKeys()
		first = keys
		return err == nil && len(keys) > 0
	}
	h.lead(t)
	await.Eventually(t, "a key", made)
	before := first
	if err := h.renewSigningKey(t.Context()); err != nil {
		t.Error(err)
	}
	if made(); !slices.EqualFunc(before, first, func(a, b ed25519.PrivateKey) bool { return a.Equal(b) }) {
		t.Errorf("%d keys when it looks again, which are not those before", len(first))
	}
	next := must.Get(newSigningKey(*h.signing.Load(), 1))(t)
	must.Do(t, h.propose(t.Context(), next))
	if made(); len(first) != 2 || !first[1].Equal(before[0]) || !first[0].Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(next.Public)) {
		t.Errorf("%d keys after a rotation, want the new one and the one before", len(first))
	}
}

func TestSigningKeyDue(t *testing.T) {
	const born = 1_700_000_000_000
	old := born + signingKeyAge.Milliseconds()
	keys := []outbox.SigningKey{{Number: 7, CreatedAt: born}, {Number: 6, CreatedAt: 1}}
	for _, tt := range []struct {
		keys  []outbox.SigningKey
		now   int64
		after uint64
		due   bool
	}{{nil, born, 0, true}, {keys, born - 1, 7, false}, {keys, old - 1, 7, false}, {keys, old, 7, true}} {
		if after, due := signingKeyDue(tt.keys, tt.now); after != tt.after || due != tt.due {
			t.Errorf("%d keys at %d: after %d, %v", len(tt.keys), tt.now, after, due)
		}
	}
}
