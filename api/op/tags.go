package op

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/fsm/state"
)

// tagBytes is how much of a hash an entity tag holds.
const tagBytes = 15

// TagOf is the entity tag of a content. It is weak: the body may be sent in several codings.
func TagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
}

// MatchesTag reports whether the entity tags of a condition include one, by weak comparison (RFC 9110).
func MatchesTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// versionTag returns the ETag of a response that depends only on the request and the view's
// version. It contains the build, which may use other words, and the cluster, because a state
// that was given to another cluster reuses indexes.
func (c *Call) versionTag() string {
	view := c.View()
	path, query := c.Target()
	var key [512]byte
	b := state.AppendBlob(state.AppendBlob(key[:0], c.Env.Build), view.ClusterID())
	b = state.AppendBlob(state.AppendBlob(b, path), query)
	if owner := c.BearerKey(); owner != "" { // it may show more
		b = state.AppendBlob(b, HashSecret(owner))
	}
	return TagOf(binary.BigEndian.AppendUint64(b, view.Version()))
}

// unchangedVersion answers with 304 if the client has the answer of the newest view's version.
// A client that takes any tag (*) gets the answer: whether there is one is not known yet.
func (c *Call) unchangedVersion() bool {
	have := c.Header(HeaderIfNoneMatch)
	if have == "" || strings.Contains(have, "*") {
		return false
	}
	tag := c.versionTag()
	return MatchesTag(have, tag) && c.HasTag(tag)
}

// documentCaching is how long cards and pages may be kept, in seconds.
const documentCaching = "public, max-age=300"

// AnswerCached answers with a body that changes rarely, or with 304 if the client has it.
func (c *Call) AnswerCached(contentType, body string) error {
	c.Out.Set(HeaderCacheControl, documentCaching)
	if c.Unchanged(body) {
		return nil
	}
	c.Document = c.Out.get(headerETag)
	return c.AnswerText(http.StatusOK, contentType, body)
}

// Unchanged tags a body, and answers with 304 if the client has it.
func (c *Call) Unchanged(body string) bool {
	return c.HasTag(TagOf([]byte(body)))
}
