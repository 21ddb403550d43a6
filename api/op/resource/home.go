package resource

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

const (
	// homeBody is the number of code points of a body in home. In forYou it is
	// homeBodyForYou, or less if the bodies there take more than homeTextForYou together,
	// but at least homeBody.
	homeBody       = 100
	homeBodyForYou = 1000
	homeTextForYou = 6000
	// homeDefaultSince is how far back home looks without a since, in milliseconds
	// before now.
	homeDefaultSince = int64(24 * time.Hour / time.Millisecond)
	// pausedNote is for the holder of the key, because a receiver is private.
	pausedNote = "Nothing is pushed to your receiver, because the service has another data key: set notify_url again, and give the new notify_secret to the receiver."
	// homeFuture is how far ahead of the clock and of the log's time a since may
	// lie, in milliseconds.
	homeFuture = int64(time.Minute / time.Millisecond)
)

// homeParams are the parameters of home.
var homeParams = []string{"for", "since", "wait", "jobs", "brief", "only_proven", "consistency", "min_index"}

// homeCall is a request for home.
type homeCall struct {
	agent string // the name as it is shown
	key   string // folded
	since int64  // milliseconds since the epoch; negative if it is absent or relative, see view.View.Instant
	wait  time.Duration
	jobs  string // the open jobs that the agent wants, as the next call says it; empty without a choice
	notes []string
	again bool // since was given: earlier items were shown before
	brief bool // ids and counts alone

	prefs view.Preferences
}

// getHome serves GET /api/home: what concerns one agent since its last call.
func getHome(c *op.Call) (op.Task, error) {
	h := &homeCall{}
	l, err := read.Parse(c, homeParams, func(l *read.Params) { h.read(c, l) })
	if c.KeyErr != nil {
		return op.Task{}, c.KeyErr
	}
	if invalid, is := errors.AsType[*wire.Error](err); is && invalid.Code == wire.CodeInvalid && !invalid.Example.Has("for") {
		invalid.Example = append(wire.Object{{"for", write.ExampleName}}, l.Repair()...)
		c.Notes = append(c.Notes, write.ReplaceNote("for"))
	}
	if err != nil {
		return op.Task{}, err
	}
	h.notes = slices.Clone(c.Notes)
	c.House = c.Env.House[h.key]
	return op.Task{Fresh: l.Fresh, Run: func() error { return home(c, h) }}, nil
}

// read reads the parameters. A missing name is that of the owner of the edit_key.
func (h *homeCall) read(c *op.Call, l *read.Params) {
	h.agent = l.Agent("for")
	if h.agent == "" && !l.Problems.Has("for") {
		if h.agent = c.KeyOwner(""); h.agent == "" {
			l.Problems.Add("for", "is required: the name of the agent whose home this is. Your edit_key "+op.KeyInHeader+" stands for it")
		}
	}
	c.Out.VaryBy(op.HeaderAuthorization)
	h.key = text.Fold(h.agent)
	h.since = l.Instant("since")
	h.again = h.since >= 0
	h.brief = l.Flag("brief")
	h.prefs.OnlyProven = l.Flag("only_proven")
	h.wait = l.Wait()
	if tags := l.Several("jobs", command.MaxTag, text.FoldTag); tags != "" {
		h.jobs, h.prefs.Jobs = strings.ReplaceAll(tags, view.Or, ","), &view.Wanted{TagKey: tags, Since: -1}
		if slices.Contains(strings.Split(tags, view.Or), anyJob) {
			h.jobs, h.prefs.Jobs.TagKey = anyJob, ""
		}
	}
}

// anyJob is the value of jobs for all open jobs.
const anyJob = "any"

