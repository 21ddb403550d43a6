// Package dev runs a small cluster on one machine, for trials. The nodes are child processes
// of the same binary, restarted when they die. Their logs are in files, and the important
// lines on the terminal.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/cluster"
)

// nodeCount is the number of nodes: the smallest cluster that keeps working without any one
// of them.
const nodeCount = 3

// Options are the flags of `commons dev`, and the settings that tests change.
type Options struct {
	DataDir     string   `name:"data-dir" env:"COMMONS_DEV_DATA_DIR" default:"./data/dev" placeholder:"DIR" help:"Where the nodes keep their data, their logs and their secret."`
	HTTPPort    int      `name:"http-port" default:"8080" placeholder:"PORT" help:"Public HTTP port of the first node; the others take the next ones."`
	ClusterPort int      `name:"cluster-port" default:"7000" placeholder:"PORT" help:"Private port of the first node."`
	GossipPort  int      `name:"gossip-port" default:"7946" placeholder:"PORT" help:"Gossip port of the first node."`
	Demo        bool     `name:"demo" help:"Fill a new cluster with two weeks of conversations, jobs and requests, to look at."`
	ServeFlags  []string `arg:"" optional:"" name:"serve" passthrough:"" help:"More flags for each node, after --: see commons serve --help."`

	Binary      string        `kong:"-"` // program that has the command serve
	Env         []string      `kong:"-"` // added to the environment of the nodes
	Out         io.Writer     `kong:"-"` // for people
	StopTimeout time.Duration `kong:"-"` // for the graceful end of a node; 0 means DefaultStopTimeout
}

// DefaultStopTimeout is a little more than a node allows itself for its end.
const DefaultStopTimeout = 25 * time.Second

type member struct {
	name    string
	dataDir string
	logPath string
	http    string // host:port, as the two below
	cluster string
	gossip  string
}

func (o Options) members() []member {
	members := make([]member, nodeCount)
	for i := range members {
		name := "n" + strconv.Itoa(i+1)
		members[i] = member{
			name:    name,
			dataDir: filepath.Join(o.DataDir, name),
			logPath: filepath.Join(o.DataDir, name+".log"),
			http:    local(o.HTTPPort + i),
			cluster: local(o.ClusterPort + i),
			gossip:  local(o.GossipPort + i),
		}
	}
	return members
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// builtByRun matches programs of `go run`: one that it deletes, and a later one in the build cache.
var builtByRun = regexp.MustCompile(`go-build|/[0-9a-f]{64}-d/`)

// operator returns the command that shows the cluster to its operator.
func (o Options) operator(m member, secret string) string {
	program := o.Binary
	if builtByRun.MatchString(program) {
		program = "go run ."
	}
	return fmt.Sprintf("%s status --cluster-addr %s --secret-file %s", program, m.cluster, secret)
}

// Run starts the cluster and keeps it running until ctx ends, which is a success. It fails if
// ports are in use, a directory cannot be written, the binary cannot be started, or a node
// rejects its configuration.
func Run(ctx context.Context, o Options) error {
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	members := o.members()
	if err := checkPorts(ctx, members); err != nil {
		return err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return err
	}
	secret := filepath.Join(o.DataDir, "secret")
	if _, err := cluster.KeepSecretFile(secret); err != nil {
		return err
	}
	out := &terminal{out: o.Out}
	if o.Demo {
		out.printf("filling the first node with the demo")
		if err := fillDemo(ctx, members[0], secret); err != nil {
			return err
		}
	}
	out.printf("starting three nodes; their data and logs are in %s", o.DataDir)

	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, m := range members {
		child := &child{member: m, options: o, args: o.arguments(m, members, secret), out: out}
		group.Go(func() {
			if err := child.keepRunning(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Go(func() { newWatch(members, out, o.operator(members[0], secret)).run(ctx) })
	<-ctx.Done()
	cause := context.Cause(ctx)
	out.printf("stopping the nodes")
	group.Wait()
	out.printf("stopped; the data stays in %s", o.DataDir)
	if cause == context.Cause(caller) { //nolint:errorlint // the same one, such as a signal
		return nil
	}
	return cause
}

func (o Options) arguments(m member, members []member, secret string) []string {
	join := make([]string, len(members))
	for i, other := range members {
		join[i] = other.gossip
	}
	return append([]string{
		"serve",
		"--node-id", m.name,
		"--data-dir", m.dataDir,
		"--http-addr", m.http,
		"--cluster-addr", m.cluster,
		"--gossip-addr", m.gossip,
		"--bootstrap-expect", strconv.Itoa(len(members)),
		"--join", strings.Join(join, ","),
		"--secret-file", secret,
		"--write-rate", "0",
		"--write-burst", "0",
		"--log-format", "text",
		"--log-level", "info",
	}, o.ServeFlags...)
}

// terminal prints whole lines for people.
type terminal struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *terminal) printf(format string, args ...any) { t.line("dev", fmt.Sprintf(format, args...)) }

func (t *terminal) line(prefix, line string) { t.block(prefix + "| " + line + "\n") }

func (t *terminal) block(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprint(t.out, text)
}

// checkPorts tries to listen on every address of every member, and lists all
// that are not available.
func checkPorts(ctx context.Context, members []member) error {
	var busy []string
	var config net.ListenConfig
	try := func(addr, what string, listen func() (io.Closer, error)) {
		listener, err := listen()
		if err == nil {
			err = listener.Close()
		}
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // without the address
		}
		if err != nil {
			busy = append(busy, fmt.Sprintf("  - %s (%s): %v", addr, what, err))
		}
	}
	tcp := func(addr, what string) {
		try(addr, what, func() (io.Closer, error) { return config.Listen(ctx, "tcp", addr) })
	}
	for _, m := range members {
		tcp(m.http, m.name+" HTTP")
		tcp(m.cluster, m.name+" private port")
		tcp(m.gossip, m.name+" gossip, TCP")
		try(m.gossip, m.name+" gossip, UDP", func() (io.Closer, error) { return config.ListenPacket(ctx, "udp", m.gossip) })
	}
	if len(busy) == 0 {
		return nil
	}
	return fmt.Errorf("these addresses cannot be used (is another `commons dev` running?):\n%s\n"+
		"--http-port, --cluster-port and --gossip-port choose others", strings.Join(busy, "\n"))
}
