package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	composeFile = "docker-compose.cluster.yml"
	// Projects of several runs at once must not share a network: each takes one of these
	// subnets of 10.88.0.0/16 at random.
	subnetsOfProjects = 250
	// firstMoved is the last byte of the first address that a container moves to, and
	// addressesToMove how many such addresses there are.
	firstMoved, addressesToMove = 200, 50
	// engineTimeout bounds one command of the engine, and of Compose.
	engineTimeout = 2 * time.Minute
	// starvedQuota is in microseconds of each period of 100 ms: 3 percent of a processor,
	// the same as starvedCPUs. squeezedMemory is the memory of a node that runs short of it.
	quotaPeriod, starvedQuota = 100000, 3000
	starvedCPUs               = "0.03"
	squeezedMemory            = "48m"
	unlimited                 = -1 // a quota, or swap; 0 means no change
	// Ports of a node in its container.
	httpPort, privatePort = "8080", "7000"
	balancerService       = "balancer"
	secretInContainer     = "/secret/cluster"
)

// nodeService matches the names of services that are nodes.
var nodeService = regexp.MustCompile(`^node\d+$`)

// containers are the nodes of a Compose project. It is made for the run, or it runs
// already and is left as it was found. Here the names of services are host names,
// whatever addresses their containers have.
type containers struct {
	name    string
	own     bool
	up      bool     // there is something to remove
	compose []string // docker-compose, or docker with compose
	env     []string
	moved   int
	undo    map[string]func() error // by node: ends what was done to it

	mu    sync.Mutex
	hosts map[string]string // addresses by service
}

// newContainers finds the engine, and the project if it is to run already.
func newContainers(ctx context.Context, o *options) (*containers, error) {
	if err := system(ctx, "docker", "info"); err != nil {
		return nil, fmt.Errorf("no container engine answers: %s", lastLine(err.Error()))
	}
	p := &containers{name: o.project, own: o.project == "", undo: map[string]func() error{}, hosts: map[string]string{}}
	if !p.own {
		services, err := p.services(ctx)
		if err == nil && len(services) == 0 {
			err = fmt.Errorf("project %q has no node that runs; `docker-compose ls` and `docker ps` show what does", p.name)
		}
		return p, err
	}
	for _, compose := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if system(ctx, append(slices.Clone(compose), "version")...) == nil {
			p.compose = compose
			break
		}
	}
	if p.compose == nil {
		return nil, errors.New("neither `docker compose` nor `docker-compose` runs")
	}
	balancer, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	p.name = fmt.Sprintf("commons-chaos-%016x", rand.Uint64())
	if err := p.unused(ctx); err != nil {
		return nil, err
	}
	rate, burst := 0, 0
	if o.limited() { // all calls through the balancer have one address
		rate, burst = balanced*lanes*limitedRate, balanced*lanes*limitedBurst
	}
	p.env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+p.name, "COMPOSE_FILE="+composeFile, "COMMONS_PORT="+balancer,
		fmt.Sprintf("COMMONS_SUBNET=10.88.%d.0/24", rand.IntN(subnetsOfProjects)),
		"COMMONS_WRITE_RATE="+strconv.Itoa(rate), "COMMONS_WRITE_BURST="+strconv.Itoa(burst))
	return p, nil
}

// do runs a command and returns what it prints.
func (p *containers) do(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = p.env
	// Ctrl-C at the terminal reaches this process alone: the command finishes its work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (p *containers) docker(command ...string) (string, error) {
	return p.do(context.Background(), append([]string{"docker"}, command...)...) // what was begun is undone, also after Ctrl-C
}

