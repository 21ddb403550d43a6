package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// listener hands out the connections that the guard admits, and goes on after it
// could not take one. Closing it again is no error.
type listener struct {
	net.Listener
	srv       *Server
	closed    func() error
	failed    *sample
	rejection []byte // the answer to a connection that is not admitted
}

func (s *Server) newListener(ln net.Listener) listener {
	failed := &sample{limit: rate.NewLimiter(rate.Every(acceptLogEvery), 1)}
	body := tooManyConnections().Object().AppendJSON(nil)
	rejection := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: %s\r\nConnection: close\r\n\r\n%s",
		http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), contentJSON, len(body), wire.RetryAfterUnavailable, body)
	return listener{ln, s, sync.OnceValue(ln.Close), failed, rejection}
}

// tooManyConnections is the error of a connection that there is no room for.
func tooManyConnections() *wire.Error {
	return &wire.Error{Code: wire.CodeNotReady, Message: "Too many connections are open, from your address or in all. Use few, for many requests each, or ask another node."}
}

// Close implements net.Listener.
func (l listener) Close() error { return l.closed() }

// Accept implements net.Listener. Its only error is that the listener is closed: the
// HTTP server ends at any other, and with it the node, although what keeps a
// connection from being taken, such as too many open files, passes.
func (l listener) Accept() (net.Conn, error) {
	pause := minAcceptPause
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			pause = minAcceptPause
			addr := peerAddress(conn.RemoteAddr())
			if admitted := l.srv.guard.Admit(conn, addr, l.srv.clients.trusts(addr), l.rejection); admitted != nil {
				return admitted, nil
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if left, ok := l.failed.take(time.Now()); ok {
			l.srv.log.Warn("a connection could not be taken; it is tried again", "error", err, "retry_in", pause, "leftOut", left)
		}
		select {
		case <-l.srv.waits.Done():
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// connState notes for the guard what happens on a connection.
func connState(conn net.Conn, state fasthttp.ConnState) {
	if guarded, is := conn.(*guard.Conn); is && (state == fasthttp.StateIdle || state == fasthttp.StateActive) {
		guarded.Idle()
	}
}

// healthPaths are what is answered also when the node has no room for more.
var healthPaths = map[string]bool{"/livez": true, "/readyz": true, "/status": true, "/metrics": true}

// wait begins a wait of this call: the context ends when the time is over, when the
// server stops, and when the node has no room for so many waits.
func (c *call) wait(most time.Duration) (ctx context.Context, done func()) {
	ctx, cancel := context.WithTimeout(c.srv.waits, most)
	place := c.srv.guard.Wait(guard.ClientOf(c.sender()), cancel)
	return ctx, func() {
		place.Done()
		cancel()
	}
}

// watchClient looks after the client while its call waits: gone is closed when it
// leaves, or sends more.
func (c *call) watchClient() (gone <-chan struct{}, stop func()) {
	var conn net.Conn
	if c.rctx != nil {
		conn = c.rctx.Conn()
	} else if c.relay != nil {
		conn = c.relay.conn
	}
	guarded, is := conn.(*guard.Conn)
	if !is {
		return nil, func() {}
	}
	return guarded.Watch()
}

// guardAnswer counts a long answer until it is sent; where there is no room for it,
// an error takes its place.
func (s *Server) guardAnswer(c *call) {
	conn, guarded := c.rctx.Conn().(*guard.Conn)
	if !guarded || s.guard.Answer(conn, guard.ClientOf(c.sender()), len(c.rctx.Response.Body())) {
		return
	}
	c.rctx.Response.Reset()
	c.fail(s.tooManyAnswers())
}

// build waits for the turn of this call's sender to have a list made, of so many
// items. The caller calls done when it is made.
func (c *call) build(items int) (done func(), err error) {
	ctx, cancel := context.WithTimeout(c.srv.waits, waitTimeout)
	defer cancel()
	client := guard.ClientOf(c.sender())
	done, ok := c.srv.guard.Build(ctx, client)
	if !ok {
		return nil, c.srv.tooManyAnswers()
	}
	if !c.srv.guard.MayAnswer(client, items*aboutEntry) {
		done()
		return nil, c.srv.tooManyAnswers()
	}
	return done, nil
}

// aboutEntry is what an entry of the longest body takes in an answer, in bytes.
const aboutEntry = 20 << 10

// tooManyAnswers is the error of a read whose answer there is no room for.
func (s *Server) tooManyAnswers() *wire.Error {
	return &wire.Error{
		Code: wire.CodeRateLimited, RetryAfter: time.Second,
		Message: "Too many long answers are on their way to your address, or in all. Read those first, and ask for less at once, with a smaller limit.",
		Limit:   &command.RateLimit{Name: "answers", Quota: s.guard.Limits().AddressAnswerBytes, Window: time.Second},
	}
}

// rejections are the statuses of calls that were wrong. What is looked for in vain, or
// came too often, is none.
var rejections = map[int]bool{
	http.StatusBadRequest: true, http.StatusForbidden: true, http.StatusRequestEntityTooLarge: true,
	http.StatusUnsupportedMediaType: true, http.StatusUnprocessableEntity: true, http.StatusPreconditionRequired: true,
}

// chargeRejection counts a call that was wrong against its sender: a large body
// counts more than a small one.
func (c *call) chargeRejection(e *wire.Error) {
	if rejections[e.Status()] {
		c.charge()
	}
}

// charge counts a call against its sender that no other limit holds for: one that was
// wrong, or one that repeats a write, which goes through the log and is free there.
func (c *call) charge() {
	size := 0
	if c.rctx != nil {
		size = len(c.rctx.Request.Body())
	}
	c.srv.guard.Rejected.Use(guard.ClientOf(c.sender()), guard.RejectionOf(size))
}

// chargeReads counts the work of a call's searches against its sender.
func (c *call) chargeReads() { c.srv.guard.Reads.Use(guard.ClientOf(c.sender()), c.work) }

// mayBeRejected reports whether a call may be one that writes.
func (c *call) mayBeRejected() bool {
	return c.rctx == nil || c.rctx.IsPost() || bytes.Contains(c.rctx.URI().QueryString(), []byte("action"))
}

// withinBudget returns the error of a call whose sender has used up a budget.
func (c *call) withinBudget(budget *guard.Budgets, name, message string) error {
	wait := budget.Wait(guard.ClientOf(c.sender()))
	if wait == 0 {
		return nil
	}
	c.srv.guard.CountRejected(name)
	e := toError(&command.RateLimited{RetryAfter: wait, Limit: &command.RateLimit{
		Name: name, Quota: budget.PerSecond(), Window: time.Second, Message: message, Field: "sender",
	}})
	if c.operation != nil {
		e.Example = c.operation.smallest
	}
	return e
}
