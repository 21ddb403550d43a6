package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/fsm"
)

// tagBytes is how much of a hash an entity tag holds.
const tagBytes = 15

// tagOf is the entity tag of a hash. It is weak: the body may be sent in several codings.
func tagOf(sum []byte) string {
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
}

// matchesTag reports whether an If-None-Match names an entity tag, by the weak
// comparison of RFC 9110.
func matchesTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// hasTag sets the entity tag, and answers with 304 where the client has it.
func (c *call) hasTag(tag string) bool {
	c.out.Header.Set(fiber.HeaderETag, tag)
	if !matchesTag(c.header(fiber.HeaderIfNoneMatch), tag) {
		return false
	}
	c.out.ResetBody()
	c.out.SetStatusCode(http.StatusNotModified)
	return true
}

// versionTag is the entity tag of an answer to this request that is made of nothing but
// what the version of the view says. Another build may answer in other words, and a state
// that was given to another cluster goes on with indexes that it had before.
func (c *call) versionTag() string {
	view, uri := c.read(), c.rctx.URI()
	sum := sha256.New()
	var key [512]byte
	part := func(dst, s []byte) []byte { return append(binary.AppendUvarint(dst, uint64(len(s))), s...) }
	b := part(part(key[:0], []byte(c.srv.build)), []byte(view.ClusterID()))
	b = part(part(b, uri.PathOriginal()), uri.QueryString())
	sum.Write(binary.BigEndian.AppendUint64(b, view.Version()))
	return tagOf(sum.Sum(nil))
}

// unchangedVersion answers with 304 where the client has the answer of the newest view's
// version. Whether there is one for a client that takes any (*) is not known before it is
// made.
func (c *call) unchangedVersion() bool {
	have := c.header(fiber.HeaderIfNoneMatch)
	if have == "" || strings.Contains(have, "*") {
		return false
	}
	tag := c.versionTag()
	return matchesTag(have, tag) && c.hasTag(tag)
}

// maxHomeTags bounds the entity tags of homes that are kept.
const maxHomeTags = 4096

// homeTags keeps the entity tags of homes, between one and two generations of them, so
// that a call without news costs no home.
type homeTags struct {
	mu         sync.Mutex
	young, old map[homeKey]homeTag
}

// homeKey is what of a request decides its home.
type homeKey struct {
	agent string // folded
	since int64  // negative: some time ago
	brief bool
}

// homeTag is an entity tag, and of which views: those of a version, before an instant, of
// a cluster.
type homeTag struct {
	tag, cluster string
	version      uint64
	until        int64
}

func (t *homeTags) get(key homeKey, view *fsm.View) (tag string, known bool) {
	t.mu.Lock()
	kept, known := t.young[key]
	if !known {
		kept, known = t.old[key]
	}
	t.mu.Unlock()
	return kept.tag, known && kept.version == view.Version() && kept.cluster == view.ClusterID() && view.Time() < kept.until
}

func (t *homeTags) put(key homeKey, view *fsm.View, until int64, tag string) {
	key.agent = strings.Clone(key.agent) // it is a part of the whole request
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.young) >= maxHomeTags/2 || t.young == nil {
		t.old, t.young = t.young, make(map[homeKey]homeTag)
	}
	t.young[key] = homeTag{tag, view.ClusterID(), view.Version(), until}
}
