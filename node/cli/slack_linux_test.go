package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// asChild makes TestStartAgain be the program that starts again; "gone": its file is
// deleted before that; "again": it was started again already.
const asChild = "CLI_TEST_START_AGAIN"

// TestStartAgain: a program whose threads are woken on time starts once more, in the same
// process and with the same arguments and environment. One with enough slack, or one that
// cannot be started, goes on as it is.
func TestStartAgain(t *testing.T) {
	if as := os.Getenv(asChild); as != "" {
		beStartedAgain(t, as == "gone")
		return
	}
	const usual = 50 * time.Microsecond
	for _, test := range []struct {
		slack, then time.Duration
		begins      int
		as          string
	}{
		{usual, timerSlack, 2, "there"},
		{3 * time.Millisecond, 3 * time.Millisecond, 1, "there"},
		{usual, usual, 1, "gone"},
		{usual, usual, 1, "again"}, // and has lost its slack
	} {
		args := []string{"-test.run=^TestStartAgain$", "-test.v=false", "more"}
		child := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `ulimit -Sn 300; exec "$0" "$@"`, copyOfTest(t)}, args...)...)
		child.Env = append(os.Environ(), asChild+"="+test.as)
		if test.as == "again" {
			child.Env = append(child.Env, startedAgain+"=1")
		}
		var out strings.Builder
		child.Stdout, child.Stderr = &out, &out
		err := startWithSlack(t, child, test.slack)
		if err == nil {
			err = child.Wait()
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		want := strings.Repeat("begin\n", test.begins) + fmt.Sprintln(child.Process.Pid, args, test.then, true, "")
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("started with a slack of %v, %s:\n%s, want\n%s", test.slack, test.as, out.String(), want)
		}
	}
}

// beStartedAgain prints what startAgain changes, and whether the limit of open files is the
// same.
func beStartedAgain(t *testing.T, gone bool) {
	t.Helper()
	fmt.Println("begin")
	if gone {
		must.Do(t, os.Remove(os.Args[0]))
	}
	before := openFiles(t)
	startAgain()
	slack := must.Get(slackOfThread())(t)
	fmt.Println(os.Getpid(), os.Args[1:], slack, before == openFiles(t), os.Getenv(startedAgain))
}

func openFiles(t *testing.T) (limit syscall.Rlimit) {
	t.Helper()
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	return limit
}

// copyOfTest returns a copy of this program, which may be deleted.
func copyOfTest(t *testing.T) string {
	t.Helper()
	program := must.Get(os.ReadFile(os.Args[0]))(t)
	file := filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(file, program, 0o700))
	return file
}

// startWithSlack starts a program whose first thread has the slack. Where the system does
// not allow to set it, the test is skipped.
func startWithSlack(t *testing.T, child *exec.Cmd, slack time.Duration) error {
	t.Helper()
	started, refused := make(chan error), false
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its slack
		err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		if refused = err != nil; !refused {
			err = child.Start()
		}
		started <- err
	}()
	err := <-started
	if refused {
		t.Skipf("the slack of timers cannot be set: %v", err)
	}
	return err
}

// TestServeStartsAgain: commons serve starts again.
func TestServeStartsAgain(t *testing.T) {
	t.Parallel()
	if slack, err := slackOfThread(); err != nil || slack >= timerSlack {
		t.Skipf("nodes that are started here have no reason to: a slack of %v, %v", slack, err)
	}
	p := startProgram(t, `exec "$0" "$@"`, &syscall.SysProcAttr{Setsid: true}, nil)
	environment := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.cmd.Process.Pid)))(t)
	check.Contains(t, "\x00"+string(environment), "\x00"+startedAgain+"=1\x00", "the environment of a node that was started again")
}
