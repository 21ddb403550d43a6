package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// reader is the other end of an output. Its methods are called while the output waits.
type reader struct {
	await.Buffer
	stalled chan struct{} // closed when it reads; nil means always
	err     error         // of every write
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stalled != nil {
		<-r.stalled
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.Buffer.Write(p)
}

// TestStalledReader holds that writing never waits, that the lines which wait are bounded, and
// that they are the newest.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fit = maxWaiting / 1000
		to := &reader{stalled: make(chan struct{})}
		o := newOutput(to)
		write := func(from, until int) (written []string) {
			for i := from; i < until; i++ {
				must.Get(fmt.Fprintf(o, "%999d\n", i))(t)
				written = append(written, strconv.Itoa(i))
			}
			synctest.Wait()
			return written
		}
		want := write(0, 1) // under way from now on
		write(1, 3*fit)
		check.Equal(t, o.Dropped(), 2*fit-1, "dropped lines")
		must.Get(o.Write(make([]byte, maxWaiting+1)))(t)
		check.Equal(t, o.Dropped(), 3*fit, "dropped lines after one that does not fit")
		want = append(want, write(3*fit, 4*fit)...)
		close(to.stalled)
		synctest.Wait()
		check.Diff(t, strings.Fields(to.String()), want, "lines")
		o.close()
		<-o.ended
	})
}

// TestDroppedLinesAreReported holds that one line tells how many are missing, once the reader has
// caught up.
func TestDroppedLinesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{err: syscall.EPIPE}
		o := newOutput(to)
		log := must.Get(NewLogger(o, "info", "text"))(t)
		for range 3 {
			log.Info("lost")
		}
		synctest.Wait()
		check.Equal(t, o.Dropped(), 3, "dropped lines without a reader")
		to.err = nil
		for range 2 {
			log.Info("read")
			synctest.Wait()
		}
		got := to.String()
		check.Equal(t, strings.Count(got, "\n"), 3, "lines")
		check.Equal(t, strings.Count(got, `level=WARN msg="log lines dropped" count=3`), 1, "lines about those that were dropped")
		o.close()
		<-o.ended
	})
}

// TestEndOfDetachedStreams holds that a process ends after its output, or after a second if there
// is no reader.
func TestEndOfDetachedStreams(t *testing.T) {
	for _, test := range []struct {
		name      string
		stalls    bool
		waits     time.Duration
		out, errs string
	}{
		{"read", false, 0, "result\n", "reason\n"},
		{"not read", true, drainTimeout, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, errs := &reader{}, &reader{}
				if test.stalls {
					out.stalled = make(chan struct{})
					errs.stalled = out.stalled
				}
				std, end := Streams{Out: out, Err: errs}.Detached()
				fmt.Fprintln(std.Out, "result")
				fmt.Fprintln(std.Err, "reason")
				begun := time.Now()
				end()
				check.Equal(t, time.Since(begun), test.waits, "wait, in virtual time")
				check.Equal(t, out.String(), test.out, "output")
				check.Equal(t, errs.String(), test.errs, "errors")
				if test.stalls {
					close(out.stalled)
				}
			})
		})
	}
}
