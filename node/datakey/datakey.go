// Package datakey holds which cluster a node is part of, and the cluster's data key. The
// key is stored in the state, sealed under the cluster secret: it is made with the cluster's
// name, opened as soon as the state holds it, and sealed again when the secret changes.
//
// It is given the state, the secrets, and what to call when the cluster and the key are
// known. It never writes the key itself to the log or to a file.
package datakey

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	openRetry = 250 * time.Millisecond // the pause before the data key is tried again with other secrets
	// webhookPurpose keeps the key of webhook secrets apart from other uses of the data key.
	webhookPurpose = "commons webhook secrets"
	// fingerprintPurpose keeps the key of fingerprints apart from other uses of
	// the data key.
	fingerprintPurpose = "commons sender fingerprint"
	fingerprintBytes   = 16 // how much of the hash is kept
	// ipv6Network is the bits of an IPv6 address that distinguish hosts: the others are
	// the host's own choice.
	ipv6Network = 64
	// ipv6Site is the bits of the network that one subscriber gets, which has bounds of
	// its own, and ipv6SiteHex the length of its pseudonym.
	ipv6Site    = 48
	ipv6SiteHex = 16
)

// Config configures a Keeper.
type Config struct {
	Machine *fsm.Machine
	Secrets *cluster.Secrets
	Logger  *slog.Logger

	Joined  func(id string)                      // called once, when a node of no cluster becomes part of one
	Servers func(context.Context) []admin.Server // with their reports
	// Propose replicates a command while this node leads.
	Propose func(context.Context, command.Payload) error
}

// Keeper knows the cluster's id and data key. Its methods are safe for concurrent use.
type Keeper struct {
	cfg          Config
	cluster      atomic.Pointer[string] // the cluster's id, once known
	fingerprints atomic.Pointer[hasher] // makes them, once their key is known
	webhooks     atomic.Pointer[[]byte] // the key of webhook secrets
	known        chan struct{}          // closed once fingerprints is set
}

// New returns the Keeper of a node. founded is the cluster that its log begins with, empty if
// the log shows no cluster; an id in the state takes precedence.
func New(cfg Config, founded string) *Keeper {
	k := &Keeper{cfg: cfg, known: make(chan struct{})}
	if id, _, _ := k.stored(); id != "" {
		founded = id
	}
	if founded != "" {
		k.cluster.Store(&founded)
	}
	return k
}

// stored returns the cluster's id and sealed data key as the state holds them, and the
// state's index.
func (k *Keeper) stored() (id string, sealed []byte, index uint64) {
	v := k.cfg.Machine.View()
	defer v.Release()
	return v.ClusterID(), v.SealedDataKey(), v.Index()
}

// Join notes the cluster that this node is part of from now on, and reports whether the node
// had no cluster before.
func (k *Keeper) Join(id string) bool {
	if id == "" || !k.cluster.CompareAndSwap(nil, &id) {
		return false
	}
	k.cfg.Joined(id)
	return true
}

// ClusterID returns the id of this node's cluster, empty before it has one.
func (k *Keeper) ClusterID() string {
	if id := k.cluster.Load(); id != nil {
		return *id
	}
	return ""
}

// Known is closed once the data key is known.
func (k *Keeper) Known() <-chan struct{} { return k.known }

// IsKnown reports whether the data key is known.
func (k *Keeper) IsKnown() bool { return k.fingerprints.Load() != nil }

// Name writes the cluster's id and a new data key to the log, unless the state holds them.
func (k *Keeper) Name(ctx context.Context) error {
	if id, _, _ := k.stored(); id != "" {
		return nil
	}
	id := k.ClusterID()
	if id == "" {
		return errors.New("the log of the cluster does not begin with its first configuration")
	}
	sealed := k.cfg.Secrets.SealDataKey(cluster.NewDataKey())
	if err := k.cfg.Propose(ctx, &command.Init{ClusterID: id, SealedDataKey: sealed}); err != nil {
		return err
	}
	k.cfg.Logger.InfoContext(ctx, "named the cluster", "cluster", id)
	return nil
}

// Learn takes the cluster's id and its data key from the state as soon as it holds them, and
// returns then.
func (k *Keeper) Learn(ctx context.Context) {
	complained := false
	for {
		id, sealed, index := k.stored()
		if id == "" {
			if k.cfg.Machine.Wait(ctx, index+1) != nil {
				return
			}
			continue
		}
		k.Join(id)
		err := k.open(sealed)
		if err == nil {
			return
		}
		if !complained {
			k.cfg.Logger.ErrorContext(ctx, "the cluster's data key cannot be opened; give this node the secret of its cluster", "error", err)
			complained = true
		}
		if !loop.Pause(ctx, openRetry) {
			return
		}
	}
}

