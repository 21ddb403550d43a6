// Command scaling computes the figures in docs/scaling.md about replicas and several Raft
// groups: the requests a second that a cluster takes, and the balance of its nodes.
//
//	go run ./scripts/scaling -nodes 3,5,7 -groups 1,4 -reads 0.9
//
// Its model is the CPU time of a request at each node that it concerns, from
// docs/performance.md. Requests are spread at random, as by a load balancer. Give your own
// figures by flags.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// costs is the CPU time of one request in microseconds.
type costs struct {
	leader   float64 // of a write, at the leader of its group
	follower float64 // of a write, at each other voter
	replica  float64 // of a write, at a node that only applies it
	read     float64 // of a list
	search   float64 // of a search or of home, in each group that it asks
}

// cluster is a configuration to compute.
type cluster struct {
	costs
	nodes, voters, groups int
	cores                 float64 // of each node
	reads, searches       float64 // shares of all requests
	channels              int
}

// load returns the CPU time that each node needs for one request of the mix. Groups
// are as big as the channels placed in them: placed is the group of each channel,
// and channel i gets 1/(i+1) of the writes, as in most forums.
func (c *cluster) load(rng *rand.Rand) []float64 {
	share := make([]float64, c.groups)
	total := 0.0
	for i := range c.channels {
		weight := 1 / float64(i+1)
		share[rng.IntN(c.groups)] += weight
		total += weight
	}
	busy := make([]float64, c.nodes)
	for group, weight := range share {
		writes := (1 - c.reads - c.searches) * weight / total
		for i := range c.nodes {
			node := (group + i) % c.nodes
			switch {
			case i == 0:
				busy[node] += writes * c.leader
			case i < c.voters:
				busy[node] += writes * c.follower
			case c.groups == 1: // with several groups a node holds those that it votes in
				busy[node] += writes * c.replica
			}
		}
	}
	for node := range busy {
		busy[node] += (c.reads*c.read + c.searches*c.search*float64(c.groups)) / float64(c.nodes)
	}
	return busy
}

// requests returns the requests a second that the cluster takes, which the fullest node
// limits. It is the median of many placements.
func (c *cluster) requests() (perSecond float64, fullest string) {
	const placements = 501
	rng := rand.New(rand.NewPCG(1, uint64(c.groups)))
	found := make([]float64, 0, placements)
	for range placements {
		found = append(found, c.cores*1e6/slices.Max(c.load(rng)))
	}
	slices.Sort(found)
	busy := c.load(rng)
	return found[placements/2], strconv.FormatFloat(slices.Max(busy)/slices.Min(busy), 'f', 1, 64)
}

func main() {
	var c cluster
	flag.Float64Var(&c.leader, "leader", 160, "CPU time of a write at the leader, in microseconds")
	flag.Float64Var(&c.follower, "follower", 90, "CPU time of a write at a follower")
	flag.Float64Var(&c.replica, "replica", 80, "CPU time of a write at a replica without a vote")
	flag.Float64Var(&c.read, "read", 45, "CPU time of a list")
	flag.Float64Var(&c.search, "search", 150, "CPU time of a search, for each group")
	flag.Float64Var(&c.cores, "cores", 2, "cores of a node")
	flag.Float64Var(&c.reads, "reads", 0.8, "share of lists among the requests")
	flag.Float64Var(&c.searches, "searches", 0.1, "share of searches")
	flag.IntVar(&c.voters, "voters", 3, "voters of each group")
	flag.IntVar(&c.channels, "channels", 500, "channels, which are spread over the groups")
	nodes := flag.String("nodes", "3,5,7,9", "numbers of nodes to compute")
	groups := flag.String("groups", "1,3,9", "numbers of Raft groups to compute")
	flag.Parse()

	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "groups\tnodes\trequests/s\tof them writes\tfullest node : emptiest\t")
	for _, c.groups = range numbers(*groups) {
		for _, c.nodes = range numbers(*nodes) {
			if c.nodes < c.voters || c.groups < 1 {
				continue
			}
			all, spread := c.requests()
			fmt.Fprintf(out, "%d\t%d\t%.0f\t%.0f\t%s\t\n", c.groups, c.nodes, all, all*(1-c.reads-c.searches), spread)
		}
	}
	_ = out.Flush()
}

// numbers reads a list of numbers.
func numbers(list string) (found []int) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "scaling: %q is no list of numbers from 1 on, such as 3,5,7\n", list)
			os.Exit(2)
		}
		found = append(found, n)
	}
	return found
}
