package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

const composeFile = "docker-compose.cluster.yml"

// Projects of several runs at once must not share a network: each takes one of
// these subnets of 10.89.0.0/16 by its process number.
const (
	firstSubnet = 65
	subnets     = 180
)

// project is one run of the compose file under a name of its own.
type project struct {
	ctx     context.Context
	name    string
	compose []string // docker-compose, or docker with compose
	env     []string
	manual  *manual
	url     string // of the balancer

	prometheus string // its URL, once measure has started it

	pause  time.Duration // how long a node is paused
	client *harness.Client
	load   *load
}

// newProject finds the engine. The error wraps errNoEngine where none answers.
func newProject(ctx context.Context, pause time.Duration) (*project, error) {
	if out, err := exec.CommandContext(ctx, "docker", "info").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: docker info: %w %s", errNoEngine, err, lastLine(string(out)))
	}
	compose, err := findCompose(ctx)
	if err != nil {
		return nil, err
	}
	balancer, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	prometheus, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	procedures, err := readManual()
	if err != nil {
		return nil, err
	}
	id := os.Getpid()
	p := &project{ctx: ctx, name: "commons-ci-" + strconv.Itoa(id), compose: compose, manual: procedures, url: "http://" + balancer, prometheus: "http://" + prometheus, pause: pause, client: harness.NewClient(callTimeout)}
	p.env = append(os.Environ(),
		"COMPOSE_PROJECT_NAME="+p.name, "COMPOSE_FILE="+composeFile,
		"COMMONS_PORT="+balancer,
		fmt.Sprintf("COMMONS_SUBNET=10.89.%d.0/24", firstSubnet+id%subnets),
		"PROMETHEUS_PORT="+prometheus,
		"COMMONS_WRITE_RATE=0", "COMMONS_WRITE_BURST=0",
	)
	return p, nil
}

func findCompose(ctx context.Context) ([]string, error) {
	for _, compose := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		args := slices.Concat(compose, []string{"version"})
		if exec.CommandContext(ctx, args[0], args[1:]...).Run() == nil {
			return compose, nil
		}
	}
	return nil, fmt.Errorf("%w: neither `docker compose` nor `docker-compose` runs here", errNoEngine)
}

// do runs a command to its end and returns what it printed.
func (p *project) do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// up runs Compose on our file.
func (p *project) up(args ...string) {
	harness.Got(p.do(p.ctx, slices.Concat(p.compose, args)...))
}

func (p *project) docker(args ...string) (string, error) {
	return p.do(p.ctx, slices.Concat([]string{"docker"}, args)...)
}

// container returns the id of a service's container.
func (p *project) container(service string) (string, error) {
	id, err := p.docker("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+p.name,
		"--filter", "label=com.docker.compose.service="+service)
	if err == nil && (id == "" || strings.Contains(id, "\n")) {
		return "", fmt.Errorf("the containers of %s are %q, not one", service, id)
	}
	return id, err
}

// onContainer runs a command of docker on a service's container.
func (p *project) onContainer(service string, command ...string) (string, error) {
	id, err := p.container(service)
	if err != nil {
		return "", err
	}
	return p.docker(append(command, id)...)
}

// address returns a container's address in the project's network.
func (p *project) address(service string) (string, error) {
	address, err := p.onContainer(service, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	if err == nil && address == "" {
		return "", fmt.Errorf("%s has no address", service)
	}
	return address, err
}

// nodePort is where a node listens in its container.
const nodePort = "8080"

// nodeURL is the address of a node itself, past the balancer.
func (p *project) nodeURL(service string) (string, error) {
	address, err := p.address(service)
	return "http://" + address + ":" + nodePort, err
}

// get makes one GET and wants a status.
func (p *project) get(url string, into any, want int) error {
	_, err := p.client.Call(p.ctx, http.MethodGet, url, nil, nil, into, want)
	return err
}

// status is what a node says about itself and the voters.
func (p *project) status(service string) (s harness.Status, err error) {
	id, err := p.container(service)
	if err != nil {
		return s, err
	}
	answer, err := p.docker("exec", id, "/commons", "members", "--json")
	if err != nil {
		return s, err
	}
	return harness.ReadStatus([]byte(answer))
}

// waitReady waits until the nodes are ready and agree on so many voters, one for
// each of their names.
func (p *project) waitReady(timeout time.Duration, nodes ...string) {
	harness.Must(p.eventually(timeout, func() error {
		for _, node := range nodes {
			url, err := p.nodeURL(node)
			if err != nil {
				return err
			}
			if err := p.get(url+"/readyz", nil, http.StatusOK); err != nil {
				return err
			}
			s, err := p.status(node)
			if err != nil {
				return err
			}
			if err := harness.OneVoterEach(s.Voters, nodes); err != nil {
				return fmt.Errorf("%s says: %w", node, err)
			}
			if !slices.Contains(s.Voters, s.Node) {
				return fmt.Errorf("%s has no vote yet: %v", s.Node, s.Voters)
			}
		}
		return nil
	}))
}

// leader returns the service that leads, and the others of the list.
func (p *project) leader(nodes ...string) (leader string, others []string) {
	harness.Must(p.eventually(harness.ReadyTimeout, func() error {
		s, err := p.status(nodes[0])
		if err != nil {
			return err
		}
		leader, others = harness.NameOf(s.Leader), nil
		for _, node := range nodes {
			if node != leader {
				others = append(others, node)
			}
		}
		if len(others) != len(nodes)-1 {
			return fmt.Errorf("%s says that %q leads", nodes[0], s.Leader)
		}
		return nil
	}))
	return leader, others
}

// eventually tries until it works, the deadline passes, or the run is interrupted.
func (p *project) eventually(timeout time.Duration, try func() error) error {
	return harness.Until(p.ctx, timeout, harness.PollEvery, try)
}

// showLogs prints the end of what each container logged.
func (p *project) showLogs() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), cleanupTimeout)
	defer cancel()
	out, err := p.do(ctx, slices.Concat(p.compose, []string{"logs", "--no-color", "--tail", "40"})...)
	fmt.Fprintln(os.Stderr, out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compose:", err)
	}
}

// remove removes everything that has the project's name, also after an interruption, and
// reports what is left.
func (p *project) remove() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), cleanupTimeout)
	defer cancel()
	down := []string{"--profile", "five", "--profile", "observability", "--profile", "operator", "down", "--volumes", "--remove-orphans", "--timeout", "5"}
	_, err := p.do(ctx, slices.Concat(p.compose, down)...)
	for _, kind := range []string{"container", "volume", "network"} {
		list := []string{"docker", kind, "ls", "--quiet", "--filter", "label=com.docker.compose.project=" + p.name}
		if kind == "container" {
			list = append(list, "--all")
		}
		left, lsErr := p.do(ctx, list...)
		if lsErr == nil && left != "" {
			lsErr = fmt.Errorf("left behind: %s %s", kind, strings.Join(strings.Fields(left), " "))
		}
		err = errors.Join(err, lsErr)
	}
	return err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
