package datakey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/netip"
	"sync"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// fingerprintBytes is how much of the hash is kept.
	fingerprintBytes = 16
	// ipv6Network is the bits of an IPv6 address that distinguish hosts: the others are
	// the host's own choice.
	ipv6Network = 64
	// ipv6Site is the bits of the network that one subscriber gets, which has bounds of
	// its own, and ipv6SiteHex the length of its pseudonym.
	ipv6Site    = 48
	ipv6SiteHex = 16
)

// hasher makes the hashes of addresses under one key. It keeps what it has computed from
// the key: that is most of the work for a short text.
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
