package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
)

const (
	// composeFile is the file of projects that are made here.
	composeFile = "docker-compose.cluster.yml"
	// engineTimeout bounds one command of the engine, and of Compose.
	engineTimeout = 3 * time.Minute
	// subnets is the number of networks that projects choose from at random: those of
	// several runs at once must not share one.
	subnets = 250
	// httpPort is the port of the interface in a container, and privatePort the private port.
	httpPort    = "8080"
	privatePort = "7000"
)

// errNoEngine is the error of a machine without a container engine or without Compose.
var errNoEngine = errors.New("no container engine")

// project is the containers of a Compose project.
type project struct {
	name    string
	compose []string // docker-compose, or docker with compose; nil if the project runs already
	env     []string // of commands
	url     string   // of the balancer, if the project was made here
}

// newProject prepares a project of the compose file with a name of its own and further
// variables. It starts no container.
func newProject(ctx context.Context, prefix string, env ...string) (*project, error) {
	p := &project{name: fmt.Sprintf("%s-%016x", prefix, rand.Uint64())}
	if _, err := p.do(ctx, "docker", "info"); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	for _, compose := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if _, err := p.do(ctx, append(slices.Clone(compose), "version")...); err == nil {
			p.compose = compose
			break
		}
	}
	if p.compose == nil {
		return nil, fmt.Errorf("%w: neither `docker compose` nor `docker-compose` runs", errNoEngine)
	}
	balancer, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	p.url = "http://" + balancer
	p.env = slices.Concat(os.Environ(), []string{
		"COMPOSE_PROJECT_NAME=" + p.name, "COMPOSE_FILE=" + composeFile, "COMMONS_PORT=" + balancer,
		fmt.Sprintf("COMMONS_SUBNET=10.88.%d.0/24", rand.IntN(subnets)),
	}, env)
	err = p.unused(ctx)
	return p, err
}

// do runs a command and returns its output.
func (p *project) do(ctx context.Context, command ...string) (string, error) {
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
func (p *project) docker(command ...string) (string, error) {
	return p.do(context.Background(), append([]string{"docker"}, command...)...)
}

// label is an engine filter for everything that belongs to the project.
func (p *project) label() string { return "label=com.docker.compose.project=" + p.name }

// unused returns an error if the engine has containers, volumes or networks of the project.
func (p *project) unused(ctx context.Context) error {
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
func (p *project) on(service string, command ...string) (string, error) {
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
func (p *project) address(service string) (string, error) {
	address, err := p.on(service, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	if err == nil && address == "" {
		err = fmt.Errorf("the container of %s has no address", service)
	}
	return address, err
}

// remove removes everything that has the project's name, and reports what is left.
func (p *project) remove() error {
	ctx := context.Background() // also after Ctrl-C
	_, err := p.do(ctx, append(slices.Clone(p.compose), "--profile", "five", "--profile", "observability", "--profile", "operator",
		"down", "--volumes", "--remove-orphans", "--timeout", "5")...)
	return errors.Join(err, p.unused(ctx))
}
