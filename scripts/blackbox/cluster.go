package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
)

const clusterSize = 3

// hangTimeout is longer than by default: this machine's disk may be anybody's.
const hangTimeout = 20 * time.Second

// cluster is three nodes that know of each other.
type cluster struct {
	bench *bench
	nodes []*process
	route *routing
	pace  time.Duration // how long the writers of a load pause after each write

	dir    string // of everything
	secret string // file with the cluster's secret
}

// newCluster prepares three nodes in a directory of their own.
func (b *bench) newCluster(name string) (*cluster, error) {
	first, err := freeport.Take(3 * clusterSize)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.path(name), 0o700); err != nil {
		return nil, err
	}
	secret := b.path(name, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("black box ", 4)+"\n"), 0o600); err != nil {
		return nil, err
	}
	var gossip []string
	for i := range clusterSize {
		gossip = append(gossip, local(first+3*i+2))
	}
	c := &cluster{bench: b, dir: b.path(name), secret: secret}
	for i := range clusterSize {
		node := "n" + strconv.Itoa(i+1)
		p := &process{
			bench: b, name: node, dir: b.path(name, node), log: b.path(name, node+".log"),
			http: local(first + 3*i), url: "http://" + local(first+3*i), private: local(first + 3*i + 1),
		}
		p.args = []string{
			"serve", "--node-id", node, "--data-dir", p.dir, "--secret-file", secret,
			"--http-addr", p.http, "--cluster-addr", local(first + 3*i + 1), "--gossip-addr", gossip[i],
			"--bootstrap-expect", strconv.Itoa(clusterSize), "--join", strings.Join(gossip, ","),
			"--write-rate", "0", "--write-burst", "0", "--hang-timeout", hangTimeout.String(),
		}
		c.nodes = append(c.nodes, p)
		b.nodes = append(b.nodes, p)
	}
	c.route = newRouting(c.nodes)
	return c, nil
}

// startAll starts every node that does not run and waits until all are ready.
func (c *cluster) startAll() error {
	for _, p := range c.nodes {
		if !p.running() {
			if err := p.start(); err != nil {
				return err
			}
		}
	}
	if err := c.waitReady(readyTimeout, c.nodes...); err != nil {
		return err
	}
	return c.waitVoters()
}

func (c *cluster) waitReady(timeout time.Duration, nodes ...*process) error {
	for _, p := range nodes {
		err := c.bench.eventually(timeout, func() error {
			if err := p.alive(); err != nil {
				return err
			}
			return p.ready()
		})
		if err != nil {
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.logTail())
		}
	}
	return nil
}

// waitVoters waits until all nodes agree on one leader and three voters.
func (c *cluster) waitVoters() error {
	return c.bench.eventually(readyTimeout, func() error {
		var first status
		for i, p := range c.nodes {
			s, err := p.status()
			if err != nil {
				return err
			}
			slices.Sort(s.Voters)
			if s.Leader == "" || len(s.Voters) != clusterSize {
				return fmt.Errorf("%s says: leader %q, voters %v", p.name, s.Leader, s.Voters)
			}
			if i == 0 {
				first = s
			} else if s.Leader != first.Leader || !slices.Equal(s.Voters, first.Voters) {
				return fmt.Errorf("nodes disagree: %+v and %+v", first, s)
			}
		}
		return nil
	})
}

// leader returns the node that leads, and the others.
func (c *cluster) leader() (leader *process, others []*process, err error) {
	err = c.bench.eventually(readyTimeout, func() error {
		leader, others = nil, nil
		for _, p := range c.nodes {
			s, err := p.status()
			switch {
			case err != nil:
				return err
			case s.Role == "leader" && leader == nil:
				leader = p
			case s.Role == "leader":
				return errors.New("two leaders")
			default:
				others = append(others, p)
			}
		}
		if leader == nil {
			return errors.New("no leader")
		}
		return nil
	})
	return leader, others, err
}

// status is what GET /status says.
type status struct {
	Node         string
	Role         string
	Leader       string
	Voters       []string
	AppliedIndex uint64
}

func (p *process) status() (status, error) {
	var s status
	_, err := call(p.bench.ctx, http.MethodGet, p.url+"/status", nil, nil, http.StatusOK, &s)
	return s, err
}

func (p *process) ready() error {
	_, err := call(p.bench.ctx, http.MethodGet, p.url+"/readyz", nil, nil, http.StatusOK, nil)
	return err
}

// nameOf is the node's name in a server id.
func nameOf(serverID string) string {
	if i := strings.LastIndexByte(serverID, '-'); i >= 0 {
		return serverID[:i]
	}
	return serverID
}
