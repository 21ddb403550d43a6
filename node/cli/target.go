package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

// reachTimeout is how long several nodes may take until one says that it is there.
const reachTimeout = 3 * time.Second

// target is the node that an operator's command asks: the first of several that
// answers.
type target struct {
	ClusterAddr []string      `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; not needed for nodes on this machine that have none."`
	Timeout     time.Duration `name:"timeout" default:"30s" placeholder:"DURATION" help:"How long to wait for the answer."`
	JSON        bool          `name:"json" help:"Print JSON."`
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

// reached is what one of several nodes answered.
type reached struct {
	client *admin.Client
	leader string // that the node knows, "" for none
	err    error
}

// clients returns one for each address.
func (t *target) clients() (clients []*admin.Client, err error) {
	var problems []string
	for _, given := range t.ClusterAddr {
		addr, err := localAddr(given)
		if err != nil {
			problems = append(problems, "--cluster-addr: "+err.Error())
			continue
		}
		client, err := admin.NewClient(t.SecretFile, addr)
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
		return nil, &configError{slices.Compact(problems)}
	}
	return clients, nil
}

// ask makes one call.
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

// answer makes one call and shows what it answers.
func answer[Answer any](ctx context.Context, std streams, t *target, path string, request any, text func(*Answer) string) error {
	a, err := ask[Answer](ctx, t, path, request)
	if err != nil {
		return err
	}
	return show(std.out, t.JSON, a, text(&a))
}

// show prints an answer as indented JSON, or else its text.
func show(out io.Writer, asJSON bool, answer any, text string) error {
	if !asJSON {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
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

// table lines up a row for each item below a row of names, which are separated by
// tabs. Cells that are missing in a row are dashes.
func table[Item any](names string, items []Item, cells func(*Item) []any) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, tablePadding, ' ', 0)
	fmt.Fprintln(w, names)
	for i := range items {
		row := cells(&items[i])
		for n, cell := range row {
			if n > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w, strings.Repeat("\t-", strings.Count(names, "\t")+1-len(row)))
	}
	_ = w.Flush() // a builder takes everything
	return strings.TrimSuffix(out.String(), "\n")
}

// plural counts things by their singular.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
