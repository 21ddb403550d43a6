package wire

// Cluster is the cluster as this node sees it.
type Cluster struct {
	Leader string        `json:"leader"` // name of the leader, empty if it is unknown
	Nodes  []ClusterNode `json:"nodes"`
	// Elections are the elections that this node has seen, newest first.
	Elections []Election `json:"elections"`
}

// ClusterNode is one node of a cluster.
type ClusterNode struct {
	Name   string `json:"name"`
	Role   string `json:"role"`   // leader, follower or candidate; "" of one that does not answer
	Voter  bool   `json:"voter"`  // else it is a read replica, or has just come
	Health string `json:"health"` // one of the constants below

	Term         uint64  `json:"term"`
	AppliedIndex uint64  `json:"appliedIndex"`
	Lag          uint64  `json:"lag"` // log entries that another node has applied and this one has not
	UptimeMillis int64   `json:"uptimeMs"`
	ReadRate     float64 `json:"readsPerSecond"`  // in the last minute
	WriteRate    float64 `json:"writesPerSecond"` // in the last minute
}

// The healths of a node.
const (
	NodeWell    = "well"
	NodeUnready = "unready" // it answers, and is not ready to serve
	NodeAway    = "away"    // it does not answer
)

// Election is a leader as a node saw it begin.
type Election struct {
	At     int64  `json:"at"` // milliseconds since the epoch
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
}

// Measured is the measurements of a node's calls, by parts of the last hour, oldest first.
type Measured struct {
	PartMillis int64   `json:"partMs"` // how long a part is
	Writes     []Point `json:"writes"`
	Reads      []Point `json:"reads"`
	// Outages are the times without a leader, as the node saw them, newest first.
	Outages []Outage `json:"outages"`
}

// Outage is a time without a leader, in milliseconds since the epoch.
type Outage struct {
	From int64 `json:"from"`
	To   int64 `json:"to"` // 0 while it lasts
}

// Point has the calls of one part of the time.
type Point struct {
	Count      uint64  `json:"count"`
	MeanMillis float64 `json:"meanMs"`
	MostMillis float64 `json:"mostMs"`
}
