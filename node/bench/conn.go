package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Limits of one exchange.
const (
	dialTimeout     = 5 * time.Second
	exchangeTimeout = 30 * time.Second
	readBuffer      = 64 << 10
	maxHeaderLines  = 128
	maxKept         = 1 << 20 // bytes of a body
)

var errMalformed = errors.New("malformed response")

// conn is one keep-alive HTTP/1.1 connection used by one goroutine. It reads
// just enough of a response to know where it ends: net/http's client costs
// about as much as the servers measured here.
type conn struct {
	net.Conn
	reader *bufio.Reader
	host   string
	unbind func() bool

	timeout time.Duration // of an exchange
	keep    bool          // keep the body of a response that says its length, up to maxKept
	body    []byte        // of the last response, where it is kept
}

// dial connects to a node. The connection is closed when ctx ends, which cuts
// off an exchange that is under way. Of a response, buffer bytes are read at once.
func dial(ctx context.Context, target *url.URL, buffer int) (*conn, error) {
	port := target.Port()
	if port == "" {
		port = target.Scheme
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addr := net.JoinHostPort(target.Hostname(), port)
	var c net.Conn
	var err error
	if target.Scheme == "https" {
		c, err = (&tls.Dialer{}).DialContext(dialing, "tcp", addr)
	} else {
		c, err = (&net.Dialer{}).DialContext(dialing, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	unbind := context.AfterFunc(ctx, func() { c.Close() })
	return &conn{Conn: c, reader: bufio.NewReaderSize(c, buffer), host: target.Host, unbind: unbind, timeout: exchangeTimeout}, nil
}

// Close hangs up.
func (c *conn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// appendRequest appends a request: a POST of a JSON body, or a GET where body
// is nil.
func (c *conn) appendRequest(dst []byte, path string, body []byte) []byte {
	if body == nil {
		dst = append(dst, "GET "...)
	} else {
		dst = append(dst, "POST "...)
	}
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, c.host...)
	dst = append(dst, "\r\nUser-Agent: commons-bench\r\nAccept: application/json\r\n"...)
	if body != nil {
		dst = append(dst, "Content-Type: application/json\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(body)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}

// exchange sends a request and reads its response to the end. keep says whether
// the connection can carry another one.
func (c *conn) exchange(request []byte) (status int, keep bool, err error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, false, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, false, err
	}
	c.body = c.body[:0]
	status, length, keep, err := c.readHead()
	if err != nil {
		return 0, false, err
	}
	switch {
	case length >= 0 && length <= maxKept && c.keep:
		c.body = slices.Grow(c.body[:0], int(length))[:length]
		_, err = io.ReadFull(c.reader, c.body)
	case length >= 0:
		_, err = c.reader.Discard(int(length)) // without copying
	case length == chunked:
		if _, err = io.Copy(io.Discard, httputil.NewChunkedReader(c.reader)); err == nil {
			err = c.readTrailer()
		}
	default:
		keep = false
		_, err = io.Copy(io.Discard, c.reader)
	}
	return status, keep && err == nil, err
}

// Lengths of a body that no Content-Length gives.
const (
	chunked    = -1
	untilClose = -2
)

func (c *conn) readHead() (status int, length int64, keep bool, err error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, 0, false, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.")) || len(line) < len("HTTP/1.1 200") {
		return 0, 0, false, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	keep = line[len("HTTP/1.")] == '1'
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	length = untilClose
	for range maxHeaderLines {
		line, err = c.reader.ReadSlice('\n')
		if err != nil {
			return 0, 0, false, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return status, length, keep, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
				return 0, 0, false, fmt.Errorf("%w: Content-Length %.40q", errMalformed, value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case bytes.EqualFold(name, []byte("Connection")):
			keep = keep && !bytes.EqualFold(value, []byte("close"))
		}
	}
	return 0, 0, false, fmt.Errorf("%w: more than %d header lines", errMalformed, maxHeaderLines)
}

// readTrailer reads the lines after the last chunk, up to the empty one.
func (c *conn) readTrailer() error {
	for range maxHeaderLines {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: more than %d trailer lines", errMalformed, maxHeaderLines)
}
