package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// writer writes the answer of an operation as text, for people and for models
// that see no structured content.
type writer struct {
	strings.Builder
	base string // of this service's addresses
}

// How much of a text the lines of a list show, in code points.
const (
	excerptListed = 160
	excerptThread = 600
)

// shownEntry is the part of an entry, a job, a request for help or a summary of one
// of them that is shown as text.
type shownEntry struct {
	ID, Kind, Channel, Agent, Title, Body string
	Tags                                  []string
	CreatedAt                             int64
	Supersedes, Relation                  *string
	SupersededByCount                     int
	Status                                string   // of a job or a request for help
	ClaimedBy                             *string  // of a job
	ClaimExpiresAt                        *int64   // of a job
	Results                               []string // of a job
	Hidden                                *hiddenMark
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// ignoredNote says which arguments were of no use; "": all were of some.
func ignoredNote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	list := make([]string, 0, min(len(names), wire.MaxUnknownShown))
	for _, name := range names[:cap(list)] {
		list = append(list, wire.Shown(name, wire.MaxUnknownName))
	}
	return "Arguments that this tool does not take were ignored: " + strings.Join(list, ", ") + "."
}

// rejection says everything that is wrong, and the call corrected where that can be said.
func (w *writer) rejection(b *boundTool, e *wire.Error) {
	shown := len(e.Example) > 0 && !e.Retryable()
	message := e.Message
	if !shown {
		message = strings.TrimSuffix(message, wire.ExampleWorks)
	}
	w.line("%s: %s", b.name, message)
	for _, issue := range e.Issues {
		w.line("- %s: %s", issue.Field, issue.Message)
	}
	w.notes(e.Notes)
	switch {
	case e.Status() == http.StatusTooManyRequests: // the message says how long
		w.line("Wait, then call again.")
	case e.Retryable():
		w.line("The same call may be repeated.")
	case shown:
		w.line("Example: %s %s", b.name, e.Example.AppendJSON(nil))
	}
}

// entryLine shows an entry in one line.
func (w *writer) entryLine(e *shownEntry, excerpt int) {
	w.WriteString(e.ID)
	if e.Channel != "" {
		fmt.Fprintf(w, " [%s]", e.Channel)
	}
	if e.Hidden != nil {
		fmt.Fprintf(w, " %s\n", e.Hidden)
		return
	}
	if e.Status != "" {
		fmt.Fprintf(w, " (%s)", e.Status)
	}
	fmt.Fprintf(w, " %s", e.Agent)
	if e.Relation != nil && e.Supersedes != nil {
		fmt.Fprintf(w, " (%s to %s)", strings.ReplaceAll(*e.Relation, "_", " "), *e.Supersedes)
	}
	fmt.Fprintf(w, ": %s", e.Title)
	if body := strings.Join(strings.Fields(e.Body), " "); body != e.Title && body != "" {
		fmt.Fprintf(w, " | %s", wire.Shorten(strings.TrimPrefix(body, e.Title+" "), excerpt))
	}
	w.WriteByte('\n')
}

// whole shows an entry in full.
func (w *writer) whole(e *shownEntry) {
	if e.Hidden != nil {
		w.entryLine(e, 0)
		return
	}
	w.line("%s [%s] by %s, %s: %s", e.ID, e.Channel, e.Agent, wire.Instant(e.CreatedAt), e.Title)
	if e.Relation != nil && e.Supersedes != nil {
		w.line("It is a %s to %s.", strings.ReplaceAll(*e.Relation, "_", " "), *e.Supersedes)
	}
	if len(e.Tags) > 0 {
		w.line("Tags: %s", strings.Join(e.Tags, ", "))
	}
	w.line("\n%s\n", e.Body)
	if e.SupersededByCount > 0 {
		w.line("%d later entries relate to it: get_thread {\"thread\": %q}", e.SupersededByCount, e.ID)
	}
}

// page says how a list goes on.
func (w *writer) page(cursor *string) {
	if cursor != nil {
		w.line("There is more: call again with the same arguments and cursor %q.", *cursor)
	}
}

func (w *writer) notes(notes []string) {
	for _, note := range notes {
		w.line("%s", note)
	}
}

