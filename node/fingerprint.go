package node

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
)

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
