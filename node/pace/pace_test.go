package pace

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// write has a pacer count writes of a latency.
func write(p *Pacer, writes int, took time.Duration) {
	for range writes {
		p.Wrote(took)
	}
}

// TestRest: work rests in proportion to the excess of the latency of writes, within bounds.
func TestRest(t *testing.T) {
	for name, tt := range map[string]struct {
		present time.Duration // the latency beside the work; 1 ms without it
		pause   time.Duration // after these writes
		work    time.Duration
		want    time.Duration
	}{
		"undisturbed":        {present: time.Millisecond, work: 10 * time.Millisecond},
		"tolerated":          {present: 1250 * time.Microsecond, work: 10 * time.Millisecond},
		"slower":             {present: 1500 * time.Microsecond, work: 10 * time.Millisecond, want: 10 * time.Millisecond},
		"much slower":        {present: time.Second, work: 10 * time.Millisecond, want: maxShare * 10 * time.Millisecond},
		"work of long parts": {present: time.Second, work: time.Minute, want: maxRest},
		"no writes":          {present: time.Second, pause: idle + 1, work: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{}
				check.Equal(t, p.restAfter(tt.work), 0, "rest before the first write")
				time.Sleep(2 * idle)
				write(p, 10, time.Millisecond)
				p.restAfter(minWork) // the work has begun
				write(p, 1000, tt.present)
				time.Sleep(tt.pause)
				check.Equal(t, p.restAfter(tt.work).Round(time.Microsecond), tt.want, "rest")
			})
		})
	}
}

// TestUndisturbed: after a time without work, slow writes count as usual.
func TestUndisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{}
		time.Sleep(2 * idle)
		write(p, 10, time.Millisecond)
		time.Sleep(2 * idle)
		write(p, 3000, 10*time.Millisecond)
		check.Equal(t, p.restAfter(minWork), 0, "rest")
	})
}

// counted returns a pacer with rests that are as long as the work between them, and their number.
func counted() (p *Pacer, rests *int) {
	rests = new(int)
	return &Pacer{Sleep: func(time.Duration) { *rests++; time.Sleep(minWork) }}, rests
}

// TestSteps: work rests after parts that took long enough together, not while it rested.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, rests := counted()
		step := p.Begin()
		for _, want := range []int{0, 1, 1, 2} {
			time.Sleep(minWork / 2)
			step()
			check.Equal(t, *rests, want, "rests")
		}
		var none *Pacer
		step = none.Begin()
		time.Sleep(minWork)
		step()
		r := Reader{strings.NewReader("text"), p.Begin()}
		time.Sleep(minWork)
		must.Get(r.Read(make([]byte, 1)))(t)
		check.Equal(t, *rests, 3, "rests, one of a reader among them")
	})
}
