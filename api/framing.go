package api

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"
)

// Errors of requests that a proxy in front of the node may read differently. The HTTP
// server accepts such requests; checkFraming rejects them.
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

// The names of the headers that delimit a body, in lower case.
var (
	contentLengthName    = []byte("content-length")
	transferEncodingName = []byte("transfer-encoding")
)

// The versions of HTTP that are served.
const (
	http11 = "HTTP/1.1"
	http10 = "HTTP/1.0"
)

// checkFraming checks a request's first line and headers as they were received.
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

// checkHost rejects a request with two different hosts, or with user information, which
// hides the host from a reader: the URLs in answers contain the host.
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
		return nil // not a URL: the router answers 404
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
