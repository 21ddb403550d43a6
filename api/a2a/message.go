package a2a

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// The limits of messages.
const (
	// maxMessageID bounds a messageId and a contextId, in code points.
	maxMessageID = 200
	// maxParts is the most parts of a message.
	maxParts = 64
)

// message is a message as it was sent.
type message struct {
	id, context string
	text        string
	texts       int          // number of parts of text
	data        []wire.Field // the members of the data parts, which file the text
	problems    wire.Problems
	// command is the corrected command if the message is one.
	command string
	// dataCommand is the name of the command in the data, whose other members are its parameters, or "".
	dataCommand string
	notes       []string // for the author of the entry
}

// readMessage reads and validates the parameters of sending a message. It finds every
// problem of the envelope; the text is validated later.
func readMessage(params map[string]any) (*message, *failure) {
	m := &message{}
	message, isObject := params["message"].(map[string]any)
	if !isObject {
		m.problems.Add("message", "is required: an object with messageId, role and parts")
		return m, nil
	}
	if configuration, given := params["configuration"].(map[string]any); given {
		for _, name := range []string{"pushNotificationConfig", "taskPushNotificationConfig", "push_notification_config"} {
			if configuration[name] != nil {
				return m, fail(kindNoPush, noPush)
			}
		}
	}
	if task := member2(message, "taskId", "task_id"); task != nil && task != "" {
		return m, fail(kindNoTask, noTask)
	}
	m.readID(message)
	switch message["role"] {
	case "user", "ROLE_USER":
	default:
		m.problems.Add("role", "must be user (ROLE_USER in version 1.0)")
	}
	failed := m.readParts(member2(message, "parts", "content"))
	m.readDataCommand()
	return m, failed
}

// readDataCommand takes the command out of the data.
func (m *message) readDataCommand() {
	at := slices.IndexFunc(m.data, func(f wire.Field) bool { return f.Name == memberCommand && f.Value != nil })
	if at < 0 {
		return
	}
	m.dataCommand, _ = m.data[at].Value.(string)
	m.data = slices.Delete(m.data, at, at+1)
	if m.dataCommand = strings.ToLower(strings.TrimSpace(m.dataCommand)); !slices.Contains(dataCommandNames, m.dataCommand) {
		m.problems.Add(memberCommand, "must be one of %s; other data needs no command", strings.Join(dataCommandNames, ", "))
		m.dataCommand, m.data = "jobs", nil // an example that works for everybody
	}
}

// member2 returns a member of an object under either of its names; null is absent.
func member2(o map[string]any, name, other string) any {
	if value := o[name]; value != nil {
		return value
	}
	return o[other]
}

func (m *message) readID(message map[string]any) {
	id, isText := member2(message, "messageId", "message_id").(string)
	id, bad := wire.Clean(id)
	switch n := wire.Count(id); {
	case !isText, n == 0:
		m.problems.Add("messageId", "is required: 1 to %d characters, unique for each message", maxMessageID)
	case bad != wire.FlawNone:
		m.problems.Add("messageId", "%s", bad)
	case n > maxMessageID:
		m.problems.Add("messageId", "must have 1 to %d characters; this one has %d", maxMessageID, n)
	default:
		m.id = id
	}
	value := member2(message, "contextId", "context_id")
	if value == nil || value == "" {
		return
	}
	context, isText := value.(string)
	context, bad = wire.Clean(context)
	if !isText || bad != wire.FlawNone || wire.Count(context) > maxMessageID {
		m.problems.Add("contextId", "must be a text of at most %d characters", maxMessageID)
		return
	}
	m.context = context
}

// readParts reads the parts: texts are joined, the members of data collected.
func (m *message) readParts(value any) *failure {
	parts, isList := value.([]any)
	if !isList || len(parts) == 0 || len(parts) > maxParts {
		m.problems.Add("parts", `must be an array of 1 to %d parts, such as {"text": "Hello"}`, maxParts)
		return nil
	}
	for i, value := range parts {
		part, isObject := value.(map[string]any)
		if !isObject {
			m.problems.Add("parts["+strconv.Itoa(i)+"]", "must be an object")
			continue
		}
		if failed := m.readPart("parts["+strconv.Itoa(i)+"]", part); failed != nil {
			return failed
		}
	}
	return nil
}

// contents are the members that determine the type of a part.
var contents = []string{"text", "data", "file", "raw", "url"}

func (m *message) readPart(name string, part map[string]any) *failure {
	has := slices.DeleteFunc(slices.Clone(contents), func(s string) bool { return part[s] == nil })
	kind, _ := part["kind"].(string)
	switch {
	case len(has) > 1:
		m.problems.Add(name, "must hold one of text and data, not several")
	case slices.Contains(contents[2:], kind), len(has) == 1 && slices.Contains(contents[2:], has[0]):
		return fail(kindNoContentType, "Files are not accepted. Send a text part, and a link inside it.")
	case kind != "" && kind != "text" && kind != "data":
		return fail(kindNoContentType, "Parts may be text and data.")
	case len(has) == 0 || kind != "" && kind != has[0]:
		m.problems.Add(name, "must hold text or data")
	case has[0] == "text":
		s, isText := part["text"].(string)
		if !isText {
			m.problems.Add(name+".text", "must be a string")
			break
		}
		if m.texts++; m.texts > 1 {
			m.text += "\n"
		}
		m.text += s
	default:
		m.readData(name, part["data"])
	}
	return nil
}

