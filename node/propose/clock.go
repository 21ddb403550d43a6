package propose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Limits of the comparison of clocks.
const (
	// ClockInterval is how often a node compares its clock with the voters'.
	ClockInterval = 2 * time.Second
	// MaxClockSkew is how far a clock may differ from the voters' median before the median
	// is used instead, and how far the clock may be stepped before the next stamp detects
	// it.
	MaxClockSkew = 2 * time.Second
	// ClockExpiry is how long a measurement is used when the voter no longer answers.
	// Clocks drift by parts in a million, so an old measurement is better than none: two
	// clocks alone do not show which of them is wrong.
	ClockExpiry = 10 * time.Minute

	// clockTimeout bounds one request for the time; half of it is the maximum error of a
	// measurement.
	clockTimeout = time.Second
	// clockFirstTimeout bounds a comparison that a stamp waits for.
	clockFirstTimeout = 300 * time.Millisecond
)

// Clock is the time of this node.
type Clock interface {
	// Read returns the time of the wall clock, which may be set, and that of the
	// monotonic clock, which only goes on, both at the same moment.
	Read() (wall time.Time, mono time.Duration)
}

// WallClock returns the system's clock, shifted by offset.
func WallClock(offset time.Duration) Clock {
	return systemClock{start: time.Now(), offset: offset}
}

type systemClock struct {
	start  time.Time
	offset time.Duration
}

func (c systemClock) Read() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0).Add(c.offset), now.Sub(c.start)
}

// ClockSync compares this node's clock with the voters' clocks and makes the timestamps
// of batches.
//
// A clock is represented by its origin: its time when this node's monotonic clock was
// zero. So a step of this node's wall clock changes only its own origin, not those of
// the other clocks or of the stamped time. NTP slews the wall clock and the monotonic
// clock by the same amount, and changes no origin.
type ClockSync struct {
	clock  Clock
	logger *slog.Logger
	basis  atomic.Pointer[basis] // nil until a majority of the clocks was known

	mu       sync.Mutex
	measured map[string]measurement
	warned   time.Duration // the correction that was last reported
}

// basis is used to make stamps between two comparisons.
type basis struct {
	origin   time.Time // of the time that is stamped
	own      time.Time // origin of this node's clock when it was last compared
	majority bool      // of the clocks was known then
}

func (b *basis) correction() time.Duration { return b.origin.Sub(b.own) }

// measurement is what is known of a voter's clock.
type measurement struct {
	origin time.Time
	at     time.Duration // by the monotonic clock
}

// NewClockSync returns a ClockSync that trusts the clock until it has compared it.
func NewClockSync(clock Clock, logger *slog.Logger) *ClockSync {
	return &ClockSync{clock: clock, logger: logger, measured: make(map[string]measurement)}
}

// Own returns this node's own clock, which other nodes compare theirs with.
func (s *ClockSync) Own() time.Time {
	wall, _ := s.clock.Read()
	return wall
}

// ownOrigin returns the origin of this node's own clock as it is now.
func (s *ClockSync) ownOrigin() time.Time {
	wall, mono := s.clock.Read()
	return wall.Add(-mono)
}

// Corrected returns the time of this node's clock, or the voters' median if the clock
// differs from it by more than MaxClockSkew. Between two comparisons, and while less
// than a majority of the clocks is known, it advances with the monotonic clock.
func (s *ClockSync) Corrected() time.Time {
	wall, mono := s.clock.Read()
	if b := s.basis.Load(); b != nil {
		return b.origin.Add(mono)
	}
	return wall
}

// Stamp returns the corrected time for a batch, in milliseconds since the epoch. It is
// limited to the range that the log can hold.
func (s *ClockSync) Stamp() int64 { return min(max(s.Corrected().UnixMilli(), 0), command.MaxStamp) }

// Correction is what was added to this node's clock when it was last compared.
func (s *ClockSync) Correction() time.Duration {
	if b := s.basis.Load(); b != nil {
		return b.correction()
	}
	return 0
}

// Offsets returns how far each voter's clock is ahead of this node's.
func (s *ClockSync) Offsets() map[string]time.Duration {
	own := s.ownOrigin()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]time.Duration, len(s.measured))
	for id, o := range s.measured {
		m[id] = o.origin.Sub(own)
	}
	return m
}

// stepped reports whether the wall clock has moved against the monotonic one since it
// was last compared: it was set, or the machine slept while the time went on. Only the
// voters' clocks show which of the two is right.
func (s *ClockSync) stepped() bool {
	b := s.basis.Load()
	return b != nil && s.ownOrigin().Sub(b.own).Abs() > MaxClockSkew
}

