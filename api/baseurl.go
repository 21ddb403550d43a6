package api

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// baseURL is the base of this service's addresses as the client sees them, without
// a slash at the end: the configured one, else what the request was sent to.
func (c *call) baseURL() string {
	if c.srv.publicURL != "" {
		return c.srv.publicURL
	}
	host := string(c.rctx.Host())
	if !validHost(host) {
		host = c.rctx.LocalAddr().String()
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
