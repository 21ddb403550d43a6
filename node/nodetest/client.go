package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/load"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
)

// Entry is an entry.
type Entry = client.Entry

// Post is a publication to be made.
type Post = client.NewEntry

// Answer is the answer to a write, or its rejection.
type Answer struct {
	client.Published

	Status  int    `json:"-"`
	Code    string // of the Error object
	Message string `json:"error"`
}

// URL returns the node's base URL.
func (nd *Node) URL() string { return "http://" + nd.Config.HTTPAddr }

// Client returns a client of the node, which makes each call once.
func (nd *Node) Client() *client.Client { return nd.ClientWithKey("") }

// ClientWithKey is Client for the owner of an edit_key.
func (nd *Node) ClientWithKey(key string) *client.Client {
	nd.c.t.Helper()
	return must.Get(client.New(client.Config{
		URLs: []string{nd.URL()}, Key: key, KeyOverHTTP: true, HTTP: nd.c.HTTP, Patience: -1, Timeout: nd.c.HTTP.Timeout,
	}))(nd.c.t)
}

// Publish sends one write and returns its answer; the error is the connection's.
func (nd *Node) Publish(ctx context.Context, p Post) (a Answer, err error) {
	a.Published, err = nd.Client().Publish(ctx, p)
	if rejection, is := errors.AsType[*client.Error](err); is {
		return Answer{Status: rejection.Status, Code: rejection.Code, Message: rejection.Message}, nil
	}
	if a.Status = http.StatusCreated; a.Duplicate {
		a.Status = http.StatusOK
	}
	return a, err
}

// MustPublish is Publish for a write that has to succeed.
func (c *Cluster) MustPublish(i int, p Post) Answer {
	c.t.Helper()
	a, err := c.Nodes[i].Publish(context.Background(), p)
	if err != nil {
		c.t.Fatalf("publish on node %d: %v", i, err)
	}
	if a.Status != http.StatusCreated {
		c.t.Fatalf("publish on node %d: status %d, %s: %s", i, a.Status, a.Code, a.Message)
	}
	return a
}

// All returns every entry of a node that matches the query.
func (c *Cluster) All(i int, query client.EntryQuery) (all []Entry) {
	c.t.Helper()
	query.Limit = 100
	for e, err := range c.Nodes[i].Client().Entries(context.Background(), query) {
		if err != nil {
			c.t.Fatalf("list on node %d: %v", i, err)
		}
		all = append(all, e)
	}
	return all
}

// Raw makes a request to the node as it is, see raw.Do.
func (nd *Node) Raw(method, path, body string, headers ...string) (*raw.Response, error) {
	return raw.Do(context.Background(), nd.c.HTTP, method, nd.URL()+path, body, headers...)
}

// GetJSON gets a path and decodes the answer, with any status.
func (nd *Node) GetJSON(path string, into any, headers ...string) (status int, err error) {
	return nd.json(http.MethodGet, path, "", into, headers...)
}

// PostJSON posts a body and decodes the answer, with any status.
func (nd *Node) PostJSON(path string, body, into any, headers ...string) (status int, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	return nd.json(http.MethodPost, path, string(data), into, headers...)
}

func (nd *Node) json(method, path, body string, into any, headers ...string) (status int, err error) {
	res, err := nd.Raw(method, path, body, headers...)
	if err != nil {
		return 0, err
	}
	return res.Status, res.Decode(into)
}

// GetText returns the status and the body of the answer to a GET.
func (nd *Node) GetText(path string) (status int, body string, err error) {
	res, err := nd.Raw(http.MethodGet, path, "")
	if err != nil {
		return 0, "", err
	}
	return res.Status, string(res.Body), nil
}

// Metrics returns the metrics of a running node.
func (nd *Node) Metrics() string {
	nd.c.t.Helper()
	return string(must.Get(nd.Raw(http.MethodGet, "/metrics", ""))(nd.c.t).Body)
}

// Metric returns one of the metrics of a running node, NaN if it is missing.
func (nd *Node) Metric(name string) float64 {
	nd.c.t.Helper()
	_, rest, _ := strings.Cut(nd.Metrics(), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return math.NaN()
	}
	return number
}

// Load is writers, each with one write under way at any time.
type Load struct {
	*load.Load

	c    *Cluster
	lost bool // writes with an unknown result may be listed or not
}

// loadPause is between two writes of a writer: load finds mistakes by its variety,
// and other tests need the processors.
const loadPause = 5 * time.Millisecond

// StartLoad starts writers that publish through the given nodes, each write
// through any of them.
func (c *Cluster) StartLoad(writers int, nodes ...int) *Load {
	c.loads++
	l := &Load{Load: load.New(context.Background(), fmt.Sprintf("load-%d", c.loads)), c: c}
	targets := make([]*client.Client, len(nodes))
	for k, i := range nodes {
		targets[k] = c.Nodes[i].Client()
	}
	l.Start(writers, loadPause, func(_ int, e client.NewEntry) (client.Published, error) {
		return targets[rand.IntN(len(targets))].Publish(context.Background(), e)
	})
	return l
}

// Acked returns how many writes were acknowledged so far.
func (l *Load) Acked() int {
	acks, _ := l.Acks()
	return len(acks)
}

// WaitMore waits until n more writes were acknowledged.
func (l *Load) WaitMore(n int) {
	l.c.t.Helper()
	must.Do(l.c.t, l.WaitForMore(n))
}

// Stop ends the writers and fails the test when a write failed.
func (l *Load) Stop() {
	l.c.t.Helper()
	l.Load.Stop()
	check.Err(l.c.t, l.Failed(), nil, "a client saw an error")
	l.c.t.Logf("%d writes acknowledged, the slowest took %v", l.Acked(), l.Slowest())
}

// Abandon ends the writers when their nodes are down. The writes that failed may be in the
// log or not.
func (l *Load) Abandon() {
	l.Load.Stop()
	l.lost = true
}

// Check compares the acknowledged writes with what every running node holds:
// each is there, once, and there are no other entries in the channel.
func (l *Load) Check() {
	l.c.t.Helper()
	l.c.WaitConverged()
	compare := l.Verify
	if l.lost || l.Failed() != nil {
		compare = l.Contains
	}
	for _, i := range l.c.Running() {
		check.Err(l.c.t, compare(l.c.All(i, client.EntryQuery{Channel: l.Channel})), nil, "node %d", i)
	}
}
