package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/propose"
)

// Thresholds from which slowness is shown to operators.
const (
	// slowSync is for the average write of the log: every write of the cluster waits for
	// it.
	slowSync  = 100 * time.Millisecond
	slowOne   = time.Second // for a single write of the log, or stall, which is then logged
	slowWrite = time.Second // for the average write of a client
	slowApply = time.Second // for the time by which a node lags behind the leader

	stallInterval = 100 * time.Millisecond // how often a node checks whether it gets processor time
	slowStall     = stallInterval / 2      // for the average delay of that check
)

// sinceStart returns the current time for measurements.
func (h *Health) sinceStart() time.Duration { return time.Since(h.cfg.Started) }

// NoteWrite counts a client's write that began at an instant and ended now.
func (h *Health) NoteWrite(begun time.Time, err error) {
	at := h.sinceStart()
	if err == nil {
		took := time.Since(begun)
		h.writes.add(at, took)
		h.pastWrites.add(at, took)
		return
	}
	if rejection, ok := errors.AsType[*command.Unavailable](err); ok {
		h.rejected.add(at, rejection)
		h.rejectedWrites.WithLabelValues(string(rejection.Code)).Inc()
	}
}

// watchStalls measures the delay of a timer: a process that gets too little processor
// time, or was stopped, sends its heartbeats with the same delay.
func (h *Health) watchStalls(ctx context.Context) {
	tick := time.NewTimer(stallInterval)
	defer tick.Stop()
	for due := h.sinceStart() + stallInterval; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at := h.sinceStart()
		late := max(at-due, 0)
		h.stalls.add(at, late)
		h.slowness.turn(late)
		if late >= slowOne {
			h.cfg.Logger.WarnContext(ctx, "this node was stopped, or not given the processor", "for", late.Round(time.Millisecond).String())
		}
		due = at + stallInterval // from when it was looked, so that no stop is between two looks
		tick.Reset(stallInterval)
	}
}

// clockOffset returns how far this node's clock is ahead of the voters' median, and the
// number of clocks in that median, its own included.
func (h *Health) clockOffset() (ahead time.Duration, clocks int) {
	return aheadOfMedian(h.src.Pipeline.Clocks().Offsets())
}

// aheadOfMedian computes this from the others' offsets from this node's clock. Two clocks
// differ from their median by the same amount, because there is no third to decide.
func aheadOfMedian(others map[string]time.Duration) (ahead time.Duration, clocks int) {
	offsets := slices.AppendSeq([]time.Duration{0}, maps.Values(others))
	slices.Sort(offsets)
	middle := len(offsets) / 2
	median := offsets[middle]
	if len(offsets)%2 == 0 {
		median = (median + offsets[middle-1]) / 2
	}
	return -median, len(offsets)
}

// Condition returns the node's condition for operators.
func (h *Health) Condition() admin.Condition {
	at := h.sinceStart()
	ahead, clocks := h.clockOffset()
	commit := h.src.Raft.CommitIndex()
	c := admin.Condition{
		ClockAheadMillis: millis(ahead), Clocks: clocks,
		ApplyLag: commit - min(h.src.Machine.Applied(), commit), ApplyLagMillis: millis(h.lag()),
		Sync: h.syncs.timing(at), Write: h.writes.timing(at), Read: h.reads.timing(at), Stall: h.stalls.timing(at),
		Rejected: h.rejected.list(at), Slow: h.Slow(), Proxy: h.proxies.newest(at),
		LogDropped: h.cfg.LogDropped(),
	}
	if rejection := h.Rejection(); rejection != nil {
		c.Rejects = rejection.Error()
	}
	return c
}

// Warnings describes the problems in a condition that do not stop the node from serving.
func (h *Health) Warnings(c *admin.Condition) []string {
	list := []string{}
	warn := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	for _, r := range c.Rejected {
		list = append(list, fmt.Sprintf("%d writes were rejected here in the last minute, %s: %s", r.Count, r.Code, r.Reason))
	}
	warn(max(c.ClockAheadMillis, -c.ClockAheadMillis) > millis(propose.MaxClockSkew),
		"its clock is %s the median of %d clocks; look at the time service of its machine", aheadText(c.ClockAheadMillis), c.Clocks)
	warn(c.Stall.MostMillis >= millis(h.cfg.Heartbeat) || c.Stall.MeanMillis >= millis(slowStall),
		"it is not given the processor in time: in the last minute it ran up to %v late, %v on average; its machine is too busy, its share too small, or it was stopped",
		fromMillis(c.Stall.MostMillis), fromMillis(c.Stall.MeanMillis))
	warn(c.Sync.MeanMillis >= millis(slowSync),
		"its disk is slow: in the last minute a write of the log took %v on average, up to %v", fromMillis(c.Sync.MeanMillis), fromMillis(c.Sync.MostMillis))
	warn(c.Slow, "it is too slow to lead: its disk or its processor; another voter leads, unless all are slow")
	warn(c.ApplyLagMillis >= millis(slowApply),
		"it applies the log too slowly: for %v it has lacked what the leader has applied", fromMillis(c.ApplyLagMillis))
	warn(c.Write.MeanMillis >= millis(slowWrite),
		"writes through it are slow: in the last minute they took %v on average, up to %v", fromMillis(c.Write.MeanMillis), fromMillis(c.Write.MostMillis))
	warn(c.Proxy != "", untrustedProxyText, c.Proxy)
	warn(c.LogDropped > 0, "%d lines of its log were dropped since it started: their reader stalled or has ended, or the disk is full", c.LogDropped)
	warn(h.cfg.Unanswered, unansweredText)
	d := h.lastDisk()
	warn(d.Low, "its disk is nearly full: %s are free, %s are reserved", admin.BytesText(d.Free), admin.BytesText(d.Reserve))
	return append(list, h.cfg.Certificate.Warnings()...)
}

