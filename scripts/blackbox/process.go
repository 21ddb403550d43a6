package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one node: its place, and the process that runs it at the moment.
type process struct {
	bench *bench
	name  string
	dir   string // data directory
	log   string
	args  []string // of `commons`
	http  string   // host:port
	url   string

	private string // host:port of the private port

	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// start runs the node. Its output is added to its log.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.bench.binary, p.args...) //nolint:noctx // ended by hand, at the end of the run at the latest
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = cleanEnvironment()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	p.gone = gone
	cmd := p.cmd
	go func() {
		// How it ended is read from cmd.ProcessState.
		_ = cmd.Wait()
		close(gone)
	}()
	return nil
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// kill ends the process as a power failure would.
func (p *process) kill() {
	// An error means that it has ended already.
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// terminate asks the process to end, and wants the exit code of success.
func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-p.gone:
	case <-time.After(exitTimeout):
		return fmt.Errorf("%s does not end within %v of SIGTERM:\n%s", p.name, exitTimeout, p.logTail())
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s ends with %v after SIGTERM:\n%s", p.name, p.cmd.ProcessState, p.logTail())
	}
	return nil
}

// alive returns an error with the end of the log when the process has ended.
func (p *process) alive() error {
	if p.running() {
		return nil
	}
	return fmt.Errorf("%s has ended (%v):\n%s", p.name, p.cmd.ProcessState, p.logTail())
}

func (p *process) logTail() string {
	const shown = 3000
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-shown):])
}

// command runs a command of the binary to its end.
func (b *bench) command(env []string, args ...string) (code int, stdout, stderr string, err error) {
	var out, errs strings.Builder
	cmd := exec.CommandContext(b.ctx, b.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(cleanEnvironment(), env...)
	if err = cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			return 0, "", "", err
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), nil
}

// cleanEnvironment is ours without the variables that configure a node.
func cleanEnvironment() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COMMONS_") {
			kept = append(kept, v)
		}
	}
	return kept
}
