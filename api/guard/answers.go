package guard

import "time"

const (
	// shortAnswer is up to how many bytes an answer is not counted: the buffers of a
	// connection take it.
	shortAnswer = 16 << 10
	// answerGrace is how long an answer may be under way before it gives way to
	// others when there are too many.
	answerGrace = 2 * time.Second
)

// answers are the long answers that are being sent.
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

// Answer counts an answer of so many bytes until it is sent, and reports whether
// there is room for it. Where the node has no room, the connections close that have
// taken the longest to read theirs.
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

// MayAnswer reports whether an answer of about so many bytes would find room, so that
// none is made in vain. The first one of an address is always made. It counts nothing.
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
