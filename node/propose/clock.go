package propose

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm"
)

// Limits of the comparison of clocks.
const (
	// ClockInterval is how often a node compares its clock with the voters'.
	ClockInterval = 2 * time.Second
	// MaxClockSkew is how far a clock may be off the voters' median before the
	// median takes its place.
	MaxClockSkew = 2 * time.Second
	// ClockExpiry is how long a measurement counts when the voter no longer
	// answers. Clocks drift by parts in a million, so that an old measurement
	// says more than none: two clocks alone cannot tell which of them is wrong.
	ClockExpiry = 10 * time.Minute

	// clockTimeout bounds one question for the time; half of it is the largest
	// error of a measurement.
	clockTimeout = time.Second
	// clockFirstTimeout bounds the comparison that the first command of a term
	// waits for when there was none before.
	clockFirstTimeout = 300 * time.Millisecond
)

// Clock tells the time of this node.
type Clock interface {
	Now() time.Time
}

// WallClock returns the system's clock, shifted by offset.
func WallClock(offset time.Duration) Clock { return wallClock(offset) }

type wallClock time.Duration

// Now returns the shifted time.
func (c wallClock) Now() time.Time { return time.Now().Add(time.Duration(c)) }

// ClockSync compares this node's clock with those of the voters and makes the
// stamps of batches from it.
type ClockSync struct {
	clock  Clock
	logger *slog.Logger
	basis  atomic.Pointer[basis]

	mu      sync.Mutex
	offsets map[string]measurement
	warned  time.Duration // the correction that was last reported
}

// basis is what stamps are made of between two comparisons: the time at the last
// one, carried on by the monotonic clock, so that a step of the wall clock has no
// effect before it was compared.
type basis struct {
	at         time.Time
	correction time.Duration
}

// measurement is how far a voter's clock is ahead of this node's.
type measurement struct {
	offset time.Duration
	at     time.Time
}

// NewClockSync returns a ClockSync that trusts the clock until it has compared it.
func NewClockSync(clock Clock, logger *slog.Logger) *ClockSync {
	s := &ClockSync{clock: clock, logger: logger, offsets: make(map[string]measurement)}
	s.basis.Store(&basis{at: clock.Now()})
	return s
}

// Now returns this node's own clock, which other nodes compare theirs with.
func (s *ClockSync) Now() time.Time { return s.clock.Now() }

// Corrected returns the time: by this node's clock, or by the voters' median when
// the clock is off it by more than MaxClockSkew.
func (s *ClockSync) Corrected() time.Time {
	b := s.basis.Load()
	return b.at.Add(s.clock.Now().Sub(b.at) + b.correction)
}

// Stamp returns the corrected time for a batch, in milliseconds since the epoch. A
// clock that is off beyond what the log can hold gives the nearest that it can.
func (s *ClockSync) Stamp() int64 { return min(max(s.Corrected().UnixMilli(), 0), fsm.MaxStamp) }

// Correction is what Corrected adds to this node's clock.
func (s *ClockSync) Correction() time.Duration { return s.basis.Load().correction }

// Offsets returns how far each voter's clock is ahead of this node's.
func (s *ClockSync) Offsets() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]time.Duration, len(s.offsets))
	for id, o := range s.offsets {
		m[id] = o.offset
	}
	return m
}

// covers reports whether a majority of the clocks is known, this node's own
// included.
func (s *ClockSync) covers(voters int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.offsets)+1 > voters/2
}

// compare asks the given voters for their time and works out the correction.
// Voters that do not answer keep their last measurement until ClockExpiry.
func (s *ClockSync) compare(ctx context.Context, voters []string, expiry time.Duration,
	ask func(context.Context, string) (time.Time, error),
) {
	var asked sync.WaitGroup
	for _, id := range voters {
		asked.Go(func() {
			before := s.clock.Now()
			theirs, err := ask(ctx, id)
			if err != nil {
				return
			}
			after := s.clock.Now()
			middle := before.Add(after.Sub(before) / 2)
			s.mu.Lock()
			s.offsets[id] = measurement{offset: theirs.Sub(middle), at: after}
			s.mu.Unlock()
		})
	}
	asked.Wait()
	s.settle(voters, expiry)
}

// settle forgets what no longer counts and sets the correction.
func (s *ClockSync) settle(voters []string, expiry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	offsets := []time.Duration{0}
	for id, m := range s.offsets {
		if !slices.Contains(voters, id) || now.Sub(m.at) > expiry {
			delete(s.offsets, id)
			continue
		}
		offsets = append(offsets, m.offset)
	}
	correction := median(offsets)
	if correction.Abs() <= MaxClockSkew {
		correction = 0
	}
	s.basis.Store(&basis{at: now, correction: correction})
	s.report(correction, len(offsets))
}

// median returns the middle value; of two middle ones the earlier clock's. The
// log's time never goes back, so an early stamp is made good by the next and a
// late one never.
func median(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2]
}

// report writes one line per change of the correction. The lock is held.
func (s *ClockSync) report(correction time.Duration, clocks int) {
	if (correction-s.warned).Abs() <= MaxClockSkew/2 && (correction == 0) == (s.warned == 0) {
		return
	}
	s.warned = correction
	if correction == 0 {
		s.logger.Info("this node's clock agrees with the voters' again")
		return
	}
	s.logger.Warn("this node's clock is off the voters' median; the median is used when it leads",
		"off", -correction, "clocks", clocks)
}

// compareClocks keeps comparing until the Pipeline is closed.
func (p *Pipeline) compareClocks() {
	ticker := time.NewTicker(p.timing.clockInterval)
	defer ticker.Stop()
	for {
		p.compareClocksOnce(p.ctx, p.timing.clockTimeout)
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// compareClocksFirst compares unless a majority of the clocks is known: a stamp
// too late would stay in the log's time for good.
func (p *Pipeline) compareClocksFirst(ctx context.Context) {
	d := p.deps.Load()
	if d == nil {
		return
	}
	if voters, err := d.voters(); err == nil && !p.sync.covers(len(voters)) {
		p.compareClocksOnce(ctx, p.timing.clockFirstTimeout)
	}
}

func (p *Pipeline) compareClocksOnce(ctx context.Context, timeout time.Duration) {
	voters, err := p.deps.Load().voters()
	if err != nil {
		p.logger.WarnContext(ctx, "cannot compare clocks", "error", err)
		return
	}
	voters = slices.DeleteFunc(voters, func(id string) bool { return id == p.self })
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.sync.compare(ctx, voters, p.timing.clockExpiry, p.peers.now)
}
