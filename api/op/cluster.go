package op

import (
	"context"

	"github.com/commons-cluster/commons/api/wire"
)

// Overview returns the state of a node and of its cluster.
type Overview interface {
	// Cluster asks all nodes for their state until ctx ends.
	Cluster(ctx context.Context) wire.Cluster
	// Measured returns the measurements of this node in the last hour.
	Measured() wire.Measured
}
