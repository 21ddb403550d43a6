package api

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// requestLog writes a sample of the requests: at most so many lines a second, and
// as many again for failures of ours, so that those are seen in any crowd. No line
// holds anything that a client sent, nor its address.
type requestLog struct {
	log              *slog.Logger
	served, failures sample
}

// sample lets some lines pass and counts the others.
type sample struct {
	limit *rate.Limiter
	left  atomic.Uint64 // out since the last line
}

// newRequestLog returns a log of at most perSecond lines; 0 writes none.
func newRequestLog(log *slog.Logger, perSecond int) *requestLog {
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }
	return &requestLog{log: log, served: sample{limit: limiter()}, failures: sample{limit: limiter()}}
}

// take reports whether a line may be written now, and how many were left out
// before it.
func (s *sample) take(now time.Time) (left uint64, ok bool) {
	if !s.limit.AllowN(now, 1) {
		s.left.Add(1)
		return 0, false
	}
	return s.left.Swap(0), true
}

// write logs one request, or leaves it out.
func (l *requestLog) write(now time.Time, method, route string, status, bytes int, took time.Duration) {
	s, line := &l.served, l.log.Info
	if status >= http.StatusInternalServerError {
		s, line = &l.failures, l.log.Warn
	}
	if left, ok := s.take(now); ok {
		line("request", "method", method, "route", route, "status", status, "took", took, "bytes", bytes, "leftOut", left)
	}
}
