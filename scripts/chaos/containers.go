package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// engineTimeout bounds one command of the engine or of Compose.
	engineTimeout = 3 * time.Minute
	// subnets is the number of networks that projects choose from at random: those of
	// several runs at once must not share one.
	subnets = 250
	// httpPort is the port of the interface in a container, and privatePort the private port.
	httpPort    = "8080"
	privatePort = "7000"

	balancerService   = "balancer"
	secretInContainer = "/secret/cluster"
)

// containers are the containers of a Compose project that is made for the run. The names of
// services are host names here, whatever addresses their containers have.
type containers struct {
	ctx        context.Context //nolint:containedctx // of the run
	name       string          // of the project
	compose    []string        // docker-compose, or docker with compose
	env        []string        // of commands
	prometheus string          // its URL, if it runs
	image      string          // of the nodes
	manual     *manual

	made bool // there is something to remove

	mu    sync.Mutex
	hosts map[string]string // addresses by service
}

// newContainers prepares a project with a name of its own. It starts no container. It fails with
// ErrSkipped on a machine without a container engine or without Compose.
func newContainers(ctx context.Context, o *options) *containers {
	p := &containers{
		ctx: ctx, name: fmt.Sprintf("commons-chaos-%016x", rand.Uint64()), hosts: map[string]string{},
	}
	if _, err := p.do(ctx, "docker", "info"); err != nil {
		harness.Failf("%w: no container engine: %w", harness.ErrSkipped, err)
	}
	for _, compose := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if _, err := p.do(ctx, append(slices.Clone(compose), "version")...); err == nil {
			p.compose = compose
			break
		}
	}
	if p.compose == nil {
		harness.Failf("%w: neither `docker compose` nor `docker-compose` runs", harness.ErrSkipped)
	}
	balancer, prometheus := harness.Got(freeport.Addr()), harness.Got(freeport.Addr())
	p.prometheus, p.manual, p.image = "http://"+prometheus, readManual(), cmp.Or(os.Getenv("COMMONS_IMAGE"), "commons:local")
	rate, burst := 0, 0
	if o.limited() { // all calls through the balancer have one address
		rate, burst = record.Balanced*record.Lanes*limitedRate, record.Balanced*record.Lanes*limitedBurst
	}
	p.env = append(os.Environ(),
		"COMPOSE_PROJECT_NAME="+p.name, "COMPOSE_FILE=docker-compose.cluster.yml", "COMMONS_PORT="+balancer, "PROMETHEUS_PORT="+prometheus,
		fmt.Sprintf("COMMONS_SUBNET=10.88.%d.0/24", rand.IntN(subnets)),
		"COMMONS_WRITE_RATE="+strconv.Itoa(rate), "COMMONS_WRITE_BURST="+strconv.Itoa(burst))
	harness.Must(p.unused(ctx))
	return p
}

// do runs a command and returns its output.
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

// docker runs a command of the engine. Ctrl-C does not end it: what was begun is undone.
func (p *containers) docker(command ...string) (string, error) {
	return p.do(context.Background(), append([]string{"docker"}, command...)...)
}

// up runs Compose on the project.
func (p *containers) up(args ...string) {
	harness.Got(p.do(p.ctx, slices.Concat(p.compose, args)...))
}

// label is an engine filter for everything that belongs to the project.
func (p *containers) label() string { return "label=com.docker.compose.project=" + p.name }

// formerImage is the image of the version before an upgrade.
func (p *containers) formerImage() string { return p.name + ":former" }

