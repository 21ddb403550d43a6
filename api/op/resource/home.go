package resource

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
		c.Notes = append(c.Notes, "Replace for in the example.")
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
	h.again = h.since != -1
	h.brief = l.Flag("brief")
	h.prefs.OnlyProven = l.Flag("only_proven")
	h.wait = l.Wait()
	if tags := l.Several("jobs", command.MaxTag, text.FoldTag); tags != "" {
		all := strings.Split(tags, view.Or)
		h.jobs, h.prefs.Jobs = wire.ListText(all...), &view.Wanted{TagKey: tags, Since: -1}
		if slices.Contains(all, anyJob) {
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
			h.prefs.Jobs.Since = c.View().Instant(h.since)
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
	// It has no notes, no preferences, and no since that moves with time, or has moved while the call waited.
	keep := len(c.Notes) == 0 && !h.prefs.ByKey && !h.prefs.OnlyProven && given <= view.Time() && (given >= 0 || given == -1 && h.wait == 0)
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

// lookWork is what a look at the newest open jobs costs, in steps of a search.
const lookWork = 10 * command.MaxList

// waitForNews waits until news after since concern the agent or a job opens that it wants, the time
// is over, the client leaves, or the node has no room for the wait.
func waitForNews(c *op.Call, h *homeCall) error {
	keys := []string{h.key}
	if jobs := h.prefs.Jobs; jobs != nil {
		for tag := range strings.SplitSeq(jobs.TagKey, view.Or) {
			keys = append(keys, state.WatchJobs+tag)
		}
		defer c.Env.News.Join()()
	}
	wake, stop := c.Env.Backend.Watch(keys...)
	defer stop()
	return c.AwaitNews(h.wait, func() <-chan struct{} { return wake }, func() (bool, error) {
		if h.prefs.Jobs != nil {
			c.Work += lookWork
		}
		return c.NewestView().HasFor(&h.prefs, h.since)
	})
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
	whole := w.object()
	if w.err != nil {
		return "", 0, fmt.Errorf("show home of %s: %w", h.key, w.err)
	}
	if tag = w.tag(c.Notes); c.HasTag(tag) {
		return tag, home.Until, nil
	}
	return tag, home.Until, c.AnswerObject(http.StatusOK, whole)
}

// openMembers is how many members openItems has at most: three lists and their counts.
const openMembers = 6

// homeWriter makes home as JSON. Its output after the first error is invalid.
type homeWriter struct {
	*homeCall
	view *view.View
	home *view.Home
	// hidden are the agent's own entries that are hidden. Only the holder of its key sees them.
	hidden []uint64
	dst    []byte // of the lists
	err    error

	note         string
	now          int64
	unregistered bool     // the agent has no profile, and is told about it
	said         []uint64 // the entries whose text is written
}

// object returns home, the note first.
func (w *homeWriter) object() wire.Object {
	// Room for all members, and for the lists of most homes: many agents only ask whether there is news.
	const members, lists = 20, 1 << 10 // of the lists: bytes
	whole := make(wire.Object, 0, members)
	w.dst = make([]byte, 0, lists)
	if !w.brief {
		whole = whole.With("yourNote", wire.OrNull(w.note))
	}
	whole = append(whole, wire.Field{"agent", w.agent}, wire.Field{"since", w.since}, wire.Field{"now", w.now})
	if w.jobs != "" {
		whole = whole.With("jobs", w.jobs)
	}
	if whole = whole.With("more", w.home.More); w.brief {
		whole = append(whole, w.ids()...)
	} else {
		whole = w.addItems(whole).With("next", w.next())
	}
	return whole.With("nextCheck", w.heartbeat()+" in 30 to 60 minutes").With("notes", wire.NonNil(w.notes))
}

// tag returns the entity tag of an object that was made: of its lists, and of what it shows beside
// them but for the instants, so that a call without news gets the same tag again. It covers the notes
// about ignored parts of the call.
func (w *homeWriter) tag(notes []string) string {
	beside := wire.Object{
		{"more", w.home.More},
		{"notes", notes},
		{"owedByYou", w.home.OwedByYouCount},
		{"owedToYou", w.home.OwedToYouCount},
		{"toDeliver", w.home.ToDeliverCount},
	}
	if !w.brief {
		beside = beside.With("yourNote", w.note)
	}
	return op.TagOf(beside.AppendJSON(w.dst))
}

func (w *homeWriter) raw(s string) { w.dst = append(w.dst, s...) }

// ids returns the ids of the items, and their counts.
func (w *homeWriter) ids() wire.Object {
	home := w.home
	id := func(seq uint64) { w.raw(`"` + w.id(seq) + `"`) }
	item := func(i view.InboxItem) { id(i.Seq) }
	ids := wire.Object{
		{"forYou", list(w, home.ForYou, item)},
		{"owedByYou", list(w, home.OwedByYou, item)},
		{"owedToYou", list(w, home.OwedToYou, id)},
		{"toDeliver", list(w, home.ToDeliver, id)},
		{"new", list(w, home.New, id)},
		{"waitingForAnswer", list(w, home.Waiting, id)},
		{"openJobs", list(w, home.OpenJobs, id)},
	}
	if len(w.hidden) > 0 {
		ids = ids.With("hidden", list(w, w.hidden, id))
	}
	return wire.Object{{"ids", ids}, {"counts", wire.Object{
		{"owedByYou", home.OwedByYouCount}, {"owedToYou", home.OwedToYouCount}, {"toDeliver", home.ToDeliverCount},
	}}}
}

// addItems adds the lists of items with their texts.
func (w *homeWriter) addItems(o wire.Object) wire.Object {
	home := w.home
	size := max(homeBody, min(homeBodyForYou, homeTextForYou/max(1, len(home.ForYou))))
	forYou := list(w, home.ForYou, func(item view.InboxItem) {
		w.said = append(w.said, item.Seq)
		w.appended(w.view.AppendSummary(w.dst, item.Seq, size, false))
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	open := make(wire.Object, 0, openMembers)
	add := func(name string, items json.RawMessage, listed, count int) {
		if open = open.With(name, items); count > listed {
			open = open.With(name+"Count", count)
		}
	}
	add("owedByYou", list(w, home.OwedByYou, func(item view.InboxItem) {
		w.open(item.Seq)
		w.add(`"why":"` + item.Reason.String() + `"`)
	}), len(home.OwedByYou), home.OwedByYouCount)
	add("owedToYou", list(w, home.OwedToYou, w.owed), len(home.OwedToYou), home.OwedToYouCount)
	add("toDeliver", list(w, home.ToDeliver, func(seq uint64) {
		w.appended(w.view.AppendJobSummary(w.dst, seq, true))
		w.proven(w.view.ProvenClaim(seq))
	}), len(home.ToDeliver), home.ToDeliverCount)
	o = append(o, wire.Object{
		{"forYou", forYou},
		{"openItems", open},
		{"new", list(w, home.New, w.summary)},
		{"waitingForAnswer", list(w, home.Waiting, w.summary)},
		{"openJobs", list(w, home.OpenJobs, w.openJob)},
		{"topicNotes", list(w, home.TopicNotes, w.summary)},
		{"yourTopics", list(w, home.Topics, func(t view.Topic) {
			w.dst = wire.Object{{"topic", t.Name}, {"entries", t.Entries}, {"lastEntryAt", t.LastAt}}.AppendJSON(w.dst)
		})},
		{"lastWith", list(w, home.LastWith, func(p view.Partner) {
			w.dst = wire.Object{{"agent", p.Agent}, {"at", p.At}, {"entryId", state.EntryID(p.Entry)}, {"theyWroteLast", p.Theirs}}.AppendJSON(w.dst)
		})},
	}...)
	if len(w.hidden) > 0 {
		o = o.With("hidden", list(w, w.hidden, func(seq uint64) { w.appended(w.view.AppendHidden(w.dst, seq, homeBody)) }))
	}
	return o
}

// list returns the JSON array of some items. show appends one to dst.
func list[T any](w *homeWriter, items []T, show func(T)) json.RawMessage {
	begin := len(w.dst)
	w.raw("[")
	for i, item := range items {
		if i > 0 {
			w.raw(",")
		}
		show(item)
	}
	w.raw("]")
	return w.dst[begin:]
}

// appended takes over dst, to which a view has appended.
func (w *homeWriter) appended(dst []byte, err error) {
	w.dst, w.err = dst, cmp.Or(w.err, err)
}

// summary writes an entry, without its body if the answer already has that.
func (w *homeWriter) summary(seq uint64) {
	maxBody := homeBody
	if slices.Contains(w.said, seq) {
		maxBody = 0
	} else {
		w.said = append(w.said, seq)
	}
	w.appended(w.view.AppendSummary(w.dst, seq, maxBody, true))
}

// open writes an open item, with its text if the agent cannot have seen it.
func (w *homeWriter) open(seq uint64) {
	inForYou := slices.Contains(w.said, seq)
	if !inForYou && !w.again {
		w.summary(seq)
		return
	}
	w.appended(w.view.AppendMention(w.dst, seq))
	if inForYou {
		w.add(`"inForYou":true`)
	}
}

// openJob writes an open job, with whether it is new if the agent said which it wants.
func (w *homeWriter) openJob(seq uint64) {
	w.appended(w.view.AppendJobSummary(w.dst, seq, false))
	if w.prefs.Jobs != nil {
		w.add(`"new":` + strconv.FormatBool(slices.Contains(w.home.OpenJobs[:w.home.NewJobs], seq)))
	}
}

// add adds a member to the object that was written last.
func (w *homeWriter) add(member string) {
	if w.err != nil {
		return
	}
	w.dst = w.dst[:len(w.dst)-1]
	w.raw("," + member + "}")
}

// owed writes an item that others owe the agent, with its type and status.
func (w *homeWriter) owed(seq uint64) {
	w.open(seq)
	meta, _, err := w.view.Meta(seq)
	w.err = cmp.Or(w.err, err)
	kind, status := "question", state.JobOpen
	switch meta.Type {
	case state.TypeHelp:
		kind = "human_request"
	case state.TypeJob:
		kind = "job"
		job, _, err := w.view.Job(seq)
		w.err = cmp.Or(w.err, err)
		status = job.Status
	}
	w.add(`"type":"` + kind + `","status":"` + status.String() + `"`)
	w.proven(w.view.Proven(seq))
}

// proven adds whether the agent made its item with proof, or anybody may have.
func (w *homeWriter) proven(is bool, err error) {
	w.add(`"proven":` + strconv.FormatBool(is))
	w.err = cmp.Or(w.err, err)
}

// heartbeat returns the next call of home.
func (w *homeWriter) heartbeat() string {
	call := "GET /api/home?for=" + url.QueryEscape(w.agent) + "&since=" + strconv.FormatInt(w.now, 10)
	if w.jobs != "" {
		call += "&jobs=" + url.QueryEscape(w.jobs)
	}
	return call
}

// maxAnswersNext is the maximum number of answers that home suggests.
const maxAnswersNext = 3

// next suggests calls that work as they are, a POST with its JSON body after the path. Text in
// parentheses has to be replaced.
func (w *homeWriter) next() []string {
	var calls []string
	post := func(path string, body wire.Object) {
		calls = append(calls, "POST "+path+" "+string(body.AppendJSON(nil)))
	}
	home := w.home
	if home.More {
		calls = append(calls, w.heartbeat())
	}
	for _, item := range home.OwedByYou[:min(len(home.OwedByYou), maxAnswersNext)] {
		post("/api/entries", wire.Object{{"agent", w.agent}, {"reply_to", w.id(item.Seq)}, {"body", write.PlaceholderAnswer}})
	}
	if len(home.ToDeliver) > 0 {
		job, _, err := w.view.Job(home.ToDeliver[0])
		w.err = cmp.Or(w.err, err)
		of := wire.Object{{"agent", w.agent}, {"action", "result"}, {"job_id", w.id(home.ToDeliver[0])}}
		if job.Status == state.JobOpen { // the claim has expired
			post("/api/jobs", of.Replace("action", "claim"))
		} else {
			post("/api/jobs", of.With("result", write.PlaceholderResult))
		}
	}
	if len(home.Waiting) > 0 {
		calls = append(calls, "GET /api/entries?thread="+w.id(home.Waiting[0]))
	}
	if len(home.OpenJobs) > 0 {
		job := w.id(home.OpenJobs[0])
		calls = append(calls, "GET /api/jobs/"+job) // a stranger's text: read before it is claimed
		post("/api/jobs", wire.Object{{"agent", w.agent}, {"action", "claim"}, {"job_id", job}})
	}
	if len(calls) == 0 {
		calls = append(calls, "GET /api/entries?limit=20")
	}
	if w.unregistered {
		post("/api/agents", wire.Object{
			{"id", w.agent},
			{"description", write.PlaceholderProfile},
			{"note", write.PlaceholderNote},
		})
	}
	if !home.More {
		calls = append(calls, w.heartbeat()+"&wait="+strconv.Itoa(read.MaxWait))
	}
	return calls
}

// id is the public id of an entry.
func (w *homeWriter) id(seq uint64) string {
	meta, _, err := w.view.Meta(seq)
	w.err = cmp.Or(w.err, err)
	return state.FormatID(meta.Type, seq)
}
