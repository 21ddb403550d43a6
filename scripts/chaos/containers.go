package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// firstMoved is the last byte of the first address that a container moves to, and
	// addressesToMove how many such addresses there are.
	firstMoved, addressesToMove = 200, 50
	// starvedQuota is in microseconds of each period of 100 ms: 3 percent of a processor,
	// the same as starvedCPUs. squeezedMemory is the memory of a node that runs short of it.
	quotaPeriod, starvedQuota = 100000, 3000
	starvedCPUs               = "0.03"
	squeezedMemory            = "48m"
	unlimited                 = -1 // a quota, or swap; 0 means no change

	balancerService   = "balancer"
	secretInContainer = "/secret/cluster"
)

// nodeService matches the names of services that are nodes.
var nodeService = regexp.MustCompile(`^node\d+$`)

// containers are the nodes of a Compose project that is made for the run. Here the names of services are host names,
// whatever addresses their containers have.
type containers struct {
	*project

	made  bool // there is something to remove
	keep  bool // do not remove it
	moved int
	undo  map[string]func() error // by node: ends its fault

	ctx        context.Context //nolint:containedctx // of the run
	manual     *manual
	prometheus string // its URL, if it runs

	mu    sync.Mutex
	hosts map[string]string // addresses by service
}

// newContainers finds the engine.
func newContainers(ctx context.Context, o *options) (p *containers, err error) {
	p = &containers{ctx: ctx, undo: map[string]func() error{}, hosts: map[string]string{}}
	rate, burst := 0, 0
	if o.limited() { // all calls through the balancer have one address
		rate, burst = record.Balanced*record.Lanes*limitedRate, record.Balanced*record.Lanes*limitedBurst
	}
	prometheus, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	p.prometheus = "http://" + prometheus
	if p.manual, err = readManual(); err != nil {
		return nil, err
	}
	p.project, err = newProject(ctx, "commons-chaos", "PROMETHEUS_PORT="+prometheus,
		"COMMONS_WRITE_RATE="+strconv.Itoa(rate), "COMMONS_WRITE_BURST="+strconv.Itoa(burst))
	return p, err
}

// up runs Compose on the project.
func (p *containers) up(args ...string) {
	harness.Got(p.do(p.ctx, slices.Concat(p.compose, args)...))
}

// services returns the project's nodes that have a running container.
func (p *containers) services(ctx context.Context) ([]string, error) {
	out, err := p.do(ctx, "docker", "ps", "--filter", p.label(), "--format", `{{.Label "com.docker.compose.service"}}`)
	names := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return !nodeService.MatchString(name) })
	slices.Sort(names)
	return names, err
}

// prepareContainers starts the project.
func (b *bench) prepareContainers(p *containers, place string) {
	b.run.Dir = b.run.Path(place)
	harness.Must(os.MkdirAll(b.run.Dir, 0o700))
	up := []string{"up", "--detach"}
	if b.o.voters > voters {
		up = append([]string{"--profile", "five"}, up...)
	}
	p.made = true
	p.up(up...)
	b.adopt(p)
	transport := b.run.HTTP.Transport.(*http.Transport)
	transport.DialContext = p.dial
	// On its first call, a connection shows an error that net/http would hide on a later one.
	transport.DisableKeepAlives = b.balanced
	b.settle()
}

// adopt makes the project's running nodes, and the balancer, the nodes of the run.
func (b *bench) adopt(p *containers) {
	services := harness.Got(p.services(b.run.Ctx))
	id := harness.Got(p.on(services[0], "inspect", "--format", "{{.Id}}"))
	harness.Got(p.docker("cp", id+":"+secretInContainer, b.secret()))
	known := b.nodes
	b.nodes = nil
	for _, service := range services {
		i := slices.IndexFunc(known, func(n *harness.Node) bool { return n.Name == service })
		if i < 0 {
			i = len(known)
			known = append(known, b.run.Remote(service, "http://"+net.JoinHostPort(service, httpPort), "", b.secret()))
		}
		harness.Must(p.locate(known[i]))
		b.nodes = append(b.nodes, known[i])
	}
	b.voters = b.nodes
	if address, err := p.address(balancerService); err == nil {
		p.mu.Lock()
		p.hosts[balancerService] = address
		p.mu.Unlock()
		b.balancer = b.run.Remote(balancerService, "http://"+net.JoinHostPort(balancerService, httpPort), "", b.secret())
	}
}

