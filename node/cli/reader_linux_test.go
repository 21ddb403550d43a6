package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
)

// unread is a process whose output goes to a pipe that the test reads, or not.
type unread struct {
	*program
	output *os.File // the end to read from
	port   int      // the first of its ports
}

// startUnread starts a process that has ports of its own.
func startUnread(t *testing.T, ports int, command func(port int) *program) *unread {
	t.Helper()
	port := must.Get(freeport.Take(ports))(t)
	output, end, err := os.Pipe()
	must.Do(t, err)
	t.Cleanup(func() { _ = output.Close() }) // the test may have closed it
	must.Get(unix.FcntlInt(end.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()))(t)
	u := &unread{program: command(port), output: output, port: port}
	u.cmd.Stdout, u.cmd.Stderr = end, end
	u.start()
	must.Do(t, end.Close())
	return u
}

// startUnreadNode starts a node that logs every request.
func startUnreadNode(t *testing.T) *unread {
	t.Helper()
	u := startUnread(t, 2, func(port int) *program {
		return newProgram(t, `exec "$0" "$@"`, "--http-addr", local(port), "--cluster-addr", local(port+1), "--request-log", "100000", "--write-rate", "0")
	})
	u.ready(u.port)
	return u
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ready waits until the node at a port is.
func (u *unread) ready(port int) {
	u.t.Helper()
	must.Do(u.t, await.Until(u.t.Context(), childPatience, await.Every, func() error {
		_, err := u.try(http.MethodGet, port, "/readyz", "", http.StatusOK)
		return err
	}))
}

// try makes a call and returns the body of the answer, which has to have a status.
func (u *unread) try(method string, port int, path, body string, status int) (string, error) {
	ctx, cancel := context.WithTimeout(u.t.Context(), childPatience)
	defer cancel()
	r, err := raw.Do(ctx, http.DefaultClient, method, "http://"+local(port)+path, body, "Content-Type", "text/plain")
	if err != nil {
		return "", err
	}
	if r.Status != status {
		err = fmt.Errorf("%s %s: %d, want %d: %s", method, path, r.Status, status, r.Body)
	}
	return string(r.Body), err
}

// call is try of the first node; the test fails if the call does.
func (u *unread) call(method, path, body string, status int) string {
	u.t.Helper()
	return must.Get(u.try(method, u.port, path, body, status))(u.t)
}

// fill makes calls until lines of the log are dropped.
func (u *unread) fill() {
	u.t.Helper()
	for begun := time.Now(); ; {
		for range 500 {
			u.call(http.MethodGet, "/api/entries?limit=1", "", http.StatusOK)
		}
		metrics := u.call(http.MethodGet, "/metrics", "", http.StatusOK)
		_, dropped, _ := strings.Cut(metrics, "\ncommons_log_lines_dropped_total ")
		dropped, _, _ = strings.Cut(dropped, "\n")
		switch {
		case dropped != "0" && dropped != "":
			return
		case time.Since(begun) > childPatience:
			u.t.Fatalf("no line was dropped: %q", dropped)
		}
	}
}

// serves checks that the node leads, and tells its operator about its log.
func (u *unread) serves() {
	u.t.Helper()
	u.call(http.MethodPost, "/api/entries", "hello", http.StatusCreated)
	u.call(http.MethodGet, "/api/entries?consistency=strong", "", http.StatusOK)
	code, out, errs := execute(u.t, "status", "--cluster-addr", local(u.port+1))
	if code != ExitOK || !strings.Contains(out, "lines of its log were dropped since it started") {
		u.t.Errorf("status: exit code %d\n%s%s", code, out, errs)
	}
}

// exits waits until the process has ended, and wants an exit code.
func (u *unread) exits(want int) {
	u.t.Helper()
	select {
	case err := <-u.ended:
		code := 0
		if ended, is := errors.AsType[*exec.ExitError](err); is {
			code = ended.ExitCode()
		}
		check.Equal(u.t, code, want, "exit code")
	case <-time.After(childPatience):
		u.t.Fatal("it does not end")
	}
}

// TestNobodyReadsTheLog: a node serves and ends as always while its log is not read.
func TestNobodyReadsTheLog(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(u *unread) // the first call
		after  func(u *unread) // it has served without a reader
	}{
		{"until it is asked to end", func(*unread) {}, func(u *unread) {
			u.signal(syscall.SIGTERM)
			u.exits(ExitOK)
		}},
		{"until it fails", func(*unread) {}, func(u *unread) {
			u.signal(syscall.SIGQUIT) // the runtime writes as for a panic, and far more than the pipe holds
			u.exits(2)
		}},
		{"for a while", func(*unread) {}, func(u *unread) {
			go func() { _, _ = io.Copy(&u.log, u.output) }()
			u.logs(`msg="log lines dropped" count=`)
			u.signal(syscall.SIGTERM)
			u.exits(ExitOK)
			u.logs("msg=ended")
		}},
		{"because its reader has ended", func(u *unread) { must.Do(u.t, u.output.Close()) }, func(u *unread) {
			u.signal(syscall.SIGTERM)
			u.exits(ExitOK)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := startUnreadNode(t)
			test.before(u)
			u.fill()
			u.serves()
			test.after(u)
		})
	}
}

// TestDevOutlivesItsReader: `commons dev` starts nodes again after the reader of its output has ended.
func TestDevOutlivesItsReader(t *testing.T) {
	t.Parallel()
	const ports = 3
	u := startUnread(t, 3*ports, func(port int) *program {
		cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "dev", "--data-dir", t.TempDir(),
			"--http-port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(port+ports), "--gossip-port", strconv.Itoa(port+2*ports))
		cmd.Env = append(os.Environ(), asProgram+"=1")
		return &program{t: t, cmd: cmd, ended: make(chan error, 1)}
	})
	lines := bufio.NewScanner(u.output)
	node := 0
	for runs := regexp.MustCompile(`n1 runs as process (\d+)`); node == 0 && lines.Scan(); {
		if found := runs.FindStringSubmatch(lines.Text()); found != nil {
			node = must.Get(strconv.Atoi(found[1]))(t)
		}
	}
	must.Do(t, u.output.Close())
	for i := range ports {
		u.ready(u.port + i)
	}
	must.Do(t, syscall.Kill(node, syscall.SIGKILL))
	await.Eventually(t, "the process is gone", func() bool { return errors.Is(syscall.Kill(node, 0), syscall.ESRCH) })
	u.ready(u.port)
	u.signal(syscall.SIGTERM)
	u.exits(ExitOK)
}

// TestReaderOfACommandEnds: a command that is no node ends with its reader, as in `commons status | head`.
func TestReaderOfACommandEnds(t *testing.T) {
	reader, end, err := os.Pipe()
	must.Do(t, err)
	must.Do(t, reader.Close())
	cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "version")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout = end
	err = cmd.Run()
	must.Do(t, end.Close())
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); !is || status.Signal() != syscall.SIGPIPE {
		t.Errorf("it ended with %v, want SIGPIPE", err)
	}
}
