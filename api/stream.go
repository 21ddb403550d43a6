package api

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// The times and sizes of streams.
const (
	// keepAlive is the time without an event after which a stream sends its position.
	keepAlive = 15 * time.Second
	// sendTimeout is how long a client may take to read what is sent. A slower one is
	// dropped, and continues from the last id that it has.
	sendTimeout = 10 * time.Second
	// endTimeout is how long a client may take to read the end of a stream. It is short, because
	// others wait for the place.
	endTimeout = time.Second
	// reconnectMillis is the time after which a client should reconnect.
	reconnectMillis = 1000
)

// stream is one client's stream of events. It takes over the connection of the call that
// asked for it, after the call has ended, and reads a new view each time that news wakes it.
// It holds a slot in package guard until its connection closes.
type stream struct {
	events op.EventSource
	srv    *Server
	conn   *guard.Conn
	client guard.Client
	ctx    context.Context // ends when others need the room, and while it runs with the server
	cancel context.CancelFunc
	head   []byte // of the answer
	// chunked means that each piece is a chunk of HTTP/1.1: clients that read in blocks see an
	// event at once, and the end of the stream differs from the end of the node.
	chunked bool
	work    int // steps that searches took
	gone    <-chan struct{}
	timer   *time.Timer // for pauses and keep-alives
}

// follow begins a stream.
func (x *exchange) follow(events op.EventSource) error {
	x.Out.ContentType = op.ContentEvents + "; charset=utf-8"
	x.Out.Set(op.HeaderCacheControl, op.CachingNever)
	x.Out.Set("X-Accel-Buffering", "no")
	conn, guarded := guard.Of(x.rctx.Conn())
	if x.rctx.IsHead() || !guarded {
		return nil
	}
	st := &stream{events: events, srv: x.http, conn: conn, client: guard.ClientOf(x.Sender())}
	// Not derived from the server's context, which would keep it if the connection breaks before
	// the stream runs.
	st.ctx, st.cancel = context.WithCancel(context.Background())
	x.rctx.Request.ResetBody() // unread, and it would stay in memory as long as the stream
	if !x.Env.Guard.Stream(conn, st.client, len(x.rctx.Request.Header.RawHeaders()), st.cancel) {
		st.cancel()
		most := x.Env.Guard.Limits().AddressStreams
		return &wire.Error{
			Code: wire.CodeRateLimited, RetryAfter: keepAlive,
			Message: "Your address has " + strconv.Itoa(most) + " streams of events open. Close some, or poll: with wait=60, and without Accept: " + op.ContentEvents + ".",
			Limit:   &command.RateLimit{Name: "streams", Quota: most, Window: keepAlive},
			Issues:  []wire.Issue{{"sender", "has too many streams open"}},
		}
	}
	events.CountWork(&st.work)
	x.stream = st
	return nil
}

// takeOver hands the connection to the stream. The headers of the answer are complete.
func (st *stream) takeOver(rctx *fasthttp.RequestCtx) {
	h := &rctx.Response.Header
	h.SetStatusCode(http.StatusOK)
	h.SetContentLength(-2) // the answer ends with the connection
	if st.chunked = rctx.Request.Header.IsHTTP11(); st.chunked {
		h.SetContentLength(-1)
		h.SetConnectionClose()
	}
	st.head = append(st.head, h.Header()...)
	rctx.HijackSetNoResponse(true)
	rctx.Hijack(func(net.Conn) { st.run() })
}

// run sends events until the client leaves, is too slow, or the server stops.
func (st *stream) run() {
	defer st.cancel()
	defer context.AfterFunc(st.srv.Waits, st.cancel)()
	defer st.srv.News.Join()()
	defer func() {
		if cause := recover(); cause != nil {
			st.srv.Panics.Inc()
			st.srv.Logger.Error("stream panicked", "cause", cause, "stack", string(debug.Stack()))
		}
	}()
	gone, unwatch := st.conn.Watch()
	defer unwatch()
	st.gone, st.timer = gone, time.NewTimer(keepAlive)
	defer st.timer.Stop()
	retry := append(make([]byte, chunkRoom), "retry: "+strconv.Itoa(reconnectMillis)+"\n\n"...)
	if st.conn.Send(append(st.head, st.frame(retry)...), sendTimeout) != nil {
		return
	}
	st.head = nil
	whole := true // all chunks are
	defer func() {
		if st.chunked && whole && st.ctx.Err() != nil { // ended by this side
			_ = st.conn.Send([]byte(lastChunk), endTimeout)
		}
	}()
	tell := true // where the stream begins
	for {
		wake := st.srv.News.Next()
		if whole = st.send(tell); !whole {
			return
		}
		tell = false
		if !st.events.HasMore() {
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
	d := st.srv.Pause(st.client)
	if d == 0 {
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

// pieces are the buffers of streams for data to send.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// send sends the new events, or without any the position of the stream if tell is set. It
// returns false when the stream ends.
func (st *stream) send(tell bool) bool {
	piece, _ := pieces.Get().(*[]byte)
	defer pieces.Put(piece)
	*piece = append((*piece)[:0], make([]byte, chunkRoom)...)
	if !st.render(piece, tell) {
		return false
	}
	return len(*piece) == chunkRoom || st.conn.Send(st.frame(*piece), sendTimeout) == nil
}

// The frame of a chunk: its size before it, and an end of line behind it.
const (
	chunkRoom = len("7fffffff\r\n")
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// frame returns a piece as it is sent. The piece begins with chunkRoom free bytes.
func (st *stream) frame(piece []byte) []byte {
	if !st.chunked {
		return piece[chunkRoom:]
	}
	size := strconv.FormatInt(int64(len(piece)-chunkRoom), 16) + chunkEnd
	start := chunkRoom - len(size)
	copy(piece[start:], size)
	return append(piece[start:], chunkEnd...)
}

// render appends the data to send.
func (st *stream) render(piece *[]byte, tell bool) bool {
	if !st.srv.gate.enter() {
		return false
	}
	defer st.srv.gate.leave()
	view := st.srv.Backend.View()
	defer view.Release()
	dst, err := st.events.AppendEvents(*piece, view, tell)
	*piece = dst
	st.srv.Guard.Reads.Use(st.client, st.work)
	st.work = 0
	if err != nil {
		st.srv.Logger.Error("stream failed", "err", err)
	}
	return err == nil
}
