package command

import (
	"errors"
	"strconv"
	"strings"
)

// The log and the rows have a pseudonym in place of a sender's address: a hash of the
// address under a key that holds for an epoch. It begins with the epoch's number.

// epochEnd ends the number of the epoch in a pseudonym.
const epochEnd = "~"

// PseudonymOf returns the pseudonym with a hash in an epoch.
func PseudonymOf(epoch uint64, hash string) string {
	return strconv.FormatUint(epoch, 10) + epochEnd + hash
}

// EpochOf returns the epoch of a pseudonym, or 0 if the pseudonym has no valid number.
func EpochOf(pseudonym string) uint64 {
	number, _, found := strings.Cut(pseudonym, epochEnd)
	epoch, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return 0
	}
	return epoch
}

// Pseudonyms are those of one sender.
type Pseudonyms struct {
	Sender string // in the epoch that is in force; empty if it is not known
	Former string // in the epoch before; empty in the first epoch
}

// AnonymousScope ends the scope of request_ids that came without a name: each sender has
// its own. No name holds it.
const AnonymousScope = "@"

// NextEpoch begins the next epoch of pseudonyms. It has no effect unless the epoch before
// it is in force.
type NextEpoch struct {
	Number uint64 `cbor:"1,keyasint"` // of the epoch that begins, from 1
	// SealedKey is its random key, sealed under the data key.
	SealedKey []byte `cbor:"2,keyasint"`
	// Servers are those of the cluster: each has the keys of former epochs on its disk.
	Servers []string `cbor:"3,keyasint,omitempty"`
}

func (c *NextEpoch) check() error {
	return errors.Join(
		refuse(c.Number == 0, "epochs count from 1"),
		checkRange("sealed key", len(c.SealedKey), 1, MaxSealedKeyBytes, "bytes"),
		checkAll("servers", c.Servers, MaxServers, bytesOf("server id", MaxServerIDBytes)),
	)
}

// ForgetSenders forgets the senders of entries that are older than the settings allow, a
// bounded number of them at once.
type ForgetSenders struct{}

func (*ForgetSenders) check() error { return nil }
