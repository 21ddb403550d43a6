package propose

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/internal/await"
)

// wantTime fails unless stamps are close enough to the truth.
func wantTime(t *testing.T, s *ClockSync, clock *handClock, when string) {
	t.Helper()
	if off := time.UnixMilli(s.Stamp()).Sub(clock.now()); off.Abs() > MaxClockSkew {
		t.Errorf("%s: the stamp is off by %v", when, off)
	}
}

// TestClockSteps sets the clock of a leader while voters are away, for less and for more
// than ClockExpiry.
func TestClockSteps(t *testing.T) {
	all := []string{"b", "c", "d", "e"}
	for _, tt := range []struct{ voters, away int }{{3, 0}, {3, 1}, {5, 0}, {5, 1}, {5, 2}} {
		for _, gone := range []time.Duration{0, time.Minute, time.Hour} {
			for _, step := range []time.Duration{time.Hour, -time.Hour, 10 * time.Minute, -10 * time.Minute} {
				t.Run(fmt.Sprintf("%d of %d away for %v, %v", tt.away, tt.voters, gone, step), func(t *testing.T) {
					clock := &handClock{truth: noon}
					s := NewClockSync(clock, slog.New(slog.DiscardHandler))
					others := all[:tt.voters-1]
					known := map[string]time.Duration{}
					for i, id := range others {
						known[id] = time.Duration(i-1) * 300 * time.Millisecond
					}
					compare := func() { s.compare(context.Background(), others, emptyLog, asker(clock, known)) }
					compare()
					for _, id := range others[:tt.away] {
						delete(known, id)
					}
					for range 10 {
						clock.add(gone / 10)
						compare()
					}
					wantTime(t, s, clock, "before the step")
					clock.set(step)
					wantTime(t, s, clock, "right after the step")
					check.Equal(t, s.stepped(), true, "the step is noticed")
					compare()
					wantTime(t, s, clock, "when the clocks were compared")
					check.Equal(t, s.stepped(), false, "the step is noticed once more")
					for range 20 {
						clock.add(time.Minute)
						compare()
					}
					wantTime(t, s, clock, "much later")
					clock.set(0)
					compare()
					wantTime(t, s, clock, "set right")
					check.Equal(t, s.Correction(), 0, "corrected by")
				})
			}
		}
	}
}

// TestAnothersClockSteps sets the other one of two clocks, which do not show which of them is
// wrong.
func TestAnothersClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		clock := &handClock{truth: noon}
		s := NewClockSync(clock, slog.New(slog.DiscardHandler))
		others := []string{"b", "c"}
		for _, b := range []time.Duration{0, step} {
			s.compare(context.Background(), others, emptyLog, asker(clock, map[string]time.Duration{"b": b}))
			clock.add(ClockInterval)
		}
		wantTime(t, s, clock, fmt.Sprintf("the other's clock stepped by %v", step))
		clock.set(-step) // and this one's the other way
		s.compare(context.Background(), others, emptyLog, asker(clock, map[string]time.Duration{"b": step}))
		wantTime(t, s, clock, fmt.Sprintf("both stepped, by %v and %v", step, -step))
	}
}

// TestTimeGoesOnWithoutAMajority sets the clock while no voter answers.
func TestTimeGoesOnWithoutAMajority(t *testing.T) {
	for _, voters := range []string{"b c", "b c d e"} {
		for _, step := range []time.Duration{time.Hour, -time.Hour} {
			clock := &handClock{truth: noon}
			s := NewClockSync(clock, slog.New(slog.DiscardHandler))
			known := map[string]time.Duration{}
			for id := range strings.FieldsSeq(voters) {
				known[id] = 0
			}
			s.compare(context.Background(), strings.Fields(voters), emptyLog, asker(clock, known))
			clock.add(2 * ClockExpiry)
			clock.set(step)
			s.compare(context.Background(), strings.Fields(voters), emptyLog, asker(clock, nil))
			wantTime(t, s, clock, fmt.Sprintf("of %s nobody answers, the step is %v", voters, step))
			check.Equal(t, s.stepped(), false, "the step is noticed once more")
		}
	}
}

// TestTheOnlyVoterFollowsItsClock checks a cluster of one voter.
func TestTheOnlyVoterFollowsItsClock(t *testing.T) {
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		clock.set(off)
		s.compare(context.Background(), nil, emptyLog, nil)
		check.Equal(t, s.Stamp(), noon.Add(off).UnixMilli(), "stamp of a clock that was set off by %v", off)
	}
}

