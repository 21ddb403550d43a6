package api

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/gofiber/fiber/v2"
	"go.mau.fi/util/confusable"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// clients finds out from which address a request came.
type clients struct {
	trusted   []netip.Prefix
	operators []netip.Prefix // who sees measurements; nil: loopback and private addresses
}

// measure reports whether a client sees measurements.
func (c *clients) measure(addr netip.Addr) bool {
	if c.operators == nil {
		return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
	}
	return within(c.operators, addr)
}

// address returns the client's address: the peer's, or, where the peer is a
// trusted proxy, the rightmost address of X-Forwarded-For that is none. What
// stands further left was written by the client itself and is never looked at.
func (c *clients) address(peer net.Addr, forwarded [][]byte) netip.Addr {
	addr := peerAddress(peer)
	if !c.trusts(addr) {
		return addr
	}
	var hops []string
	for _, line := range forwarded {
		hops = append(hops, strings.Split(string(line), ",")...)
	}
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			return addr
		}
		addr = hop
		if !c.trusts(addr) {
			return addr
		}
	}
	return addr
}

func (c *clients) trusts(addr netip.Addr) bool { return within(c.trusted, addr) }

// within reports whether an address is in one of the networks.
func within(nets []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// peerAddress is the address of a connection's other end; the zero address where
// it has none.
func peerAddress(peer net.Addr) netip.Addr {
	if tcp, isTCP := peer.(*net.TCPAddr); isTCP {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// parseHop reads one element of X-Forwarded-For: an address, perhaps with a port.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if addr, err := netip.ParseAddr(strings.Trim(hop, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if addrPort, err := netip.ParseAddrPort(hop); err == nil {
		return addrPort.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// baseURL is the base of this service's addresses as the client sees them, without
// a slash at the end: the configured one, else what the request was sent to.
func (c *call) baseURL() string {
	if c.srv.publicURL != "" {
		return c.srv.publicURL
	}
	host := withoutEmptyPort(string(c.rctx.Host()))
	if !validHost(host) { // HTTP/1.0 needs none; the node's own address is nobody's business
		host = "localhost"
	}
	return c.scheme() + "://" + host
}

// scheme is https where a trusted proxy says that the client came that way.
func (c *call) scheme() string {
	if c.rctx.IsTLS() {
		return "https"
	}
	// The nearest proxy writes last.
	protos := strings.Split(string(c.rctx.Request.Header.Peek(fiber.HeaderXForwardedProto)), ",")
	nearest := strings.TrimSpace(protos[len(protos)-1])
	if strings.EqualFold(nearest, "https") && c.srv.clients.trusts(peerAddress(c.rctx.RemoteAddr())) {
		return "https"
	}
	return "http"
}

// maxHost is the longest host name with a port, in bytes.
const maxHost = 262

// withoutEmptyPort takes the colon from a host whose port is empty, as RFC 9110 permits.
func withoutEmptyPort(host string) string { return strings.TrimSuffix(host, ":") }

// validHost reports whether a Host header names a host, perhaps with a port, and
// nothing else that would change an address made of it.
func validHost(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	if _, err := netip.ParseAddrPort(host); err == nil {
		return true
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		_, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && strings.HasSuffix(inner, "]")
	}
	name, port, hasPort := strings.Cut(host, ":")
	if name == "" || hasPort && (port == "" || len(port) > len("65535") || strings.Trim(port, "0123456789") != "") {
		return false
	}
	return strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// CheckPublicURL says what is wrong with a base of addresses; nil is nothing.
func CheckPublicURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", !validHost(u.Host):
		return errors.New("must be http:// or https:// and a host, such as https://commons.example")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.ForceQuery, u.Fragment != "", u.User != nil:
		return errors.New("must end after the host: the service is served at the root of it")
	}
	return nil
}

// clientLabels say what User-Agents come to: the first mark that one holds, in
// lower case. Marks of what agents are called stand before those of the libraries
// that they use, and those of libraries before those of languages.
var clientLabels = []struct{ mark, label string }{
	{"claude", "claude"},
	{"chatgpt", "openai"},
	{"openai", "openai"},
	{"codex", "openai"},
	{"gemini", "gemini"},
	{"langchain", "langchain"},
	{"langgraph", "langchain"},
	{"a2a", "a2a"},
	{"mcp", "mcp"},
	{"modelcontextprotocol", "mcp"},
	{"bot", "crawler"},
	{"crawler", "crawler"},
	{"spider", "crawler"},
	{"curl", "curl"},
	{"wget", "wget"},
	{"httpie", "httpie"},
	{"postman", "postman"},
	{"insomnia", "insomnia"},
	{"python", "python"},
	{"aiohttp", "python"},
	{"httpx", "python"},
	{"urllib", "python"},
	{"axios", "node"},
	{"undici", "node"},
	{"node", "node"},
	{"deno", "deno"},
	{"bun/", "bun"},
	{"go-http-client", "go"},
	{"go-resty", "go"},
	{"reqwest", "rust"},
	{"hyper/", "rust"},
	{"ureq", "rust"},
	{"okhttp", "java"},
	{"apache-httpclient", "java"},
	{"java", "java"},
	{"ruby", "ruby"},
	{"faraday", "ruby"},
	{"php", "php"},
	{"guzzle", "php"},
	{"dotnet", "dotnet"},
	{".net", "dotnet"},
	{"powershell", "powershell"},
	{"mozilla", "browser"},
}

const (
	labelNone  = "none"  // no User-Agent was sent
	labelOther = "other" // one that says nothing
	// maxUserAgent is how much of a User-Agent is looked at, in bytes.
	maxUserAgent = 256
)

// clientLabel is the label of a User-Agent.
func clientLabel(userAgent string) string {
	if userAgent == "" {
		return labelNone
	}
	userAgent = strings.ToLower(userAgent[:min(len(userAgent), maxUserAgent)])
	for _, c := range clientLabels {
		if strings.Contains(userAgent, c.mark) {
			return c.label
		}
	}
	return labelOther
}

// looksOf returns the hashes of a name's skeletons (UTS 39), for command.Proof.Looks: names
// that look alike, in the case in which they are written or in lower case, have one in
// common. What nobody sees counts for nothing.
func looksOf(name string) []byte {
	seen := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) {
			return -1
		}
		return r
	}, name)
	written := confusable.Skeleton(seen)
	folded := text.Fold(confusable.Skeleton(text.Fold(seen)))
	looks := hashLook(nil, written)
	if folded != written {
		looks = hashLook(looks, folded)
	}
	return looks
}

func hashLook(dst []byte, skeleton string) []byte {
	sum := sha256.Sum256([]byte(skeleton))
	return append(dst, sum[:command.LookBytes]...)
}
