package op

import "bytes"

// The headers of requests and answers that operations use.
const (
	HeaderAccept          = "Accept"
	HeaderAllow           = "Allow"
	HeaderAuthorization   = "Authorization"
	HeaderCacheControl    = "Cache-Control"
	headerETag            = "ETag"
	HeaderIfNoneMatch     = "If-None-Match"
	HeaderLocation        = "Location"
	HeaderOrigin          = "Origin"
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
	HeaderRetryAfter      = "Retry-After"
	HeaderUserAgent       = "User-Agent"
	HeaderVary            = "Vary"
	// HeaderKey holds the request_id; some clients quote it.
	HeaderKey      = "Idempotency-Key"
	HeaderMinIndex = "X-Commons-Min-Index"
)

// The content types of answers.
const (
	ContentJSON   = "application/json"
	ContentText   = "text/plain; charset=utf-8"
	ContentEvents = "text/event-stream"
)

// AnswerBuffer is the size of the buffers of typical answers, in bytes.
const AnswerBuffer = 4 << 10

// Answer is the response of an operation. HTTP sends it; other surfaces take its parts.
type Answer struct {
	Status      int // 0 means 200
	ContentType string
	Headers     []Header
	Body        []byte
	// Shared means that the buffer of the body is not used again.
	Shared bool
}

// Header is a header of an answer.
type Header struct{ Name, Value string }

// Set sets a header.
func (a *Answer) Set(name, value string) {
	for i := range a.Headers {
		if a.Headers[i].Name == name {
			a.Headers[i].Value = value
			return
		}
	}
	a.Headers = append(a.Headers, Header{name, value})
}

// get returns a header, "" if it is not set.
func (a *Answer) get(name string) string {
	for i := range a.Headers {
		if a.Headers[i].Name == name {
			return a.Headers[i].Value
		}
	}
	return ""
}

// VaryBy adds a request header that the answer depends on.
func (a *Answer) VaryBy(name string) {
	before := a.get(HeaderVary)
	switch {
	case before == name:
		return
	case before != "":
		name = before + ", " + name
	}
	a.Set(HeaderVary, name)
}

// SetShared sets a body whose buffer is used elsewhere, too.
func (a *Answer) SetShared(body []byte) { a.Body, a.Shared = body, true }

// maxSpare is how many bytes more than twice its length a body's buffer may have.
const maxSpare = 4 * AnswerBuffer

// EndBody sets the body that was written to the buffer of BeginBody. It replaces a buffer that
// is much too large, because the guard counts unread answers by their length.
func (a *Answer) EndBody(body []byte) {
	if cap(body) > 2*len(body)+maxSpare {
		body = bytes.Clone(body)
	}
	a.Body, a.Shared = body, false
}