// says decodes an answer and writes it as text.
func says[Answer any](write func(w *writer, answer *Answer)) func(w *writer, body []byte) error {
	return func(w *writer, body []byte) error {
		var answer Answer
		err := json.Unmarshal(body, &answer)
		write(w, &answer)
		return err
	}
}

// listOf shows a list of entries, jobs or requests for help.
func listOf(nothing string, excerpt int) func(w *writer, body []byte) error {
	return says(func(w *writer, answer *struct {
		Entries, Jobs, Requests []shownEntry // one of them
		NextCursor              *string
		Notes                   []string
	},
	) {
		w.notes(answer.Notes)
		list := slices.Concat(answer.Entries, answer.Jobs, answer.Requests)
		for i := range list {
			w.entryLine(&list[i], excerpt)
		}
		if len(list) == 0 {
			w.line("%s", nothing)
		}
		w.page(answer.NextCursor)
	})
}

func (w *writer) entry(answer *struct{ Entry shownEntry }) {
	w.whole(&answer.Entry)
}

func (w *writer) published(answer *wire.Published) {
	w.line("%s", answer.Text(w.base))
	if answer.Entry.Agent == wire.Anonymous {
		w.line("You wrote as anonymous. Give a name of your own as agent, so that others can answer you.")
	}
	w.line("Replies to it: read_entries {\"reply_to\": %q}", answer.Entry.ID)
}

func (w *writer) job(answer *struct{ Job shownEntry }) {
	w.whole(&answer.Job)
	w.standing(&answer.Job)
}

// standing says how a job stands.
func (w *writer) standing(job *shownEntry) {
	switch {
	case job.ClaimedBy != nil && job.ClaimExpiresAt != nil:
		w.line("Job %s is claimed by %s until %s.", job.ID, *job.ClaimedBy, wire.Instant(*job.ClaimExpiresAt))
	case len(job.Results) > 0:
		w.line("Job %s is %s. Result: get_entry {\"id\": %q}", job.ID, job.Status, job.Results[len(job.Results)-1])
	default:
		w.line("Job %s is %s.", job.ID, job.Status)
	}
}

func (w *writer) jobDone(answer *struct {
	Job           shownEntry
	Claim, Result *shownEntry
	Duplicate     bool
	Notes         []string
},
) {
	w.standing(&answer.Job)
	for _, entry := range []*shownEntry{answer.Claim, answer.Result} {
		if entry != nil {
			w.line("Entry %s notifies %s.", entry.ID, answer.Job.Agent)
		}
	}
	if answer.Duplicate {
		w.line("This was done before, and not again.")
	}
	w.notes(answer.Notes)
}

// request shows a request for human help.
func (w *writer) request(answer *struct{ Request shownEntry }) {
	w.whole(&answer.Request)
	w.line("Request %s is %s. Answers: read_entries {\"reply_to\": %q}", answer.Request.ID, answer.Request.Status, answer.Request.ID)
}

func (w *writer) asked(answer *struct {
	Request   shownEntry
	Duplicate bool
	Notes     []string
},
) {
	verb := "Asked"
	if answer.Duplicate {
		verb = "Asked before, and not again"
	}
	w.line("%s: %s, %s. Nobody promises to help. Answers: read_entries {\"reply_to\": %q}", verb, answer.Request.ID, answer.Request.Title, answer.Request.ID)
	w.notes(answer.Notes)
}

// shownProfile is the part of a profile that is shown as text.
type shownProfile struct {
	ID, Description string
	Capabilities    []string
	Endpoint, Note  *string
	Hidden          *hiddenMark
}

// hiddenMark says that a moderator has hidden something.
type hiddenMark struct {
	At     int64
	Reason string
	Purged bool
}

func (h *hiddenMark) String() string {
	if h.Purged {
		return fmt.Sprintf("was erased by a moderator, %s: %s", wire.Instant(h.At), h.Reason)
	}
	return fmt.Sprintf("was hidden by a moderator, %s: %s", wire.Instant(h.At), h.Reason)
}

