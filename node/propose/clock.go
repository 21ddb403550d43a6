package propose

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Limits of the comparison of clocks.
const (
	ClockInterval = 2 * time.Second // between two comparisons with the voters' clocks
	// MaxClockSkew is the largest accepted difference between a clock and the voters'
	// median; beyond it the median is used. A step of the clock by more than MaxClockSkew is
	// detected at the next stamp.
	MaxClockSkew = 2 * time.Second
	// MaxAhead is how far a time of the log or the state may be ahead of a node's corrected clock.
	// Beyond it, the clocks were ahead when it was stamped.
	MaxAhead = time.Minute
	// ClockExpiry is how long a measurement is used when the voter no longer answers.
	// Clocks drift by parts in a million, so an old measurement is still useful: two clocks
	// alone do not show which of them is wrong.
	ClockExpiry = 10 * time.Minute

	// clockTimeout bounds one request for the time; half of it is the maximum error of a
	// measurement.
	clockTimeout      = time.Second
	clockFirstTimeout = 300 * time.Millisecond // bounds a comparison that a stamp waits for
)

// Clock reads the clocks of this node.
type Clock interface {
	// Read returns the times of the wall clock, which may be set, and of the monotonic
	// clock, which never goes back, both at the same moment.
	Read() (wall time.Time, mono time.Duration)
}

// WallClock returns the system's clock. Its wall time is shifted by offset.
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
	warned   time.Duration // the last reported correction
}

// basis is the result of a comparison, from which stamps are made until the next one.
type basis struct {
	origin   time.Time // of the stamped time
	own      time.Time // origin of this node's clock at the comparison
	majority bool      // reports whether a majority of the clocks was known
}

// correction returns the difference between the stamped time and this node's clock.
func (b *basis) correction() time.Duration { return b.origin.Sub(b.own) }

// measurement is the origin of a voter's clock at one comparison.
type measurement struct {
	origin time.Time
	at     time.Duration // of the comparison, by the monotonic clock
}

// NewClockSync returns a ClockSync that trusts the clock until the first comparison.
func NewClockSync(clock Clock, logger *slog.Logger) *ClockSync {
	return &ClockSync{clock: clock, logger: logger, measured: make(map[string]measurement)}
}

// Own returns the time of this node's own clock, for the comparisons of other nodes.
func (s *ClockSync) Own() time.Time {
	wall, _ := s.clock.Read()
	return wall
}

func (s *ClockSync) ownOrigin() time.Time {
	wall, mono := s.clock.Read()
	return wall.Add(-mono)
}

// Corrected returns the time of this node's clock, or the voters' median if the clock
// differs from it by more than MaxClockSkew. Between two comparisons, and while fewer than
// a majority of the clocks are known, it advances with the monotonic clock.
func (s *ClockSync) Corrected() time.Time {
	wall, mono := s.clock.Read()
	if b := s.basis.Load(); b != nil {
		return b.origin.Add(mono)
	}
	return wall
}

// Stamp returns the corrected time for a batch, in milliseconds since the epoch, within the
// range of the log's format.
func (s *ClockSync) Stamp() int64 { return min(max(s.Corrected().UnixMilli(), 0), command.MaxStamp) }

// Correction returns the difference that the last comparison added to this node's clock.
func (s *ClockSync) Correction() time.Duration {
	if b := s.basis.Load(); b != nil {
		return b.correction()
	}
	return 0
}

// Offsets returns the difference of each voter's clock to this node's: positive if the
// voter's is ahead.
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

// stepped reports whether the wall clock has moved against the monotonic one since the last
// comparison: it was set, or the machine slept. Only the voters' clocks show which of the
// two is right.
func (s *ClockSync) stepped() bool {
	b := s.basis.Load()
	return b != nil && s.ownOrigin().Sub(b.own).Abs() > MaxClockSkew
}

// knowsMajority reports whether a majority of the clocks was known at the last comparison.
func (s *ClockSync) knowsMajority() bool {
	b := s.basis.Load()
	return b != nil && b.majority
}

// compare asks the other voters for their time and updates the basis. The last measurement
// of a voter that does not answer is kept until ClockExpiry.
func (s *ClockSync) compare(ctx context.Context, others []string, logTime func() time.Time,
	ask func(context.Context, string) (time.Time, error),
) {
	own := s.ownOrigin() // read first, so that a later step is detected by the next stamp
	var asked sync.WaitGroup
	for _, id := range others {
		asked.Go(func() {
			_, before := s.clock.Read()
			theirs, err := ask(ctx, id)
			_, after := s.clock.Read()
			// The process may have been stopped before it read the answer.
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
	s.setBasis(own, others, logTime)
}

// setBasis drops expired measurements and sets the basis: the median of the clocks, or
// this node's own clock if it is close to the median.
func (s *ClockSync) setBasis(own time.Time, others []string, logTime func() time.Time) {
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
		var witness time.Time
		var old bool
		if known%2 == 0 {
			witness, old = soFar(former, logTime, mono)
			origins = append(origins, witness)
		}
		slices.SortFunc(origins, time.Time.Compare)
		middle := len(origins) / 2
		// A clock far behind the log is wrong, and the log's time may be old: the clock after it.
		if old && origins[middle].Equal(witness) && witness.Sub(origins[middle-1]) > MaxClockSkew {
			middle++
		}
		next.origin = origins[middle]
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

// soFar returns the origin of the stamped time so far, and whether it may be old. It is
// added to an even number of clocks, which has no middle one; of two clocks it shows which is
// wrong. It is not before the time of the log, which is all that a process has that has never
// known a majority. The log's time may be old; it moves when a process that has started again
// applies the rest of its log.
func soFar(former *basis, logTime func() time.Time, mono time.Duration) (origin time.Time, old bool) {
	origin = logTime().Add(-mono)
	if former != nil && former.origin.After(origin) {
		return former.origin, false
	}
	return origin, true
}

// report logs each change of the correction. The lock is held.
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