// home answers a request whose parameters have no problems.
func home(c *op.Call, h *homeCall) error {
	now, given := c.View().Time(), h.since
	if h.since > now {
		catchUp(c, h.since)
		now = c.View().Time()
	}
	h.prefs.AgentKey = h.key
	if h.prefs.Jobs != nil {
		proof := c.Proof()
		h.prefs.Jobs.By = command.Signature{AgentKey: h.key, Proof: &proof}
		if h.again {
			h.prefs.Jobs.Since = h.since
		}
	}
	switch {
	case h.since == -1:
		h.since = max(0, now-homeDefaultSince)
	case h.since < 0:
		h.since = c.View().Instant(h.since)
	case h.since > max(now, c.Env.Now().UnixMilli())+homeFuture:
		h.notes = append(h.notes, "since lies in the future: nothing can be newer. now is this node's own time; hand it back instead.")
		_, _, err := answerHome(c, h, now)
		return err
	}
	if key := c.BearerKey(); key != "" {
		var err error
		if h.prefs.ByKey, err = c.View().HasKey(h.key, op.HashSecret(key)); err != nil {
			return err
		}
	}
	if h.wait > 0 {
		if err := waitForNews(c, h); err != nil {
			return err
		}
	}
	view := c.View()
	// The key has all that home depends on, except time: the value begins with the instant up to which
	// its tag is valid.
	key := fmt.Appendf(nil, "%s %d %t %s %d %s", h.key, given, h.brief, view.ClusterID(), view.Version(), h.jobs)
	// It has no notes, no preferences, and no default since that moved while the call waited.
	keep := len(c.Notes) == 0 && !h.prefs.ByKey && !h.prefs.OnlyProven && given <= view.Time() && (given >= 0 || h.wait == 0)
	if keep {
		kept, _ := c.Env.HomeTags.Get(key)
		end, tag, known := strings.Cut(kept, " ")
		until, _ := strconv.ParseInt(end, 10, 64) // written below
		if known && view.Time() < until && op.MatchesTag(c.Header(op.HeaderIfNoneMatch), tag) {
			c.HasTag(tag)
			return nil
		}
	}
	tag, until, err := answerHome(c, h, max(h.since, view.Time()))
	if err == nil && keep {
		c.Env.HomeTags.Put(string(key), strconv.FormatInt(until, 10)+" "+tag)
	}
	return err
}

// catchUp waits, for a bounded time, until the local state is as new as a since of another node,
// or until it has all writes that the leader has.
func catchUp(c *op.Call, since int64) {
	c.Release()
	ctx, done := c.Wait(op.WaitTimeout)
	defer done()
	if index, err := c.Env.Backend.ReadIndex(ctx); err == nil && c.Env.Backend.WaitIndex(ctx, index) == nil {
		return
	}
	for c.View().Time() < since {
		next := c.View().Index() + 1
		c.Release()
		if c.Env.Backend.WaitIndex(ctx, next) != nil {
			return
		}
	}
}

// waitForNews waits until news after since concern the agent or a job opens that it wants, the time
// is over, the client leaves, or the node has no room for the wait. It holds no view meanwhile.
func waitForNews(c *op.Call, h *homeCall) error {
	keys := []string{h.key}
	if jobs := h.prefs.Jobs; jobs != nil {
		for tag := range strings.SplitSeq(jobs.TagKey, view.Or) {
			keys = append(keys, state.WatchJobs+tag)
		}
	}
	wake, stop := c.Env.Backend.Watch(keys...)
	defer stop()
	ctx, done := c.Wait(h.wait)
	defer done()
	gone, unwatch := c.WatchClient()
	defer unwatch()
	for {
		has, err := c.NewestView().HasFor(&h.prefs, h.since)
		if err != nil || has {
			return err
		}
		c.Release()
		select {
		case <-wake:
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// answerHome answers with home at the instant now, or with 304 if the client has the same items.
// It returns the entity tag and the end of its validity.
func answerHome(c *op.Call, h *homeCall, now int64) (tag string, until int64, err error) {
	view := c.View()
	home, err := view.Home(&h.prefs, h.since, h.again)
	if err != nil {
		return "", 0, fmt.Errorf("home of %s: %w", h.key, err)
	}
	if home.More {
		now = home.Now
	}
	proof := c.Proof()
	signer, err := view.Signer(command.Signature{AgentKey: h.key, Proof: &proof})
	if err != nil {
		return "", 0, fmt.Errorf("profile of %s: %w", h.key, err)
	}
	if signer.Shown && signer.Strength == command.Unproven {
		h.notes = append(h.notes, write.UnprovenNote(h.agent, signer.Shared || proof.Shared))
	}
	w := homeWriter{
		homeCall: h, view: view, home: home, now: now, note: signer.Note,
		unregistered: !signer.Shown && !h.again && h.key != wire.Anonymous,
	}
	if h.prefs.ByKey {
		if signer.Paused {
			h.notes = append(h.notes, pausedNote)
		}
		if w.hidden, err = view.HiddenOf(h.key, command.MaxOwed); err != nil {
			return "", 0, fmt.Errorf("hidden entries of %s: %w", h.key, err)
		}
	}
	whole, tagged := w.object()
	if w.err != nil {
		return "", 0, fmt.Errorf("show home of %s: %w", h.key, w.err)
	}
	// The tag does not cover the instants, so that a call without news gets the same tag again. It
	// covers the notes about ignored parts of the call.
	sum := sha256.Sum256(tagged.With("notes", c.Notes).AppendJSON(nil))
	if tag = op.TagOf(sum[:]); c.HasTag(tag) {
		return tag, home.Until, nil
	}
	return tag, home.Until, c.AnswerObject(http.StatusOK, whole)
}
