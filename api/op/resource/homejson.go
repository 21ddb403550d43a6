package resource

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

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

// object returns home, the note first, and the part of it that the entity tag covers.
func (w *homeWriter) object() (whole, tagged wire.Object) {
	note, items := wire.Object{{"yourNote", wire.OrNull(w.note)}}, w.items
	if w.brief {
		note, items = nil, w.ids
	}
	shown := append(wire.Object{{"more", w.home.More}}, items()...)
	head := wire.Object{{"agent", w.agent}, {"since", w.since}, {"now", w.now}}
	if w.jobs != "" {
		head = head.With("jobs", w.jobs)
	}
	whole = slices.Concat(note, head, shown)
	if !w.brief {
		whole = whole.With("next", w.next())
	}
	return append(whole, wire.Object{
		{"nextCheck", w.heartbeat() + " in 30 to 60 minutes"}, {"notes", wire.NonNil(w.notes)},
	}...), slices.Concat(note, shown)
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

// items returns everything that the entity tag covers, except the note.
func (w *homeWriter) items() wire.Object {
	home := w.home
	size := max(homeBody, min(homeBodyForYou, homeTextForYou/max(1, len(home.ForYou))))
	forYou := list(w, home.ForYou, func(item view.InboxItem) {
		w.said = append(w.said, item.Seq)
		w.keep(w.view.AppendSummary(w.dst, item.Seq, size, false))
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	var open wire.Object
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
		w.job(seq, true)
		w.proven(w.view.ProvenClaim(seq))
	}), len(home.ToDeliver), home.ToDeliverCount)
	items := wire.Object{
		{"forYou", forYou},
		{"openItems", open},
		{"new", list(w, home.New, w.summary)},
		{"waitingForAnswer", list(w, home.Waiting, w.summary)},
		{"openJobs", list(w, home.OpenJobs, w.openJob)},
		{"topicNotes", list(w, home.TopicNotes, w.summary)},
		{"yourTopics", list(w, home.Topics, func(t view.Topic) {
			w.dst = wire.Object{{"topic", t.Name}, {"entries", t.Entries}, {"lastEntryAt", t.LastEntryAt}}.AppendJSON(w.dst)
		})},
		{"lastWith", list(w, home.LastWith, func(p view.Partner) {
			w.dst = wire.Object{{"agent", p.Agent}, {"at", p.At}, {"entryId", state.EntryID(p.Entry)}, {"theyWroteLast", p.Theirs}}.AppendJSON(w.dst)
		})},
	}
	if len(w.hidden) > 0 {
		items = items.With("hidden", list(w, w.hidden, func(seq uint64) { w.keep(w.view.AppendHidden(w.dst, seq, homeBody)) }))
	}
	return items
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

// keep takes the output of a view.
func (w *homeWriter) keep(dst []byte, err error) {
	w.dst = dst
	if err != nil && w.err == nil {
		w.err = err
	}
}

// summary writes an entry, without its body if the answer already has that.
func (w *homeWriter) summary(seq uint64) {
	maxBody := homeBody
	if slices.Contains(w.said, seq) {
		maxBody = 0
	} else {
		w.said = append(w.said, seq)
	}
	w.keep(w.view.AppendSummary(w.dst, seq, maxBody, true))
}

// open writes an open item, with its text if the agent cannot have seen it.
func (w *homeWriter) open(seq uint64) {
	inForYou := slices.Contains(w.said, seq)
	if !inForYou && !w.again {
		w.summary(seq)
		return
	}
	w.keep(w.view.AppendMention(w.dst, seq))
	if inForYou {
		w.add(`"inForYou":true`)
	}
}

func (w *homeWriter) job(seq uint64, held bool) {
	w.keep(w.view.AppendJobSummary(w.dst, seq, held))
}

// openJob writes an open job, with whether it is new if the agent said which it wants.
func (w *homeWriter) openJob(seq uint64) {
	w.job(seq, false)
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
	if err != nil {
		w.err = err
		return
	}
	kind, status := "question", state.JobOpen
	switch meta.Type {
	case state.TypeHelp:
		kind = "human_request"
	case state.TypeJob:
		kind = "job"
		job, _, err := w.view.Job(seq)
		if err != nil {
			w.err = err
			return
		}
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
		post("/api/jobs", wire.Object{
			{"agent", w.agent},
			{"action", "result"},
			{"job_id", w.id(home.ToDeliver[0])},
			{"result", write.PlaceholderResult},
		})
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
	if err != nil && w.err == nil {
		w.err = err
	}
	return state.FormatID(meta.Type, seq)
}