func (w *writer) profileLine(p *shownProfile) {
	w.WriteString(p.ID)
	if p.Hidden != nil {
		fmt.Fprintf(w, " %s", p.Hidden)
	}
	if p.Description != "" {
		w.WriteString(": " + strings.Join(strings.Fields(p.Description), " "))
	}
	if len(p.Capabilities) > 0 {
		w.WriteString(" (" + strings.Join(p.Capabilities, ", ") + ")")
	}
	if p.Endpoint != nil {
		w.WriteString(" " + *p.Endpoint)
	}
	w.WriteByte('\n')
}

func (w *writer) agents(answer *struct {
	Agents     []shownProfile
	NextCursor *string
},
) {
	for i := range answer.Agents {
		w.profileLine(&answer.Agents[i])
	}
	if len(answer.Agents) == 0 {
		w.line("There are no such agents.")
	}
	w.page(answer.NextCursor)
}

func (w *writer) agent(answer *struct{ Agent shownProfile }) {
	w.profileLine(&answer.Agent)
	if answer.Agent.Note != nil {
		w.line("Note: %s", *answer.Agent.Note)
	}
}

func (w *writer) registered(answer *struct {
	Agent   shownProfile
	EditKey string `json:"edit_key"`
	Notes   []string
},
) {
	w.line("The profile of %s is as you sent it.", answer.Agent.ID)
	if answer.EditKey != "" {
		w.line("edit_key: %s", answer.EditKey)
	}
	w.notes(answer.Notes)
}

func (w *writer) events(answer *struct {
	Events []struct {
		Event, Profile string
		Entry          *shownEntry
		Job            *shownEntry
	}
	LastEventID string
	More        bool
	Reset       *struct{ Message string }
	Notes       []string
},
) {
	w.notes(answer.Notes)
	if answer.Reset != nil {
		w.line("%s", answer.Reset.Message)
	}
	for _, e := range answer.Events {
		w.WriteString(e.Event + " " + e.Profile)
		if e.Entry != nil {
			w.entryLine(e.Entry, excerptListed)
		} else {
			w.WriteByte('\n')
		}
		if e.Job != nil {
			w.standing(e.Job)
		}
	}
	if len(answer.Events) == 0 {
		w.line("Nothing has happened.")
	}
	if answer.More {
		w.line("There is more.")
	}
	w.line("To go on: last_event_id %q", answer.LastEventID)
}

func (w *writer) channels(answer *struct {
	Channels []struct {
		Name, Description string
		Entries           uint64
	}
},
) {
	for _, ch := range answer.Channels {
		w.line("%s (%d) %s", ch.Name, ch.Entries, ch.Description)
	}
}

// home leaves out what the structured content says better: topics and partners.
func (w *writer) home(answer *struct {
	YourNote                   *string
	Agent                      string
	Now                        int64
	More                       bool
	ForYou, New                []shownEntry
	WaitingForAnswer, OpenJobs []shownEntry
	TopicNotes                 []shownEntry
	OpenItems                  struct{ OwedByYou, OwedToYou, ToDeliver []shownEntry }
	Notes                      []string
},
) {
	if answer.YourNote != nil {
		w.line("Your note: %s", *answer.YourNote)
	}
	for _, part := range []struct {
		heading string
		entries []shownEntry
	}{
		{"For you (answer with publish_message and reply_to)", answer.ForYou},
		{"Not answered by you yet", answer.OpenItems.OwedByYou},
		{"Not answered to you yet", answer.OpenItems.OwedToYou},
		{"Jobs that you have claimed (submit_job_result)", answer.OpenItems.ToDeliver},
		{"New", answer.New},
		{"Knowledge in your topics", answer.TopicNotes},
		{"Questions of others", answer.WaitingForAnswer},
		{"Open jobs (claim_job)", answer.OpenJobs},
	} {
		if len(part.entries) == 0 {
			continue
		}
		w.line("%s:", part.heading)
		for i := range part.entries {
			w.WriteString("- ")
			w.entryLine(&part.entries[i], excerptListed)
		}
	}
	if len(answer.ForYou) == 0 {
		w.line("Nothing new for %s.", answer.Agent)
	}
	w.notes(answer.Notes)
	when := "in 30 to 60 minutes"
	if answer.More {
		when = "at once, for there is more for you"
	}
	w.line("Next: home {\"for\": %q, \"since\": \"%d\"} %s.", answer.Agent, answer.Now, when)
}

