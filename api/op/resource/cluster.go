package resource

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
)

// ClusterOperations are the operations of the cluster page. They are not part of the interface:
// their answers may change.
func ClusterOperations() []op.Operation {
	getCluster := op.Simple(func(c *op.Call) error {
		ctx, done := c.Wait(op.WaitTimeout)
		defer done()
		return c.AnswerValue(c.Env.Backend.Cluster(ctx))
	})
	getMeasured := op.Simple(func(c *op.Call) error { return c.AnswerValue(c.Env.Backend.Measured()) })
	return []op.Operation{
		{Method: http.MethodGet, Path: "/cluster.json", ID: "getCluster", Handle: getCluster, Page: true},
		{Method: http.MethodGet, Path: "/measured.json", ID: "getMeasured", Handle: getMeasured, Page: true},
	}
}