// TestSlewIsNoStep checks that slewing by NTP reaches the stamps without a question to
// the voters.
func TestSlewIsNoStep(t *testing.T) {
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	good := asker(clock, map[string]time.Duration{"b": 0, "c": 0})
	for _, off := range []time.Duration{0, time.Second, 2 * time.Second, 500 * time.Millisecond, -time.Second} {
		clock.set(off)
		check.Equal(t, s.stepped(), false, "off by %v: taken for a step", off)
		s.compare(context.Background(), []string{"b", "c"}, emptyLog, good)
		if got, want := s.Stamp(), noon.Add(off).UnixMilli(); got != want || s.Correction() != 0 {
			t.Errorf("off by %v: stamp %d, want %d", off, got, want)
		}
	}
}

// TestFirstTimeOfAProcess starts a process that knows its own clock, another clock and the
// time of the log. Its stamps are not too late, and not before the log's time.
func TestFirstTimeOfAProcess(t *testing.T) {
	const h, m = time.Hour, time.Minute
	for _, tt := range []struct {
		name           string
		own, b, c, log time.Duration // off the truth; c 1: away
		want           time.Duration
	}{
		{"own behind", -h, 0, 1, -m, 0},
		{"own ahead", h, 0, 1, -m, 0},
		{"the other's behind", 0, -h, 1, -m, 0},
		{"the other's ahead", 0, h, 1, -m, 0},
		{"the log stood still for long", -h, 0, 1, -2 * h, -h},
		{"the log is ahead", 0, 0, 1, h, 0},
		{"the log is a second ahead, the other's for long", 0, h, 1, time.Second, 0},
		{"all are known", -h, 0, 0, -m, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &handClock{truth: noon, off: tt.own}
			s := NewClockSync(clock, slog.New(slog.DiscardHandler))
			known := map[string]time.Duration{"b": tt.b, "c": tt.c}
			if tt.c == 1 {
				delete(known, "c")
			}
			logTime := func() time.Time { return noon.Add(tt.log) }
			s.compare(context.Background(), []string{"b", "c"}, logTime, asker(clock, known))
			clock.add(time.Second)
			s.compare(context.Background(), []string{"b", "c"}, logTime, asker(clock, known))
			check.Equal(t, time.UnixMilli(s.Stamp()).Sub(clock.now()), tt.want, "off by")
		})
	}
}

// TestLogIsAppliedAfterTheStart starts a process whose clock is behind, while another voter
// is away. Its first comparison sees a log that is older than its clock. The newest entry
// shows that its clock is wrong.
func TestLogIsAppliedAfterTheStart(t *testing.T) {
	clock := &handClock{truth: noon, off: -time.Hour}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	log := noon.Add(-2 * time.Hour)
	compare := func() {
		s.compare(context.Background(), []string{"b", "c"}, func() time.Time { return log }, asker(clock, map[string]time.Duration{"b": 0}))
	}
	compare()
	clock.add(ClockInterval)
	log = noon.Add(-time.Minute)
	compare()
	clock.add(ClockInterval)
	wantTime(t, s, clock, "with the newest entry")
}

// settableClock is the system's clock, set by the test.
type settableClock struct {
	start      time.Time
	off, slept atomic.Int64
}

func newSettableClock(off time.Duration) *settableClock {
	c := &settableClock{start: time.Now()}
	c.off.Store(int64(off))
	return c
}

func (c *settableClock) Read() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0).Add(time.Duration(c.off.Load())), now.Sub(c.start) - time.Duration(c.slept.Load())
}

// wantStamps fails unless a node has stamped n batches, all about now. The tolerance is
// far below the steps of these tests and far above any delay.
func wantStamps(t *testing.T, n *fakeNode, count int) {
	t.Helper()
	n.sm.mu.Lock()
	defer n.sm.mu.Unlock()
	check.Equal(t, len(n.sm.stamps), count, "batches")
	for i, stamp := range n.sm.stamps {
		if off := time.Since(time.UnixMilli(stamp)); off.Abs() > time.Minute {
			t.Errorf("stamp %d is off by %v", i, -off)
		}
	}
}

// withClock sets the clock of node-0.
func withClock(c Clock) option {
	return func(cfg *Config) {
		if cfg.ServerID == "node-0" {
			cfg.Clock = c
		}
	}
}

