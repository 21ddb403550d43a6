package api

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

const contentEvents = "text/event-stream"

// The times and sizes of streams.
const (
	// keepAlive is the time without an event after which a stream sends its position.
	keepAlive = 15 * time.Second
	// sendTimeout is how long a client may take to read what is sent. A slower one is
	// dropped, and continues from the last id that it has.
	sendTimeout = 10 * time.Second
	// streamPiece is about how much is sent at once, in bytes.
	streamPiece = 16 << 10
	// A stream pauses between two looks for lookPause times the number of streams, at most
	// longestPause: this bounds how often all together look. It pauses longer while its
	// client has used up its budget. A pause below shortestPause is left out.
	lookPause     = 200 * time.Microsecond
	shortestPause = time.Millisecond
	longestPause  = time.Second
	// reconnectMillis is the time after which a client should reconnect.
	reconnectMillis = 1000
)

// stream is one client's stream of events. It runs on its connection, after the call
// that asked for it has ended.
type stream struct {
	*follower
	srv    *Server
	conn   *guard.Conn
	client guard.Client
	ctx    context.Context // ends when others need the room, and while it runs with the server
	cancel context.CancelFunc
	head   []byte // of the answer
	work   int    // steps that searches took
	gone   <-chan struct{}
	timer  *time.Timer // for pauses and keep-alives
}

// follow begins a stream.
func (c *call) follow(f *follower) error {
	c.out.Header.SetContentType(contentEvents)
	c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	c.out.Header.Set("X-Accel-Buffering", "no")
	conn, guarded := c.rctx.Conn().(*guard.Conn)
	if c.isHead() || !guarded {
		return nil
	}
	st := &stream{follower: f, srv: c.srv, conn: conn, client: guard.ClientOf(c.sender())}
	// Not derived from the server's context: a connection may break before its stream
	// runs, and then nothing would end this one.
	st.ctx, st.cancel = context.WithCancel(context.Background())
	c.rctx.Request.ResetBody() // nobody reads it, and it would be held for as long
	if !c.srv.guard.Stream(conn, st.client, len(c.rctx.Request.Header.RawHeaders()), st.cancel) {
		st.cancel()
		c.out.Header.SetContentType(contentJSON)
		most := c.srv.guard.Limits().AddressStreams
		return &wire.Error{
			Code: wire.CodeRateLimited, RetryAfter: keepAlive,
			Message: "Your address has " + strconv.Itoa(most) + " streams of events open. Close some, or poll: with wait=60, and without Accept: " + contentEvents + ".",
			Limit:   &command.RateLimit{Name: "streams", Quota: most, Window: keepAlive},
			Issues:  []wire.Issue{{"sender", "has too many streams open"}},
		}
	}
	f.query.Work = &st.work
	c.stream = st
	return nil
}

// takeOver hands the connection to the stream. The headers of the answer are complete.
func (st *stream) takeOver(rctx *fasthttp.RequestCtx) {
	h := &rctx.Response.Header
	h.SetStatusCode(http.StatusOK)
	h.SetContentLength(-2) // the answer ends with the connection
	st.head = append(st.head, h.Header()...)
	rctx.HijackSetNoResponse(true)
	rctx.Hijack(func(net.Conn) { st.run() })
}

// run sends events until the client leaves, is too slow, or the server stops.
func (st *stream) run() {
	defer st.cancel()
	defer context.AfterFunc(st.srv.waits, st.cancel)()
	defer st.srv.news.join()()
	defer func() {
		if cause := recover(); cause != nil {
			st.srv.metrics.panics.Inc()
			st.srv.log.Error("stream panicked", "cause", cause, "stack", string(debug.Stack()))
		}
	}()
	gone, unwatch := st.conn.Watch()
	defer unwatch()
	st.gone, st.timer = gone, time.NewTimer(keepAlive)
	defer st.timer.Stop()
	st.head = append(st.head, "retry: "+strconv.Itoa(reconnectMillis)+"\n\n"...)
	if st.conn.Send(st.head, sendTimeout) != nil {
		return
	}
	st.head = nil
	tell := true // where the stream begins
	for {
		wake := st.srv.news.next()
		if !st.send(tell) {
			return
		}
		tell = false
		if !st.more {
			st.timer.Reset(keepAlive)
			select {
			case <-wake:
			case <-st.timer.C:
				tell = true
				continue
			case <-st.gone:
				return
			case <-st.ctx.Done():
				return
			}
		}
		if !st.pause() {
			return
		}
	}
}

