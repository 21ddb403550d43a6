package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

const reachTimeout = 3 * time.Second // the time limit for the first answer of several nodes

// nodes are the private ports of nodes, of which one is asked, and the secret for them.
type nodes struct {
	ClusterAddr []string `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string   `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; not needed for nodes on this machine that have none."`
}

// target selects the node that a command asks: of several, the first that answers.
type target struct {
	nodes   `embed:""`
	Timeout time.Duration `name:"timeout" default:"30s" placeholder:"DURATION" help:"How long to wait for the answer."`
	JSON    bool          `name:"json" help:"Print JSON."`
}

// dial returns a client for the node: of several, the first that answers and knows a
// leader, or else the first that answers. They are asked at the same time, so that a
// node that hangs causes no delay.
func (t *target) dial(ctx context.Context) (*admin.Client, error) {
	clients, err := t.clients()
	if err != nil {
		return nil, err
	}
	if len(clients) == 1 {
		return clients[0], nil
	}
	asking, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	answers := make(chan reached, len(clients))
	for _, client := range clients {
		go func() {
			report, err := admin.Call[admin.NodeReport](asking, client, admin.PathNode, nil)
			answers <- reached{client, report.Leader, err}
		}()
	}
	var chosen *admin.Client
	var silent []error
	for range clients {
		a := <-answers
		if a.err != nil {
			silent = append(silent, a.err)
			continue
		}
		if chosen == nil || a.leader != "" {
			chosen = a.client
		}
		if a.leader != "" {
			break
		}
	}
	for _, client := range clients {
		if client != chosen {
			client.Close()
		}
	}
	if chosen == nil {
		return nil, errors.Join(silent...)
	}
	return chosen, nil
}

type reached struct {
	client *admin.Client
	leader string // according to the node; empty without a leader
	err    error
}

func (t *target) clients() (clients []*admin.Client, err error) {
	var problems []string
	for _, given := range t.ClusterAddr {
		addr, err := localAddr(given)
		if err != nil {
			problems = append(problems, "--cluster-addr: "+err.Error())
			continue
		}
		client, err := admin.NewClient(cluster.Network{}, t.SecretFile, addr)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		clients = append(clients, client)
	}
	if len(t.ClusterAddr) == 0 {
		problems = append(problems, "--cluster-addr: name the private port of a running node")
	}
	if len(problems) > 0 {
		return nil, &config.Error{Problems: slices.Compact(problems)}
	}
	return clients, nil
}

func ask[Answer any](ctx context.Context, t *target, path string, request any) (answer Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	client, err := t.dial(ctx)
	if err != nil {
		return answer, err
	}
	defer client.Close()
	return admin.Call[Answer](ctx, client, path, request)
}

func answer[Answer any](ctx context.Context, std terminal.Streams, t *target, path string, request any, text func(*Answer) string) error {
	a, err := ask[Answer](ctx, t, path, request)
	if err != nil {
		return err
	}
	return terminal.Show(std.Out, t.JSON, a, text(&a))
}

// isConfigError reports whether a call failed because of a flag, so that it fails again if it
// is repeated.
func isConfigError(err error) bool {
	_, is := errors.AsType[*config.Error](err)
	return is
}

// find returns the id of the server with this id or name.
func (t *target) find(ctx context.Context, name string) (string, error) {
	report, err := ask[admin.ClusterReport](ctx, t, admin.PathCluster, nil)
	if err != nil {
		return "", err
	}
	s, ok := report.Find(name)
	if !ok {
		return "", fmt.Errorf("%q is neither the id of a server nor the name of exactly one; see `commons members`", name)
	}
	return s.ID, nil
}

// idsOf returns the ids of servers.
func idsOf(servers []admin.Server) []string {
	ids := make([]string, len(servers))
	for i, s := range servers {
		ids[i] = s.ID
	}
	return ids
}

// localAddr returns the address for connections to a listener at addr from the same
// machine.
func localAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if port == "" {
		return "", errors.New("it names no port")
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
