package propose

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/trace"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/freeport"
)

var oneCommand = command.Group{Boot: command.BootID{1}, Floor: 1, Commands: []command.Command{{Seq: 1, Payload: entryOf("some text"), From: sender}}}

// encodeReply returns an answer as the leader writes it.
func encodeReply(r result) []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return data
}

// h2Client returns a client like that of the private port: HTTP/2 only. Every name reaches
// addr.
func h2Client(addr string) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Client{Transport: &http.Transport{
		Protocols:       &protocols,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test server's own certificate
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
}

func h2Server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// The certain outcomes of a request depend on the behaviour of the real transport.
func TestForwardOverHTTP2(t *testing.T) {
	applied := result{Status: statusApplied, Index: 9}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    status
	}{
		{"applied", func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			if _, err := command.DecodeGroup(data); err != nil || r.ProtoMajor != 2 || r.ContentLength != int64(len(data)) {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			_, _ = w.Write(encodeReply(applied))
		}, statusApplied},
		{"refused", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(encodeReply(notLeading()))
		}, statusNotEnqueued},
		{"connection broken after the request", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		}, statusUnknown},
		{"no member any more", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, statusNotEnqueued},
		{"another status", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, statusUnknown},
		{"answer cut", func(w http.ResponseWriter, r *http.Request) {
			reply := encodeReply(applied)
			_, _ = w.Write(reply[:len(reply)-2])
		}, statusUnknown},
		{"endless answer", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", cluster.MaxAnswerBytes*2)))
		}, statusUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := h2Server(t, tt.handler)
			p := peers{client: h2Client(s.Listener.Addr().String())}
			check.Equal(t, p.send(context.Background(), "leader", oneCommand).Status, tt.want, "result")
		})
	}
}

// TestForwardedWriteNamesItsTrace: the leader is told the caller's span, and logs it.
func TestForwardedWriteNamesItsTrace(t *testing.T) {
	c := newCluster(t, 2)
	c.lead("node-0")
	const parent = trace.Parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	var got []string
	c.net.onServed(func(_, _ string, r *http.Request) {
		if r.URL.Path == pathPropose {
			got = append(got, r.Header.Values(trace.Header)...)
		}
	})
	for _, ctx := range []context.Context{t.Context(), trace.With(t.Context(), parent)} {
		must.Do(t, check.Last(c.nodes[1].Propose(ctx, sender, entryOf("some text"))))
	}
	check.Diff(t, got, []string{string(parent)}, "the leader is told")
}

func TestForwardWithoutAConnection(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	silent := ln.Addr().String() // accepts connections and never answers
	defer ln.Close()
	for name, addr := range map[string]string{"refused": must.Get(freeport.Addr())(t), "no handshake": silent} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			p := peers{client: h2Client(addr)}
			check.Equal(t, p.send(ctx, "leader", oneCommand).Status, statusNotEnqueued, "result")
		})
	}
}

func TestHungLeaderLeavesTheOutcomeUnknown(t *testing.T) {
	hang := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s := h2Server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel() // only now: on a busy machine a connection may take long
		<-hang
	})
	defer close(hang)
	defer cancel()
	p := peers{client: h2Client(s.Listener.Addr().String())}
	check.Equal(t, p.send(ctx, "leader", oneCommand).Status, statusUnknown, "result")
}

func TestRevokedBodyIsNeverRead(t *testing.T) {
	b := &onceBody{data: nil}
	for range 2 {
		check.Equal(t, b.revoke(), true, "an untouched body is revoked")
	}
	check.Err(t, check.Last(b.Read(make([]byte, 1))), errRevoked, "read after revoke")
	read := &onceBody{data: strings.NewReader("x")}
	must.Get(read.Read(make([]byte, 1)))(t)
	check.Equal(t, read.revoke(), false, "what was read is revoked")
}

func TestHandlerRejectsWhatItCannotRead(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	before := n.CommitIndex()
	post := func(body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, pathPropose, body))
		return w
	}
	w := post(strings.NewReader("rubbish"))
	check.Equal(t, must.Get(decodeReply(w.Body, 1))(t).Status, statusInvalid, "rubbish")
	w = post(strings.NewReader(strings.Repeat("x", command.MaxForwardBytes+1)))
	check.Equal(t, w.Code, http.StatusBadRequest, "status of what is too long")
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, pathPropose, http.NoBody),
		httptest.NewRequest(http.MethodPost, pathClock, http.NoBody),
	} {
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, r)
		check.Equal(t, w.Code, http.StatusMethodNotAllowed, "%s %s: status", r.Method, r.URL.Path)
	}
	check.Equal(t, n.CommitIndex(), before, "something reached the log")
}

func TestHandlerBeforeStart(t *testing.T) {
	p := New(Config{ServerID: "a", Clock: WallClock(0), Logger: slog.New(slog.DiscardHandler)})
	defer p.Close()
	for path, want := range map[string]int{
		pathTerm: http.StatusServiceUnavailable, pathReadIndex: http.StatusMisdirectedRequest, pathClock: http.StatusOK,
	} {
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		check.Equal(t, w.Code, want, "%s: status", path)
	}
}