// HouseWarning names the --house-agents that are not registered.
func (h *Health) HouseWarning() string {
	v := h.src.Machine.View()
	defer v.Release()
	var free []string
	for _, name := range h.cfg.HouseAgents {
		if _, registered, err := v.Profile(text.Fold(text.AgentName(name))); err == nil && !registered {
			free = append(free, name)
		}
	}
	if len(free) == 0 {
		return ""
	}
	return fmt.Sprintf("--house-agents has names that nobody has registered, so that who does so first writes as the operator: %s; "+
		"register each (POST /api/agents) and keep its edit_key, or take it out of the flag", strings.Join(free, ", "))
}

// TimeWarning is the warning that the time of the log is ahead of the clocks; "" otherwise.
func (h *Health) TimeWarning() string {
	v := h.src.Machine.View()
	defer v.Release()
	if !h.IsAhead(v.Time()) {
		return ""
	}
	return fmt.Sprintf("the time of the log is %v ahead of the clocks, which were ahead earlier: until they reach it, new entries have its date, and what ends or is due at a time waits; "+
		"see CommonsTimeAhead in the manual",
		fromMillis(float64(v.Time()-h.now())).Round(time.Second))
}

// IsAhead reports whether an instant, in milliseconds since the epoch, was stamped by clocks that
// were ahead.
func (h *Health) IsAhead(at int64) bool { return at > h.now()+propose.MaxAhead.Milliseconds() }

// unansweredText is the warning of a public node without an operator's name and contact.
const unansweredText = "it serves others than this machine and does not say who answers for it; give --operator-name and --operator-contact, and everybody is shown them"

func aheadText(ms float64) string {
	if ms < 0 {
		return fmt.Sprintf("%v behind", fromMillis(-ms))
	}
	return fmt.Sprintf("%v ahead of", fromMillis(ms))
}

const (
	// recentParts and recentPart divide the last minute, for the measurements that operators
	// are shown. The parts expire one by one.
	recentParts = 12
	recentPart  = 5 * time.Second
	// historyParts and historyPart divide the hour of History.
	historyParts = 120
	historyPart  = 30 * time.Second
	maxElections = 10 // the number of elections in History, and of outages
)

// series sums up durations by parts of the time. Instants are times since the node started.
type series struct {
	length time.Duration // of a part
	mu     sync.Mutex
	parts  []part // part n at index n modulo their number
}

// part is the sum of one part of the time.
type part struct {
	number    int64 // counted from the start
	count     uint64
	sum, most time.Duration
}

func (p *part) timing() (t admin.Timing) {
	if p.count > 0 {
		t = admin.Timing{Count: p.count, MeanMillis: millis(p.sum) / float64(p.count), MostMillis: millis(p.most)}
	}
	return t
}

func newRecent() *series { return &series{length: recentPart, parts: make([]part, recentParts)} }

func newHistory() *series { return &series{length: historyPart, parts: make([]part, historyParts)} }

// add counts an operation that ended at an instant.
func (s *series) add(at, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := int64(at / s.length)
	p := &s.parts[number%int64(len(s.parts))]
	if p.number != number {
		*p = part{number: number}
	}
	p.count++
	p.sum += took
	p.most = max(p.most, took)
}

// until returns the parts until an instant, oldest first.
func (s *series) until(at time.Duration) []part {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, first := make([]part, len(s.parts)), int64(at/s.length)-int64(len(s.parts))+1
	for _, p := range s.parts {
		if p.count > 0 && p.number >= first && p.number < first+int64(len(list)) {
			list[p.number-first] = p
		}
	}
	return list
}

// timing returns the sum of all parts until an instant.
func (s *series) timing(at time.Duration) admin.Timing {
	var all part
	for _, p := range s.until(at) {
		all.count += p.count
		all.sum += p.sum
		all.most = max(all.most, p.most)
	}
	return all.timing()
}

