package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
)

// openRetry is the pause before the data key is tried again with other secrets.
const openRetry = 250 * time.Millisecond

// joinCluster notes the cluster that this node is part of from now on, and reports
// whether it was part of none before.
func (n *Node) joinCluster(id string) bool {
	if id == "" || !n.cluster.CompareAndSwap(nil, &id) {
		return false
	}
	n.port.Joined(id)
	return true
}

var errNotFounded = errors.New("the log of the cluster does not begin with its first configuration")

// clusterID returns the id of this node's cluster, "" while it has none.
func (n *Node) clusterID() string {
	if id := n.cluster.Load(); id != nil {
		return *id
	}
	return ""
}

// resolve returns where a server's private port is: as gossip says, or as it was
// known before the last restart.
func (n *Node) resolve(serverID string) (addr string, ok bool) {
	if g := n.gossiping.Load(); g != nil {
		if m, ok := g.Member(serverID); ok {
			return m.ClusterAddr, true
		}
	}
	return n.book.Resolve(serverID)
}

// newInit makes the command that keeps the cluster's name, and its data key.
func (n *Node) newInit() (*command.Init, error) {
	id := n.clusterID()
	if id == "" {
		return nil, errNotFounded
	}
	sealed, err := n.secrets.SealDataKey(cluster.NewDataKey())
	if err != nil {
		return nil, fmt.Errorf("sealing the data key: %w", err)
	}
	return &command.Init{ClusterID: id, SealedDataKey: sealed}, nil
}

// learnCluster takes the cluster's id and data key from the state as soon as it
// holds them, and returns then.
func (n *Node) learnCluster(ctx context.Context) {
	complained := false
	for {
		v := n.machine.View()
		id, sealed, index := v.ClusterID(), v.SealedDataKey(), v.Index()
		v.Release()
		if id == "" {
			if n.machine.Wait(ctx, index+1) != nil {
				return
			}
			continue
		}
		n.joinCluster(id)
		key, err := n.secrets.OpenDataKey(sealed)
		if err == nil {
			err = n.setDataKey(key)
		}
		if err == nil {
			return
		}
		if !complained {
			n.logger.ErrorContext(ctx, "the cluster's data key cannot be opened; give this node the secret of its cluster", "error", err)
			complained = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
}

// meta is what this node tells all others.
func (n *Node) meta(fresh, leaving bool) cluster.Meta {
	m := cluster.Meta{
		ServerID: n.identity.ServerID, NodeName: n.identity.NodeName,
		ClusterAddr: n.port.AdvertiseAddr(), HTTPAddr: n.httpAdvertise, Version: n.cfg.Version, Format: n.cfg.Tuning.Format,
		ClusterID: n.clusterID(), Expect: n.cfg.BootstrapExpect, Fresh: fresh, NonVoter: n.cfg.NonVoter, Leaving: leaving,
	}
	if d := n.health.Disk(); d != nil {
		m.FreeMiB, m.DiskLow = d.FreeMiB(), d.Low
	}
	return m
}

// named reports whether the state has the cluster's name, and with it its data key.
func (n *Node) named() bool {
	v := n.machine.View()
	defer v.Release()
	return v.ClusterID() != ""
}

const (
	// fingerprintPurpose keeps the key of fingerprints apart from other uses of
	// the data key.
	fingerprintPurpose = "commons sender fingerprint"
	// fingerprintBytes is how much of the hash is kept.
	fingerprintBytes = 16
	// ipv6Network is how much of an IPv6 address tells hosts apart: the rest is
	// the host's own choice.
	ipv6Network = 64
)

// setDataKey makes the cluster's data key known.
func (n *Node) setDataKey(key []byte) error {
	if err := n.delivery.SetDataKey(key); err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(fingerprintPurpose))
	derived := mac.Sum(nil)
	n.fingerprints.Store(&derived)
	n.joinOnce.Do(func() { close(n.joined) })
	return nil
}

// Fingerprint returns the pseudonym of a client address under the cluster's data
// key; "" while the key is not known, when Propose takes nothing either.
func (n *Node) Fingerprint(addr netip.Addr) string {
	key := n.fingerprints.Load()
	if key == nil {
		return ""
	}
	return fingerprint(*key, addr)
}

func fingerprint(key []byte, addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(ipv6Network); err == nil {
			addr = p.Addr()
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(addr.AsSlice())
	return hex.EncodeToString(mac.Sum(nil)[:fingerprintBytes])
}
