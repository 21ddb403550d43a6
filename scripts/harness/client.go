package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/raw"
)

const (
	// CallTimeout is longer than a node keeps a write while leadership changes.
	CallTimeout = 30 * time.Second
	pageSize    = 100
)

// Client returns a client of the node that makes each call once, at an index or a later one.
func (n *Node) Client(index uint64) *client.Client {
	return Got(client.New(client.Config{
		URLs: []string{n.URL}, HTTP: n.run.HTTP, KeyOverHTTP: true, Patience: -1, Timeout: CallTimeout, MinIndex: index,
	}))
}

// Publish publishes an entry on the node.
func (n *Node) Publish(e client.NewEntry) (client.Published, error) {
	return n.Client(0).Publish(n.run.Ctx, e)
}

// Do calls a path of the node, see client.Client.
func (n *Node) Do(method, path string, body, into any) error {
	return n.Client(0).Do(n.run.Ctx, method, path, body, into)
}

// Raw makes one request to the node as it is, and wants a status.
func (n *Node) Raw(method, path, body string, want int, headers ...string) (*raw.Response, error) {
	res, err := raw.Do(n.run.Ctx, n.run.HTTP, method, n.URL+path, body, headers...)
	if err == nil && res.Status != want {
		err = fmt.Errorf("%s %s: %d, want %d: %.500s", method, n.URL+path, res.Status, want, res.Body)
	}
	return res, err
}

// List returns every entry that a query finds on the node, once it has applied an index.
func (n *Node) List(index uint64, query client.EntryQuery) ([]client.Entry, error) {
	query.Limit = pageSize
	return Collect(n.Client(index).Entries(n.run.Ctx, query))
}

// Collect returns all items of a list, or its error.
func Collect[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// Status is a node's part in the cluster.
type Status struct {
	Node   string
	Role   string
	Leader string
	Voters []string
	Format int // of the node's state
}

// statusTimeout bounds a call for the status.
const statusTimeout = 5 * time.Second

// Status asks the node on its private port.
func (n *Node) Status() (s Status, err error) {
	ctx, cancel := context.WithTimeout(n.run.Ctx, statusTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, n.run.Binary, "members", "--json", "--cluster-addr", n.Private, "--secret-file", n.Flags["secret-file"]).Output()
	var report struct {
		AskedNode, Leader string
		Servers           []struct {
			ID, Part string
			Report   struct {
				Role   string
				Format int
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		return s, fmt.Errorf("commons members: %w", err)
	}
	s.Node, s.Leader = report.AskedNode, report.Leader
	for _, server := range report.Servers {
		if server.Part == "voter" {
			s.Voters = append(s.Voters, server.ID)
		}
		if server.ID == s.Node {
			s.Role, s.Format = server.Report.Role, server.Report.Format
		}
	}
	return s, nil
}
