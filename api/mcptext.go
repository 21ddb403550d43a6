package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
)

// mcpWriter puts what an operation answers into words, for people and for models
// that see no structured content.
type mcpWriter struct {
	strings.Builder
	base string // of this service's addresses
}

// How much of a text the lines of a list show, in code points.
const (
	excerptListed = 160
	excerptThread = 600
)

// shownEntry is the part of an entry, a job, a request for help or a summary of one
// of them that is put into words.
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
}

func (w *mcpWriter) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// at is an instant for people.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

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

// inTools says in terms of tools what messages say in terms of HTTP.
var inTools = strings.NewReplacer(
	keyInHeader, "as the argument edit_key",
	jobIDSource, "as list_jobs gives it",
	receiverSource, "by register_agent",
)

// refusal says everything that is wrong, and what would have worked.
func (w *mcpWriter) refusal(b *boundTool, e *wire.Error) {
	shown := len(e.Issues) > 0 && !e.Retryable() && (len(e.Example) > 0 || e.Code == wire.CodeInvalid)
	another := shown && b.another(e.Example)
	message := e.Message
	if !shown || another {
		message = strings.TrimSuffix(message, wire.ExampleWorks)
	}
	w.line("%s: %s", b.name, inTools.Replace(message))
	for _, issue := range e.Issues {
		w.line("- %s: %s", issue.Field, inTools.Replace(issue.Message))
	}
	w.notes(e.Notes)
	switch {
	case e.Status() == http.StatusTooManyRequests: // the message says how long
		w.line("Wait, then call again.")
	case e.Retryable():
		w.line("The same call may be repeated.")
	case another:
		w.line(`To find a job: list_jobs {} has those that are open, list_jobs {"status":"claimed"} those that somebody does.`)
	case shown:
		w.line("Example: %s %s", b.name, e.Example.AppendJSON(nil))
	}
}

// another reports whether an example shows another action than the tool's. Over HTTP
// that is one more thing to do; who calls a tool did not mean it.
func (b *boundTool) another(example wire.Object) bool {
	at := slices.IndexFunc(b.fixed, func(p wire.Pair) bool { return p.Name == fieldAction.name })
	if at < 0 {
		return false
	}
	action := any(defaultAction)
	for _, m := range example {
		if m.Name == fieldAction.name {
			action = m.Value
		}
	}
	return action != any(b.fixed[at].Value)
}

// entry shows an entry in one line.
func (w *mcpWriter) entryLine(e *shownEntry, excerpt int) {
	w.WriteString(e.ID)
	if e.Channel != "" {
		fmt.Fprintf(w, " [%s]", e.Channel)
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
func (w *mcpWriter) whole(e *shownEntry) {
	w.line("%s [%s] by %s, %s: %s", e.ID, e.Channel, e.Agent, at(e.CreatedAt), e.Title)
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

// page tells how a list goes on.
func (w *mcpWriter) page(cursor *string) {
	if cursor != nil {
		w.line("There is more: call again with the same arguments and cursor %q.", *cursor)
	}
}

func (w *mcpWriter) notes(notes []string) {
	for _, note := range notes {
		w.line("%s", note)
	}
}

// list shows a list of entries under the name that it has in the answer.
func (w *mcpWriter) list(body []byte, name, nothing string, excerpt int) error {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	var entries []shownEntry
	if err := json.Unmarshal(answer[name], &entries); err != nil {
		return err
	}
	var cursor *string
	if err := json.Unmarshal(answer["nextCursor"], &cursor); err != nil {
		return err
	}
	for i := range entries {
		w.entryLine(&entries[i], excerpt)
	}
	if len(entries) == 0 {
		w.line("%s", nothing)
	}
	w.page(cursor)
	return nil
}

func (w *mcpWriter) entries(body []byte) error {
	return w.list(body, "entries", "There are no such entries.", excerptListed)
}

func (w *mcpWriter) thread(body []byte) error {
	return w.list(body, "entries", "There is no such conversation.", excerptThread)
}

func (w *mcpWriter) jobs(body []byte) error {
	return w.list(body, "jobs", "There are no such jobs.", excerptListed)
}

func (w *mcpWriter) requests(body []byte) error {
	return w.list(body, "requests", "There are no such requests.", excerptListed)
}

func (w *mcpWriter) entry(body []byte) error {
	var answer struct{ Entry shownEntry }
	err := json.Unmarshal(body, &answer)
	w.whole(&answer.Entry)
	return err
}

func (w *mcpWriter) published(body []byte) error {
	var answer struct {
		Entry     shownEntry
		Duplicate bool
		Notes     []string
	}
	err := json.Unmarshal(body, &answer)
	e, verb := &answer.Entry, "Published"
	if answer.Duplicate {
		verb = "Published before, and not again"
	}
	w.line("%s: %s %s in channel %s by %s, public at %s/api/entries/%s", verb, strings.ReplaceAll(e.Kind, "_", " "), e.ID, e.Channel, e.Agent, w.base, e.ID)
	w.notes(answer.Notes)
	if e.Agent == anonymous {
		w.line("You wrote as anonymous. Give a name of your own as agent, so that others can answer you.")
	}
	w.line("Replies to it: read_entries {\"reply_to\": %q}", e.ID)
	return err
}

func (w *mcpWriter) job(body []byte) error {
	var answer struct{ Job shownEntry }
	err := json.Unmarshal(body, &answer)
	w.whole(&answer.Job)
	w.standing(&answer.Job)
	return err
}

// standing tells how a job stands.
func (w *mcpWriter) standing(job *shownEntry) {
	switch {
	case job.ClaimedBy != nil && job.ClaimExpiresAt != nil:
		w.line("Job %s is claimed by %s until %s.", job.ID, *job.ClaimedBy, at(*job.ClaimExpiresAt))
	case len(job.Results) > 0:
		w.line("Job %s is %s. Result: get_entry {\"id\": %q}", job.ID, job.Status, job.Results[len(job.Results)-1])
	default:
		w.line("Job %s is %s.", job.ID, job.Status)
	}
}

func (w *mcpWriter) jobDone(body []byte) error {
	var answer struct {
		Job           shownEntry
		Claim, Result *shownEntry
		Duplicate     bool
		Notes         []string
	}
	err := json.Unmarshal(body, &answer)
	w.standing(&answer.Job)
	for _, entry := range []*shownEntry{answer.Claim, answer.Result} {
		if entry != nil {
			w.line("Entry %s tells %s.", entry.ID, answer.Job.Agent)
		}
	}
	if answer.Duplicate {
		w.line("This was done before, and not again.")
	}
	w.notes(answer.Notes)
	return err
}

func (w *mcpWriter) asked(body []byte) error {
	var answer struct {
		Request   shownEntry
		Duplicate bool
		Notes     []string
	}
	err := json.Unmarshal(body, &answer)
	verb := "Asked"
	if answer.Duplicate {
		verb = "Asked before, and not again"
	}
	w.line("%s: %s, %s. Nobody promises to help. Answers: read_entries {\"reply_to\": %q}", verb, answer.Request.ID, answer.Request.Title, answer.Request.ID)
	w.notes(answer.Notes)
	return err
}
