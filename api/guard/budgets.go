package guard

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/internal/bucket"
)

const (
	// DefaultReadWork is the work of reads that one address may cause per second, in steps of
	// searches: words or postings that a search looks at.
	DefaultReadWork = 500_000
	// DefaultRejections is the number of rejected writes that one address may send per second.
	DefaultRejections = 20
	// DefaultDryRuns is the number of dry runs that one address may send per minute.
	DefaultDryRuns = 30
	// readSeconds and rejectionSeconds are the sizes of a burst, in seconds of the budget.
	readSeconds      = 30
	rejectionSeconds = 60
	// maxBudgets is the maximum number of addresses, and of networks, with a budget of their own, and
	// sharedBudgets the number of budgets that all others share.
	maxBudgets    = 1 << 14
	sharedBudgets = 1 << 10
	// rejectedBodyBytes of a body count as one more rejection.
	rejectedBodyBytes = 8 << 10
)

// Budgets are the budgets of addresses and of their networks.
type Budgets struct {
	quota  int // in a window; negative means no bound
	window time.Duration
	now    func() time.Time

	mu           sync.Mutex
	narrow, wide *bucket.Table[netip.Prefix] // by the parts of a Client
}

func newBudgets(quota int, window time.Duration, burst int, now func() time.Time) *Budgets {
	limit := rate.Limit(float64(quota) / window.Seconds())
	return &Budgets{
		quota: quota, window: window, now: now,
		narrow: bucket.New[netip.Prefix](limit, burst, maxBudgets, sharedBudgets, wideShare),
		wide:   bucket.New[netip.Prefix](limit*wideShare, burst*wideShare, maxBudgets, sharedBudgets, 1),
	}
}

// Quota returns the amount that may be used in a window.
func (b *Budgets) Quota() (amount int, window time.Duration) { return b.quota, b.window }

// Wait returns how long a client has to wait for its budget, or 0.
func (b *Budgets) Wait(client Client) (wait time.Duration) {
	if b.quota < 0 {
		return 0
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, budget := range b.of(client, now) {
		if owed := -budget.TokensAt(now); owed > 0 {
			wait = max(wait, time.Duration(owed/float64(budget.Limit())*float64(time.Second)))
		}
	}
	return wait
}

// Use charges work that was done already to a client's budget, which may owe up to one burst.
func (b *Budgets) Use(client Client, amount int) {
	if b.quota < 0 || amount <= 0 {
		return
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, budget := range b.of(client, now) {
		// Reserving more than the burst fails: it bounds the debt.
		budget.ReserveN(now, min(amount, budget.Burst()))
	}
}

// of returns the budgets of a client.
func (b *Budgets) of(client Client, now time.Time) []*rate.Limiter {
	budgets := []*rate.Limiter{b.narrow.Of(client.narrow, now)}
	if client.wide.IsValid() {
		budgets = append(budgets, b.wide.Of(client.wide, now))
	}
	return budgets
}

// RejectionOf returns the charge for a rejected write with a body of so many bytes.
func RejectionOf(bytes int) int { return 1 + bytes/rejectedBodyBytes }

const (
	// shortAnswer is the length in bytes up to which an answer is not counted: it fits
	// into the buffers of a connection.
	shortAnswer = 16 << 10
	// answerGrace is the time that a response may take before it gives way to others.
	answerGrace = 2 * time.Second
)

// answers are the long responses that are being sent.
type answers struct {
	holdings
	bytes int
	held  map[*Conn]answer
}

type answer struct {
	client Client
	bytes  int
	since  time.Time
}

func (a *answers) init(g *Guard) {
	a.shares = newShares(g.limits.AddressAnswerBytes)
	a.held = make(map[*Conn]answer)
}

// Answer counts an answer of so many bytes until it is sent, and reports whether there is
// room for it. If the node has no room, the connections that have taken the longest to
// read their answers are closed.
func (g *Guard) Answer(conn *Conn, client Client, bytes int) bool {
	if bytes <= shortAnswer || conn == nil {
		return true
	}
	a := &g.answers
	a.mu.Lock()
	var slow []*Conn
	fits := a.shares.held[client.narrow] == 0 || a.shares.fits(client, bytes)
	for fits && a.bytes > 0 && a.bytes+bytes > g.limits.AnswerBytes {
		oldest := a.oldest()
		if g.limits.Now().Sub(a.held[oldest].since) < answerGrace {
			fits = false
			break
		}
		a.drop(oldest)
		slow = append(slow, oldest)
	}
	if fits {
		a.drop(conn)
		a.held[conn] = answer{client, bytes, g.limits.Now()}
		a.shares.add(client, bytes)
		a.bytes += bytes
		conn.answers.Store(true)
	}
	a.mu.Unlock()
	for _, conn := range slow {
		g.metrics.closed.WithLabelValues("unread").Inc()
		conn.kill()
	}
	if !fits {
		g.metrics.rejected.WithLabelValues("answers").Inc()
	}
	return fits
}

// MayAnswer reports whether there is room for a response of about so many bytes, before it is made.
// The first one of an address always has room. It does not count the response.
func (g *Guard) MayAnswer(client Client, about int) bool {
	if about <= shortAnswer {
		return true
	}
	a := &g.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	full := a.bytes+about > g.limits.AnswerBytes && g.limits.Now().Sub(a.held[a.oldest()].since) < answerGrace
	if a.shares.held[client.narrow] == 0 || a.shares.fits(client, about) && !full {
		return true
	}
	g.metrics.rejected.WithLabelValues("answers").Inc()
	return false
}

// oldest returns the connection whose answer has been under way for longest.
func (a *answers) oldest() (oldest *Conn) {
	for conn, held := range a.held {
		if oldest == nil || held.since.Before(a.held[oldest].since) {
			oldest = conn
		}
	}
	return oldest
}

func (a *answers) drop(conn *Conn) {
	if held, is := a.held[conn]; is {
		delete(a.held, conn)
		a.shares.add(held.client, -held.bytes)
		a.bytes -= held.bytes
	}
}

// sent ends the count of a connection's answer.
func (a *answers) sent(conn *Conn) {
	if conn.answers.Swap(false) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.drop(conn)
	}
}
