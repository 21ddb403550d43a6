package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/raw"
)

// HangTimeout is longer than the default: other programs may use this machine's disk.
const HangTimeout = 20 * time.Second

// Cluster is nodes that know of each other.
type Cluster struct {
	Run    *Run
	Nodes  []*Node
	Dir    string // of everything that the nodes keep
	Secret string // file with the cluster's secret
}

// NewCluster prepares n nodes, named n1 and so on, in a directory of their own. It starts
// no node.
func (r *Run) NewCluster(name string, n int) *Cluster {
	first := Got(freeport.Take(3 * n))
	c := &Cluster{Run: r, Dir: r.Path(name), Secret: r.Path(name, "secret")}
	Must(os.MkdirAll(c.Dir, 0o700))
	Must(os.WriteFile(c.Secret, []byte(strings.Repeat("black box ", 4)+"\n"), 0o600))
	addr := func(node, port int) string {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(first+3*node+port))
	}
	gossip := make([]string, n)
	for i := range n {
		gossip[i] = addr(i, 2)
	}
	for i := range n {
		id := "n" + strconv.Itoa(i+1)
		node := &Node{
			run: r, Name: id, Dir: r.Path(name, id), Log: r.Path(name, id+".log"),
			HTTP: addr(i, 0), URL: "http://" + addr(i, 0), Private: addr(i, 1),
		}
		node.Flags = map[string]string{
			"node-id": id, "data-dir": node.Dir, "secret-file": c.Secret,
			"http-addr": node.HTTP, "cluster-addr": node.Private, "gossip-addr": gossip[i],
			"bootstrap-expect": strconv.Itoa(n), "join": strings.Join(gossip, ","),
			"write-rate": "0", "write-burst": "0", "hang-timeout": HangTimeout.String(),
		}
		c.Nodes = append(c.Nodes, node)
	}
	r.nodes = append(r.nodes, c.Nodes...)
	return c
}

// URLs returns the addresses of the nodes' interfaces.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		urls[i] = n.URL
	}
	return urls
}

// Remote returns a node that a container engine runs, for example. The run calls it, and
// neither starts nor ends it, nor writes its log.
func (r *Run) Remote(name, url, private, secretFile string) *Node {
	n := &Node{run: r, Name: name, Log: r.Path(name + ".log"), URL: url, Private: private, Flags: map[string]string{"secret-file": secretFile}}
	r.nodes = append(r.nodes, n)
	return n
}

// Start starts every node that does not run and waits until all are ready and vote.
func (c *Cluster) Start() {
	for _, n := range c.Nodes {
		if !n.Running() {
			n.Start()
		}
	}
	Must(c.WaitReady(ReadyTimeout, c.Nodes...))
	c.WaitVoters()
}

// WaitReady waits until the nodes are ready. A process that ends fails it at once.
func (c *Cluster) WaitReady(timeout time.Duration, nodes ...*Node) error {
	for _, n := range nodes {
		err := c.Run.Eventually(timeout, func() error {
			if n.cmd != nil && !n.Running() {
				return await.Final(fmt.Errorf("it has ended (%v)", n.cmd.ProcessState))
			}
			_, err := n.Raw(http.MethodGet, "/readyz", "", http.StatusOK)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s is not ready: %w\n%s", n.Name, err, n.LogTail())
		}
	}
	return nil
}

// WaitVoters waits until all nodes agree on one leader, and on themselves as the voters. A
// node that lost its data is another server than the one whose vote it takes over.
func (c *Cluster) WaitVoters() {
	names := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		names[i] = n.Name
	}
	Must(c.Run.Eventually(ReplaceTimeout, func() error {
		var first Status
		for i, n := range c.Nodes {
			s, err := n.Status()
			if err == nil && s.Leader == "" {
				err = errors.New("no leader")
			}
			if err == nil {
				err = oneVoterEach(s.Voters, names)
			}
			if err == nil && !slices.Contains(s.Voters, s.Node) {
				err = fmt.Errorf("%s does not vote yet, but %v do", s.Node, s.Voters)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
			slices.Sort(s.Voters)
			if i == 0 {
				first = s
			} else if s.Leader != first.Leader || !slices.Equal(s.Voters, first.Voters) {
				return fmt.Errorf("nodes disagree: %+v and %+v", first, s)
			}
		}
		return nil
	}))
}

// Leader waits until a node says that it leads.
func (c *Cluster) Leader() (leader *Node) {
	Must(c.Run.Eventually(ReadyTimeout, func() error {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil && s.Leader == s.Node {
				leader = n
				return nil
			}
		}
		return errors.New("no node says that it leads")
	}))
	return leader
}

