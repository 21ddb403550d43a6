package terminal

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxWaiting   = 512 << 10   // bounds the output that waits for its reader, in bytes
	drainTimeout = time.Second // bounds the wait for that reader at the end of the process
)

// Output passes on what is written to it, in the background: Write never waits. While the
// reader stalls, the oldest lines are dropped, so that the reason for an end is among those that
// are left. Methods are safe for concurrent use.
type Output struct {
	to    io.Writer
	ended chan struct{} // closed when everything is passed on after the end

	mu       sync.Mutex
	more     sync.Cond // of lines and closed
	lines    []string  // oldest first; each is one call of Write
	bytes    int       // in lines
	closed   bool
	dropped  uint64
	reported uint64
	report   func(dropped uint64) // see onResume; it may be nil
}

func newOutput(to io.Writer) *Output {
	o := &Output{to: to, ended: make(chan struct{})}
	o.more.L = &o.mu
	go o.run()
	return o
}

// Write takes one line, or several that belong together.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, string(p))
	o.bytes += len(p)
	for o.bytes > maxWaiting {
		o.pop()
		o.dropped++
	}
	o.more.Signal()
	return len(p), nil
}

// pop removes the oldest line. The caller holds the lock.
func (o *Output) pop() string {
	line := o.lines[0]
	o.lines[0] = "" // so that it is not kept in memory
	o.lines = o.lines[1:]
	o.bytes -= len(line)
	return line
}

// Dropped returns the number of lines that were dropped so far.
func (o *Output) Dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// onResume sets the function that is called when lines were dropped and the reader has caught up.
func (o *Output) onResume(report func(dropped uint64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report = report
}

// run passes on lines until the end. A line that cannot be written is dropped: the next one may
// have another reader, or room on the disk.
func (o *Output) run() {
	defer close(o.ended)
	for {
		line, ok := o.next()
		if !ok {
			return
		}
		_, err := io.WriteString(o.to, line)
		o.wrote(err)
	}
}

// next waits for a line.
func (o *Output) next() (line string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.lines) == 0 {
		if o.closed {
			return "", false
		}
		o.more.Wait()
	}
	return o.pop(), true
}

// wrote counts a line that could not be written, and reports dropped lines once the reader has
// caught up.
func (o *Output) wrote(err error) {
	o.mu.Lock()
	report, dropped := o.report, o.dropped-o.reported
	switch {
	case err != nil:
		o.dropped++
		dropped = 0
	case len(o.lines) > 0 || report == nil:
		dropped = 0
	default:
		o.reported = o.dropped
	}
	o.mu.Unlock()
	if dropped > 0 {
		report(dropped)
	}
}

// close ends the output. Its lines are still passed on.
func (o *Output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.more.Signal()
}

// Detached returns the streams of a process whose work is more important than its output: a
// write never waits, and a reader that ends does not end the process. end waits for the readers,
// but not for long.
func (s Streams) Detached() (detached Streams, end func()) {
	outs, restoreOut := detach(s.Out)
	errs, restoreErr := detach(s.Err)
	if _, is := s.Err.(*os.File); is {
		signal.Ignore(syscall.SIGPIPE) // a write of a library to a pipe without a reader fails instead
	}
	return Streams{In: s.In, Out: outs, Err: errs}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		for _, o := range []*Output{outs, errs} {
			o.close()
		}
		for _, o := range []*Output{outs, errs} {
			select {
			case <-o.ended:
			case <-ctx.Done():
			}
		}
		restoreOut()
		restoreErr()
	}
}

// Dropped returns the number of lines of a detached Err that were dropped so far.
func (s Streams) Dropped() uint64 {
	if o, is := s.Err.(*Output); is {
		return o.Dropped()
	}
	return 0
}

// detach returns the output of a stream. A pipe or socket is set to non-blocking until restore is
// called: the runtime writes panics to it by itself, and a process that fails must not wait for a
// reader either.
func detach(to io.Writer) (o *Output, restore func()) {
	f, is := to.(*os.File)
	if !is {
		return newOutput(to), func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return newOutput(to), func() {}
	}
	fd := int(f.Fd())
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // f expects that writes wait
	if err != nil || syscall.SetNonblock(own, true) != nil {
		return newOutput(to), func() {}
	}
	return newOutput(os.NewFile(uintptr(own), f.Name())), func() { _ = syscall.SetNonblock(fd, false) }
}
