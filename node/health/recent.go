package health

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
)

const (
	// recentSpan is how far back what operators are shown goes.
	recentSpan = time.Minute
	// recentParts is in how many parts it is forgotten.
	recentParts = 12
)

// recent sums up what took time during the last recentSpan. The zero value is ready.
// Instants are given as times since the node started.
type recent struct {
	mu    sync.Mutex
	parts [recentParts]recentPart
}

// recentPart is the sum of one part of the time.
type recentPart struct {
	number    int64 // of the part, counted from the start
	count     uint64
	sum, most time.Duration
}

// add counts something that ended at an instant.
func (r *recent) add(at, took time.Duration) {
	number := partNumber(at)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.parts[number%recentParts]
	if p.number != number {
		*p = recentPart{number: number}
	}
	p.count++
	p.sum += took
	p.most = max(p.most, took)
}

// timing returns the sum at an instant.
func (r *recent) timing(at time.Duration) admin.Timing {
	oldest := partNumber(at) - recentParts + 1
	var sum, most time.Duration
	var t admin.Timing
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.parts {
		if p := &r.parts[i]; p.number >= oldest {
			t.Count += p.count
			sum += p.sum
			most = max(most, p.most)
		}
	}
	if t.Count > 0 {
		t.MeanMillis, t.MostMillis = millis(sum)/float64(t.Count), millis(most)
	}
	return t
}

func partNumber(at time.Duration) int64 { return int64(at / (recentSpan / recentParts)) }

// millis is a time as it stands in JSON.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fromMillis is such a time again, for a text.
func fromMillis(ms float64) time.Duration {
	return (time.Duration(ms*1000) * time.Microsecond).Round(time.Millisecond)
}

// refusals counts the writes that this node did not take, by code.
type refusals struct {
	mu     sync.Mutex
	byCode map[command.Code]*refused
}

type refused struct {
	recent recent
	reason string // of the newest
}

// add counts a refusal at an instant.
func (r *refusals) add(at time.Duration, why *command.Unavailable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byCode == nil {
		r.byCode = map[command.Code]*refused{}
	}
	of := r.byCode[why.Code]
	if of == nil {
		of = &refused{}
		r.byCode[why.Code] = of
	}
	of.recent.add(at, 0)
	of.reason = why.Reason
}

// list returns the refusals of the last recentSpan, by code.
func (r *refusals) list(at time.Duration) []admin.Refused {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []admin.Refused{}
	for _, code := range slices.Sorted(maps.Keys(r.byCode)) {
		of := r.byCode[code]
		if count := of.recent.timing(at).Count; count > 0 {
			list = append(list, admin.Refused{Code: string(code), Count: count, Reason: of.reason})
		}
	}
	return list
}
