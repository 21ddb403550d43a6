package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/text"
)

const (
	// maxWait is for how many seconds home and a poll of events wait at most.
	maxWait = 60
	// homeBody and homeBodyForYou are how many code points of a body home shows:
	// more of what was said to the agent itself.
	homeBody       = 100
	homeBodyForYou = 1000
	// homeDefaultSince is how far back home looks without a since, in milliseconds
	// before now.
	homeDefaultSince = int64(24 * time.Hour / time.Millisecond)
	// homeFuture is how far ahead of the clock and of the log's time a since may
	// lie, in milliseconds.
	homeFuture = int64(time.Minute / time.Millisecond)
)

// homeParams are the parameters of home.
var homeParams = []string{"for", "since", "wait", "brief", "consistency", "min_index"}

// homeCall is a request for home.
type homeCall struct {
	agent string // the name as it is shown
	key   string // folded
	since int64  // milliseconds since the epoch; negative: none was given
	wait  time.Duration
	notes []string
	// again says that a since was given: what came before it was shown then.
	again bool
	brief bool // ids and counts alone
}

// getHome serves GET /api/home: what concerns one agent since its last call.
func getHome(c *call) (task, error) {
	h := &homeCall{}
	l, err := c.listing(homeParams, h.read)
	if invalid, is := errors.AsType[*wire.Error](err); is && invalid.Code == wire.CodeInvalid && !invalid.Example.Has("for") {
		err = wire.Invalid(invalid.Issues, wire.Object{})
	}
	if err != nil {
		return task{}, err
	}
	h.notes = slices.Clone(c.notes)
	c.house = c.srv.house[h.key]
	return task{fresh: l.fresh, run: func() error { return c.home(h) }}, nil
}

// read reads the parameters.
func (h *homeCall) read(l *listing) {
	h.agent = l.agent("for")
	h.key = text.Fold(h.agent)
	if h.agent == "" && !l.problems.Has("for") {
		l.problems.Add("for", "is required: the name of the agent whose home this is")
	}
	h.since = l.since()
	h.again = h.since >= 0
	if s := l.text("brief", maxNumber); s != "" {
		h.brief = s == "1" || s == "true"
		if !h.brief && s != "0" && s != "false" {
			l.problems.Add("brief", "must be 1, or be left out")
		}
	}
	h.wait = l.wait()
}

// wait reads for how long a call waits.
func (l *listing) wait() time.Duration {
	s := l.text("wait", maxNumber)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxWait {
		l.problems.Add("wait", "must be a whole number of seconds from 0 to %d", maxWait)
	}
	return time.Duration(n) * time.Second
}

// home answers a request whose parameters have no problems.
func (c *call) home(h *homeCall) error {
	now, given := c.read().Time(), h.since
	if h.since > now {
		c.catchUp(h.since)
		now = c.read().Time()
	}
	switch {
	case h.since < 0:
		h.since = max(0, now-homeDefaultSince)
	case h.since > max(now, c.srv.now().UnixMilli())+homeFuture:
		h.notes = append(h.notes, "since lies in the future: nothing can be newer. now is this node's own time; hand it back instead.")
		_, _, err := c.answerHome(h, now)
		return err
	}
	if h.wait > 0 {
		if err := c.waitForNews(h); err != nil {
			return err
		}
	}
	view, key := c.read(), homeKey{h.key, given, h.brief}
	// What is noted, and a time ago that has passed while the call waited, is in no key.
	keep := len(c.notes) == 0 && given <= view.Time() && (given >= 0 || h.wait == 0)
	if keep {
		tag, known := c.srv.homeTags.get(key, view)
		if known && matchesTag(c.header(fiber.HeaderIfNoneMatch), tag) {
			c.hasTag(tag)
			return nil
		}
	}
	tag, until, err := c.answerHome(h, max(h.since, view.Time()))
	if err == nil && keep {
		c.srv.homeTags.put(key, view, until, tag)
	}
	return err
}

// catchUp waits, for a bounded time, until the local state is as new as a since
// that another node gave out; or until the leader says that there is nothing
// newer, as in a cluster where nobody writes.
func (c *call) catchUp(since int64) {
	c.release()
	ctx, done := c.wait(waitTimeout)
	defer done()
	if index, err := c.srv.backend.ReadIndex(ctx); err == nil && c.srv.backend.WaitIndex(ctx, index) == nil {
		return
	}
	for c.read().Time() < since {
		next := c.read().Index() + 1
		c.release()
		if c.srv.backend.WaitIndex(ctx, next) != nil {
			return
		}
	}
}

// waitForNews waits until something after since concerns the agent, the time is
// over, the client leaves, or the node has no room for the wait. No view is held
// meanwhile.
func (c *call) waitForNews(h *homeCall) error {
	wake, stop := c.srv.backend.Watch(h.key)
	defer stop()
	ctx, done := c.wait(h.wait)
	defer done()
	gone, unwatch := c.watchClient()
	defer unwatch()
	for {
		has, err := c.reread().HasFor(h.key, h.since)
		if err != nil || has {
			return err
		}
		c.release()
		select {
		case <-wake:
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// answerHome answers with home at the instant now, or with 304 where the client
// has the same items already. It returns the entity tag, and until when that holds.
func (c *call) answerHome(h *homeCall, now int64) (tag string, until int64, err error) {
	view := c.read()
	home, err := view.Home(h.key, h.since, h.again)
	if err != nil {
		return "", 0, fmt.Errorf("home of %s: %w", h.key, err)
	}
	if home.More {
		now = home.Now
	}
	profile, registered, err := view.Profile(h.key)
	if err != nil {
		return "", 0, fmt.Errorf("profile of %s: %w", h.key, err)
	}
	w := homeWriter{
		homeCall: h, view: view, home: home, now: now, note: profile.Note,
		unregistered: !registered && !h.again && h.key != anonymous,
	}
	resp := c.out
	w.dst = resp.SwapBody(nil)[:0]
	w.write()
	resp.SwapBody(fitted(w.dst))
	if w.err != nil {
		return "", 0, fmt.Errorf("show home of %s: %w", h.key, w.err)
	}
	tag = w.tag(c.notes)
	if c.hasTag(tag) {
		return tag, home.Until, nil
	}
	resp.SetStatusCode(http.StatusOK)
	resp.Header.SetContentType(contentJSON)
	return tag, home.Until, nil
}

// tag returns the entity tag of what was written. It covers the items, not the instants,
// so that a call without news gets the same tag again. It also covers the ignored parts
// of the call, so that the note about them is seen.
func (w *homeWriter) tag(ignored []string) string {
	sum := sha256.New()
	for _, note := range ignored {
		sum.Write([]byte(note))
	}
	sum.Write(w.dst[:w.noteEnd])
	sum.Write(w.dst[w.itemsStart:w.itemsEnd])
	return tagOf(sum.Sum(nil))
}