// knowsMajority reports whether a majority of the clocks was known when they were
// last compared.
func (s *ClockSync) knowsMajority() bool {
	b := s.basis.Load()
	return b != nil && b.majority
}

// compare asks the other voters for their time and updates the basis. Voters that do
// not answer keep their last measurement until ClockExpiry.
func (s *ClockSync) compare(ctx context.Context, others []string, logTime func() time.Time,
	ask func(context.Context, string) (time.Time, error),
) {
	own := s.ownOrigin() // read first: a step meanwhile is noticed afterwards
	var asked sync.WaitGroup
	for _, id := range others {
		asked.Go(func() {
			_, before := s.clock.Read()
			theirs, err := ask(ctx, id)
			_, after := s.clock.Read()
			// The process may have been stopped before it took the answer.
			if err != nil || after-before > clockTimeout {
				return
			}
			m := measurement{origin: theirs.Add(-(before + after) / 2), at: after}
			s.mu.Lock()
			s.measured[id] = m
			s.mu.Unlock()
		})
	}
	asked.Wait()
	s.settle(own, others, logTime)
}

// settle drops expired measurements and sets the basis: the median of the clocks, or
// this node's own clock if it is close to the median.
func (s *ClockSync) settle(own time.Time, others []string, logTime func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, mono := s.clock.Read()
	origins := []time.Time{own}
	for id, m := range s.measured {
		if !slices.Contains(others, id) || mono-m.at > ClockExpiry {
			delete(s.measured, id)
			continue
		}
		origins = append(origins, m.origin)
	}
	known := len(origins)
	next := &basis{own: own, majority: known > (len(others)+1)/2}
	former := s.basis.Load()
	switch {
	case next.majority:
		if known%2 == 0 {
			origins = append(origins, soFar(former, logTime, mono))
		}
		slices.SortFunc(origins, time.Time.Compare)
		next.origin = origins[len(origins)/2]
		if next.correction().Abs() <= MaxClockSkew {
			next.origin = own
		}
	case former != nil:
		next.origin = former.origin
	default:
		return
	}
	s.basis.Store(next)
	s.report(next.correction(), known)
}

// soFar returns the origin of the time that was stamped so far. It is added to an even
// number of clocks, which has no middle one: of two clocks it shows which is wrong. A
// process that has not known a majority yet uses the time of its log. That time may be
// old, so it never makes a stamp too late.
func soFar(former *basis, logTime func() time.Time, mono time.Duration) time.Time {
	if former != nil {
		return former.origin
	}
	return logTime().Add(-mono)
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
		_ = p.compareClocksOnce(p.ctx, clockTimeout) // it is tried again
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// knowClocks returns nil once a majority of the clocks is known. A new leader stamps
// nothing before that: log time never goes back from a stamp that is too late, and
// whatever lasts for a time from a stamp that is too early would end too early.
func (p *Pipeline) knowClocks(ctx context.Context) error {
	if p.deps.Load() == nil || p.sync.knowsMajority() {
		return nil // before Start nothing is stamped
	}
	if err := p.compareClocksOnce(ctx, clockFirstTimeout); err != nil {
		return err
	}
	if !p.sync.knowsMajority() {
		return errors.New("the clocks of a majority of the voters are not known yet")
	}
	return nil
}

// stamp returns the stamp of the next batch. If this node's clock was set, or its
// machine slept, it compares the clocks first.
func (p *Pipeline) stamp() int64 {
	if p.sync.stepped() {
		_ = p.compareClocksOnce(p.ctx, clockFirstTimeout) // the time so far goes on
	}
	return p.sync.Stamp()
}

func (p *Pipeline) compareClocksOnce(ctx context.Context, timeout time.Duration) error {
	d := p.deps.Load()
	voters, err := d.voters()
	if err != nil {
		p.logger.WarnContext(ctx, "cannot compare clocks", "error", err)
		return fmt.Errorf("read the configuration: %w", err)
	}
	if len(voters) == 0 {
		return nil // not a member yet: its own clock is no majority
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	others := slices.DeleteFunc(voters, func(id string) bool { return id == p.self })
	p.sync.compare(ctx, others, d.logTime, p.peers.now)
	return nil
}

// logTime returns the instant of the newest log entry that is applied here.
func (d *deps) logTime() time.Time {
	v := d.state.View()
	defer v.Release()
	return time.UnixMilli(v.Time())
}
