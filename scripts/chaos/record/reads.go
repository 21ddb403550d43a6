package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	strongReaders = 2 // at each node, beside one whose reads are not strong
	// strongTimeout is short, so that a stopped node finds fresh requests when it
	// continues, and answers them before it notices that it was stopped.
	strongTimeout = 1500 * time.Millisecond
	strongLimit   = 20 // entries, of which some are moderated later
)

// read repeatedly asks one node for the newest entries.
func (w *Crowd) read(ctx context.Context, how Kind, node *harness.Node, random *rand.Rand) {
	quick := *w.Client
	quick.http = &http.Client{Timeout: strongTimeout, Transport: w.Client.http.Transport}
	name := "reader-of-" + node.Name
	path := fmt.Sprintf("/api/entries?limit=%d", strongLimit)
	if how == Strong {
		path += "&consistency=strong"
	}
	for ctx.Err() == nil {
		c := Call{Client: name, Surface: "http", Kind: how, Agent: name}
		quick.do(ctx, &c, node, request{http.MethodGet, path, nil, http.Header{}})
		harness.Pause(ctx, w.pollPause()/2+time.Duration(random.Int64N(int64(w.pollPause()))))
	}
}
