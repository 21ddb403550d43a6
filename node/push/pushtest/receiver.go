package pushtest

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
)

// Received is a request that a receiver got.
type Received struct {
	Host   string
	Path   string
	Header http.Header
	Body   []byte
}

// Receiver is an https server on a loopback address.
type Receiver struct {
	server *httptest.Server

	mu       sync.Mutex
	received []Received
}

// NewReceiver starts a receiver that shows the certificate and runs until the
// test ends. It notes each request before it answers it. A handler that waits
// ends with its request's context.
func NewReceiver(tb testing.TB, cert tls.Certificate, answer func(w http.ResponseWriter, got Received, r *http.Request)) *Receiver {
	tb.Helper()
	r := &Receiver{}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender is gone
		}
		got := Received{Host: req.Host, Path: req.URL.Path, Header: req.Header.Clone(), Body: body}
		r.mu.Lock()
		r.received = append(r.received, got)
		r.mu.Unlock()
		answer(w, got, req)
	}))
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	r.server.StartTLS()
	tb.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// Port returns where the receiver listens, on 127.0.0.1.
func (r *Receiver) Port() uint16 {
	return netip.MustParseAddrPort(r.server.Listener.Addr().String()).Port()
}

// Received returns the requests so far.
func (r *Receiver) Received() []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Received(nil), r.received...)
}

// Agree answers a challenge as an agent that wants the events.
func Agree(w http.ResponseWriter, got Received) {
	var challenge struct {
		ReplyWith json.RawMessage `json:"reply_with"`
	}
	if err := json.Unmarshal(got.Body, &challenge); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = w.Write(challenge.ReplyWith)
}