// clockless keeps a node from asking others for their clocks.
type clockless struct {
	http.RoundTripper
	lifted   *atomic.Bool
	rejected *atomic.Int64
}

func (c clockless) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == pathClock && !c.lifted.Load() {
		c.rejected.Add(1)
		return nil, errLink
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestNothingIsStampedByOneClock elects a node that knows only its own clock, which is wrong.
// It leads once it has asked the others.
func TestNothingIsStampedByOneClock(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		var lifted atomic.Bool
		var rejected atomic.Int64
		c := newCluster(t, 3, withClock(newSettableClock(off)), func(cfg *Config) {
			cfg.Client = &http.Client{Transport: clockless{cfg.Client.Transport, &lifted, &rejected}}
		})
		await.Eventually(t, "all have compared their clocks at the start", func() bool { return rejected.Load() == 6 })
		n := c.elect("node-0")
		if err := n.establish(); err == nil || !strings.Contains(err.Error(), "clocks of a majority") {
			t.Fatalf("it leads by its own clock: %v", err)
		}
		wantStamps(t, n, 0)
		lifted.Store(true)
		must.Do(t, n.establish())
		must.Do(t, check.Last(c.nodes[1].publish("some text")))
		wantStamps(t, n, 2)
	}
}

// TestClockOfNoMember holds that a node outside of a cluster is no majority of the cluster
// that it joins later.
func TestClockOfNoMember(t *testing.T) {
	c := newCluster(t, 3)
	n := c.nodes[0]
	await.Eventually(t, "the comparison of the start is over", n.sync.knowsMajority)
	n.set(func(n *fakeNode) { n.outside = true })
	n.sync.basis.Store(nil)
	if n.compareClocksOnce(context.Background(), clockTimeout); n.sync.knowsMajority() {
		t.Error("it knows a majority")
	}
}

// TestLeadersClockIsSet sets the clock of a leader, or of one that was just elected, while
// another node is away. In this test, clocks are compared only when a step is detected.
func TestLeadersClockIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		for _, nodes := range []int{3, 5} {
			for _, elected := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v of %d, elected %v", step, nodes, elected), func(t *testing.T) {
					clock := newSettableClock(0)
					c := newCluster(t, nodes, withClock(clock))
					n := c.nodes[0]
					await.Eventually(t, "the clocks are known", func() bool { return len(n.Clocks().Offsets()) == nodes-1 })
					await.Eventually(t, "the time is settled", n.sync.knowsMajority)
					first := n
					if elected {
						first = c.nodes[1]
					}
					c.lead(first.id)
					c.net.cut("node-1")
					clock.off.Store(int64(step))
					if elected {
						c.lead(n.id)
					}
					must.Do(t, check.Last(n.publish("some text")))
					check.Equal(t, n.sync.stepped(), false, "the step is still to be noticed")
					batches := 2
					if elected {
						batches++
					}
					wantStamps(t, n, batches)
				})
			}
		}
	}
}

// TestLeadersMachineSlept stops the monotonic clock for hours. The wall clock is right.
func TestLeadersMachineSlept(t *testing.T) {
	clock := newSettableClock(0)
	c := newCluster(t, 3, withClock(clock))
	n := c.lead("node-0")
	c.net.cut("node-1")
	clock.slept.Store(int64(8 * time.Hour))
	must.Do(t, check.Last(n.publish("some text")))
	wantStamps(t, n, 2)
}

// TestLogShowsAWrongClock has a node lead that compared the clocks before it applied its log:
// of two known clocks, the one that is behind was taken for right.
func TestLogShowsAWrongClock(t *testing.T) {
	behind := newSettableClock(-time.Hour)
	c := newCluster(t, 3, func(cfg *Config) {
		if cfg.ServerID == "node-1" {
			cfg.Clock = behind
		}
	})
	n := c.nodes[0]
	await.Eventually(t, "the comparison of the start is over", n.sync.knowsMajority)
	c.lead("node-0")
	c.net.cut("node-2")
	n.StopLeading()
	own := n.sync.ownOrigin()
	n.sync.measured = map[string]measurement{}
	n.sync.basis.Store(&basis{origin: own.Add(-time.Hour), own: own, majority: true})
	n.StartLeading(t.Context(), n.CurrentTerm())
	must.Do(t, check.Last(n.publish("some text")))
	wantStamps(t, n, 2)
}
