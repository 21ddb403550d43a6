package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const childPatience = time.Minute

// program is a node in a process of its own.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   await.Buffer
	ended chan error
}

// newProgram prepares `commons serve`, by way of a shell script that ends in `exec "$0" "$@"`.
func newProgram(t *testing.T, script string, flags ...string) *program {
	t.Helper()
	self := must.Get(os.Executable())(t)
	p := &program{t: t, ended: make(chan error, 1)}
	args := []string{
		"-c", script, self, "serve", "--node-id", "alone", "--data-dir", t.TempDir(),
		"--http-addr", "127.0.0.1:0", "--cluster-addr", "127.0.0.1:0", "--gossip-addr", "127.0.0.1:0", "--log-format", "text",
	}
	p.cmd = exec.CommandContext(t.Context(), "/bin/sh", append(args, flags...)...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	return p
}

func (p *program) start() {
	p.t.Helper()
	must.Do(p.t, p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
}

// startProgram starts a program and waits until it is ready.
func startProgram(t *testing.T, script string, attributes *syscall.SysProcAttr, stdin *os.File) *program {
	t.Helper()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests run under nohup, and a process that they start ignores SIGHUP as well")
	}
	p := newProgram(t, script)
	p.cmd.SysProcAttr = attributes
	if stdin != nil {
		p.cmd.Stdin = stdin
	}
	p.start()
	p.logs("msg=ready")
	return p
}

// logs waits until the log holds a text.
func (p *program) logs(text string) {
	p.t.Helper()
	err := await.Until(p.t.Context(), childPatience, await.Every, func() error {
		if !strings.Contains(p.log.String(), text) {
			return errors.New(p.log.String())
		}
		return nil
	})
	if err != nil {
		p.t.Fatalf("%q is not logged: %v", text, err)
	}
}

// ends waits until the process has ended, in good order.
func (p *program) ends() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil || !strings.Contains(p.log.String(), "msg=ended") {
			p.t.Errorf("it ended with %v:\n%s", err, p.log.String())
		}
	case <-time.After(childPatience):
		p.t.Fatalf("it did not end:\n%s", p.log.String())
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	must.Do(p.t, p.cmd.Process.Signal(s))
}

// ignores reports whether the process ignores a signal.
func (p *program) ignores(s syscall.Signal) bool {
	p.t.Helper()
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(p.t)
	_, mask, _ := strings.Cut(string(status), "SigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	ignored := must.Get(strconv.ParseUint(mask, 16, 64))(p.t)
	return ignored&(1<<(s-1)) != 0
}

// newTerminal opens a terminal and returns our side and that of a process on it.
func newTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = ours.Close() }) // the test may have closed it
	must.Do(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN))(t)
	theirs = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	return ours, theirs
}

// onTerminal starts a node on a terminal that hangUp closes.
func onTerminal(t *testing.T, script string) (p *program, hangUp func()) {
	t.Helper()
	ours, theirs := newTerminal(t)
	p = startProgram(t, script, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}, theirs)
	must.Do(t, theirs.Close())
	return p, func() {
		t.Helper()
		must.Do(t, ours.Close())
	}
}

func TestClosedTerminalEndsANodeInGoodOrder(t *testing.T) {
	t.Parallel()
	p, hangUp := onTerminal(t, `exec "$0" "$@"`)
	hangUp()
	p.ends()
	check.Contains(t, p.log.String(), "the terminal was closed", "the log")
}

// TestNohup: what was started to outlive its terminal does.
func TestNohup(t *testing.T) {
	t.Parallel()
	p, hangUp := onTerminal(t, `trap "" HUP; exec "$0" "$@"`)
	if !p.ignores(syscall.SIGHUP) {
		t.Fatal("it does not ignore SIGHUP any more")
	}
	hangUp()
	p.signal(syscall.SIGTERM)
	p.ends()
}

// TestHangupWithoutTerminal: a service goes on, and ends in good order later.
func TestHangupWithoutTerminal(t *testing.T) {
	t.Parallel()
	p := startProgram(t, `exec "$0" "$@"`, &syscall.SysProcAttr{Setsid: true}, nil)
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM)
	p.ends()
}
