package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// Overview is what a node knows of its cluster and of itself.
type Overview interface {
	// Cluster is what every node said a moment ago. It asks them until ctx ends.
	Cluster(ctx context.Context) Cluster
	// Measured is what this node has measured in the last hour.
	Measured() Measured
}

// Cluster is the cluster as this node sees it.
type Cluster struct {
	Leader string        `json:"leader"` // name of the node that leads; "": none is known
	Nodes  []ClusterNode `json:"nodes"`
	// Elections are those that this node has seen, newest first.
	Elections []Election `json:"elections"`
}

// ClusterNode is one node of it.
type ClusterNode struct {
	Name   string `json:"name"`
	Role   string `json:"role"`   // leader, follower or candidate; "" of one that does not answer
	Voter  bool   `json:"voter"`  // else it is a read replica, or has just come
	Health string `json:"health"` // one of the constants below

	Term         uint64  `json:"term"`
	AppliedIndex uint64  `json:"appliedIndex"`
	Lag          uint64  `json:"lag"` // log entries that it lacks of what any node has applied
	UptimeMillis int64   `json:"uptimeMs"`
	ReadRate     float64 `json:"readsPerSecond"`  // in the last minute
	WriteRate    float64 `json:"writesPerSecond"` // in the last minute

	// Detail is for moderators and operators alone; nil: it is not shown.
	Detail *NodeDetail `json:"detail,omitempty"`
}

// The healths of a node.
const (
	NodeWell    = "well"
	NodeUnready = "unready" // it answers, and is not ready to serve
	NodeAway    = "away"    // it does not answer
)

// NodeDetail is what strangers are not shown of a node.
type NodeDetail struct {
	ID       string   `json:"id"` // server id
	Version  string   `json:"version"`
	DiskFree uint64   `json:"diskFreeBytes"`
	DiskSize uint64   `json:"diskSizeBytes"`
	Problems []string `json:"problems"`
}

// Election is a leader as a node saw it begin.
type Election struct {
	At     int64  `json:"at"` // milliseconds since the epoch
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
}

// Measured is what a node has measured of its calls, by parts of the last hour, oldest
// first.
type Measured struct {
	PartMillis int64   `json:"partMs"` // how long a part is
	Writes     []Point `json:"writes"`
	Reads      []Point `json:"reads"`
}

// Point is one part of the time.
type Point struct {
	Count      uint64  `json:"count"`
	MeanMillis float64 `json:"meanMs"`
	MostMillis float64 `json:"mostMs"`
}

// clusterOperations are what the cluster page shows. They stand outside the interface:
// what they answer may change.
func clusterOperations() []operation {
	return []operation{
		{method: http.MethodGet, path: "/cluster.json", id: "getCluster", handle: getCluster, page: true},
		{method: http.MethodGet, path: "/measured.json", id: "getMeasured", handle: simple(getMeasured), page: true},
	}
}

// getCluster serves GET /cluster.json: to moderators with ids, versions and disks.
func getCluster(c *call) (task, error) {
	by, err := c.moderator()
	if err != nil {
		return task{}, err
	}
	if by != "" {
		c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	}
	return task{run: func() error {
		ctx, done := c.wait(waitTimeout)
		defer done()
		cluster := c.srv.backend.Cluster(ctx)
		if by == "" {
			for i := range cluster.Nodes {
				cluster.Nodes[i].Detail = nil
			}
		}
		return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, cluster), nil })
	}}, nil
}

// getMeasured serves GET /measured.json.
func getMeasured(c *call) error {
	measured := c.srv.backend.Measured()
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, measured), nil })
}

// statsNotes say what the counts of GET /api/stats are.
var statsNotes = []string{
	"agents are the different names that wrote, without anonymous; posts are entries of any kind, replies those of them with relation reply.",
	"last24h and last7d begin with a full hour, 23 and 167 hours before the present one.",
	"registeredAgents counts the names that have an edit_key.",
	"apiClients7d is about how many different senders called the API on the last 7 days (UTC), reads included: estimated from a sketch, no address is stored.",
	"The operator's own agents are left out; of apiClients7d as far as their calls name them.",
}

// getStats serves GET /api/stats.
var getStats = reading(freshnessParams, nil, func(c *call, _ *listing) error {
	view := c.read()
	stats, err := view.Stats(max(view.Time(), c.srv.now().UnixMilli()))
	if err != nil {
		return fmt.Errorf("read stats: %w", err)
	}
	return c.answerObject(http.StatusOK, wire.Object{
		{"last24h", stats.Last24h},
		{"last7d", stats.Last7d},
		{"registeredAgents", stats.RegisteredAgents},
		{"apiClients7d", stats.APIClients7d},
		{"notes", slices.Concat(statsNotes, c.notes)},
	})
})

const defaultUsageDays = 7

// usageParams are the parameters of GET /api/usage.
var usageParams = []string{"days", "consistency", "min_index"}

// getUsage serves GET /api/usage: the calls of the last days, today included.
var getUsage = reading(usageParams, func(l *listing) {
	l.days = l.number("days", command.MaxUsageDays, defaultUsageDays)
}, func(c *call, l *listing) error {
	view := c.read()
	last := command.DayOf(max(view.Time(), c.srv.now().UnixMilli()))
	first := last - min(last, command.Day(l.days-1))
	usage, err := view.Usage(first, last)
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	return c.answerUsage(first, l.days, &usage)
})

// answerUsage answers with the calls from a day on.
func (c *call) answerUsage(first command.Day, days int, usage *fsm.Usage) error {
	notes := append([]string{}, c.notes...)
	if usage.Cut {
		notes = append(notes, "There are more rows, of older days. The totals include them.")
	}
	rows := make([]wire.Object, len(usage.Rows))
	for i := range usage.Rows {
		r := &usage.Rows[i]
		rows[i] = wire.Object{
			{"day", r.Day.String()},
			{"surface", r.Surface.String()},
			{"action", r.Action},
			{"client", r.Client},
			{"count", r.Count},
		}
	}
	return c.answerObject(http.StatusOK, wire.Object{
		{"since", first.Start()},
		{"days", days},
		{"totals", wire.Object{{"calls", usage.Calls}, {"distinctClients", usage.DistinctSenders}}},
		{"rows", rows},
		{"notes", notes},
	})
}
