// Package guard bounds what strangers can hold of one node: connections, calls that
// wait, answers that nobody reads, rejected writes, and the work of reads. Each bound
// has two parts: what one address may hold, and what all may hold together. Where
// the node is full, the address that holds the most gives way first.
//
// Its state is in memory, and each node has its own. It knows no HTTP.
package guard

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Unbounded turns a budget off.
const Unbounded = -1

// Limits are the bounds. Zero fields get the default.
type Limits struct {
	// Connections is how many connections are open at once. Required.
	Connections int
	// AddressConnections is how many of them one address may have; the default is
	// half of all.
	AddressConnections int
	// AddressWaits is how many calls may wait for one address. All together are half
	// of Connections; the default is three quarters of that.
	AddressWaits int
	// Arrivals is how many requests may be arriving at once, and AddressArrivals how many
	// of one address: each holds a buffer as long as it says that its body is, whatever
	// has arrived of it. The defaults are a 16th and a 64th of Connections.
	Arrivals, AddressArrivals int
	// Streams is how many streams of events may be open at once, and AddressStreams how
	// many of one address. The defaults are a quarter and a 16th of Connections.
	Streams, AddressStreams int
	// AnswerBytes bounds the long answers that are being sent, in bytes, and
	// AddressAnswerBytes those to one address.
	AnswerBytes, AddressAnswerBytes int
	// ReadWork is how much work a second reads of one address may cause; Unbounded
	// turns it off.
	ReadWork int
	// Rejections is how many rejected writes a second are taken from one address;
	// Unbounded turns it off.
	Rejections int
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// The defaults, and how bounds follow from one another.
const (
	DefaultAnswerBytes        = 128 << 20
	DefaultAddressAnswerBytes = 32 << 20

	// leastArrivals is for nodes that may open few files.
	leastArrivals = 64

	// wideShare is how many times the bound of an address an IPv6 /48 may hold: one
	// subscriber may get a network of this size.
	wideShare = 4
	// Reserve is how many connections are taken beyond Limits.Connections when no
	// other can give way. Only health is answered on them.
	Reserve = 32
	// lingering is how many connections that are not served are read from for a
	// moment at once.
	lingering = 32
	// Beyond is how many connections are open beyond Limits.Connections at most.
	Beyond = Reserve + lingering
)

func (l *Limits) setDefaults() {
	setDefault(&l.AddressConnections, max(1, l.Connections/2))
	setDefault(&l.AddressWaits, max(1, l.waits()*3/4))
	setDefault(&l.Arrivals, max(leastArrivals, l.Connections/16))
	setDefault(&l.AddressArrivals, max(leastArrivals, l.Connections/64))
	setDefault(&l.Streams, max(1, l.Connections/4))
	setDefault(&l.AddressStreams, max(1, l.Connections/16))
	setDefault(&l.AnswerBytes, DefaultAnswerBytes)
	setDefault(&l.AddressAnswerBytes, DefaultAddressAnswerBytes)
	setDefault(&l.ReadWork, DefaultReadWork)
	setDefault(&l.Rejections, DefaultRejections)
	if l.Now == nil {
		l.Now = time.Now
	}
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// waits is how many calls may wait at once.
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
	builds  builds
	// Rejected is what rejected writes are counted in, Reads the work of reads.
	Rejected, Reads *Budgets
	metrics         *metrics
}

// New makes a guard.
func New(limits Limits) *Guard {
	limits.setDefaults()
	g := &Guard{
		limits:   limits,
		Rejected: newBudgets(limits.Rejections, rejectionSeconds, limits.Now),
		Reads:    newBudgets(limits.ReadWork, readSeconds, limits.Now),
		metrics:  newMetrics(),
	}
	g.conns.init(g)
	g.waits.init(limits.AddressWaits, limits.waits(), g.metrics.shedWaits)
	g.arrivals.init(limits.AddressArrivals, limits.Arrivals, g.metrics.closed.WithLabelValues("slow"))
	g.streams.init(limits.AddressStreams, limits.Streams, g.metrics.closed.WithLabelValues("stream"))
	g.answers.init(g)
	g.builds.init()
	return g
}

// Limits returns the bounds, with their defaults.
func (g *Guard) Limits() Limits { return g.limits }

// Client is what something is counted against.
type Client struct {
	narrow netip.Prefix // IPv4: the address; IPv6: the /64
	wide   netip.Prefix // IPv6: the /48; IPv4: invalid
}

// ClientOf returns what an address is counted as.
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
	s.addTo(c.narrow, n)
	if c.wide.IsValid() {
		s.addTo(c.wide, n)
	}
}

func (s *shares) addTo(p netip.Prefix, n int) {
	if s.held[p] += n; s.held[p] <= 0 {
		delete(s.held, p)
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

// batch is how many of n give way at once: looking for them costs a pass over all.
func batch(n int) int { return max(1, n/16) }

// holdings say who holds how much of something.
type holdings struct {
	mu     sync.Mutex
	shares shares
}

// metrics count what gave way.
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
	m.rejected.WithLabelValues("connections") // there from the start, at 0
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
	g.conns.mu.Lock()
	open := len(g.conns.open) + len(g.conns.reserved)
	g.conns.mu.Unlock()
	g.waits.mu.Lock()
	waiting := g.waits.count
	g.waits.mu.Unlock()
	g.arrivals.mu.Lock()
	arriving := g.arrivals.count
	g.arrivals.mu.Unlock()
	g.streams.mu.Lock()
	streams := g.streams.count
	g.streams.mu.Unlock()
	g.answers.mu.Lock()
	bytes := g.answers.bytes
	g.answers.mu.Unlock()
	held("commons_http_connections", "Open connections of clients.", open)
	held("commons_http_connections_max", "How many connections of clients may be open.", g.limits.Connections)
	held("commons_http_arrivals", "Requests that have arrived only in part.", arriving)
	held("commons_http_arrivals_max", "How many requests may be arriving.", g.limits.Arrivals)
	held("commons_http_waits", "Calls that wait for news or for an index.", waiting)
	held("commons_http_waits_max", "How many calls may wait.", g.limits.waits())
	held("commons_http_streams", "Open streams of events.", streams)
	held("commons_http_streams_max", "How many streams of events may be open.", g.limits.Streams)
	held("commons_http_answer_bytes", "Bytes of long answers that are being sent.", bytes)
	held("commons_http_answer_bytes_max", "How many bytes of long answers may be sent at once.", g.limits.AnswerBytes)
}
