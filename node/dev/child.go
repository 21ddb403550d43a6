package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

// The restart of a child that dies.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 10 * time.Second
	steadyAfter  = 30 * time.Second // a child that ran this long starts with firstBackoff again
	exitConfig   = 2                // exit code of a node that rejects its configuration
	exitLeft     = 3                // exit code of a node that has left its cluster
	maxLogLine   = 1 << 20
)

type child struct {
	member
	options Options
	args    []string
	out     *terminal
}

// keepRunning runs the process, and runs it again when it dies, until ctx ends or the node
// has left its cluster. It fails if the process cannot be started, or rejects its
// configuration.
func (c *child) keepRunning(ctx context.Context) error {
	log, err := openLog(c.logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	backoff := firstBackoff
	for {
		started := time.Now()
		err := c.runOnce(ctx, log)
		if ctx.Err() != nil {
			if err != nil {
				c.out.line(c.name, err.Error())
			}
			return nil
		}
		exit, died := errors.AsType[*exec.ExitError](err)
		if err != nil && !died {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if died && exit.ExitCode() == exitConfig {
			return fmt.Errorf("%s rejects its configuration; see above and %s", c.name, c.logPath)
		}
		if died && exit.ExitCode() == exitLeft {
			c.out.printf("%s has left its cluster and is not started again; its log is %s", c.name, c.logPath)
			return nil
		}
		if time.Since(started) >= steadyAfter {
			backoff = firstBackoff
		}
		reason := "exit status 0"
		if died {
			reason = err.Error()
		}
		c.out.printf("%s died (%s); it starts again in %v", c.name, reason, backoff)
		if !loop.Pause(ctx, backoff) {
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// runOnce runs the process to its end, or ends it when ctx ends. The error of a process that
// ends by itself is an *exec.ExitError.
func (c *child) runOnce(ctx context.Context, log io.Writer) error {
	// The kernel ties the signal for a parent's death to the thread that
	// started the child, so this thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.options.Binary, c.args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.options.StopTimeout // then it is killed
	// An address that is meant for one node would be used by all three.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COMMONS_") })
	cmd.Env = append(cmd.Env, c.options.Env...)
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = childAttributes()
	err = cmd.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return err
	}
	c.out.printf("%s runs as process %d", c.name, cmd.Process.Pid)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		c.copyLog(log, reader)
	}()
	err = cmd.Wait()
	<-copied
	ended, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ctx.Err() == nil:
		return err
	case ended.Signal() == syscall.SIGKILL:
		return fmt.Errorf("did not end within %v and was killed", c.options.StopTimeout)
	case ended.Signal() == syscall.SIGTERM: // it had not begun to listen for it
		return nil
	case !cmd.ProcessState.Success():
		return &exec.ExitError{ProcessState: cmd.ProcessState}
	}
	return nil // asked to end, and did
}

// openLog opens a new log, and keeps the previous one beside it.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// copyLog writes every line to the log and the important ones to the terminal.
// It reads to the end of the stream even after errors, so that the child never
// blocks on its output.
func (c *child) copyLog(log io.Writer, from io.ReadCloser) {
	defer from.Close()
	reader := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(reader)
		if line != "" {
			if _, err := fmt.Fprintln(log, line); err != nil {
				c.out.line(c.name, "log: "+err.Error())
			}
			if isImportant(line) {
				c.out.line(c.name, line)
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns the next line, cut at maxLogLine.
func readLine(r *bufio.Reader) (string, error) {
	var line strings.Builder
	for {
		part, more, err := r.ReadLine()
		if line.Len() < maxLogLine {
			line.Write(part)
		}
		if err != nil || !more {
			return line.String(), err
		}
	}
}
