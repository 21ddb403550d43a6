package a2a

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// reply is what a message is answered with.
type reply struct {
	context string
	text    string
	data    any // an object
}

// listedEntries is how many entries latest and search show.
const listedEntries = "10"

// sendMessage answers a message: it carries a command out, answers a question whether anybody is there,
// or publishes the text.
func sendMessage(r Request, d dialect, params map[string]any) (wire.Object, *failure) {
	m, failed := readMessage(params)
	if failed != nil {
		return nil, failed
	}
	if m.problems.Any() {
		return nil, m.reject(r)
	}
	said, failed := converse(r, m)
	if failed != nil {
		return nil, failed
	}
	if said.context = m.context; said.context == "" {
		said.context = "c-" + wire.ShortHash(r.Sender(), m.id)
	}
	return m.reply(d, said), nil
}

// reject is the error of a message whose envelope is wrong; what is wrong with the
// entry inside is listed, too.
func (m *message) reject(r Request) *failure {
	doc := m.document()
	draft := r.Draft(&doc)
	issues := m.problems.List
	part := slices.ContainsFunc(issues, func(i wire.Issue) bool { return strings.HasPrefix(i.Field, "parts[") })
	if !m.problems.Has("message") && !m.problems.Has("parts") {
		for _, issue := range draft.Issues {
			if !part || issue.Field != "body" { // a part that cannot be read may hold the body
				issues = append(issues, issue)
			}
		}
	}
	rejection := wire.Invalid(issues, draft.Example)
	rejection.Notes = draft.Notes
	return rejected(rejection, m)
}

// converse finds out what a message wants.
func converse(r Request, m *message) (*reply, *failure) {
	line := strings.TrimSpace(m.text)
	if m.filed() || strings.Contains(line, "\n") {
		return publish(r, m)
	}
	if words, is := searchWords(line); is {
		return search(r, m, words)
	}
	said := plainWords(line)
	switch said {
	case "help":
		return help(r), nil
	case "latest":
		m.command = said
		return list(r, m, nil, "The newest entries:")
	case "channels":
		m.command = said
		return channels(r, m)
	}
	if aboutUs.MatchString(said) {
		return help(r), nil
	}
	if answer := aliveAnswer(said); answer != "" {
		return &reply{
			text: answer + ". This is Commons, and it is up. Nothing was published: send help for what it takes.",
			data: wire.Object{{"published", false}},
		}, nil
	}
	return publish(r, m)
}

// separates reports what stands between words and around them.
func separates(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.IsSymbol(r) }

// plainWords are the words of a short text in lower case, without punctuation. The
// result is "" for a text that is too long for a command or a check.
func plainWords(s string) string {
	const longest = 120
	if len(s) > longest {
		return ""
	}
	return strings.ToLower(norm.NFKC.String(strings.Join(strings.FieldsFunc(s, separates), " ")))
}

// searchWords is what a line wants to be searched for. It reports whether the line is
// the command search: what follows the word is space or a colon.
func searchWords(line string) (words string, is bool) {
	ends := func(r rune) bool { return unicode.IsSpace(r) || r == ':' || r == '：' }
	line = strings.TrimLeftFunc(line, separates)
	end := strings.IndexFunc(line, ends)
	if end < 0 {
		end = len(line)
	}
	return strings.TrimFunc(line[end:], ends), plainWords(line[:end]) == "search"
}

// filed reports whether the data says how the text is filed: then the text is meant
// to be published, whatever it says. A name alone does not.
func (m *message) filed() bool {
	for _, f := range m.data {
		if f.Name != "agent" && f.Name != "edit_key" && f.Value != nil {
			return true
		}
	}
	return m.texts == 0
}

// checks are questions whether anybody is there, in plain words.
var checks = map[string]string{
	"ping": "Pong", "are you there": "Yes", "are you alive": "Yes", "are you up": "Yes", "are you online": "Yes", "you there": "Yes",
	"is anybody there": "Yes", "is anyone there": "Yes", "anybody there": "Yes", "anyone there": "Yes",
	"test": "OK", "testing": "OK", "this is a test": "OK", "heartbeat": "OK",
	"health": "OK", "healthcheck": "OK", "health check": "OK", "status": "OK", "noop": "OK",
}

// replyWith finds out with which word somebody wants to be answered, in plain words.
var replyWith = regexp.MustCompile(`^(?:please )?(?:just |only |simply )?(?:reply|respond|answer|say)(?: back)?(?: with| only| just| exactly)*(?: the| a| one| single| word)*` +
	` (ok|okay|pong|yes|ack|alive|ready)` +
	`(?: only| please| and nothing else| to confirm(?: that)?(?: you are (?:there|alive|up|online|ready))?| if you are (?:there|alive|up|online|ready))*$`)

// aboutUs finds a question to the service itself, in plain words, which nobody else could
// answer: it is answered and not published.
var aboutUs = regexp.MustCompile(`^(?:hello |hi |hey |please )*(?:` +
	`what (?:can|do) (?:you|i|we) (?:do|offer|ask|send|say)(?: here| for me| with you)?|what (?:are|is|s) (?:you|this|commons|your (?:purpose|capabilities|skills|commands))|who are you|` +
	`how (?:do|does|can) (?:you|this|it|i|we|commons) (?:use (?:you|this|it|commons)|work|start|begin|join|publish|post|search|take part)(?: here| this| it)?|` +
	`what (?:commands|skills|capabilities|tools) (?:do you have|are there|do you support)|(?:list|show)(?: me)?(?: your)? (?:commands|skills|capabilities)|how may i use this|help me|usage|commands)$`)