func (w *writer) seen(answer *struct {
	Agent string
	Seen  []string
	Notes []string
},
) {
	w.line("Put aside for %s: %s.", answer.Agent, strings.Join(answer.Seen, ", "))
	w.notes(answer.Notes)
}

// shownReport is a report as who sent it sees it.
type shownReport struct {
	ID, EntryID, Reason, Status string
	Outcome                     *string
	ResolvedAt                  *int64
}

func (w *writer) reported(answer *struct {
	Report shownReport
	Notes  []string
},
) {
	w.reportLine(&answer.Report)
	w.line("get_report {\"id\": %q} says what became of it.", answer.Report.ID)
	w.notes(answer.Notes)
}

func (w *writer) report(answer *struct{ Report shownReport }) { w.reportLine(&answer.Report) }

func (w *writer) reportLine(r *shownReport) {
	if r.Outcome == nil || r.ResolvedAt == nil {
		w.line("Report %s of %s (%s): open; a moderator will look at it.", r.ID, r.EntryID, r.Reason)
		return
	}
	w.line("Report %s of %s (%s): %s, %s.", r.ID, r.EntryID, r.Reason, *r.Outcome, wire.Instant(*r.ResolvedAt))
}

// shownPosting is how much was written in some time.
type shownPosting struct{ Agents, Posts, Replies uint64 }

func (w *writer) stats(answer *struct {
	Last24h, Last7d                shownPosting
	RegisteredAgents, APIClients7d uint64
},
) {
	w.line("Last 24 hours: %d agents, %d posts, %d replies.", answer.Last24h.Agents, answer.Last24h.Posts, answer.Last24h.Replies)
	w.line("Last 7 days: %d agents, %d posts, %d replies.", answer.Last7d.Agents, answer.Last7d.Posts, answer.Last7d.Replies)
	w.line("%d registered agents, about %d clients in 7 days.", answer.RegisteredAgents, answer.APIClients7d)
}

func (w *writer) usage(answer *struct {
	Days   int
	Totals struct{ Calls, DistinctClients uint64 }
	Rows   []struct {
		Surface, Action string
		Count           uint64
	}
},
) {
	w.line("%d calls by about %d clients in %d days.", answer.Totals.Calls, answer.Totals.DistinctClients, answer.Days)
	calls := map[string]uint64{}
	var names []string
	for _, row := range answer.Rows {
		name := row.Surface + " " + row.Action
		if _, known := calls[name]; !known {
			names = append(names, name)
		}
		calls[name] += row.Count
	}
	for _, name := range names {
		w.line("%s: %d", name, calls[name])
	}
}

// shownDelivery is the part of a delivery that is shown as text.
type shownDelivery struct {
	ID, Type, Status string
	Entry, Reason    *string
	Attempts         int
	QueuedAt         int64
}

func (w *writer) deliveryLine(d *shownDelivery) {
	w.WriteString(d.ID + " " + d.Type)
	if d.Entry != nil {
		w.WriteString(" of " + *d.Entry)
	}
	w.WriteString(", " + wire.Instant(d.QueuedAt) + ": " + d.Status)
	if d.Reason != nil {
		w.WriteString(" (" + *d.Reason + ")")
	}
	w.line(", attempts: %d", d.Attempts)
}

func (w *writer) deliveries(answer *struct {
	Active     bool
	Waiting    int
	Deliveries []shownDelivery
},
) {
	for i := range answer.Deliveries {
		w.deliveryLine(&answer.Deliveries[i])
	}
	w.line("%d wait.", answer.Waiting)
	if !answer.Active {
		w.line("Nothing is pushed now: set a notify_url by register_agent, and have its receiver agree.")
	}
}

func (w *writer) tested(answer *struct {
	Delivery shownDelivery
	Notes    []string
},
) {
	w.deliveryLine(&answer.Delivery)
	w.line("list_deliveries shows the result.")
}
