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
			l.srv.log.Warn("a connection could not be accepted; retrying", "error", err, "retry_in", pause, "leftOut", left)
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
	guarded, is := conn.(*guard.Conn)
	switch {
	case is && state == fasthttp.StateActive:
		guarded.Arriving()
	case is && state == fasthttp.StateIdle:
		guarded.Idle()
	}
}

// healthPaths are what is answered also when the node has no room for more.
var healthPaths = map[string]bool{"/livez": true, "/readyz": true, "/status": true, "/metrics": true}

// wait begins a wait of this call: the context ends when the time is over, when the
// server stops, and when the node has no room for so many waits.
func (c *call) wait(most time.Duration) (ctx context.Context, done func()) {
	c.waited = true
	held := 0
	switch {
	case c.relay != nil:
		held = c.relay.held
	case c.rctx.IsPost():
		held = len(c.rctx.Request.Body())
	default:
		c.rctx.Request.ResetBody() // nobody reads it, and it would be held for as long
	}
	ctx, cancel := context.WithTimeout(c.srv.waits, most)
	place := c.srv.guard.Wait(guard.ClientOf(c.sender()), held, cancel)
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
	size := len(c.rctx.Response.Body())
	if !guarded || s.guard.Answer(conn, guard.ClientOf(c.sender()), size) {
		if guarded && size >= answerBuffer && c.rctx.Response.StatusCode() == http.StatusOK && !c.rctx.IsHead() {
			conn.Join()
		}
		return
	}
	c.rctx.Response.Reset()
	c.fail(s.tooManyAnswers())
}

// build waits for the turn of this call's sender to have a list made, of so many
// items. The caller calls done when it is made. No view is held meanwhile.
func (c *call) build(items int) (done func(), err error) {
	c.release()
	client := guard.ClientOf(c.sender())
	done, ok := c.srv.guard.Build(c.srv.waits, waitTimeout, client)
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
		Message: "Too many long answers are being sent to your address, or in all. Read those first, and ask for less at once, with a smaller limit.",
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
// wrong, or one that repeats a write, which is free there where it goes through the log.
func (c *call) charge() {
	size := 0
	if c.rctx != nil {
		size = len(c.rctx.Request.Body())
	}
	c.srv.guard.Rejected.Use(guard.ClientOf(c.sender()), guard.RejectionOf(size))
}

// chargeReads counts the work of a call's searches against its sender.
func (c *call) chargeReads() { c.srv.guard.Reads.Use(guard.ClientOf(c.sender()), c.work) }

// maxSurfaceRead is how long the body of a read of MCP or A2A is, in bytes.
const maxSurfaceRead = 8 << 10

// mayBeRejected reports whether a call may be one that writes. What MCP and A2A run is
// looked at by itself: their reads are POSTs, too, and short ones.
func (c *call) mayBeRejected() bool {
	switch {
	case c.rctx == nil:
		return c.operation.method == http.MethodPost
	case c.operation.surface == command.SurfaceMCP, c.operation.surface == command.SurfaceA2A:
		return len(c.rctx.Request.Body()) > maxSurfaceRead
	}
	return c.rctx.IsPost() || c.rctx.QueryArgs().Has("action")
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
	return e
}

// gateGrace bounds how long a closing gate waits for whoever is inside. Nothing
// keeps a request there any more, unless the disk below it hangs.
const gateGrace = time.Second

// gate stands before everything that asks the backend: once it is shut, nobody
// is inside and nobody comes in, so that the backend may go.
type gate struct {
	mu   sync.RWMutex
	shut bool
}

// enter reports whether the gate is open. Who came in calls leave.
func (g *gate) enter() bool {
	g.mu.RLock()
	if g.shut {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.mu.RUnlock() }

// close shuts the gate and waits, for gateGrace at most, until nobody is inside.
func (g *gate) close() {
	empty := make(chan struct{})
	go func() {
		defer close(empty)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = true
	}()
	select {
	case <-empty:
	case <-time.After(gateGrace):
	}
}

// What a proxy in front of us may read otherwise than we do. The HTTP server lets
// it pass; requests that have it are rejected.
var (
	errBareLF     = errors.New("a header line ends in LF alone")
	errFolded     = errors.New("a header is folded over two lines")
	errTwoFrames  = errors.New("both Content-Length and Transfer-Encoding are given")
	errVersion    = errors.New("the version must be HTTP/1.1 or HTTP/1.0")
	errOldChunks  = errors.New("HTTP/1.0 has no Transfer-Encoding")
	errUserInfo   = errors.New("a host must not hold user information: leave out everything before the @")
	errNoHost     = errors.New("the header Host is missing: HTTP/1.1 requires it")
	errHost       = errors.New("the header Host must name a host, perhaps with a port, and nothing else")
	errOtherHosts = errors.New("the address of the request names another host than the header Host")
)

// The names of the headers that say how long a body is, in lower case.
var (
	contentLengthName    = []byte("content-length")
	transferEncodingName = []byte("transfer-encoding")
)

// The versions of HTTP that are served.
const (
	http11 = "HTTP/1.1"
	http10 = "HTTP/1.0"
)

// checkFraming looks at a request's first line and headers as they were received.
func checkFraming(h *fasthttp.RequestHeader) error {
	version := string(h.Protocol())
	if version != http11 && version != http10 {
		return errVersion
	}
	var length, encoding bool
	for line := range bytes.Lines(h.RawHeaders()) {
		end := len(line) - len("\r\n")
		switch {
		case end < 0 || line[end] != '\r':
			return errBareLF
		case line[0] == ' ' || line[0] == '\t':
			return errFolded
		}
		length = length || isHeader(line, contentLengthName)
		encoding = encoding || isHeader(line, transferEncodingName)
	}
	switch {
	case length && encoding:
		return errTwoFrames
	case encoding && version == http10:
		return errOldChunks
	}
	if len(h.Host()) == 0 && version == http11 {
		return errNoHost
	}
	return checkHost(h.Host(), h.RequestURI())
}

// checkHost rejects a request that names its host in two ways, or whose host is not
// the one that a reader sees: addresses that agents are shown are made of it.
func checkHost(host, target []byte) error {
	if bytes.IndexByte(host, '@') >= 0 {
		return errUserInfo
	}
	if len(host) > 0 && !validHost(withoutEmptyPort(string(host))) {
		return errHost
	}
	if len(target) == 0 || target[0] == '/' || target[0] == '*' {
		return nil
	}
	// The absolute form: scheme, host, path.
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if !ok {
		return nil // no address: it is routed, and not found
	}
	if end := bytes.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	switch {
	case bytes.IndexByte(rest, '@') >= 0:
		return errUserInfo
	case len(host) > 0 && !bytes.EqualFold(rest, host):
		return errOtherHosts
	}
	return nil
}

// isHeader reports whether a line holds the header of this name.
func isHeader(line, name []byte) bool {
	return len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], name)
}
