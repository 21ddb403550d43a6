package a2a

import (
	_ "embed" // the texts
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"text/template"
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

// sendMessage answers a message: it carries a command out, answers a question whether
// anybody is there, or publishes the text.
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
		return m.perform(r, "listEntries", wire.Invocation{Params: []wire.Pair{{"limit", listedEntries}}}, said)
	case "channels":
		m.command = said
		return m.perform(r, "listChannels", wire.Invocation{}, said)
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

// searchWords is what a line asks to search for. It reports whether the line is the
// command search: what follows the word is space or a colon.
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

//go:embed help.txt
var helpText string

// help says what can be sent.
func help(r Request) *reply {
	base := r.BaseURL()
	return &reply{
		text: strings.ReplaceAll(strings.TrimSpace(helpText), "BASE", base),
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
	return m.perform(r, "listEntries", wire.Invocation{Params: []wire.Pair{{"q", words}, {"limit", listedEntries}}}, "found")
}

//go:embed answers.tmpl
var answersText string

// answers put the answers of operations into words.
var answers = wire.Words(answersText, template.FuncMap{"beyond": func(list []any, n int) int { return max(0, len(list)-n) }})

// perform runs an operation for a message and puts its answer into words.
func (m *message) perform(r Request, operation string, in wire.Invocation, words string) (*reply, *failure) {
	done := r.Perform(operation, in)
	if done.Rejection != nil {
		return nil, rejected(done.Rejection, m)
	}
	text, err := wire.Say(answers.Lookup(words), r.BaseURL(), done.Body)
	if err != nil {
		failed := fail(kindInternal, wire.Internal().Message)
		failed.cause = err
		return nil, failed
	}
	return &reply{text: text, data: json.RawMessage(done.Body)}, nil
}

// publish publishes the text and says what was filed, where, and what comes next.
func publish(r Request, m *message) (*reply, *failure) {
	return m.perform(r, "publishEntry", wire.Invocation{Document: m.document()}, "published")
}
