package cli

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlack is how late the kernel may wake the threads of a node. While the process has
	// work, one thread of Go's runtime sleeps for 20 microseconds at a time. With the usual
	// slack of 50 microseconds it took a sixth of a node's CPU; see
	// docs/decisions/0017-timers-with-slack.md.
	timerSlack = time.Millisecond
	// startedAgain is set in the environment of a process that startAgain began, so that it
	// happens once, also where the kernel does not keep the slack.
	startedAgain = "_COMMONS_STARTED_AGAIN"
)

// startAgain starts this program again in the same process, with timerSlack: threads get
// their slack from the one that starts them, and the runtime starts that thread before any
// code of ours. Where the slack is as large already, or the program cannot be started
// again, it returns and the program goes on as it is.
func startAgain() {
	again := os.Getenv(startedAgain) != ""
	_ = os.Unsetenv(startedAgain) // fails for no such name
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := slackOfThread()
	if again || err != nil || slack >= timerSlack {
		return
	}
	var files syscall.Rlimit
	program, err := os.Executable()
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil ||
		unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, append(os.Environ(), startedAgain+"=1"))
	// It was not started: its file is gone, or that is not allowed. Exec has lowered the limit of
	// open files to its value before Go raised it. It was allowed to raise it then, so it is
	// allowed now.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
}

func slackOfThread() (time.Duration, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return time.Duration(slack), err
}
