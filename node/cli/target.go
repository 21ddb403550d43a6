package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

// target is the node that an operator's command asks.
type target struct {
	ClusterAddr string        `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; not needed for nodes on this machine that have none."`
	Timeout     time.Duration `name:"timeout" default:"30s" placeholder:"DURATION" help:"How long to wait for the answer."`
	JSON        bool          `name:"json" help:"Print JSON."`
}

// dial returns a client for the node.
func (t *target) dial() (*admin.Client, error) {
	addr, err := localAddr(t.ClusterAddr)
	if err != nil {
		return nil, &configError{[]string{"--cluster-addr: " + err.Error()}}
	}
	client, err := admin.NewClient(t.SecretFile, addr)
	if err != nil {
		return nil, &configError{[]string{err.Error()}}
	}
	return client, nil
}

// ask makes one call.
func ask[Answer any](ctx context.Context, t *target, path string, request any) (answer Answer, err error) {
	client, err := t.dial()
	if err != nil {
		return answer, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return admin.Call[Answer](ctx, client, path, request)
}

// find returns the id of the server that an operator names.
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

// localAddr returns the address under which a process on the same machine
// reaches what listens at addr.
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

const tablePadding = 2

// table lines up rows of cells that are separated by tabs. The first row says
// how many there are; those that are missing in another are dashes.
func table(out io.Writer, rows []string) error {
	w := tabwriter.NewWriter(out, 0, 0, tablePadding, ' ', 0)
	for _, row := range rows {
		missing := strings.Count(rows[0], "\t") - strings.Count(row, "\t")
		fmt.Fprintln(w, row+strings.Repeat("\t-", missing))
	}
	return w.Flush()
}