// unused returns an error if the engine has containers or volumes of the project: they
// would be removed with it.
func (p *containers) unused(ctx context.Context) error {
	for _, list := range [][]string{{"ps", "--all"}, {"volume", "ls"}} {
		out, err := p.do(ctx, slices.Concat([]string{"docker"}, list, []string{"--quiet", "--filter", p.label()})...)
		if err == nil && out != "" {
			err = fmt.Errorf("project %s exists already: `docker %s` shows %s", p.name, strings.Join(list, " "), strings.Join(strings.Fields(out), ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// label is an engine filter for everything that belongs to the project.
func (p *containers) label() string { return "label=com.docker.compose.project=" + p.name }

// services returns the project's nodes that have a running container.
func (p *containers) services(ctx context.Context) ([]string, error) {
	out, err := p.do(ctx, "docker", "ps", "--filter", p.label(), "--format", `{{.Label "com.docker.compose.service"}}`)
	names := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return !nodeService.MatchString(name) })
	slices.Sort(names)
	return names, err
}

// on runs a command of the engine on the container of a service.
func (p *containers) on(service string, command ...string) (string, error) {
	id, err := p.docker("ps", "--all", "--quiet", "--filter", p.label(), "--filter", "label=com.docker.compose.service="+service)
	if err == nil && (id == "" || strings.Contains(id, "\n")) {
		err = fmt.Errorf("the containers of %s are %q, and not one", service, id)
	}
	if err != nil {
		return "", err
	}
	return p.docker(append(command, id)...)
}

// prepareContainers starts the project, or uses the running one.
func (b *bench) prepareContainers(p *containers, place string) {
	b.run.Dir = b.run.Path(place)
	harness.Must(os.MkdirAll(b.run.Dir, 0o700))
	if p.own {
		up := append(slices.Clone(p.compose), "up", "--detach")
		if b.o.voters > voters {
			up = append(slices.Clone(p.compose), "--profile", "five", "up", "--detach")
		}
		p.up = true
		harness.Got(p.do(b.run.Ctx, up...))
	}
	services := harness.Got(p.services(b.run.Ctx))
	secret := b.secret()
	id := harness.Got(p.on(services[0], "inspect", "--format", "{{.Id}}"))
	harness.Got(p.docker("cp", id+":"+secretInContainer, secret))
	for _, service := range services {
		n := b.run.Remote(service, "http://"+net.JoinHostPort(service, httpPort), "", secret)
		harness.Must(p.locate(n))
		b.nodes = append(b.nodes, n)
	}
	b.voters = b.nodes
	if address, err := p.address(balancerService); err == nil {
		p.hosts[balancerService] = address
		b.balancer = b.run.Remote(balancerService, "http://"+net.JoinHostPort(balancerService, httpPort), "", secret)
	}
	b.transport = &http.Transport{MaxIdleConnsPerHost: idleConns, DisableCompression: true, DialContext: p.dial}
	b.run.Client.Transport = b.transport
	b.settled()
	if p.own {
		return
	}
	// Other clients, or earlier runs, may have written here.
	b.prefix, b.found = "c"+strconv.FormatInt(time.Now().Unix(), 36)+"-", map[string]bool{}
	for _, e := range harness.Got(b.entries(b.nodes[0], 0)) {
		b.found[e.ID] = true
	}
}

// forget removes the copy of the secret of a project's cluster. If the project continues
// to run, it also revokes the moderator.
func (b *bench) forget() {
	p, ok := b.network.(*containers)
	if !ok {
		return
	}
	if b.token && !p.own {
		b.run.Ctx = context.WithoutCancel(b.run.Ctx) // also after Ctrl-C
		complain(harness.Try(func() { harness.Must(b.run.Eventually(harness.ReadyTimeout, b.revoke)) }))
	}
	if err := os.Remove(b.secret()); !errors.Is(err, fs.ErrNotExist) {
		complain(err)
	}
}

// revoke revokes the moderator at the first node where this succeeds.
func (b *bench) revoke() error {
	var failed []error
	for _, n := range b.voters {
		code, _, problem := b.moderatorCommand("revoke", n)
		if code == 0 {
			return nil
		}
		failed = append(failed, fmt.Errorf("the token of the run's moderator is not revoked at %s: %s", n.Name, problem))
	}
	return errors.Join(failed...)
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

// network is the network of a service's container; empty: it is in none.
func (p *containers) network(service string) (string, error) {
	return p.on(service, "inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}")
}

func (p *containers) address(service string) (string, error) {
	address, err := p.on(service, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	if err == nil && address == "" {
		err = fmt.Errorf("the container of %s has no address", service)
	}
	return address, err
}

// locate records the address of a node's container. A container that the engine starts
// again has no address for a moment.
func (p *containers) locate(n *harness.Node) error {
	var address string
	err := harness.Until(context.Background(), engineTimeout, harness.PollEvery, func() (err error) {
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

// containerFaults are the faults for containers. Each records how it is undone.
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

// container begins a fault. The fault returns how it is undone, even if only half of it
// was done.
func container(do func(p *containers, n *harness.Node) (undo func() error, err error)) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		p := b.network.(*containers)
		undo, err := do(p, n)
		if undo != nil {
			p.undo[n.Name] = undo
		}
		return err
	})
}

func undoContainer(b *bench, nodes []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		p := b.network.(*containers)
		err := p.undo[n.Name]()
		delete(p.undo, n.Name)
		return err
	})(b, nodes)
}

// start starts a node's container. It does nothing if the container runs.
func (p *containers) start(n *harness.Node) error {
	_, err := p.on(n.Name, "start")
	return errors.Join(err, p.locate(n))
}

func (p *containers) kill(n *harness.Node) (func() error, error) {
	_, err := p.on(n.Name, "kill", "--signal", "KILL")
	return func() error { return p.start(n) }, err
}

func (p *containers) terminate(n *harness.Node) (func() error, error) {
	_, err := p.on(n.Name, "stop")
	return func() error { return p.start(n) }, err
}

func (p *containers) pause(n *harness.Node) (func() error, error) {
	_, err := p.on(n.Name, "pause")
	return func() error { _, err := p.on(n.Name, "unpause"); return err }, err
}

// starve leaves a node little of the processor. It uses the kind of limit that the node
// had before: the engine does not mix a quota and a number of processors.
func (p *containers) starve(n *harness.Node) (func() error, error) {
	var period, quota, nanos int64
	if err := p.limits(n, "{{.HostConfig.CpuPeriod}} {{.HostConfig.CpuQuota}} {{.HostConfig.NanoCpus}}", &period, &quota, &nanos); err != nil {
		return nil, err
	}
	set := []string{"--cpu-period", strconv.Itoa(quotaPeriod), "--cpu-quota", strconv.Itoa(starvedQuota)}
	restore := []string{"--cpu-period", strconv.FormatInt(cmp.Or(period, quotaPeriod), 10), "--cpu-quota", strconv.FormatInt(cmp.Or(quota, unlimited), 10)}
	if nanos != 0 {
		set = []string{"--cpus", starvedCPUs}
		restore = []string{"--cpus", strconv.FormatFloat(time.Duration(nanos).Seconds(), 'f', -1, 64)}
	}
	undo := func() error { return errors.Join(p.update(n, restore...), p.start(n)) }
	return undo, p.update(n, set...)
}

// squeeze starts a node again with little memory. The engine starts it again each time
// the kernel ends it.
func (p *containers) squeeze(n *harness.Node) (func() error, error) {
	var memory, swap int64
	if err := p.limits(n, "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}", &memory, &swap); err != nil {
		return nil, err
	}
	if memory == 0 { // to the engine, 0 means no change
		total, err := p.docker("info", "--format", "{{.MemTotal}}")
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(total, &memory); err != nil {
			return nil, fmt.Errorf("the engine has %q bytes of memory: %w", total, err)
		}
		swap = unlimited
	}
	undo := func() error {
		return errors.Join(p.update(n, "--memory", strconv.FormatInt(memory, 10), "--memory-swap", strconv.FormatInt(swap, 10)), p.start(n))
	}
	if _, err := p.on(n.Name, "kill", "--signal", "KILL"); err != nil {
		return undo, err
	}
	if err := p.update(n, "--memory", squeezedMemory, "--memory-swap", squeezedMemory); err != nil {
		return undo, err
	}
	_, err := p.on(n.Name, "start")
	return undo, err
}

// limits reads numbers of a node's container with a format of inspect.
func (p *containers) limits(n *harness.Node, format string, numbers ...any) error {
	out, err := p.on(n.Name, "inspect", "--format", format)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(out, numbers...); err != nil {
		return fmt.Errorf("the limits of %s, %s, are %q: %w", n.Name, format, out, err)
	}
	return nil
}

func (p *containers) update(n *harness.Node, limits ...string) error {
	_, err := p.on(n.Name, append([]string{"update"}, limits...)...)
	return err
}

// unplug takes a container out of its network.
func (p *containers) unplug(n *harness.Node) (func() error, error) {
	address, err := p.address(n.Name)
	if err != nil {
		return nil, err
	}
	plug, err := p.pull(n)
	if plug == nil {
		return nil, err
	}
	return func() error { return errors.Join(plug(address), p.locate(n)) }, err
}

// pull takes a container out of its network. It returns a function that puts it back
// under an address, unless it is there already; nil: nothing was done.
func (p *containers) pull(n *harness.Node) (plug func(address string) error, err error) {
	network, err := p.network(n.Name)
	if err != nil {
		return nil, err
	}
	id, err := p.on(n.Name, "inspect", "--format", "{{.Id}}")
	if err != nil {
		return nil, err
	}
	_, err = p.docker("network", "disconnect", network, id)
	return func(address string) error {
		if now, err := p.network(n.Name); err != nil || now != "" {
			return err
		}
		_, err := p.docker("network", "connect", "--alias", n.Name, "--ip", address, network, id)
		return err
	}, err
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
func (p *containers) move(n *harness.Node) (func() error, error) {
	was, err := p.address(n.Name)
	if err != nil {
		return nil, err
	}
	network, err := p.network(n.Name)
	if err != nil {
		return nil, err
	}
	address, err := p.free(network, was)
	if err != nil {
		return nil, err
	}
	undo, err := p.kill(n)
	if err != nil {
		return undo, err
	}
	plug, err := p.pull(n)
	if plug != nil {
		start := undo
		undo = func() error { return errors.Join(plug(was), start()) }
	}
	if err != nil {
		return undo, err
	}
	return undo, plug(address)
}

// add, set, reset and runs are for networks that this process carries.
func (p *containers) add(context.Context, *harness.Node, int) error { return nil }
func (p *containers) set(string, string, quality)                   {}
func (p *containers) reset(string) error                            { return errNoConnections }
func (p *containers) runs(string, int)                              {}

// close undoes what is not undone yet, and removes a project that was made here.
func (p *containers) close() {
	for _, undo := range p.undo {
		if err := undo(); !p.own {
			complain(err)
		}
	}
	clear(p.undo)
	if p.up {
		_, err := p.do(context.Background(), append(slices.Clone(p.compose), "--profile", "five", "down", "--volumes", "--remove-orphans", "--timeout", "1")...)
		complain(err)
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
