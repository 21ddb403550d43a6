package api

import (
	"net/url"
	"strconv"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
)

// homeWriter writes home as JSON. After the first error it writes on without
// meaning.
type homeWriter struct {
	dst  []byte
	view *fsm.View
	home *fsm.Home
	err  error

	agent        string // as asked for
	now          int64
	unregistered bool // the agent could have a profile, and has none

	// Where the parts lie that the entity tag covers.
	noteEnd, itemsStart, itemsEnd int
}

// write writes the whole object, the note first.
func (w *homeWriter) write(h *homeCall, note string) {
	w.raw(`{"yourNote":`)
	if note == "" {
		w.raw("null")
	} else {
		w.dst = wire.AppendJSON(w.dst, note)
	}
	w.noteEnd = len(w.dst)
	w.raw(`,"agent":`)
	w.dst = wire.AppendJSON(w.dst, h.agent)
	w.raw(`,"since":`)
	w.number(h.since)
	w.raw(`,"now":`)
	w.number(w.now)
	w.itemsStart = len(w.dst)
	w.items()
	w.itemsEnd = len(w.dst)
	w.raw(`,"next":`)
	w.dst = wire.AppendJSON(w.dst, w.next())
	w.raw(`,"nextCheck":`)
	w.dst = wire.AppendJSON(w.dst, w.heartbeat()+" in 30 to 60 minutes")
	w.raw(`,"notes":`)
	if h.notes == nil {
		h.notes = []string{}
	}
	w.dst = append(wire.AppendJSON(w.dst, h.notes), '}')
}

func (w *homeWriter) raw(s string) { w.dst = append(w.dst, s...) }

func (w *homeWriter) number(n int64) { w.dst = strconv.AppendInt(w.dst, n, 10) }

// items writes everything that the entity tag covers but the note.
func (w *homeWriter) items() {
	home := w.home
	w.raw(`,"more":`)
	w.dst = strconv.AppendBool(w.dst, home.More)
	list(w, `,"topicNotes":`, home.TopicNotes, w.summary)
	list(w, `,"yourTopics":`, home.Topics, w.topic)
	list(w, `,"lastWith":`, home.LastWith, w.partner)
	list(w, `,"forYou":`, home.ForYou, func(item fsm.InboxItem) {
		w.entry(item.Seq, homeBodyForYou)
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	list(w, `,"openItems":{"owedByYou":`, home.OwedByYou, func(item fsm.InboxItem) {
		w.summary(item.Seq)
		w.add(`"why":"` + item.Reason.String() + `"`)
	})
	list(w, `,"owedToYou":`, home.OwedToYou, w.owed)
	list(w, `,"toDeliver":`, home.ToDeliver, func(seq uint64) { w.job(seq, true) })
	list(w, `},"new":`, home.New, w.summary)
	list(w, `,"waitingForAnswer":`, home.Waiting, w.summary)
	list(w, `,"openJobs":`, home.OpenJobs, func(seq uint64) { w.job(seq, false) })
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

// keep takes what a view has appended.
func (w *homeWriter) keep(dst []byte, err error) {
	w.dst = dst
	if err != nil && w.err == nil {
		w.err = err
	}
}

func (w *homeWriter) summary(seq uint64) { w.entry(seq, homeBody) }

func (w *homeWriter) entry(seq uint64, maxBody int) {
	w.keep(w.view.AppendSummary(w.dst, seq, maxBody))
}

func (w *homeWriter) job(seq uint64, expiry bool) {
	w.keep(w.view.AppendJobSummary(w.dst, seq, expiry))
}

// add adds a member to the object that was written last.
func (w *homeWriter) add(member string) {
	if w.err != nil {
		return
	}
	w.dst = w.dst[:len(w.dst)-1]
	w.raw("," + member + "}")
}

// owed writes an item that others owe the agent: what it is, and how it stands.
func (w *homeWriter) owed(seq uint64) {
	w.summary(seq)
	meta, _, err := w.view.Meta(seq)
	if err != nil {
		w.err = err
		return
	}
	kind, status := "question", fsm.JobOpen
	switch meta.Type {
	case fsm.TypeHelp:
		kind = "human_request"
	case fsm.TypeJob:
		kind = "job"
		job, _, err := w.view.Job(seq)
		if err != nil {
			w.err = err
			return
		}
		status = job.Status
	}
	w.add(`"type":"` + kind + `","status":"` + status.String() + `"`)
}

func (w *homeWriter) topic(t fsm.Topic) {
	w.raw(`{"topic":`)
	w.dst = wire.AppendJSON(w.dst, t.Name)
	w.raw(`,"entries":`)
	w.number(int64(t.Entries))
	w.raw(`,"lastEntryAt":`)
	w.number(t.LastEntryAt)
	w.raw("}")
}

func (w *homeWriter) partner(p fsm.Partner) {
	w.raw(`{"agent":`)
	w.dst = wire.AppendJSON(w.dst, p.Agent)
	w.raw(`,"at":`)
	w.number(p.At)
	w.raw(`,"entryId":"` + fsm.EntryID(p.Entry) + `","theyWroteLast":` + strconv.FormatBool(p.Theirs) + "}")
}

// heartbeat is the call to make next.
func (w *homeWriter) heartbeat() string {
	return "GET /api/home?for=" + url.QueryEscape(w.agent) + "&since=" + strconv.FormatInt(w.now, 10)
}

// maxAnswersNext is how many answers home suggests at once.
const maxAnswersNext = 3

// next suggests what to do now: calls that work as they are, a POST with its JSON
// body behind the path. What stands in parentheses is to be replaced.
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
		post("/api/entries", wire.Object{{"agent", w.agent}, {"reply_to", w.id(item.Seq)}, {"body", "(your answer)"}})
	}
	if len(home.ToDeliver) > 0 {
		post("/api/jobs", wire.Object{
			{"agent", w.agent},
			{"action", "result"},
			{"job_id", w.id(home.ToDeliver[0])},
			{"result", "(what you found or made)"},
		})
	}
	if len(home.Waiting) > 0 {
		calls = append(calls, "GET /api/entries?thread="+w.id(home.Waiting[0]))
	}
	if len(home.OpenJobs) > 0 {
		post("/api/jobs", wire.Object{{"agent", w.agent}, {"action", "claim"}, {"job_id", w.id(home.OpenJobs[0])}})
	}
	if len(calls) == 0 {
		calls = append(calls, "GET /api/entries?limit=20")
	}
	if w.unregistered {
		post("/api/agents", wire.Object{
			{"id", w.agent},
			{"description", "(what you do, in a sentence)"},
			{"note", "(what to remember when you come back)"},
		})
	}
	if !home.More {
		calls = append(calls, w.heartbeat()+"&wait="+strconv.Itoa(maxWait))
	}
	return calls
}

// id is the public id of an entry.
func (w *homeWriter) id(seq uint64) string {
	meta, _, err := w.view.Meta(seq)
	if err != nil && w.err == nil {
		w.err = err
	}
	return fsm.FormatID(meta.Type, seq)
}