// timings returns the sum of each part until an instant, oldest first.
func (s *series) timings(at time.Duration) []admin.Timing {
	list := make([]admin.Timing, 0, len(s.parts))
	for _, p := range s.until(at) {
		list = append(list, p.timing())
	}
	return list
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fromMillis(ms float64) time.Duration {
	return (time.Duration(ms*1000) * time.Microsecond).Round(time.Millisecond)
}

// rejections counts the writes that this node rejected, by code.
type rejections struct {
	mu     sync.Mutex
	byCode map[command.Code]*rejected
}

type rejected struct {
	recent *series
	reason string // in full, of the newest
}

func (r *rejections) add(at time.Duration, rejection *command.Unavailable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byCode == nil {
		r.byCode = map[command.Code]*rejected{}
	}
	of := r.byCode[rejection.Code]
	if of == nil {
		of = &rejected{recent: newRecent()}
		r.byCode[rejection.Code] = of
	}
	of.recent.add(at, 0)
	of.reason = rejection.Detail()
}

// list returns the rejections of the last minute, by code.
func (r *rejections) list(at time.Duration) []admin.Rejected {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []admin.Rejected{}
	for _, code := range slices.Sorted(maps.Keys(r.byCode)) {
		of := r.byCode[code]
		if count := of.recent.timing(at).Count; count > 0 {
			list = append(list, admin.Rejected{Code: string(code), Count: count, Reason: of.reason})
		}
	}
	return list
}

// History is the measurements of the last hour. It is kept in memory.
type History struct {
	// Writes and Reads are those of clients, by part of the time, oldest first. The last
	// part has not ended yet.
	Part          time.Duration
	Writes, Reads []admin.Timing
	Elections     []Election // those that this node has seen since it started, newest first
	Outages       []Outage   // of the leader, as this node saw them, newest first
}

// Outage is a time without a leader.
type Outage struct{ From, To time.Time } // To is zero while it lasts

// Election is a new leader as this node saw it.
type Election struct {
	At     time.Time
	Leader string // server id
	Term   uint64
}

// NoteRead counts a client's read.
func (h *Health) NoteRead(took time.Duration) {
	at := h.sinceStart()
	h.reads.add(at, took)
	h.pastReads.add(at, took)
}

// NoteLeader notes that another server leads.
func (h *Health) NoteLeader(id string, term uint64) {
	h.electionsMu.Lock()
	defer h.electionsMu.Unlock()
	h.elections = slices.Insert(h.elections, 0, Election{time.Now(), id, term})
	h.elections = h.elections[:min(len(h.elections), maxElections)]
}

// NoteOutage notes whether a leader is known.
func (h *Health) NoteOutage(known bool) {
	h.electionsMu.Lock()
	defer h.electionsMu.Unlock()
	lasts := len(h.outages) > 0 && h.outages[0].To.IsZero()
	if lasts && known {
		h.outages[0].To = time.Now()
	} else if !lasts && !known {
		h.outages = slices.Insert(h.outages, 0, Outage{From: time.Now()})
		h.outages = h.outages[:min(len(h.outages), maxElections)]
	}
}

// History returns the measurements of the last hour.
func (h *Health) History() History {
	at := h.sinceStart()
	h.electionsMu.Lock()
	defer h.electionsMu.Unlock()
	return History{
		Part: historyPart, Writes: h.pastWrites.timings(at), Reads: h.pastReads.timings(at), Elections: slices.Clone(h.elections),
		Outages: slices.Clone(h.outages),
	}
}

// proxyMemory is how long a proxy that is not trusted is shown after its last request, and
// the time between two lines in the log.
const proxyMemory = time.Hour

// untrustedProxyText is the warning about a proxy that is not trusted.
const untrustedProxyText = "%s passes requests and names their clients in X-Forwarded-For or Forwarded, which this node does not use: " +
	"no address proves a name, and all clients share one limit of writes. If it is your balancer, add it to --trusted-proxies and let it send X-Forwarded-For"

// publicProxy stands for a proxy with a public address: it may be a client that sends the
// header itself, and addresses of clients are not kept.
const publicProxy = "a public address"

// proxies remembers the newest request of a proxy that is not trusted. The zero value is
// ready. Instants are times since the node started.
type proxies struct {
	mu     sync.Mutex
	name   string // empty before the first request
	at     time.Duration
	logged time.Duration
}

// add notes a request at an instant. It returns the proxy to log, or "" if a line was
// logged within proxyMemory.
func (p *proxies) add(at time.Duration, peer netip.Addr) (log string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.name == ""
	p.name, p.at = publicProxy, at
	if peer.IsLoopback() || peer.IsPrivate() || peer.IsLinkLocalUnicast() {
		p.name = peer.String()
	}
	if !first && at < p.logged+proxyMemory {
		return ""
	}
	p.logged = at
	return p.name
}

// newest returns the proxy of the newest request within proxyMemory before an instant, or "".
func (p *proxies) newest(at time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at >= p.at+proxyMemory {
		return ""
	}
	return p.name
}

// NoteProxy notes a request that names its client in a header which the node does not use.
func (h *Health) NoteProxy(peer netip.Addr) {
	if name := h.proxies.add(h.sinceStart(), peer); name != "" {
		h.cfg.Logger.Warn("a proxy is not trusted", "problem", fmt.Sprintf(untrustedProxyText, name))
	}
}
