package cli

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asChild makes TestStartAgain be the program that starts again.
const asChild = "CLI_TEST_START_AGAIN"

// TestStartAgain: a program whose threads are woken on time starts once more, in the same
// process and with the same arguments and environment; one with enough slack goes on.
func TestStartAgain(t *testing.T) {
	if os.Getenv(asChild) != "" {
		fmt.Println("begin")
		startAgain()
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		fmt.Println(os.Getpid(), os.Args[1:], time.Duration(slack), err, os.Getenv(startedAgain))
		return
	}
	for _, test := range []struct {
		slack, then time.Duration
		begins      int
	}{
		{50 * time.Microsecond, timerSlack, 2},
		{3 * time.Millisecond, 3 * time.Millisecond, 1},
	} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStartAgain$", "-test.v=false", "more")
		child.Env = append(os.Environ(), asChild+"=1")
		var out strings.Builder
		child.Stdout, child.Stderr = &out, &out
		err := startWithSlack(child, test.slack)
		if err == nil {
			err = child.Wait()
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		want := strings.Repeat("begin\n", test.begins) + fmt.Sprintln(child.Process.Pid, child.Args[1:], test.then, nil, "")
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("started with a slack of %v:\n%s, want\n%s", test.slack, out.String(), want)
		}
	}
}

// startWithSlack starts a program whose first thread has the slack.
func startWithSlack(child *exec.Cmd, slack time.Duration) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its slack
		err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		if err == nil {
			err = child.Start()
		}
		started <- err
	}()
	return <-started
}
