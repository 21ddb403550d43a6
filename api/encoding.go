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
	// encodedBytes of an answer cost as much to compress as one step of a search.
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

// encode compresses a body. It returns nil if every encoder is busy.
func (e *encodings) encode(coding string, body []byte) []byte {
	var one *encoder
	select {
	case one = <-e.free:
	default:
		return nil
	}
	if coding == codingZstd {
		one.out = one.zstd.EncodeAll(body, one.out[:0])
	} else {
		out := bytes.NewBuffer(one.out[:0])
		one.gzip.Reset(out)
		_, _ = one.gzip.Write(body) // a buffer takes everything
		_ = one.gzip.Close()
		one.out = out.Bytes()
	}
	encoded := bytes.Clone(one.out)
	e.free <- one
	return encoded
}

// encode compresses the answer if the client accepts it and the body gets shorter. It leaves
// bodies for one client alone as they are: their compressed length could reveal a secret.
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

// encoded returns a body in a coding; documents are cached. It returns nil if the client has
// used up its budget of reads, or every encoder is busy.
func (x *exchange) encoded(coding string, body []byte) []byte {
	e, client := x.http.encodings, guard.ClientOf(x.Sender())
	key := coding + x.Document
	if x.Document != "" {
		if text, kept := e.kept.Get([]byte(key)); kept {
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

// preferredCoding returns the coding that an Accept-Encoding prefers (RFC 9110, 12.5.3): zstd
// before gzip if both have the same weight, identity if neither is acceptable.
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

// weightOf returns the weight among the parameters of a coding, or 0 if it is invalid.
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
