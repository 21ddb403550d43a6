package pushtest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// maxQuestion bounds a question to the name server, in bytes.
const maxQuestion = 1 << 10

// Names is a name server on a loopback address. A name that was not set
// does not exist.
type Names struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]netip.Addr // what the next questions get; the last one stays
	asked   map[string]int
	silent  bool
}

// NewNames starts a name server that runs until the test ends.
func NewNames(tb testing.TB) *Names {
	tb.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
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