// forget removes the copy of the secret of a project's cluster.
func (b *bench) forget() {
	if _, remote := b.network.(*containers); !remote {
		return
	}
	if err := os.Remove(b.secret()); !errors.Is(err, fs.ErrNotExist) {
		complain(err)
	}
}

// secret is the path of the copy of the cluster's secret.
func (b *bench) secret() string { return b.run.Path("secret") }

// dial connects to a service at the current address of its container.
func (p *containers) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	host = cmp.Or(p.hosts[host], host)
	p.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort(host, port))
}

// network returns the network of a service's container, or "" while it is unplugged.
func (p *containers) network(service string) (string, error) {
	return p.on(service, "inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}")
}

// locate records the address of a node's container. A container that the engine starts
// again has no address for a moment.
func (p *containers) locate(n *harness.Node) error {
	var address string
	err := await.Until(context.Background(), engineTimeout, harness.PollEvery, func() (err error) {
		address, err = p.address(n.Name)
		return err
	})
	if err != nil {
		return err
	}
	n.Private = net.JoinHostPort(address, privatePort)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[n.Name] = address
	return nil
}

// containerFaults are the faults for containers. Each records how it is undone before it
// changes anything.
var containerFaults = map[string]fault{
	"kill":      {process: true, begin: container((*containers).kill), end: undoContainer},
	"terminate": {process: true, begin: container((*containers).terminate), end: undoContainer},
	"pause":     {process: true, begin: container((*containers).pause), end: undoContainer},
	"starve":    {process: true, begin: container((*containers).starve), end: undoContainer},
	"squeeze":   {process: true, begin: container((*containers).squeeze), end: undoContainer},
	"isolate":   {process: true, begin: container((*containers).unplug), end: undoContainer},
	"move":      {process: true, begin: container((*containers).move), end: undoContainer},
	"lead":      {begin: each((*bench).lead)},
}

// container begins a fault at each node of an event.
func container(do func(p *containers, n *harness.Node)) func(*bench, []*harness.Node) {
	return each(func(b *bench, n *harness.Node) { do(b.network.(*containers), n) })
}

func undoContainer(b *bench, nodes []*harness.Node) {
	p := b.network.(*containers)
	for _, n := range nodes {
		err := p.undo[n.Name]()
		delete(p.undo, n.Name)
		harness.Must(err)
	}
}

// start starts a node's container. It leaves a running container alone.
func (p *containers) start(n *harness.Node) error {
	_, err := p.on(n.Name, "start")
	return errors.Join(err, p.locate(n))
}

func (p *containers) kill(n *harness.Node) {
	p.undo[n.Name] = func() error { return p.start(n) }
	harness.Got(p.on(n.Name, "kill", "--signal", "KILL"))
}

func (p *containers) terminate(n *harness.Node) {
	p.undo[n.Name] = func() error { return p.start(n) }
	harness.Got(p.on(n.Name, "stop"))
}

func (p *containers) pause(n *harness.Node) {
	p.undo[n.Name] = func() error { _, err := p.on(n.Name, "unpause"); return err }
	harness.Got(p.on(n.Name, "pause"))
}

// starve leaves a node little of the processor. It uses the kind of limit that the node
// had before: the engine does not mix a quota and a number of processors.
func (p *containers) starve(n *harness.Node) {
	var period, quota, nanos int64
	p.limits(n, "{{.HostConfig.CpuPeriod}} {{.HostConfig.CpuQuota}} {{.HostConfig.NanoCpus}}", &period, &quota, &nanos)
	set := []string{"--cpu-period", strconv.Itoa(quotaPeriod), "--cpu-quota", strconv.Itoa(starvedQuota)}
	restore := []string{"--cpu-period", strconv.FormatInt(cmp.Or(period, quotaPeriod), 10), "--cpu-quota", strconv.FormatInt(cmp.Or(quota, unlimited), 10)}
	if nanos != 0 {
		set = []string{"--cpus", starvedCPUs}
		restore = []string{"--cpus", strconv.FormatFloat(time.Duration(nanos).Seconds(), 'f', -1, 64)}
	}
	p.undo[n.Name] = func() error { return errors.Join(p.update(n, restore...), p.start(n)) }
	harness.Must(p.update(n, set...))
}

