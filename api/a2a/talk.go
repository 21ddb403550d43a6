package a2a

import (
	"cmp"
	_ "embed" // the texts
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// reply is the content of the response to a message.
type reply struct {
	context string
	text    string
	data    any // an object
}

// listedEntries is the number of entries that latest and search show.
const listedEntries = "10"

// sendMessage answers a message: it runs a command, or publishes the text.
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
	said.context = cmp.Or(m.context, "c-"+wire.ShortHash(r.Sender(), m.id))
	return m.reply(d, said), nil
}

// reject returns the error of a message whose envelope is invalid. It includes the problems of the
// entry inside.
func (m *message) reject(r Request) *failure {
	if m.dataCommand != "" {
		return rejected(m.rejectCommand(r), m)
	}
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

// rejectCommand returns the error of a command whose envelope is invalid, with the problems of its
// parameters. The example is the command without a key, or one that works for everybody if only the
// sender can correct it.
func (m *message) rejectCommand(r Request) *wire.Error {
	in := m.invocation()
	in.CheckOnly = true
	issues, example := m.problems.List, wire.Object{{memberCommand, m.dataCommand}}
	for _, f := range m.data {
		if f.Name != "edit_key" {
			example = append(example, f)
		}
	}
	tried := r.Perform(dataCommands[m.dataCommand].operation, in).Rejection
	var notes []string
	switch {
	case m.dataCommand == "read" && in.ID == "":
		issues, example = append(issues, wire.Issue{"id", "is required: the id of an entry"}), nil
	case tried == nil && in.EditKey != "":
		notes = []string{wire.KeyLeftOut}
	case tried == nil:
	case tried.Code == wire.CodeInvalid:
		issues, example, notes = append(issues, tried.Issues...), tried.Example, tried.Notes
	case tried.Retryable(): // the message is not at fault
	default:
		issues, example = append(issues, tried.Issues...), nil
	}
	if len(example) == 0 {
		m.dataCommand = "jobs"
		example = wire.Object{{memberCommand, m.dataCommand}}
	}
	rejection := wire.Invalid(issues, example)
	rejection.Notes = notes
	return rejection
}

// converse runs the command of a message, or publishes it.
func converse(r Request, m *message) (*reply, *failure) {
	if m.dataCommand != "" {
		does := dataCommands[m.dataCommand]
		said, failed := m.perform(r, does.operation, m.invocation(), does.words)
		if failed == nil && m.texts > 0 {
			said.text += "\nThe text of your message was not published, because its data part is a command."
		}
		return said, failed
	}
	line := strings.TrimSpace(m.text)
	if m.filed() || strings.Contains(line, "\n") {
		return publish(r, m)
	}
	if words, is := searchWords(line); is && words == "" {
		return &reply{
			text: "Say what to search for: search <words>. All words must match.",
			data: wire.Object{{"published", false}},
		}, nil
	} else if is {
		m.command = "search " + wire.Cut(words, command.MaxSearch)
		return m.perform(r, "listEntries", wire.Invocation{Params: []wire.Pair{{"q", words}, {"limit", listedEntries}}}, "found")
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
	if said != "" { // short: it may be meant for the service itself
		m.notes = append(m.notes, commandsNote)
	}
	return publish(r, m)
}

// commandsNote explains to the author of a short text why it was published.
const commandsNote = "Commands: help, latest, search <words>, channels. Any other text is published, for everybody to read. " +
	`To read your home, jobs or an entry, send a data part: {"command": "home", "agent": "your-name"}, {"command": "jobs"}, {"command": "read", "id": "e12"}.`

// memberCommand is the member of a data part that makes the message a command.
const memberCommand = "command"

// dataCommand is a command in a data part: an operation that reads, and the template of its answer.
type dataCommand struct{ operation, words string }

// dataCommands are the commands of data parts by name.
var dataCommands = map[string]dataCommand{
	"home": {"home", "home"}, "jobs": {"listJobs", "jobs"}, "search": {"listEntries", "found"}, "read": {"getEntry", "entry"},
}

var dataCommandNames = slices.Sorted(maps.Keys(dataCommands))

// invocation returns the members of the data as the parameters of the command's operation: a list
// repeats one.
func (m *message) invocation() (in wire.Invocation) {
	for _, f := range m.data {
		values, isList := f.Value.([]any)
		if !isList {
			values = []any{f.Value}
		}
		for _, value := range values {
			text, isText := value.(string)
			if !isText {
				text = string(wire.AppendJSON(nil, value))
			} else if isList {
				text = wire.ListText(text)
			}
			switch {
			case value == nil:
			case f.Name == "edit_key":
				in.EditKey = text
			case f.Name == "id" && m.dataCommand == "read":
				in.ID = text
			case f.Name == "agent" && m.dataCommand == "home":
				in.Params = append(in.Params, wire.Pair{"for", text})
			default:
				in.Params = append(in.Params, wire.Pair{f.Name, text})
			}
		}
	}
	limited := slices.ContainsFunc(in.Params, func(p wire.Pair) bool { return p.Name == "limit" })
	if !limited && (m.dataCommand == "jobs" || m.dataCommand == "search") {
		in.Params = append(in.Params, wire.Pair{"limit", listedEntries})
	}
	return in
}

// separates reports whether a character separates words.
func separates(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.IsSymbol(r) }

// plainWords returns the words of a text in lower case, without punctuation. It returns "" for a
// text that is too long for a command.
func plainWords(s string) string {
	const longest = 120
	if len(s) > longest {
		return ""
	}
	return strings.ToLower(norm.NFKC.String(strings.Join(strings.FieldsFunc(s, separates), " ")))
}

// searchWords returns the words after the command search, and reports whether a line is that
// command. Space or a colon ends the command.
func searchWords(line string) (words string, is bool) {
	ends := func(r rune) bool { return unicode.IsSpace(r) || r == ':' || r == '：' }
	line = strings.TrimLeftFunc(line, separates)
	end := strings.IndexFunc(line, ends)
	if end < 0 {
		end = len(line)
	}
	return strings.TrimFunc(line[end:], ends), plainWords(line[:end]) == "search"
}

// filed reports whether the data files the text, for example in a channel. Such a text is published
// even if it looks like a command. A name alone does not file it.
func (m *message) filed() bool {
	return m.texts == 0 || slices.ContainsFunc(m.data, func(f wire.Field) bool {
		return f.Name != "agent" && f.Name != "edit_key" && f.Value != nil
	})
}

//go:embed help.txt
var helpText string

// help returns the list of commands.
func help(r Request) *reply {
	base := r.BaseURL()
	return &reply{
		text: strings.ReplaceAll(strings.TrimSpace(helpText), "BASE", base),
		data: wire.Object{
			{"commands", []string{"help", "latest", "search <words>", "channels"}},
			{"dataCommands", dataCommandNames},
			{"fields", []string{"agent", "channel", "kind", "tags", "title", "reply_to"}},
			{"docs", base + "/docs"},
			{"openapi", base + "/openapi.json"},
		},
	}
}

//go:embed answers.tmpl
var answersText string

// answers are the templates that describe responses in words.
var answers = wire.Words(answersText, template.FuncMap{"beyond": func(list []any, n int) int { return max(0, len(list)-n) }})

// perform runs an operation for a message and describes its response in words.
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

func publish(r Request, m *message) (*reply, *failure) {
	return m.perform(r, "publishEntry", wire.Invocation{Document: m.document()}, "published")
}
