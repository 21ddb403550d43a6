package api

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/textcache"
)

const (
	// leastEncoded and mostEncoded bound the bytes of answers that are compressed, for
	// clients that take it.
	leastEncoded = 1 << 10
	mostEncoded  = 1 << 20
	// encodedBytes is how much of an answer that is compressed counts as one step of a
	// search.
	encodedBytes = 256
	// keptEncodings bounds the bytes of compressed documents that are kept.
	keptEncodings = 2 << 20
	// encodersPerCPU is how many answers are compressed at once. Others go as they are.
	encodersPerCPU = 2
)

// The content codings (RFC 9110, 8.4.1) that answers may have.
const (
	codingZstd     = "zstd"
	codingGzip     = "gzip"
	codingIdentity = "identity"
)

// encodings compress answers.
type encodings struct {
	free chan *encoder
	kept *textcache.Cache
}

// encoder compresses one answer at a time.
type encoder struct {
	zstd *zstd.Encoder
	gzip *gzip.Writer
	out  []byte
}

func newEncodings() (*encodings, error) {
	e := &encodings{free: make(chan *encoder, encodersPerCPU*runtime.GOMAXPROCS(0)), kept: textcache.New(keptEncodings)}
	for range cap(e.free) {
		fast, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(mostEncoded), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("make an encoder of zstd: %w", err)
		}
		zipped, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			return nil, fmt.Errorf("make an encoder of gzip: %w", err)
		}
		e.free <- &encoder{zstd: fast, gzip: zipped}
	}
	return e, nil
}

// encode compresses a body; nil: every encoder is busy.
func (e *encodings) encode(coding string, body []byte) []byte {
	select {
	case one := <-e.free:
		defer func() { e.free <- one }()
		return one.encode(coding, body)
	default:
		return nil
	}
}

func (e *encoder) encode(coding string, body []byte) []byte {
	if coding == codingZstd {
		e.out = e.zstd.EncodeAll(body, e.out[:0])
	} else {
		out := bytes.NewBuffer(e.out[:0])
		e.gzip.Reset(out)
		_, _ = e.gzip.Write(body) // a buffer takes everything
		_ = e.gzip.Close()
		e.out = out.Bytes()
	}
	return bytes.Clone(e.out)
}

// encode compresses the answer where the client takes it and that is worth it. Bodies
// that hold something for this client alone are left as they are: what is beside a
// secret could be guessed from how short it gets.
func (x *exchange) encode() {
	resp := &x.rctx.Response
	accept := x.rctx.Request.Header.Peek(fiber.HeaderAcceptEncoding)
	if len(accept) == 0 || resp.IsBodyStream() {
		return
	}
	h, body := &resp.Header, resp.Body()
	if len(body) < leastEncoded || len(body) > mostEncoded || len(h.ContentEncoding()) > 0 || string(h.Peek(op.HeaderCacheControl)) == op.CachingNever {
		return
	}
	coding := preferredCoding(string(accept))
	if coding == codingIdentity {
		return
	}
	encoded := x.encoded(coding, body)
	if len(encoded) == 0 || len(encoded) >= len(body) {
		return
	}
	// The longer body must not stay with the response: it would be held uncounted until
	// the client has read the shorter one.
	if len(body) > op.AnswerBuffer {
		resp.SwapBody(nil)
	}
	resp.SetBodyRaw(encoded)
	h.SetContentEncoding(coding)
}

// encoded is a body in a coding: that of a document is kept. It is nil where the client
// has used up its budget of reads, or every encoder is busy.
func (x *exchange) encoded(coding string, body []byte) []byte {
	e, client := x.http.encodings, guard.ClientOf(x.Sender())
	key := coding + x.Document
	if x.Document != "" {
		if text, kept := e.kept.Get(key); kept {
			return []byte(text)
		}
	}
	if x.Env.Guard.Reads.Wait(client) > 0 {
		return nil
	}
	x.Env.Guard.Reads.Use(client, len(body)/encodedBytes)
	encoded := e.encode(coding, body)
	if x.Document != "" && encoded != nil {
		e.kept.Put(key, string(encoded))
	}
	return encoded
}

// preferredCoding is the coding that an Accept-Encoding prefers (RFC 9110, 12.5.3), of
// two that it likes as much the shorter one: zstd, then gzip. It is identity where
// neither is acceptable.
func preferredCoding(accept string) string {
	const unnamed = -1
	ofZstd, ofGzip, ofIdentity, ofOthers := float64(unnamed), float64(unnamed), 0.0, 0.0
	for one := range strings.SplitSeq(strings.ToLower(accept), ",") {
		name, params, _ := strings.Cut(one, ";")
		switch weight := weightOf(params); strings.TrimSpace(name) {
		case codingZstd:
			ofZstd = weight
		case codingGzip, "x-gzip":
			ofGzip = weight
		case codingIdentity:
			ofIdentity = weight
		case "*":
			ofOthers = weight
		}
	}
	if ofZstd == unnamed {
		ofZstd = ofOthers
	}
	if ofGzip == unnamed {
		ofGzip = ofOthers
	}
	switch {
	case ofZstd > 0 && ofZstd >= max(ofGzip, ofIdentity):
		return codingZstd
	case ofGzip > 0 && ofGzip >= ofIdentity:
		return codingGzip
	}
	return codingIdentity
}

// weightOf is the weight among the parameters of a coding; 0 where it cannot be read.
func weightOf(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		if name, value, has := strings.Cut(param, "="); has && strings.TrimSpace(name) == "q" {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || weight > 1 {
				return 0
			}
			return weight
		}
	}
	return 1
}