// open makes the cluster's data key known.
func (k *Keeper) open(sealed []byte) error {
	key, err := k.cfg.Secrets.OpenDataKey(sealed)
	if err != nil {
		return err
	}
	webhooks, err := hkdf.Key(sha256.New, key, nil, webhookPurpose, sha256.Size)
	if err != nil {
		return fmt.Errorf("key for %s: %w", webhookPurpose, err)
	}
	k.webhooks.Store(&webhooks)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(fingerprintPurpose))
	k.fingerprints.Store(newHasher(mac.Sum(nil)))
	close(k.known)
	return nil
}

// WebhookSecret returns the secret of a receiver by its salt. It is equal on every node, also after
// another secret seals the data key. It returns nil without a salt, and while the key is not known.
func (k *Keeper) WebhookSecret(salt string) []byte {
	key := k.webhooks.Load()
	if key == nil || salt == "" {
		return nil
	}
	mac := hmac.New(sha256.New, *key)
	mac.Write([]byte(salt))
	return mac.Sum(nil)
}

// Fingerprint returns the pseudonym of a client address: a hash under the cluster's data key. It
// is "" while the key is not known, when the node takes no writes either. Whoever holds the data
// key finds the IPv4 address of a pseudonym by trying all of them.
func (k *Keeper) Fingerprint(addr netip.Addr) string {
	if hasher := k.fingerprints.Load(); hasher != nil {
		return hasher.fingerprint(addr)
	}
	return ""
}

// hasher makes the hashes of addresses under one key. It keeps the state computed from
// the key, which is most of the work for a short text.
type hasher struct{ idle sync.Pool } // of hash.Hash, which have the key already

func newHasher(key []byte) *hasher {
	return &hasher{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// fingerprint is a hash of an address. For an IPv6 address it is a hash of its /64 network,
// and shows which /48 that belongs to.
func (h *hasher) fingerprint(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return h.network(addr, addr.BitLen())
	}
	return h.network(addr, ipv6Site)[:ipv6SiteHex] + command.NetworkEnd + h.network(addr, ipv6Network)
}

// network is a hash of the network of so many bits that the address is in.
func (h *hasher) network(addr netip.Addr, bits int) string {
	mac, _ := h.idle.Get().(hash.Hash)
	defer h.idle.Put(mac)
	mac.Reset()
	mac.Write(netip.PrefixFrom(addr, bits).Masked().Addr().AsSlice())
	return hex.EncodeToString(mac.Sum(nil)[:fingerprintBytes])
}

// resealInterval is how often the leader looks whether the data key has to be
// sealed anew.
const resealInterval = time.Second

// KeepSealed seals the data key under the secret in use when that has changed, for as long
// as this node leads. Then the former secret can go.
func (k *Keeper) KeepSealed(ctx context.Context) {
	said := ""
	loop.Every(ctx, resealInterval, func(ctx context.Context) {
		if err := k.reseal(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			k.cfg.Logger.WarnContext(ctx, "the data key was not sealed under the new secret; it is tried again", "error", err)
		}
	})
}

// reseal seals the data key under the secret in use, unless it is already. Every
// server of the configuration must first report that it has that secret: otherwise it
// could not open the key.
func (k *Keeper) reseal(ctx context.Context) error {
	_, sealed, _ := k.stored()
	inUse := k.cfg.Secrets.KeyIDs()[0]
	if len(sealed) == 0 || cluster.SealedUnder(sealed) == inUse {
		return nil
	}
	if err := checkAllHave(k.cfg.Servers(ctx), inUse); err != nil {
		return err
	}
	key, err := k.cfg.Secrets.OpenDataKey(sealed)
	if err != nil {
		return err
	}
	anew := k.cfg.Secrets.SealDataKey(key)
	if err := k.cfg.Propose(ctx, &command.Reseal{Former: sealed, SealedDataKey: anew}); err != nil {
		return err
	}
	k.cfg.Logger.InfoContext(ctx, "sealed the data key under another secret", "secret", cluster.SealedUnder(anew))
	return nil
}

// checkAllHave lists the servers that do not have a secret, or cannot be asked.
func checkAllHave(servers []admin.Server, secret string) error {
	var lacking []error
	for _, s := range servers {
		switch {
		case s.Report == nil && s.Part != admin.Outside:
			lacking = append(lacking, fmt.Errorf("%s does not answer; start it, or remove it", s.ID))
		case s.Report != nil && !slices.Contains(s.Report.Secrets, secret):
			lacking = append(lacking, fmt.Errorf("%s does not have the secret %s yet", s.ID, secret))
		}
	}
	return errors.Join(lacking...)
}
