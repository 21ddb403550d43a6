// Package pushtest has helpers for tests of push: https receivers on loopback addresses, an
// authority for their certificates, and a name server.
package pushtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/commons-cluster/commons/internal/must"
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

const validFor = 24 * time.Hour // the life of a test's certificates, to both sides of now

// Authority signs certificates of receivers.
type Authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns a new authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test authority"},
		NotBefore: time.Now().Add(-validFor), NotAfter: time.Now().Add(validFor),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, a.key)
	return a
}

// Certificate returns a certificate for names of hosts.
func (a *Authority) Certificate(hosts ...string) tls.Certificate {
	a.tb.Helper()
	key := newKey(a.tb)
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Test receiver"}, DNSNames: hosts,
		NotBefore: time.Now().Add(-validFor), NotAfter: time.Now().Add(validFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// WritePair writes a certificate and its key as cert.pem and key.pem.
func WritePair(tb testing.TB, dir string, pair tls.Certificate) {
	tb.Helper()
	key := must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(tb)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		must.Do(tb, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// Pool returns the authority as the only one that is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// File returns the path of a file that holds the authority's certificate.
func (a *Authority) File() string {
	a.tb.Helper()
	path := filepath.Join(a.tb.TempDir(), "authority.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return cert
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb)
	return key
}

const maxQuestion = 1 << 10 // bounds a question to the name server, in bytes

// Names is a name server on a loopback address. A name that was not set
// does not exist.
type Names struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]netip.Addr // to the next questions; the last one stays
	asked   map[string]int
	silent  bool
}

// NewNames starts a name server that runs until the test ends.
func NewNames(tb testing.TB) *Names {
	tb.Helper()
	conn := must.Get((&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", "127.0.0.1:0"))(tb)
	n := &Names{conn: conn, answers: map[string][][]netip.Addr{}, asked: map[string]int{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		n.serve()
	}()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-served
	})
	return n
}

// Set makes a name lead to addresses.
func (n *Names) Set(host string, addrs ...string) { n.SetInTurn(host, addrs) }

// SetInTurn makes a name lead to other addresses each time that somebody asks;
// the last answer stays.
func (n *Names) SetInTurn(host string, turns ...[]string) {
	answers := make([][]netip.Addr, len(turns))
	for i, addrs := range turns {
		for _, a := range addrs {
			answers[i] = append(answers[i], netip.MustParseAddr(a))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[host] = answers
}

// Silence keeps the server from answering anything.
func (n *Names) Silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
}

// Asked returns how often somebody asked for the addresses of a name.
func (n *Names) Asked(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[host]
}

// Resolver returns a resolver that asks this server alone.
func (n *Names) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

func (n *Names) serve() {
	buf := make([]byte, maxQuestion)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var question dnsmessage.Message
		if question.Unpack(buf[:size]) != nil || len(question.Questions) != 1 {
			continue
		}
		if reply, err := n.answer(question); err == nil && reply != nil {
			_, _ = n.conn.WriteTo(reply, from) // whoever asked asks again
		}
	}
}

// answer returns the packed reply to a question; nil is silence. A resolver asks
// for both families at once: only the question for IPv4 takes a turn.
func (n *Names) answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	host := strings.TrimSuffix(q.Name.String(), ".")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		return nil, nil
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true},
		Questions: m.Questions,
	}
	turns, known := n.answers[host]
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
		return reply.Pack()
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	for _, a := range turns[0] {
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	if q.Type == dnsmessage.TypeA {
		n.asked[host]++
		if len(turns) > 1 {
			n.answers[host] = turns[1:]
		}
	}
	return reply.Pack()
}