// pause rests until the stream may look again. It returns false when the stream ends.
func (st *stream) pause() bool {
	d := min(time.Duration(st.srv.news.count())*lookPause, longestPause)
	if d = max(d, st.srv.guard.Reads.Wait(st.client)); d < shortestPause {
		return st.ctx.Err() == nil
	}
	st.timer.Reset(d)
	select {
	case <-st.timer.C:
		return true
	case <-st.gone:
	case <-st.ctx.Done():
	}
	return false
}

// pieces are the buffers in which streams put together what they send.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// send sends the new events. If there are none and tell is set, it sends the position of
// the stream. It returns false when the stream ends.
func (st *stream) send(tell bool) bool {
	piece, _ := pieces.Get().(*[]byte)
	defer pieces.Put(piece)
	*piece = (*piece)[:0]
	if !st.render(piece, tell) {
		return false
	}
	return len(*piece) == 0 || st.conn.Send(*piece, sendTimeout) == nil
}

// render puts together what there is to send.
func (st *stream) render(piece *[]byte, tell bool) bool {
	if !st.srv.gate.enter() {
		return false
	}
	defer st.srv.gate.leave()
	view := st.srv.backend.View()
	defer view.Release()
	dst, err := st.appendNews((*piece)[:0], view, tell)
	*piece = dst
	st.srv.guard.Reads.Use(st.client, st.work)
	st.work = 0
	if err != nil {
		st.srv.log.Error("stream failed", "err", err)
	}
	return err == nil
}

// appendNews appends the next events, as many as fit into a piece.
func (st *stream) appendNews(dst []byte, view *fsm.View, tell bool) ([]byte, error) {
	events, why, err := st.look(view, lookEvents)
	if err != nil {
		return dst, err
	}
	for i := range events {
		e := &events[i]
		dst = beginEvent(dst, fsm.FormatEventID(view.ClusterID(), e.EventPlace), e.Kind.String())
		if dst, err = view.AppendEvent(dst, e); err != nil {
			return dst, err
		}
		dst = append(dst, "\n\n"...)
		if len(dst) >= streamPiece && i+1 < len(events) {
			st.back(e)
			return dst, nil
		}
	}
	id := st.id(view)
	switch {
	case why != nil:
		dst = beginEvent(dst, id, "reset")
		dst = wire.Object{{"id", id}, {"event", "reset"}, {"reason", why.reason}, {"message", why.message + whatToDo}}.AppendJSON(dst)
		dst = append(dst, "\n\n"...)
	case tell && len(events) == 0:
		dst = beginEvent(dst, id, "ping")
		dst = append(wire.Object{{"id", id}, {"event", "ping"}}.AppendJSON(dst), "\n\n"...)
	}
	return dst, nil
}

// beginEvent appends the lines before the data of an event, and the beginning of the
// data.
func beginEvent(dst []byte, id, event string) []byte {
	return append(append(append(append(append(dst, "id: "...), id...), "\nevent: "...), event...), "\ndata: "...)
}

// news notifies the followers of events when there are new ones. While there are
// followers, one goroutine watches the state.
type news struct {
	watch func() (wake <-chan struct{}, stop func())

	mu        sync.Mutex
	followers int
	wake      chan struct{} // is closed with the next news
	done      chan struct{}
}

// join counts a follower, which calls leave when it stops.
func (n *news) join() (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.followers++; n.followers == 1 {
		n.wake, n.done = make(chan struct{}), make(chan struct{})
		wake, stop := n.watch()
		go n.run(wake, stop, n.done)
	}
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.followers--; n.followers == 0 {
			close(n.done)
		}
	})
}

func (n *news) run(wake <-chan struct{}, stop func(), done <-chan struct{}) {
	defer stop()
	for {
		select {
		case <-done:
			return
		case <-wake:
			n.mu.Lock()
			close(n.wake)
			n.wake = make(chan struct{})
			n.mu.Unlock()
		}
	}
}

// next returns a channel that is closed with the next news. A caller that takes it first
// and looks at a view afterwards misses nothing.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wake
}

func (n *news) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.followers
}
