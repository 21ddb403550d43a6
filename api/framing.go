package api

import (
	"bytes"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"
)

// errUserInfo is the error of a host with user information.
var errUserInfo = errors.New("a host must not hold user information: leave out everything before the @")

// The versions of HTTP that are served.
const (
	http11 = "HTTP/1.1"
	http10 = "HTTP/1.0"
)

// checkFraming checks a request's first line and headers as they were received. It rejects
// requests that the HTTP server accepts, and that a proxy in front of it may read differently.
func checkFraming(h *fasthttp.RequestHeader) error {
	version := string(h.Protocol())
	if version != http11 && version != http10 {
		return errors.New("the version must be HTTP/1.1 or HTTP/1.0")
	}
	var length, encoding bool
	for line := range bytes.Lines(h.RawHeaders()) {
		end := len(line) - len("\r\n")
		switch {
		case end < 0 || line[end] != '\r':
			return errors.New("a header line ends in LF alone")
		case line[0] == ' ' || line[0] == '\t':
			return errors.New("a header is folded over two lines")
		}
		length = length || isHeader(line, "Content-Length")
		encoding = encoding || isHeader(line, "Transfer-Encoding")
	}
	switch {
	case length && encoding:
		return errors.New("both Content-Length and Transfer-Encoding are given")
	case encoding && version == http10:
		return errors.New("HTTP/1.0 has no Transfer-Encoding")
	case len(h.Host()) == 0 && version == http11:
		return errors.New("the header Host is missing: HTTP/1.1 requires it")
	}
	return checkHost(h.Host(), h.RequestURI())
}

// checkHost rejects a request with two different hosts, or with user information, which
// hides the host from a reader: the URLs in answers contain the host.
func checkHost(host, target []byte) error {
	if bytes.IndexByte(host, '@') >= 0 {
		return errUserInfo
	}
	if len(host) > 0 && !validHost(withoutEmptyPort(string(host))) {
		return errors.New("the header Host must name a host, perhaps with a port, and nothing else")
	}
	if len(target) == 0 || target[0] == '/' || target[0] == '*' {
		return nil
	}
	// The absolute form: scheme, host, path.
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if !ok {
		return nil // not a URL: the router answers 404
	}
	if end := bytes.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	switch {
	case bytes.IndexByte(rest, '@') >= 0:
		return errUserInfo
	case len(host) > 0 && !bytes.EqualFold(rest, host):
		return errors.New("the address of the request names another host than the header Host")
	}
	return nil
}

// isHeader reports whether a line holds the header of this name.
func isHeader(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name)
}
