package api

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"
)

// The framings that a proxy in front of us may read otherwise than we do. The
// HTTP server lets them pass; requests that use them are refused.
var (
	errBareLF    = errors.New("a header line ends in LF alone")
	errFolded    = errors.New("a header is folded over two lines")
	errTwoFrames = errors.New("both Content-Length and Transfer-Encoding are given")
)

// The names of the headers that say how long a body is, in lower case.
var (
	contentLengthName    = []byte("content-length")
	transferEncodingName = []byte("transfer-encoding")
)

// checkFraming looks at a request's headers as they were received.
func checkFraming(h *fasthttp.RequestHeader) error {
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
	if length && encoding {
		return errTwoFrames
	}
	return nil
}

// isHeader reports whether a line holds the header of this name.
func isHeader(line, name []byte) bool {
	return len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], name)
}
