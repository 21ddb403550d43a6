package resource

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
)

// ClusterOperations are the operations of the cluster page. They are not part of the interface:
// their answers may change.
func ClusterOperations() []op.Operation {
	getMeasured := op.Simple(func(c *op.Call) error { return c.AnswerValue(c.Env.Backend.Measured()) })
	return []op.Operation{
		{Method: http.MethodGet, Path: "/cluster.json", ID: "getCluster", Handle: getCluster, Page: true},
		{Method: http.MethodGet, Path: "/measured.json", ID: "getMeasured", Handle: getMeasured, Page: true},
	}
}

// getCluster serves GET /cluster.json: to moderators with ids, versions and disks.
func getCluster(c *op.Call) (op.Task, error) {
	by, err := c.Moderator()
	if err != nil {
		return op.Task{}, err
	}
	if by.Name != "" {
		c.Out.Set(op.HeaderCacheControl, op.CachingNever)
	}
	return op.Task{Run: func() error {
		ctx, done := c.Wait(op.WaitTimeout)
		defer done()
		cluster := c.Env.Backend.Cluster(ctx)
		if by.Name == "" {
			for i := range cluster.Nodes {
				cluster.Nodes[i].Detail = nil
			}
		}
		return c.AnswerValue(cluster)
	}}, nil
}