// squeeze starts a node again with little memory. The engine starts it again each time
// the kernel ends it.
func (p *containers) squeeze(n *harness.Node) {
	var memory, swap int64
	p.limits(n, "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}", &memory, &swap)
	if memory == 0 { // to the engine, 0 means no change
		total := harness.Got(p.docker("info", "--format", "{{.MemTotal}}"))
		if _, err := fmt.Sscan(total, &memory); err != nil {
			harness.Failf("the engine has %q bytes of memory: %w", total, err)
		}
		swap = unlimited
	}
	p.undo[n.Name] = func() error {
		return errors.Join(p.update(n, "--memory", strconv.FormatInt(memory, 10), "--memory-swap", strconv.FormatInt(swap, 10)), p.start(n))
	}
	harness.Got(p.on(n.Name, "kill", "--signal", "KILL"))
	harness.Must(p.update(n, "--memory", squeezedMemory, "--memory-swap", squeezedMemory))
	harness.Got(p.on(n.Name, "start"))
}

// limits reads numbers of a node's container with a format of inspect.
func (p *containers) limits(n *harness.Node, format string, numbers ...any) {
	out := harness.Got(p.on(n.Name, "inspect", "--format", format))
	if _, err := fmt.Sscan(out, numbers...); err != nil {
		harness.Failf("the limits of %s, %s, are %q: %w", n.Name, format, out, err)
	}
}

func (p *containers) update(n *harness.Node, limits ...string) error {
	_, err := p.on(n.Name, append([]string{"update"}, limits...)...)
	return err
}

// unplug takes a container out of its network.
func (p *containers) unplug(n *harness.Node) {
	address := harness.Got(p.address(n.Name))
	disconnect, connect := p.link(n)
	p.undo[n.Name] = func() error { return errors.Join(connect(address), p.locate(n)) }
	harness.Must(disconnect())
}

// link returns functions that take a container out of its network, and that put it back under
// an address, unless it is there already.
func (p *containers) link(n *harness.Node) (disconnect func() error, connect func(address string) error) {
	network := harness.Got(p.network(n.Name))
	id := harness.Got(p.on(n.Name, "inspect", "--format", "{{.Id}}"))
	disconnect = func() error {
		_, err := p.docker("network", "disconnect", network, id)
		return err
	}
	connect = func(address string) error {
		if now, err := p.network(n.Name); err != nil || now != "" {
			return err
		}
		_, err := p.docker("network", "connect", "--alias", n.Name, "--ip", address, network, id)
		return err
	}
	return disconnect, connect
}

// free returns an unused address, in the same network as the address like.
func (p *containers) free(network, like string) (string, error) {
	out, err := p.docker("network", "inspect", "--format", "{{range .Containers}}{{.IPv4Address}} {{end}}", network)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := slices.Collect(maps.Values(p.hosts)) // also of nodes that do not run
	for prefix := range strings.FieldsSeq(out) {
		address, _, _ := strings.Cut(prefix, "/")
		taken = append(taken, address)
	}
	for range addressesToMove {
		address := like[:strings.LastIndexByte(like, '.')+1] + strconv.Itoa(firstMoved+p.moved%addressesToMove)
		p.moved++
		if !slices.Contains(taken, address) {
			return address, nil
		}
	}
	return "", fmt.Errorf("network %s has no free address from .%d to .%d", network, firstMoved, firstMoved+addressesToMove-1)
}

// move kills a node's container, which comes back under another address.
func (p *containers) move(n *harness.Node) {
	was := harness.Got(p.address(n.Name))
	address := harness.Got(p.free(harness.Got(p.network(n.Name)), was))
	p.kill(n)
	disconnect, connect := p.link(n)
	p.undo[n.Name] = func() error { return errors.Join(connect(was), p.start(n)) }
	harness.Must(disconnect())
	harness.Must(connect(address))
}

// add, set, reset and runs are for networks that this process carries.
func (p *containers) add(context.Context, *harness.Node, int) error { return nil }
func (p *containers) set(string, string, quality)                   {}
func (p *containers) reset(string) error                            { return errNoConnections }
func (p *containers) runs(string, int)                              {}

// close undoes what is not undone yet, and removes the project.
func (p *containers) close() {
	for _, undo := range p.undo {
		_ = undo() // the project is removed
	}
	clear(p.undo)
	if p.made && !p.keep {
		complain(p.remove())
	}
}

// keepLogs writes what nodes have logged since the run began to the files where processes
// log.
func (p *containers) keepLogs(nodes []*harness.Node, began time.Time) error {
	for _, n := range nodes {
		out, err := p.on(n.Name, "logs", "--since", began.UTC().Format(time.RFC3339))
		if err == nil {
			err = os.WriteFile(filepath.Clean(n.Log), []byte(out), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
