package resource

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// homeWriter writes home as JSON. Its output after the first error is invalid.
type homeWriter struct {
	*homeCall
	dst  []byte
	view *view.View
	home *view.Home
	// hidden are the agent's own entries that are hidden. Only the holder of its key sees them.
	hidden []uint64
	err    error

	note         string
	now          int64
	unregistered bool     // the agent has no profile, and is told about it
	said         []uint64 // the entries whose text is written

	// The positions of the parts that the entity tag covers.
	noteEnd, itemsStart, itemsEnd int
}

// write writes the whole object, the note first.
func (w *homeWriter) write() {
	switch {
	case w.brief:
		w.raw(`{`)
	case w.note == "":
		w.raw(`{"yourNote":null,`)
	default:
		w.dst = append(wire.AppendJSON(append(w.dst, `{"yourNote":`...), w.note), ',')
	}
	w.noteEnd = len(w.dst)
	w.raw(`"agent":`)
	w.dst = wire.AppendJSON(w.dst, w.agent)
	w.number(`,"since":`, w.since)
	w.number(`,"now":`, w.now)
	w.itemsStart = len(w.dst)
	w.raw(`,"more":`)
	w.dst = strconv.AppendBool(w.dst, w.home.More)
	if w.brief {
		w.ids()
		w.itemsEnd = len(w.dst)
	} else {
		w.items()
		w.itemsEnd = len(w.dst)
		w.raw(`,"next":`)
		w.dst = wire.AppendJSON(w.dst, w.next())
	}
	w.raw(`,"nextCheck":`)
	w.dst = wire.AppendJSON(w.dst, w.heartbeat()+" in 30 to 60 minutes")
	w.raw(`,"notes":`)
	w.dst = append(wire.AppendJSON(w.dst, append([]string{}, w.notes...)), '}')
}

func (w *homeWriter) raw(s string) { w.dst = append(w.dst, s...) }

// number writes a member that is a number.
func (w *homeWriter) number(name string, n int64) {
	w.raw(name)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

// ids writes the ids of the items, and their counts.
func (w *homeWriter) ids() {
	home := w.home
	id := func(seq uint64) { w.raw(`"` + w.id(seq) + `"`) }
	item := func(i view.InboxItem) { id(i.Seq) }
	list(w, `,"ids":{"forYou":`, home.ForYou, item)
	list(w, `,"owedByYou":`, home.OwedByYou, item)
	list(w, `,"owedToYou":`, home.OwedToYou, id)
	list(w, `,"toDeliver":`, home.ToDeliver, id)
	list(w, `,"new":`, home.New, id)
	list(w, `,"waitingForAnswer":`, home.Waiting, id)
	list(w, `,"openJobs":`, home.OpenJobs, id)
	if len(w.hidden) > 0 {
		list(w, `,"hidden":`, w.hidden, id)
	}
	w.number(`},"counts":{"owedByYou":`, int64(home.OwedByYouCount))
	w.number(`,"owedToYou":`, int64(home.OwedToYouCount))
	w.number(`,"toDeliver":`, int64(home.ToDeliverCount))
	w.raw("}")
}

// items writes everything that the entity tag covers, except the note.
func (w *homeWriter) items() {
	home := w.home
	forYou := max(homeBody, min(homeBodyForYou, homeTextForYou/max(1, len(home.ForYou))))
	list(w, `,"forYou":`, home.ForYou, func(item view.InboxItem) {
		w.said = append(w.said, item.Seq)
		w.keep(w.view.AppendSummary(w.dst, item.Seq, forYou, false))
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	list(w, `,"openItems":{"owedByYou":`, home.OwedByYou, func(item view.InboxItem) {
		w.open(item.Seq)
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	count(w, `,"owedByYouCount":`, home.OwedByYouCount, home.OwedByYou)
	list(w, `,"owedToYou":`, home.OwedToYou, w.owed)
	count(w, `,"owedToYouCount":`, home.OwedToYouCount, home.OwedToYou)
	list(w, `,"toDeliver":`, home.ToDeliver, func(seq uint64) {
		w.job(seq, true)
		w.proven(w.view.ProvenClaim(seq))
	})
	count(w, `,"toDeliverCount":`, home.ToDeliverCount, home.ToDeliver)
	list(w, `},"new":`, home.New, w.summary)
	list(w, `,"waitingForAnswer":`, home.Waiting, w.summary)
	list(w, `,"openJobs":`, home.OpenJobs, func(seq uint64) { w.job(seq, false) })
	list(w, `,"topicNotes":`, home.TopicNotes, w.summary)
	list(w, `,"yourTopics":`, home.Topics, w.topic)
	list(w, `,"lastWith":`, home.LastWith, w.partner)
	if len(w.hidden) > 0 {
		list(w, `,"hidden":`, w.hidden, func(seq uint64) { w.keep(w.view.AppendHidden(w.dst, seq, homeBody)) })
	}
}

// list writes a member that is an array.
func list[T any](w *homeWriter, name string, items []T, show func(T)) {
	w.raw(name)
	w.raw("[")
	for i, item := range items {
		if i > 0 {
			w.raw(",")
		}
		show(item)
	}
	w.raw("]")
}

// count writes how many items a list has, if not all of them are shown.
func count[T any](w *homeWriter, name string, n int, items []T) {
	if n > len(items) {
		w.number(name, int64(n))
	}
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

func (w *homeWriter) topic(t view.Topic) {
	w.dst = wire.Object{{"topic", t.Name}, {"entries", t.Entries}, {"lastEntryAt", t.LastEntryAt}}.AppendJSON(w.dst)
}

func (w *homeWriter) partner(p view.Partner) {
	w.dst = wire.Object{{"agent", p.Agent}, {"at", p.At}, {"entryId", state.EntryID(p.Entry)}, {"theyWroteLast", p.Theirs}}.AppendJSON(w.dst)
}

// heartbeat returns the next call of home.
func (w *homeWriter) heartbeat() string {
	return "GET /api/home?for=" + url.QueryEscape(w.agent) + "&since=" + strconv.FormatInt(w.now, 10)
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