// readData collects the members of a data part. Version 0.3 over HTTP wraps them.
func (m *message) readData(name string, value any) {
	data, isObject := value.(map[string]any)
	if inner, wrapped := data["data"].(map[string]any); wrapped && len(data) == 1 {
		data = inner
	}
	if !isObject {
		m.problems.Add(name+".data", "must be an object with agent, channel, kind, tags, title or reply_to, or with a command")
		return
	}
	values := len(m.data) + len(data)
	for _, value := range data {
		list, _ := value.([]any)
		values += len(list)
	}
	if values > wire.MaxParams {
		m.problems.Add(name+".data", "has too many members, or values in their lists: at most %d together", wire.MaxParams)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if slices.ContainsFunc(m.data, func(f wire.Field) bool { return f.Name == key }) {
			m.problems.Add(name+".data", "repeats %s", wire.Shown(key, wire.MaxUnknownName))
			continue
		}
		m.data = append(m.data, wire.Field{key, data[key]})
	}
}

// document returns the message as the body of a new entry: the text is its body, and the data files it.
func (m *message) document() wire.Document {
	doc, ignored := wire.Document{MessageID: m.id, Notes: slices.Clone(m.notes)}, []string(nil)
	if m.texts > 0 {
		doc.Fields = append(doc.Fields, wire.Field{"body", m.text})
	}
	for _, f := range m.data {
		switch {
		case m.texts == 0 || !slices.Contains(wire.TextNames, f.Name):
			doc.Fields = append(doc.Fields, f)
		case f.Value != nil:
			ignored = append(ignored, f.Name)
		}
	}
	if len(ignored) > 0 {
		doc.Notes = append(doc.Notes, "What the data part says as "+strings.Join(ignored, ", ")+" was ignored: the body is the text part. Send texts as text parts.")
	}
	return doc
}

// example returns the sender's own message, corrected: an entry as a message, or a command. It is
// empty if only the sender can correct it.
func (m *message) example(d dialect, entry wire.Object) wire.Object {
	text, data := m.command, wire.Object{}
	switch {
	case m.command != "":
		entry = nil
	case len(entry) == 0:
		return wire.Object{}
	case m.dataCommand != "":
		data = data.With(memberCommand, m.dataCommand)
	}
	if at := wire.Object(m.data).Index("id"); m.dataCommand == "read" && at >= 0 { // it is no parameter
		data = data.With("id", m.data[at].Value)
	}
	for _, member := range entry {
		if m.dataCommand == "home" && member.Name == "for" {
			member.Name = "agent"
		}
		if member.Name == memberCommand {
			continue
		}
		if s, isText := member.Value.(string); isText && member.Name == wire.TextNames[0] {
			text = s
			continue
		}
		data = data.Replace(member.Name, member.Value)
	}
	id := cmp.Or(m.id, "m-"+wire.ShortHash("example", text))
	var parts []wire.Object
	if m.dataCommand == "" {
		parts = append(parts, d.textPart(text))
	}
	if len(data) > 0 {
		parts = append(parts, d.dataPart(data))
	}
	role := "ROLE_USER"
	if d == dialect03 {
		role = "user"
	}
	o := wire.Object{{"messageId", id}, {"role", role}, {d.partsName(), parts}}
	if d == dialect03 {
		o = append(wire.Object{{"kind", "message"}}, o...)
	}
	return o
}

func (d dialect) partsName() string {
	if d == dialect03Proto {
		return "content"
	}
	return "parts"
}

func (d dialect) textPart(text string) wire.Object {
	if d == dialect03 {
		return wire.Object{{"kind", "text"}, {"text", text}}
	}
	return wire.Object{{"text", text}}
}

func (d dialect) dataPart(data any) wire.Object {
	switch d {
	case dialect03:
		return wire.Object{{"kind", "data"}, {"data", data}}
	case dialect03Proto:
		return wire.Object{{"data", wire.Object{{"data", data}}}}
	}
	return wire.Object{{"data", data}}
}

// reply returns the response to a message in the client's dialect.
func (m *message) reply(d dialect, r *reply) wire.Object {
	o := wire.Object{{"messageId", "r-" + wire.ShortHash(m.id, r.context, r.text)}, {"contextId", r.context}}
	parts := []wire.Object{d.textPart(r.text), d.dataPart(r.data)}
	if d == dialect03 {
		return append(wire.Object{{"kind", "message"}}, append(o, wire.Field{"role", "agent"}, wire.Field{"parts", parts})...)
	}
	return wire.Object{{"message", append(o, wire.Field{"role", "ROLE_AGENT"}, wire.Field{d.partsName(), parts})}}
}
