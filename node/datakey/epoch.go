package datakey

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// epochPurpose keeps the key that seals the keys of epochs apart from other uses of
	// the data key.
	epochPurpose = "commons sender epochs"
	// epochInterval is how often the leader looks whether an epoch ends, and whether
	// senders are to be forgotten.
	epochInterval   = time.Second
	derivedKeyBytes = 32 // the length of the keys of epochs, and of keys that seal others
)

// errNoEpoch means that the leader has not begun the first epoch yet.
var errNoEpoch = errors.New("the cluster has no key for pseudonyms yet")

// NewSealer returns what seals keys of one purpose under the data key, and opens them.
func NewSealer(dataKey []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, dataKey, nil, purpose, derivedKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("key for %s: %w", purpose, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key for %s: %w", purpose, err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// epochKeys make hashes under the keys of an epoch and of the one before it.
type epochKeys struct {
	number          uint64
	current, former *hasher // former is nil in the first epoch
}

// epochLabel goes with a sealed key: it is the key of that epoch and of no other one.
func epochLabel(number uint64) []byte { return binary.AppendUvarint(nil, number) }

// epoch returns the keys of the epoch that is in force, as far as this node knows.
func (k *Keeper) epoch() (*epochKeys, error) {
	v := k.cfg.Machine.View()
	e, err := v.SenderEpoch()
	v.Release()
	sealer := k.sealer.Load()
	if err != nil || e.Number == 0 || sealer == nil {
		return nil, errors.Join(err, errNoEpoch)
	}
	if keys := k.epochs.Load(); keys != nil && keys.number == e.Number {
		return keys, nil
	}
	keys := &epochKeys{number: e.Number}
	key, err := (*sealer).Open(nil, nil, e.Key, epochLabel(e.Number))
	keys.current = newHasher(key)
	if err == nil && len(e.Last) > 0 {
		key, err = (*sealer).Open(nil, nil, e.Last, epochLabel(e.Number-1))
		keys.former = newHasher(key)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of epoch %d cannot be opened: %w", e.Number, err)
	}
	k.epochs.Store(keys)
	return keys, nil
}

// Pseudonyms returns the pseudonyms of a client's address in the log; empty ones while
// the key is not known, when the node takes no writes either.
func (k *Keeper) Pseudonyms(addr netip.Addr) (p command.Pseudonyms) {
	keys, err := k.epoch()
	if err != nil {
		return p
	}
	p.Sender = command.PseudonymOf(keys.number, keys.current.fingerprint(addr))
	if keys.former != nil {
		p.Former = command.PseudonymOf(keys.number-1, keys.former.fingerprint(addr))
	}
	return p
}

// KeepEpochs begins the first epoch, and the next one whenever one ends, and forgets from
// where old entries came, for as long as this node leads.
func (k *Keeper) KeepEpochs(ctx context.Context) {
	said := ""
	loop.Every(ctx, epochInterval, func(ctx context.Context) {
		err := k.renewEpoch(ctx)
		if err == nil {
			err = k.forgetSenders(ctx)
		}
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			k.cfg.Logger.WarnContext(ctx, "senders keep their pseudonyms longer than they should; it is tried again", "error", err)
		}
	})
}

func (k *Keeper) renewEpoch(ctx context.Context) error {
	v := k.cfg.Machine.View()
	e, err := v.SenderEpoch()
	set, errSettings := v.Settings()
	v.Release()
	if err := errors.Join(err, errSettings); err != nil {
		return err
	}
	if e.Number > 0 && k.cfg.Stamp() < e.Ends(set) {
		return nil
	}
	sealer := k.sealer.Load()
	if sealer == nil {
		return errors.New("the data key is not known here yet")
	}
	key := make([]byte, derivedKeyBytes)
	_, _ = rand.Read(key) // never fails
	number := e.Number + 1
	next := &command.NextEpoch{Number: number, SealedKey: (*sealer).Seal(nil, nil, key, epochLabel(number)), Servers: k.cfg.ServerIDs()}
	if err := k.cfg.Propose(ctx, next); err != nil {
		return err
	}
	k.cfg.Logger.InfoContext(ctx, "senders have other pseudonyms from now on", "epoch", number)
	return nil
}

func (k *Keeper) forgetSenders(ctx context.Context) error {
	for ctx.Err() == nil {
		v := k.cfg.Machine.View()
		some, err := v.SendersToForget(k.cfg.Stamp())
		v.Release()
		if err != nil || !some {
			return err
		}
		if err := k.cfg.Propose(ctx, &command.ForgetSenders{}); err != nil {
			return err
		}
	}
	return nil
}
