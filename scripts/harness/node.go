package harness

import (
	"cmp"
	"errors"
	"fmt"
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

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/node/nodetest/freeport"
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

// StartCluster prepares and starts three nodes.
func (r *Run) StartCluster() *Cluster {
	c := r.NewCluster("main", 3)
	c.Start()
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

// Leader waits until one node leads, and returns it and the others.
func (c *Cluster) Leader() (leader *Node, others []*Node) {
	Must(c.Run.Eventually(ReadyTimeout, func() error {
		leader, others = nil, nil
		for _, n := range c.Nodes {
			s, err := n.Status()
			switch {
			case err != nil:
				return err
			case s.Role == "leader":
				leader = n
			default:
				others = append(others, n)
			}
		}
		if len(others) != len(c.Nodes)-1 {
			return fmt.Errorf("%d nodes lead", len(c.Nodes)-len(others))
		}
		return nil
	}))
	return leader, others
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

// Args returns the command that runs the node.
func (n *Node) Args() []string {
	args := make([]string, 1, 1+len(n.Flags))
	args[0] = "serve"
	for _, name := range slices.Sorted(maps.Keys(n.Flags)) {
		args = append(args, "--"+name+"="+n.Flags[name])
	}
	return args
}

// Alone makes a node that founds a cluster by itself.
func (n *Node) Alone() {
	delete(n.Flags, "bootstrap-expect")
	delete(n.Flags, "join")
}

// Start runs the node and returns at once. Its output is added to its log.
func (n *Node) Start() {
	log := Got(os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	cmd := exec.Command(cmp.Or(n.Binary, n.run.Binary), n.Args()...) //nolint:noctx // ended by hand, at the end of the run at the latest
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

// Logged returns an error unless the node has logged a text.
func (n *Node) Logged(text string) error {
	log, err := os.ReadFile(n.Log)
	if err == nil && !strings.Contains(string(log), text) {
		err = fmt.Errorf("%s has not logged %q", n.Name, text)
	}
	return err
}

// Memory returns the resident bytes of the node's process. It needs the /proc of Linux.
func (n *Node) Memory() (uint64, error) { return residentMemory(n.PID()) }

func residentMemory(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "\nVmRSS:")
	var kB uint64
	if _, err := fmt.Sscan(after, &kB); err != nil {
		return 0, fmt.Errorf("process %d has no memory, so it has ended: %w", pid, err)
	}
	return kB << 10, nil
}
