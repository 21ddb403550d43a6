package op

import (
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
)

// BeginBody returns an empty buffer for a body of about size bytes, so that a long answer is not
// copied each time that its buffer grows. A pooled buffer of that size is used as it is: the
// server pools only buffers of typical size.
func (c *Call) BeginBody(size int) []byte {
	buffer := c.Buffer()
	if cap(buffer) < size {
		buffer = make([]byte, 0, size+size/8)
	}
	return buffer
}

// Answer sets status and a body of JSON.
func (c *Call) Answer(status int, build func(dst []byte) ([]byte, error)) error {
	return c.AnswerOf(0, status, build)
}

// AnswerOf is Answer for a body of about size bytes.
func (c *Call) AnswerOf(size, status int, build func(dst []byte) ([]byte, error)) error {
	body, err := build(c.BeginBody(size))
	if err != nil {
		return err
	}
	c.Out.EndBody(body)
	c.Out.Status, c.Out.ContentType = status, ContentJSON
	return nil
}

// AnswerText sets status and a text.
func (c *Call) AnswerText(status int, contentType, body string) error {
	c.Out.EndBody(append(c.BeginBody(len(body)), body...))
	c.Out.Status, c.Out.ContentType = status, contentType
	return nil
}

// AnswerObject sets status and a JSON object.
func (c *Call) AnswerObject(status int, body wire.Object) error {
	return c.Answer(status, func(dst []byte) ([]byte, error) { return body.AppendJSON(dst), nil })
}

// AnswerValue answers 200 with a value as JSON.
func (c *Call) AnswerValue(value any) error {
	return c.Answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, value), nil })
}

// CachingNever is the Cache-Control of answers for one client alone.
const CachingNever = "no-store"

// HasTag sets the entity tag. It reports whether the client has the answer with this tag;
// then it answers 304.
func (c *Call) HasTag(tag string) bool {
	c.Out.Set(headerETag, tag)
	if !MatchesTag(c.Header(HeaderIfNoneMatch), tag) {
		return false
	}
	if !c.Out.Shared {
		c.Out.Body = c.Out.Body[:0]
	}
	c.Out.Status, c.Out.ContentType = http.StatusNotModified, ""
	return true
}
