package node

import (
	"context"
	"strings"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/node/admin"
)

// Cluster is the cluster as people are shown it.
func (b *backend) Cluster(ctx context.Context) api.Cluster {
	report := b.operator.Pulse(ctx)
	newest := report.Newest()
	c := api.Cluster{Leader: nameOf(report.Leader), Nodes: make([]api.ClusterNode, len(report.Servers)), Elections: []api.Election{}}
	for i := range report.Servers {
		c.Nodes[i] = shownNode(&report.Servers[i], newest)
	}
	for _, e := range b.health.History().Elections {
		c.Elections = append(c.Elections, api.Election{At: e.At.UnixMilli(), Leader: nameOf(e.Leader), Term: e.Term})
	}
	return c
}

// shownNode is one server of it; newest is the highest index that any has applied.
func shownNode(s *admin.Server, newest uint64) api.ClusterNode {
	n := api.ClusterNode{Name: nameOf(s.ID), Voter: s.Part == admin.Voter, Health: api.NodeAway}
	n.Detail = &api.NodeDetail{ID: s.ID, Problems: []string{}}
	r := s.Report
	if r == nil {
		n.Detail.Problems = []string{s.Error}
		return n
	}
	n.Health = api.NodeWell
	if !r.Ready || r.Rejects != "" {
		n.Health = api.NodeUnready
	}
	const minute = 60
	n.Name, n.Role, n.Term, n.AppliedIndex, n.Lag = r.Name, r.Role, r.Term, r.Applied, newest-r.Applied
	n.UptimeMillis = r.UptimeMillis
	n.ReadRate, n.WriteRate = float64(r.Read.Count)/minute, float64(r.Write.Count)/minute
	n.Detail.Version, n.Detail.DiskFree, n.Detail.DiskSize = r.Version, r.DiskFree, r.DiskSize
	n.Detail.Problems = append(append(n.Detail.Problems, r.Problems...), r.Warnings...)
	return n
}

// nameOf is the name of the node that a server id belongs to.
func nameOf(serverID string) string {
	if i := strings.LastIndexByte(serverID, '-'); i > 0 {
		return serverID[:i]
	}
	return serverID
}

// Measured is what this node has measured in the last hour.
func (b *backend) Measured() api.Measured {
	h := b.health.History()
	points := func(list []admin.Timing) []api.Point {
		points := make([]api.Point, len(list))
		for i, t := range list {
			points[i] = api.Point(t)
		}
		return points
	}
	return api.Measured{PartMillis: h.Part.Milliseconds(), Writes: points(h.Writes), Reads: points(h.Reads)}
}
