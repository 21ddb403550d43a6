// Package guard bounds the resources of one node that clients hold: connections, waiting calls,
// unread responses, rejected writes, and the work of reads. Each bound has two parts: one for an
// address, and one for all together. On a full node, the address that holds the most gives way
// first.
//
// Its state is in memory, and each node has its own. It does not depend on HTTP.
package guard

import (
	"cmp"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Unbounded turns a budget off.
const Unbounded = -1

// Limits are the bounds. Zero fields get the default.
type Limits struct {
	// Connections is the maximum number of open connections. Required.
	Connections int
	// AddressConnections is the maximum for one address; the default is half of all.
	AddressConnections int
	// AddressWaits is the maximum number of waiting calls of one address. All together are half of
	// Connections; the default is three quarters of that.
	AddressWaits int
	// Arrivals is the maximum number of requests that are arriving, and AddressArrivals that of one
	// address. Each holds a buffer of the announced length of its body. The defaults are a 16th and
	// a 64th of Connections.
	Arrivals, AddressArrivals int
	// Streams is the maximum number of open streams of events, and AddressStreams that of one
	// address. The defaults are a quarter and a 16th of Connections.
	Streams, AddressStreams int
	// AnswerBytes bounds the long answers that are being sent, in bytes, and
	// AddressAnswerBytes those to one address.
	AnswerBytes, AddressAnswerBytes int
	// ReadWork is the work per second that reads of one address may cause, or Unbounded.
	ReadWork int
	// Rejections is the maximum number of rejected writes per second of one address, or Unbounded.
	Rejections int
	// DryRuns is the maximum number of dry runs per minute of one address, or Unbounded.
	DryRuns int
	// Handshakes is the maximum number of TLS handshakes per second of one address, or Unbounded.
	Handshakes int
	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

// The defaults, and how bounds follow from one another.
const (
	DefaultAnswerBytes        = 128 << 20
	DefaultAddressAnswerBytes = 32 << 20

	// leastArrivals is for nodes that may open few files.
	leastArrivals = 64

	// wideShare is the bound of an IPv6 /48 as a multiple of the bound of an address: one subscriber
	// may get a network of this size.
	wideShare = 4
	// Reserve is the number of connections beyond Limits.Connections that are accepted when no other
	// can give way. Only health is answered on them.
	Reserve = 32
	// lingering is the number of rejected connections that are read from for a moment.
	lingering = 32
	// Beyond is the maximum number of connections beyond Limits.Connections.
	Beyond = Reserve + lingering
)

func (l *Limits) setDefaults() {
	l.AddressConnections = cmp.Or(l.AddressConnections, max(1, l.Connections/2))
	l.AddressWaits = cmp.Or(l.AddressWaits, max(1, l.waits()*3/4))
	l.Arrivals = cmp.Or(l.Arrivals, max(leastArrivals, l.Connections/16))
	l.AddressArrivals = cmp.Or(l.AddressArrivals, max(leastArrivals, l.Connections/64))
	l.Streams = cmp.Or(l.Streams, max(1, l.Connections/4))
	l.AddressStreams = cmp.Or(l.AddressStreams, max(1, l.Connections/16))
	l.AnswerBytes = cmp.Or(l.AnswerBytes, DefaultAnswerBytes)
	l.AddressAnswerBytes = cmp.Or(l.AddressAnswerBytes, DefaultAddressAnswerBytes)
	l.ReadWork = cmp.Or(l.ReadWork, DefaultReadWork)
	l.Rejections = cmp.Or(l.Rejections, DefaultRejections)
	l.DryRuns = cmp.Or(l.DryRuns, DefaultDryRuns)
	l.Handshakes = cmp.Or(l.Handshakes, DefaultHandshakes)
	if l.Now == nil {
		l.Now = time.Now
	}
}

// waits returns the maximum number of waiting calls.
func (l *Limits) waits() int { return max(1, l.Connections/2) }

// Guard holds the bounds of one node.
type Guard struct {
	limits Limits
	conns  conns
	waits  waits
	// arrivals are the requests of which something has arrived, and not all.
	arrivals waits
	// streams are the streams of events.
	streams waits
	answers answers
	// builds are the turns for making lists, pages those for making pages.
	builds, pages turns
	// handshakes are the TLS handshakes that use the processor.
	handshakes turns
	// Rejected counts rejected writes, Reads the work of reads, DryRuns dry runs.
	Rejected, Reads, DryRuns *Budgets
	shakes                   *Budgets // of TLS handshakes
	metrics                  *metrics
}

// New makes a guard.
func New(limits Limits) *Guard {
	limits.setDefaults()
	g := &Guard{
		limits:   limits,
		Rejected: newBudgets(limits.Rejections, time.Second, limits.Rejections*rejectionSeconds, limits.Now),
		Reads:    newBudgets(limits.ReadWork, time.Second, limits.ReadWork*readSeconds, limits.Now),
		DryRuns:  newBudgets(limits.DryRuns, time.Minute, limits.DryRuns-1, limits.Now), // one more may be owed
		shakes:   newBudgets(limits.Handshakes, time.Second, limits.Handshakes*handshakeSeconds, limits.Now),
		metrics:  newMetrics(),
	}
	g.conns.init(g)
	g.waits.init(limits.AddressWaits, limits.waits(), g.metrics.shedWaits)
	g.arrivals.init(limits.AddressArrivals, limits.Arrivals, g.metrics.closed.WithLabelValues("slow"))
	g.streams.init(limits.AddressStreams, limits.Streams, g.metrics.closed.WithLabelValues("stream"))
	g.answers.init(g)
	g.builds.init(buildsPerCPU * runtime.GOMAXPROCS(0))
	g.pages.init(buildsPerCPU * runtime.GOMAXPROCS(0))
	// Half of the processors are left to requests.
	g.handshakes.init(max(1, runtime.GOMAXPROCS(0)/2))
	return g
}

// Limits returns the bounds, with their defaults.
func (g *Guard) Limits() Limits { return g.limits }

// Client is the address, or network, that a resource is counted against.
type Client struct {
	narrow netip.Prefix // IPv4: the address; IPv6: the /64
	wide   netip.Prefix // IPv6: the /48; IPv4: invalid
}

// ClientOf returns the Client of an address.
func ClientOf(addr netip.Addr) Client {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return Client{narrow: netip.PrefixFrom(addr, addr.BitLen())}
	}
	return Client{narrow: netip.PrefixFrom(addr, 64).Masked(), wide: netip.PrefixFrom(addr, 48).Masked()}
}

// shares counts what each client holds. Its owner locks it.
type shares struct {
	bound int
	held  map[netip.Prefix]int
}

func newShares(bound int) shares { return shares{bound, make(map[netip.Prefix]int)} }

// fits reports whether a client may hold n more.
func (s *shares) fits(c Client, n int) bool {
	return s.held[c.narrow]+n <= s.bound && (!c.wide.IsValid() || s.held[c.wide]+n <= wideShare*s.bound)
}

// add counts n more, or fewer, for a client.
func (s *shares) add(c Client, n int) {
	for i, p := range [...]netip.Prefix{c.narrow, c.wide} {
		if i > 0 && !p.IsValid() { // IPv4 has no wide one
			continue
		}
		if s.held[p] += n; s.held[p] <= 0 {
			delete(s.held, p)
		}
	}
}

// heaviest returns the address that holds the most.
func (s *shares) heaviest() (most netip.Prefix) {
	for p, n := range s.held {
		if (p.Addr().Is4() || p.Bits() == 64) && n > s.held[most] {
			most = p
		}
	}
	return most
}

// batch returns the number of n items that give way at once: looking for them costs a pass over all.
func batch(n int) int { return max(1, n/16) }

// holdings is a table of shares with its lock.
type holdings struct {
	mu     sync.Mutex
	shares shares
}

// metrics count rejections and closed connections.
type metrics struct {
	rejected  *prometheus.CounterVec // by what there is no room for
	closed    *prometheus.CounterVec // by reason
	shedWaits prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_guard_rejected_total",
			Help: "Connections and calls that were rejected because an address or the node was over a limit, by limit.",
		}, []string{"of"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_guard_closed_total",
			Help: "Connections that were closed to make room, by reason: idle, an answer unread, a request slow to arrive, or a stream of events.",
		}, []string{"reason"}),
		shedWaits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commons_http_guard_shed_waits_total",
			Help: "Waiting calls that were answered early to make room.",
		}),
	}
	for _, of := range []string{"connections", rejectedHandshakes} {
		m.rejected.WithLabelValues(of) // there from the start, at 0
	}
	return m
}