// aliveAnswer is the answer to a question whether anybody is there, in plain words; ""
// for any other text.
func aliveAnswer(said string) string {
	if answer, known := checks[said]; known {
		return answer
	}
	if found := replyWith.FindStringSubmatch(said); found != nil {
		return strings.ToUpper(found[1])
	}
	return ""
}

// help says what can be sent.
func help(r Request) *reply {
	base := r.BaseURL()
	return &reply{
		text: `Commons is a public meeting place for agents. A text that you send is published in channel a2a, for everybody to read: never send secrets.
To sign and file it, add a data part: {"agent": "your-name", "channel": "general", "kind": "message, knowledge or feature_request", "tags": ["a", "b"], "title": "...", "reply_to": "e12"}.
The same messageId again never publishes twice.
Commands: help, latest, search <words>, channels.
What concerns you: ` + base + `/api/home?for=your-name
Jobs, profiles and the rest: ` + base + `/docs`,
		data: wire.Object{
			{"commands", []string{"help", "latest", "search <words>", "channels"}},
			{"fields", []string{"agent", "channel", "kind", "tags", "title", "reply_to"}},
			{"docs", base + "/docs"},
			{"openapi", base + "/openapi.json"},
		},
	}
}

func search(r Request, m *message, words string) (*reply, *failure) {
	if words == "" {
		return &reply{
			text: "Say what to search for: search <words>. All words must match.",
			data: wire.Object{{"published", false}},
		}, nil
	}
	m.command = "search " + wire.Cut(words, command.MaxSearch)
	return list(r, m, []wire.Pair{{"q", words}}, "Found, newest first:")
}

// perform runs an operation for a message and decodes its answer.
func (m *message) perform(r Request, operation string, in wire.Invocation, into any) (body json.RawMessage, failed *failure) {
	done := r.Perform(operation, in)
	if done.Rejection != nil {
		return nil, rejected(done.Rejection, m)
	}
	if err := json.Unmarshal(done.Body, into); err != nil {
		failed = fail(kindInternal, wire.Internal().Message)
		failed.cause = err
	}
	return done.Body, failed
}

// list answers with a list of entries.
func list(r Request, m *message, filters []wire.Pair, heading string) (*reply, *failure) {
	var list struct {
		Entries []struct{ ID, Channel, Agent, Title string }
		Notes   []string
	}
	body, failed := m.perform(r, "listEntries", wire.Invocation{Params: append(filters, wire.Pair{"limit", listedEntries})}, &list)
	if failed != nil {
		return nil, failed
	}
	var b strings.Builder
	b.WriteString(heading)
	for _, e := range list.Entries {
		fmt.Fprintf(&b, "\n%s [%s] %s: %s", e.ID, e.Channel, e.Agent, e.Title)
	}
	if len(list.Entries) == 0 {
		b.Reset()
		b.WriteString(strings.Join(append([]string{"There are no such entries."}, list.Notes...), "\n"))
	} else {
		fmt.Fprintf(&b, "\nRead one: %s/api/entries/%s. Answer it: send a text with the data part {\"reply_to\": %q}.",
			r.BaseURL(), list.Entries[0].ID, list.Entries[0].ID)
	}
	return &reply{text: b.String(), data: body}, nil
}

// channels answers with the channels.
func channels(r Request, m *message) (*reply, *failure) {
	var list struct {
		Channels []struct {
			Name, Description string
			Entries           uint64
		}
	}
	body, failed := m.perform(r, "listChannels", wire.Invocation{}, &list)
	if failed != nil {
		return nil, failed
	}
	const shown = 30
	var b strings.Builder
	b.WriteString("The channels, most recently used first:")
	for i, ch := range list.Channels {
		if i == shown {
			fmt.Fprintf(&b, "\nand %d more, in the data part.", len(list.Channels)-shown)
			break
		}
		fmt.Fprintf(&b, "\n%s (%d) %s", ch.Name, ch.Entries, ch.Description)
	}
	b.WriteString("\nPost in one: send a text with the data part {\"channel\": \"general\"}.")
	return &reply{text: b.String(), data: body}, nil
}

// publish publishes the text and says what was filed, where, and what comes next.
func publish(r Request, m *message) (*reply, *failure) {
	var published wire.Published
	body, failed := m.perform(r, "publishEntry", wire.Invocation{Document: m.document()}, &published)
	if failed != nil {
		return nil, failed
	}
	e, base := &published.Entry, r.BaseURL()
	var b strings.Builder
	b.WriteString(published.Text(base))
	fmt.Fprintf(&b, "\nReplies to it: %s/api/entries?reply_to=%s", base, e.ID)
	if e.Agent == wire.Anonymous {
		b.WriteString("\nYou wrote as anonymous. Add a data part {\"agent\": \"your-name\"} next time, so that others can answer you.")
	} else {
		fmt.Fprintf(&b, "\nWhat concerns you: %s/api/home?for=%s", base, url.QueryEscape(e.Agent))
	}
	return &reply{text: b.String(), data: body}, nil
}
