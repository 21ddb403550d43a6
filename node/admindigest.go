package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

const (
	// digestWait bounds the wait for a node to reach the index of a comparison.
	digestWait = 5 * time.Second
	// digestRounds is how often a comparison is tried at a later index where a
	// node had passed the one before.
	digestRounds = 3
)

// digestAt returns this node's digest at an index, once it has applied it.
func (n *Node) digestAt(ctx context.Context, request admin.DigestRequest) (admin.Digest, error) {
	id := n.identity.ServerID
	if request.Index == 0 {
		index, digest := n.machine.Digest()
		return admin.Digest{ID: id, Index: index, Digest: hex.EncodeToString(digest[:])}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, digestWait)
	defer cancel()
	if err := n.machine.Wait(ctx, request.Index); err != nil {
		return admin.Digest{}, refusef(http.StatusServiceUnavailable, "%s is at index %d and did not reach %d in time", id, n.machine.Applied(), request.Index)
	}
	digest, ok := n.machine.DigestAt(request.Index)
	if !ok {
		return admin.Digest{}, refusef(http.StatusGone, "%s does not remember its digest at %d any more", id, request.Index)
	}
	return admin.Digest{ID: id, Index: request.Index, Digest: hex.EncodeToString(digest[:])}, nil
}

// compareDigests asks all servers of the configuration for their digest at one
// index that covers everything acknowledged so far.
func (n *Node) compareDigests(ctx context.Context, _ struct{}) (admin.Comparison, error) {
	var c admin.Comparison
	for range digestRounds {
		index, err := n.pipeline.ReadIndex(ctx)
		if err != nil {
			return c, refusef(http.StatusServiceUnavailable, "no index to compare at: %v; see `commons members`, and repeat", err)
		}
		if c = n.compareAt(ctx, index); c.Complete() {
			break
		}
	}
	return c, nil
}

// askDigest returns a server's digest.
func (n *Node) askDigest(ctx context.Context, id string, request admin.DigestRequest) (admin.Digest, error) {
	if id == n.identity.ServerID {
		return n.digestAt(ctx, request)
	}
	return call[admin.Digest](ctx, n, id, admin.PathDigest, request)
}

// compareAt asks all servers of the configuration at the same time.
func (n *Node) compareAt(ctx context.Context, index uint64) admin.Comparison {
	servers := n.servers()
	c := admin.Comparison{Index: index, Equal: true, Digests: make([]admin.Digest, len(servers))}
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, digestWait+reportTimeout)
			defer cancel()
			d, err := n.askDigest(ctx, string(s.ID), admin.DigestRequest{Index: index})
			if err != nil {
				d = admin.Digest{ID: string(s.ID), Index: index, Error: fmt.Sprint(err)}
			}
			c.Digests[i] = d
		})
	}
	wg.Wait()
	first := ""
	for _, d := range c.Digests {
		if first == "" {
			first = d.Digest
		}
		c.Equal = c.Equal && (d.Digest == first || d.Error != "")
	}
	return c
}
