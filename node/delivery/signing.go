package delivery

import (
	"context"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/node/datakey"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// signingPurpose separates the key that seals signing keys from other keys derived from
	// the data key.
	signingPurpose = "commons signing keys"
	// signingKeyAge is how long a key signs deliveries before the leader makes a new one.
	// The old one is used beside it for outbox.SigningKeyOverlap.
	signingKeyAge   = 90 * 24 * time.Hour
	signingInterval = time.Second // how often the leader checks the age of the newest key
)

var (
	// errNoDataKey means that this node has not learned the data key yet.
	errNoDataKey = errors.New("this node does not know the cluster's data key yet")
	// errNoSigningKey means that the leader has not made a key yet.
	errNoSigningKey = errors.New("there is no key yet to sign deliveries with")
)

// newSigningSealer returns the cipher that seals private signing keys. It depends only
// on the data key, so that they stay valid when the cluster secret changes.
func newSigningSealer(dataKey []byte) (cipher.AEAD, error) {
	return datakey.NewSealer(dataKey, signingPurpose)
}

// newSigningKey makes the command for a new key, which replaces the one with the
// number after.
func newSigningKey(sealer cipher.AEAD, after uint64) (*command.RotateSigningKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return &command.RotateSigningKey{After: after, Public: public, Sealed: sealer.Seal(nil, nil, private.Seed(), public)}, nil
}

// openSigningKeys returns the private keys, in the same order.
func openSigningKeys(sealer cipher.AEAD, keys []outbox.SigningKey) ([]ed25519.PrivateKey, error) {
	private := make([]ed25519.PrivateKey, len(keys))
	for i := range keys {
		seed, err := sealer.Open(nil, nil, keys[i].Sealed, keys[i].Public)
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("signing key %d is damaged or was sealed under another data key", keys[i].Number)
		}
		private[i] = ed25519.NewKeyFromSeed(seed)
	}
	return private, nil
}

// signingKeys returns the keys that a delivery is signed with now, the newest first. It fails
// with errNoDataKey or errNoSigningKey, or if the keys cannot be read or opened.
func (s *Service) signingKeys() ([]ed25519.PrivateKey, error) {
	sealer := s.signing.Load()
	if sealer == nil {
		return nil, errNoDataKey
	}
	v := s.cfg.Machine.View()
	defer v.Release()
	keys, err := v.SigningKeys()
	if err == nil && len(keys) == 0 {
		err = errNoSigningKey
	}
	if err != nil {
		return nil, err
	}
	return openSigningKeys(*sealer, keys)
}

// keepSigningKey renews the signing key in time, for as long as this node leads.
func (s *Service) keepSigningKey(ctx context.Context) {
	complained := false
	loop.Every(ctx, signingInterval, func(ctx context.Context) {
		if err := s.renewSigningKey(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errNoDataKey) && !complained {
			s.cfg.Logger.WarnContext(ctx, "no key was made to sign deliveries with; it is tried again", "error", err)
			complained = true
		}
	})
}

// signingKeyDue reports whether a new key is needed at an instant, in milliseconds since the
// epoch, and the number of the key that it replaces, or 0.
func signingKeyDue(keys []outbox.SigningKey, now int64) (after uint64, due bool) {
	if len(keys) == 0 {
		return 0, true
	}
	return keys[0].Number, now-keys[0].CreatedAt >= signingKeyAge.Milliseconds()
}

func (s *Service) renewSigningKey(ctx context.Context) error {
	sealer := s.signing.Load()
	if sealer == nil {
		return errNoDataKey
	}
	v := s.cfg.Machine.View()
	keys, err := v.SigningKeys()
	v.Release()
	if err != nil {
		return err
	}
	after, due := signingKeyDue(keys, s.cfg.Stamp())
	if !due {
		return nil
	}
	next, err := newSigningKey(*sealer, after)
	if err != nil {
		return err
	}
	if err := s.cfg.ProposeAsLeader(ctx, next); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(ctx, "made a new key to sign deliveries with", "replaces", after)
	return nil
}
