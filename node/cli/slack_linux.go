package cli

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlack is by how much a node lets the kernel wake its threads late. One thread of
	// Go's runtime sleeps for 20 microseconds at a time, all the while that the process has
	// work. With the usual slack of 50 microseconds it took a sixth of a node's CPU; see
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
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if again || err != nil || time.Duration(slack) >= timerSlack {
		return
	}
	var files syscall.Rlimit
	program, err := os.Executable()
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil ||
		unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, append(os.Environ(), startedAgain+"=1"))
	// It did not start: the file is gone, or it is not allowed. Exec has lowered the limit of
	// open files to the one that Go found. Both calls have been possible before.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
}