// oneVoterEach returns an error unless the voters, which are server ids, are exactly one
// for each node name.
func oneVoterEach(voters, names []string) error {
	of := make([]string, 0, len(voters))
	for _, id := range voters {
		of = append(of, id[:max(0, strings.LastIndexByte(id, '-'))])
	}
	if slices.Sort(of); !slices.Equal(of, slices.Sorted(slices.Values(names))) {
		return fmt.Errorf("voters %v, want one of each of %v", voters, names)
	}
	return nil
}

// Node is one node: its place, and the process that runs it at the moment.
type Node struct {
	Name    string
	Dir     string            // of its data
	Log     string            // file that all its processes write to
	Flags   map[string]string // of `commons serve`, without the dashes
	Env     []string          // added to a clean environment
	Binary  string            // the program if it is another version; empty: that of the run
	HTTP    string            // host:port
	URL     string            // of HTTP, without a slash at the end
	Private string            // host:port of the private port

	run  *Run
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

// Start runs the node and returns at once. Its output is added to its log.
func (n *Node) Start() {
	log := Got(os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	args := append(make([]string, 0, len(n.Flags)+1), "serve")
	for _, name := range slices.Sorted(maps.Keys(n.Flags)) {
		args = append(args, "--"+name+"="+n.Flags[name])
	}
	cmd := exec.Command(cmp.Or(n.Binary, n.run.Binary), args...) //nolint:noctx // ended by hand, at the end of the run at the latest
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(Environment(), n.Env...)
	Must(cmd.Start())
	gone := make(chan struct{})
	n.cmd, n.gone = cmd, gone
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(gone)
	}()
}

// Running reports whether the node's process was started and has not ended.
func (n *Node) Running() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.gone:
		return false
	default:
		return true
	}
}

// PID returns the process id of a node that was started.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Signal sends a signal to a node that was started.
func (n *Node) Signal(s os.Signal) error {
	if err := n.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	return nil
}

// Kill ends the process as a power failure would.
func (n *Node) Kill() {
	_ = n.cmd.Process.Kill() // an error means that it has ended already
	<-n.gone
}

// Wait waits until the process has ended, and wants an exit code.
func (n *Node) Wait(want int) {
	select {
	case <-n.gone:
	case <-time.After(ExitTimeout):
		Failf("%s does not end within %v:\n%s", n.Name, ExitTimeout, n.LogTail())
	case <-n.run.Ctx.Done():
		Must(n.run.Ctx.Err())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != want {
		Failf("%s ends with exit code %d, want %d:\n%s", n.Name, code, want, n.LogTail())
	}
}

// Terminate asks the process to end, and wants the exit code of success.
func (n *Node) Terminate() {
	Must(n.Signal(syscall.SIGTERM))
	n.Wait(0)
}

// LogTail returns the end of the node's log.
func (n *Node) LogTail() string {
	const shown = 3000
	log, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-shown):])
}

// Memory returns the sizes of a process's memory, in bytes. It needs the /proc of Linux.
func Memory(pid int) (procfs.ProcStatus, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStatus{}, err
	}
	return process.NewStatus()
}

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

// List returns all entries that match a query, once the node has applied an index.
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
	Leader string
	Voters []string
	Format int // of the node's state
}

// statusTimeout bounds a call for the status.
const statusTimeout = 5 * time.Second

// Operate runs a command of an operator at the private ports of nodes, of which the first that
// answers is asked, and returns its output. An error has what it writes about its failure.
func Operate(ctx context.Context, nodes []*Node, args ...string) ([]byte, error) {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Private
	}
	cmd := exec.CommandContext(ctx, nodes[0].run.Binary, args...)
	cmd.Env = append(Environment(), "COMMONS_CLUSTER_ADDR="+strings.Join(addrs, ","), "COMMONS_SECRET_FILE="+nodes[0].Flags["secret-file"])
	out, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("commons %s: %w: %s%s", strings.Join(args, " "), err, out, failed.Stderr)
	}
	return out, err
}

// Status asks the node on its private port.
func (n *Node) Status() (s Status, err error) {
	ctx, cancel := context.WithTimeout(n.run.Ctx, statusTimeout)
	defer cancel()
	out, err := Operate(ctx, []*Node{n}, "members", "--json")
	var report struct {
		AskedNode, Leader string
		Servers           []struct {
			ID, Part string
			Report   struct{ Format int }
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		return s, err
	}
	s.Node, s.Leader = report.AskedNode, report.Leader
	for _, server := range report.Servers {
		if server.Part == "voter" {
			s.Voters = append(s.Voters, server.ID)
		}
		if server.ID == s.Node {
			s.Format = server.Report.Format
		}
	}
	return s, nil
}