// CountRejected counts a call that was rejected because of a bound.
func (g *Guard) CountRejected(of string) { g.metrics.rejected.WithLabelValues(of).Inc() }

// Describe implements prometheus.Collector.
func (g *Guard) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

// Collect implements prometheus.Collector.
func (g *Guard) Collect(ch chan<- prometheus.Metric) {
	g.metrics.rejected.Collect(ch)
	g.metrics.closed.Collect(ch)
	g.metrics.shedWaits.Collect(ch)
	held := func(name, help string, value int) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(value))
	}
	g.answers.mu.Lock()
	bytes := g.answers.bytes
	g.answers.mu.Unlock()
	held("commons_http_connections", "Open connections of clients.", g.Connections())
	held("commons_http_connections_max", "How many connections of clients may be open.", g.limits.Connections)
	held("commons_http_arrivals", "Requests that have arrived only in part.", g.arrivals.held())
	held("commons_http_arrivals_max", "How many requests may be arriving.", g.limits.Arrivals)
	held("commons_http_waits", "Calls that wait for news or for an index.", g.waits.held())
	held("commons_http_waits_max", "How many calls may wait.", g.limits.waits())
	held("commons_http_streams", "Open streams of events.", g.streams.held())
	held("commons_http_streams_max", "How many streams of events may be open.", g.limits.Streams)
	held("commons_http_answer_bytes", "Bytes of long answers that are being sent.", bytes)
	held("commons_http_answer_bytes_max", "How many bytes of long answers may be sent at once.", g.limits.AnswerBytes)
}
