package fsm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// RowDigest returns a hash over the logical rows of the state: equal on every
// node at an equal index, however the node came by its rows. It reads everything
// and takes as long, unless ctx ends before.
func (v *View) RowDigest(ctx context.Context) (digest [32]byte, err error) {
	return digestRows(ctx, v.snap, &v.head)
}

// Digest returns the running hash over everything applied up to the view's index.
func (v *View) Digest() [32]byte { return v.head.rolling }

func digestRows(ctx context.Context, r pebble.Reader, h *head) (digest [32]byte, err error) {
	sum := sha256.New()
	var buf []byte
	for _, space := range logicalSpaces {
		lower, upper := spaceBounds(space)
		err := scanSpace(r, lower, upper, func(key, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf = appendBlob(appendBlob(buf[:0], key), value)
			sum.Write(buf)
			return nil
		})
		if err != nil {
			return digest, fmt.Errorf("digest rows: %w", err)
		}
	}
	var n [24]byte
	binary.BigEndian.PutUint64(n[:], h.applied)
	binary.BigEndian.PutUint64(n[8:], uint64(h.now))
	binary.BigEndian.PutUint64(n[16:], h.lastSeq)
	sum.Write(n[:])
	sum.Sum(digest[:0])
	return digest, nil
}