// unused returns an error if the engine has containers, volumes or networks of the project.
func (p *containers) unused(ctx context.Context) error {
	for _, list := range [][]string{{"ps", "--all"}, {"volume", "ls"}, {"network", "ls"}} {
		out, err := p.do(ctx, slices.Concat([]string{"docker"}, list, []string{"--quiet", "--filter", p.label()})...)
		if err == nil && out != "" {
			err = fmt.Errorf("project %s exists: `docker %s` shows %s", p.name, strings.Join(list, " "), strings.Join(strings.Fields(out), ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// address returns the address of a service's container.
func (p *containers) address(service string) (string, error) {
	address, err := p.on(service, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	if err == nil && address == "" {
		err = fmt.Errorf("the container of %s has no address", service)
	}
	return address, err
}

// locate records the address of a service's container. A container that the engine starts
// again has no address for a moment.
func (p *containers) locate(service string) (address string, err error) {
	err = await.Until(context.Background(), engineTimeout, harness.PollEvery, func() (err error) {
		address, err = p.address(service)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[service] = address
	return address, err
}

// find records the address of a node's container.
func (p *containers) find(n *harness.Node) error {
	address, err := p.locate(n.Name)
	n.Private = net.JoinHostPort(address, privatePort)
	return err
}

// dial connects to a service at the current address of its container.
func (p *containers) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(addr) // net/http has joined them
	p.mu.Lock()
	host = cmp.Or(p.hosts[host], host)
	p.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort(host, port))
}

// prepareContainers starts the project.
func (b *testbed) prepareContainers(place string) {
	b.run.Dir = b.run.Path(place)
	harness.Must(os.MkdirAll(b.run.Dir, 0o700))
	b.containers.made = true
	b.containers.up("up", "--detach")
	b.adopt()
	transport := b.run.HTTP.Transport.(*http.Transport)
	transport.DialContext = b.containers.dial
	// On its first call, a connection shows an error that net/http would hide on a later one.
	transport.DisableKeepAlives = true
	b.settle()
}

// adopt makes the project's running nodes, and the balancer, the nodes of the run.
func (b *testbed) adopt() {
	p := b.containers
	running := harness.Got(p.do(b.run.Ctx, "docker", "ps", "--filter", p.label(), "--format", `{{.Label "com.docker.compose.service"}}`))
	services := slices.DeleteFunc(strings.Fields(running), func(name string) bool { return !strings.HasPrefix(name, "node") })
	slices.Sort(services)
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
		harness.Must(p.find(known[i]))
		b.nodes = append(b.nodes, known[i])
	}
	b.voters = b.nodes
	if _, err := p.address(balancerService); err == nil { // some procedures run without it
		harness.Got(p.locate(balancerService))
		b.balancer = b.run.Remote(balancerService, "http://"+net.JoinHostPort(balancerService, httpPort), "", b.secret())
	}
}

// secret is the path of the copy of the cluster's secret.
func (b *testbed) secret() string { return b.run.Path("secret") }

func (b *testbed) killContainer(n *harness.Node) {
	b.undo[n.Name] = func() error {
		_, err := b.containers.on(n.Name, "start")
		return errors.Join(err, b.containers.find(n))
	}
	harness.Got(b.containers.on(n.Name, "kill", "--signal", "KILL"))
}

// pauseContainer stops all processes of a node's container.
func (b *testbed) pauseContainer(n *harness.Node) {
	b.undo[n.Name] = func() error { _, err := b.containers.on(n.Name, "unpause"); return err }
	harness.Got(b.containers.on(n.Name, "pause"))
}

func repairContainer(b *testbed, n *harness.Node) { harness.Must(b.repair(n.Name)) }

// close removes everything that has the project's name. It reports what is left.
func (p *containers) close() {
	if !p.made {
		return
	}
	ctx := context.Background() // also after Ctrl-C
	_, err := p.do(ctx, append(slices.Clone(p.compose), "--profile", "five", "--profile", "observability", "--profile", "operator",
		"down", "--volumes", "--remove-orphans", "--timeout", "5")...)
	if _, missing := p.docker("image", "inspect", p.image); missing != nil {
		_, _ = p.docker("tag", p.formerImage(), p.image) // a rollback was broken off
	}
	_, _ = p.docker("image", "rm", p.formerImage()) // if it was made
	complain(errors.Join(err, p.unused(ctx)))
}

// keepLogs writes what nodes have logged since the run began to the files where processes
// log.
func (p *containers) keepLogs(nodes []*harness.Node, began time.Time) {
	for _, n := range nodes {
		out := harness.Got(p.on(n.Name, "logs", "--since", began.UTC().Format(time.RFC3339)))
		harness.Must(os.WriteFile(filepath.Clean(n.Log), []byte(out), 0o600))
	}
}
