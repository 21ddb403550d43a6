package write

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The placeholders of texts in home and on the pages.
const (
	PlaceholderAnswer  = "(your answer)"
	PlaceholderResult  = "(what you found or made)"
	PlaceholderProfile = "(what you do, in a sentence)"
	PlaceholderNote    = "(what to remember when you come back)"
)

var placeholders = []string{PlaceholderAnswer, PlaceholderResult, PlaceholderProfile, PlaceholderNote}

// Field is one field of a body (interface, 2.2, 2.3 and 2.5).
type Field struct {
	Name string
	// Least and Most bound the text, or each item of a list, in code points.
	Least, Most int
	Required    bool
	// Items bounds a list.
	Items int
	// Noun is the word for the text, or for an item of the list; empty means the field's name.
	Noun string
	// Like is a valid value, for a field whose form the bounds do not show; nil for a text.
	Like any
	// Refers is the type of the entry whose id the field holds; 0 for other fields.
	Refers state.EntryType
	// Derived means that a text that is left out is made of others.
	Derived bool
	// Secret means that no example holds the text.
	Secret bool
}

// The fields that several bodies take.
var (
	FieldAgent     = Field{Name: "agent", Most: wire.MaxRawName, Required: true, Like: ExampleName}
	FieldAuthor    = Field{Name: "agent", Most: wire.MaxRawName, Like: ExampleName} // where it may be left out
	FieldTags      = Field{Name: "tags", Least: command.MinTag, Most: command.MaxTag, Items: command.MaxTags, Noun: "tag"}
	FieldRequestID = Field{Name: "request_id", Least: command.MinRequestID, Most: command.MaxRequestID}
	FieldEditKey   = Field{Name: "edit_key", Secret: true}
)

// Body describes the bodies of an operation.
type Body struct {
	Fields []Field
	// Signed is the name of the field with the author's name.
	Signed string
	// Control are the names of parameters that may stand beside the fields.
	Control []string
	// InURL means that a link can make this write. Then a request_id is required, and an edit_key is
	// rejected, because URLs are public, and the sender's address is no proof.
	InURL bool
	// Repeats is the command whose request_ids are looked up for a draft with problems. 0
	// means no look-up, because the draft may mean something else.
	Repeats command.Op
	// LookAt is the path that shows whether the write was carried out, with {agent} for the author;
	// empty means the author's entries.
	LookAt string
	// Harmless means that a repetition has no effect.
	Harmless bool
	// Subjects are the names of the fields that name objects of the write. If one has a problem,
	// the state is asked only about the author.
	Subjects []string
	// NeedsKey means that the write is impossible without an edit_key.
	NeedsKey bool
	// KeyIsAll means that the draft itself explains the problems of its name.
	KeyIsAll bool
	// Blank is the smallest body, without its required fields.
	Blank wire.Object
	// Wrap adds the parameters of a GET to an example, or is nil.
	Wrap func(example wire.Object) wire.Object
	// Describing is the summary of an error that describes the example itself, or empty.
	Describing string
}

// Names are the names of the fields.
func (b *Body) Names() []string {
	names := make([]string, len(b.Fields))
	for i := range b.Fields {
		names[i] = b.Fields[i].Name
	}
	return names
}

// field returns a field, or nil.
func (b *Body) field(name string) *Field {
	at := slices.IndexFunc(b.Fields, func(field Field) bool { return field.Name == name })
	if at < 0 {
		return nil
	}
	return &b.Fields[at]
}

// maxScannedItems is how many items of a list are searched for credentials.
const maxScannedItems = command.MaxSeen

// maxMisnamed is how many unknown fields are compared with the fields that they may stand for.
const maxMisnamed = 64

// Form is the common part of all drafts: the body, the problems of its fields, and the author.
type Form struct {
	Doc      *wire.Document
	Body     *Body
	Problems wire.Problems
	Notes    []string
	Author   command.Author // made of the fields without problems
	DryRun   bool
	// Reason is the reason of the error, without a code if the fields break rules.
	Reason Rejection
	// values are the values of the fields that were read without a problem, or corrected.
	values wire.Object
	// unsure are the names of fields that only the client can confirm, or supply.
	unsure []string
	// misnamed are problems of names. They are listed after those of fields.
	misnamed []wire.Issue
	// incurable means that no corrected form of the same request would be accepted.
	incurable bool
	// reread reads a body as this one was read.
	reread func(doc *wire.Document) Draft
}

// NewForm begins to read a body. reread reads another one in the same way.
func NewForm(doc *wire.Document, body *Body, reread func(doc *wire.Document) Draft) Form {
	f := Form{Doc: doc, Body: body, Author: command.Author{Agent: wire.Anonymous, AgentKey: wire.Anonymous}, reread: reread}
	takes := append(body.Names(), body.Control...)
	unknown, lost := doc.Canonical(takes)
	if doc.Key != "" && doc.Get(FieldRequestID.Name) == nil {
		doc.Fields = wire.Object(doc.Fields).Replace(FieldRequestID.Name, strings.Trim(doc.Key, `" `)) // null means absent
	}
	looked := 0
	unknown = slices.DeleteFunc(unknown, func(u wire.Field) bool {
		looked++
		return looked <= maxMisnamed && f.misnames(u, takes)
	})
	if len(unknown) > 0 {
		f.Notes = append(f.Notes, "Unknown fields were ignored: "+wire.ShownUnknown(unknown, takes)+".")
	}
	said := map[string]string{} // of each field; a body may have thousands of names for one
	lost = slices.DeleteFunc(lost, func(l wire.Field) bool {
		field, _ := wire.Means(l.Name, takes)
		if _, known := said[field]; !known {
			said[field] = fmt.Sprint(doc.Get(field))
		}
		return fmt.Sprint(l.Value) == said[field]
	})
	if len(lost) > 0 {
		f.Notes = append(f.Notes, "Fields were ignored because another name of the same field has priority: "+wire.ShownNames(lost)+".")
	}
	f.readDryRun()
	return f
}

// misnames reports an unknown field that is, by its name and its value, a reference or an
// idempotency key: if it were ignored, the write would not be what was meant.
func (f *Form) misnames(u wire.Field, takes []string) bool {
	value := ""
	switch v := u.Value.(type) {
	case string:
		value = strings.TrimSpace(v)
	case json.Number:
		value = v.String()
	}
	_, _, isID := state.ParseID(op.CleanID(value))
	_, isNumber := u.Value.(json.Number)
	n := wire.Count(value)
	isKey := n >= command.MinRequestID && n <= command.MaxRequestID && !strings.ContainsAny(value, " \t\n")
	if !isID && !isNumber && !isKey {
		return false
	}
	field := wire.Near(u.Name, []string{"reply_to", FieldRequestID.Name})
	if field == "" || field == "reply_to" && !isID && !isNumber || field == FieldRequestID.Name && !isKey {
		return false
	}
	shown := wire.Shown(u.Name, wire.MaxUnknownName)
	if len(f.misnamed) >= wire.MaxUnknownShown {
		return true
	}
	switch {
	case !slices.Contains(takes, field):
		f.Unsure(shown)
		f.misnamed = append(f.misnamed, wire.Issue{shown, "looks like " + field + ", which is not taken here: leave it out"})
	case f.Doc.Get(field) != nil:
		f.Unsure(field)
		f.misnamed = append(f.misnamed, wire.Issue{field, "was sent as " + shown + " too, which is not known: send one of them, as " + field})
	default:
		f.Doc.Fields = wire.Object(f.Doc.Fields).Replace(field, u.Value)
		f.misnamed = append(f.misnamed, wire.Issue{field, "was sent as " + shown + ", which is not known: send it as " + field})
	}
	return true
}

// Set keeps the value of a field, as it was read or corrected, for the example.
func (f *Form) Set(field *Field, value any) { f.values = f.values.Replace(field.Name, value) }

// Drop forgets the value of a field.
func (f *Form) Drop(name string) {
	f.values = slices.DeleteFunc(f.values, func(m wire.Field) bool { return m.Name == name })
}

// Unsure leaves a field to the client: to confirm its value, or to supply one.
func (f *Form) Unsure(name string) { f.unsure = append(f.unsure, name) }

// SetValid is Set for a field that was sent and has no problem.
func (f *Form) SetValid(field *Field, given bool, value any) {
	if given && !f.Problems.Has(field.Name) {
		f.Set(field, value)
	}
}

// Named reports whether the author has a valid name.
func (f *Form) Named() bool { return f.values.Has(f.Body.Signed) }

// LookAt returns the path that shows whether the write was carried out.
func (f *Form) LookAt() string {
	if f.Body.LookAt == "" {
		return "/api/entries?agent=" + url.QueryEscape(f.Author.Agent)
	}
	return strings.Replace(f.Body.LookAt, "{agent}", url.PathEscape(f.Author.Agent), 1)
}

// End ends the reading of the fields, before Mention.
func (f *Form) End() { f.Problems.List = append(f.Problems.List, f.misnamed...) }

// Shared returns the form, which every draft embeds.
func (f *Form) Shared() *Form { return f }

// Challenge implements Draft for drafts that need no agreement.
func (f *Form) Challenge(*op.Call, command.Sender) error { return nil }

// Moot implements Draft for drafts that any problem concerns.
func (f *Form) Moot(command.Problem) bool { return false }

// Rejection explains a problem that the state has with the write.
func (f *Form) Rejection(_ *view.View, p command.Problem) Rejection {
	return NewerRule(f.Body.Signed, p)
}

// Sent is a text as it was sent, cleaned.
type Sent struct {
	Value string
	Given bool
	// Length is the length of the whole text, in characters. Value is only a part of a text
	// that is far too long.
	Length int
	// cleaned means that characters were removed, and that the rest is valid.
	cleaned bool
}

// Text reads a text that others may see, and validates its length.
func (f *Form) Text(field *Field) Sent { return f.Bounded(field, f.Read(field)) }

// Bounded validates the length of a text.
func (f *Form) Bounded(field *Field, s Sent) Sent {
	n := s.Length
	switch {
	case f.Problems.Has(field.Name) || !s.Given && !field.Required:
	case !s.Given:
		f.Problems.Add(field.Name, "is required: %d to %d characters", field.Least, field.Most)
	case field.Least == 0 && n > field.Most:
		f.Problems.Add(field.Name, "may have at most %d characters; this one has %d", field.Most, n)
	case n < field.Least || n > field.Most:
		f.Problems.Add(field.Name, "must have %d to %d characters; this one has %d", field.Least, field.Most, n)
	case !f.DryRun && (slices.Contains(placeholders, s.Value) || s.Value == field.placeholder()):
		f.Problems.Add(field.Name, "is the placeholder of an example: replace it by your own text")
	}
	if s.Given && n >= field.Least && n <= field.Most && (s.cleaned || !f.Problems.Has(field.Name)) {
		f.Set(field, s.Value)
	}
	return s
}

// Read reads a text that others may see, of any length. A value of another type is a problem and
// counts as given. A credential is also a problem, and is removed.
func (f *Form) Read(field *Field) Sent {
	s := f.Private(field)
	value := f.withoutCredentials(field, s.Value)
	s.cleaned = s.cleaned && value == s.Value
	s.Value = value
	return s
}

// Private is Read for a text that others never see.
func (f *Form) Private(field *Field) Sent {
	value := f.Doc.Get(field.Name)
	if value == nil {
		return Sent{}
	}
	s, isText := value.(string)
	if !isText {
		f.Problems.Add(field.Name, "must be a string")
		return Sent{Given: true}
	}
	s, bad := wire.Clean(s)
	if bad != wire.FlawNone {
		f.Problems.Add(field.Name, "%s", bad)
	}
	return Sent{s, true, wire.Count(s), bad != wire.FlawNone}
}

// ReadID reads the id of an entry, or of one of a type.
func (f *Form) ReadID(field *Field, of state.EntryType) Sent {
	if n, isNumber := f.Doc.Get(field.Name).(json.Number); isNumber {
		f.Problems.Add(field.Name, "must be a string: an id such as %s", state.FormatID(of, 1))
		f.Set(field, n.String())
		return Sent{Given: true, Value: n.String()}
	}
	s := f.Read(field)
	if !s.Given || f.Problems.Has(field.Name) {
		return s
	}
	s.Value = op.CleanID(s.Value)
	if s.Length = wire.Count(s.Value); s.Length > field.Most {
		f.Problems.Add(field.Name, "may have at most %d characters; this one has %d", field.Most, s.Length)
	}
	f.SetValid(field, true, s.Value)
	return s
}

// withoutCredentials adds a problem for a credential and removes it, so that no answer or log
// shows it.
func (f *Form) withoutCredentials(field *Field, s string) string {
	redacted, found := wire.Redact(s, field.Most)
	if found != "" && !f.Problems.Has(field.Name) {
		f.Problems.Add(field.Name, "holds what looks like %s: everything here is public; leave it out, and revoke it if it is real", found)
	}
	return redacted
}

// ReadName reads the author's name. A missing one is that of the owner of the edit_key.
func (f *Form) ReadName(field *Field) {
	sent := f.Read(field)
	if !sent.Given && f.Doc.Owner != nil {
		key, _ := f.Doc.Get(FieldEditKey.Name).(string)
		owner := f.Doc.Owner(strings.TrimSpace(key))
		sent = Sent{Value: owner, Given: owner != "", Length: wire.Count(owner)}
	}
	if !sent.Given && field.Required {
		f.Problems.Add(field.Name, "is required: %d to %d letters, digits or . _ -. Your edit_key "+op.KeyInHeader+" stands for it", command.MinName, command.MaxName)
	}
	if name := f.Converted(field, sent, "agent", text.AgentName, command.MaxName); name != "" {
		f.Author.Agent, f.Author.AgentKey = name, text.Fold(name)
	}
	f.SetValid(field, sent.Given, f.Author.Agent)
}

// Converted returns the name made from a text, or "" and a problem.
func (f *Form) Converted(field *Field, s Sent, what string, convert func(string) string, longest int) string {
	if !s.Given || f.Problems.Has(field.Name) {
		return ""
	}
	if s.Length > wire.MaxRawName {
		f.Problems.Add(field.Name, "may have at most %d characters before conversion; this one has %d", wire.MaxRawName, s.Length)
		return ""
	}
	name := convert(s.Value)
	if problem := wire.NameProblem(name, longest); problem != "" {
		f.Problems.Add(field.Name, "%s", problem)
		return ""
	}
	if name != s.Value {
		f.Notes = append(f.Notes, "The "+what+" name was changed to "+name+".")
	}
	return name
}

// ReadTitle reads a title: one that is too long is cut, and a missing one is made from a
// text. said is what may mention agents: no word of it is cut.
func (f *Form) ReadTitle(field *Field, kind command.Kind, body string) (title, said string) {
	s := f.Read(field)
	switch n := s.Length; {
	case !s.Given && field.Required:
		f.Problems.Add(field.Name, "is required: %d to %d characters", field.Least, field.Most)
	case !s.Given:
		return derivedTitle(kind, body), ""
	case f.Problems.Has(field.Name):
	case n < field.Least:
		f.Problems.Add(field.Name, "must have %d to %d characters; this one has %d", field.Least, field.Most, n)
	case n > field.Most:
		f.Notes = append(f.Notes, fmt.Sprintf("The title was shortened to %d characters.", field.Most))
		title = wire.Cut(s.Value, field.Most)
		said = title
		if next, _ := utf8.DecodeRuneInString(s.Value[len(title):]); text.IsNameRune(next) {
			said = strings.TrimRightFunc(title, text.IsNameRune)
		}
		if wire.Count(title) < field.Least { // a few letters and much white space
			title = derivedTitle(kind, s.Value)
		}
	default:
		title, said = s.Value, s.Value
	}
	f.SetValid(field, s.Given, title)
	return title, said
}

// derivedTitle returns a title made from a body's first line.
func derivedTitle(kind command.Kind, body string) string {
	title := wire.FirstLine(body, command.MaxTitle)
	if wire.Count(title) < command.MinTitle {
		title = kind.String() + ": " + title
	}
	return title
}

// Flag reads a boolean, in a form as a word. null is false.
func (f *Form) Flag(field *Field) bool {
	value := f.Doc.Get(field.Name)
	if s, isText := value.(string); isText && f.Doc.Flat && (s == "true" || s == "false") {
		value = s == "true"
	}
	on, isBool := value.(bool)
	if value != nil && !isBool {
		f.Problems.Add(field.Name, "must be true or false")
	}
	f.SetValid(field, value != nil, on)
	return on
}

// Labels reads tags or similar texts: an array, or a text with an array or with commas. It returns
// the distinct ones, or nil if there is a problem.
func (f *Form) Labels(field *Field) (distinct []string) {
	value := f.Doc.Get(field.Name)
	if value == nil {
		return nil
	}
	items, isList := wire.Items(value)
	for _, item := range items[:min(len(items), maxScannedItems)] {
		s, isText := item.(string)
		isList = isList && isText
		if l := f.label(field, strings.TrimSpace(s)); !slices.Contains(distinct, l) {
			distinct = append(distinct, l)
		}
	}
	valid := slices.DeleteFunc(slices.Clone(distinct), func(s string) bool { return wire.Count(s) < field.Least || wire.Count(s) > field.Most })
	if !isList {
		f.Problems.Add(field.Name, "must be an array of strings")
	} else if len(valid) < len(distinct) {
		if len(valid) > 0 && !f.Problems.Has(field.Name) {
			f.Set(field, valid[:min(len(valid), field.Items)])
		}
		f.Problems.Add(field.Name, "each %s must have %d to %d characters", field.Noun, field.Least, field.Most)
	}
	f.SetValid(field, true, distinct)
	if len(items) > field.Items && !f.Problems.Has(field.Name) {
		f.Problems.Add(field.Name, "may hold at most %d %s; these are %d", field.Items, field.Name, len(items))
		f.Set(field, distinct[:min(len(distinct), field.Items)])
	}
	if f.Problems.Has(field.Name) {
		return nil
	}
	return distinct
}

// label reads one label. A tag may begin with #, and is converted to lower case then.
func (f *Form) label(field *Field, s string) string {
	s, bad := wire.Clean(s)
	if bad != wire.FlawNone && !f.Problems.Has(field.Name) {
		f.Problems.Add(field.Name, "%s", bad)
	}
	if strings.HasPrefix(s, "#") && field.Name == FieldTags.Name {
		s = strings.ToLower(strings.TrimLeft(s, "#"))
	}
	return f.withoutCredentials(field, s)
}

// Number reads a whole number, in a form as digits. A missing one is 0.
func (f *Form) Number(field *Field) uint64 {
	var digits string
	value := f.Doc.Get(field.Name)
	switch v := value.(type) {
	case nil:
		return 0
	case json.Number:
		digits = v.String()
	case string:
		if f.Doc.Flat {
			digits = v
		}
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || int(n) < field.Least || int(n) > field.Most {
		f.Problems.Add(field.Name, "must be a whole number from %d to %d", field.Least, field.Most)
		n = 0
	}
	f.SetValid(field, true, int(n))
	return n
}

// ReadRequestID reads the key that keeps a write from being made twice. In a URL it
// is required, and holds only what is safe there.
func (f *Form) ReadRequestID() {
	field, required := &FieldRequestID, f.Body.InURL && !f.DryRun
	s := f.Read(field)
	n := s.Length
	if f.Doc.MessageID != "" {
		f.Author.Request.ID = wire.ShortHash(f.Doc.MessageID)
		if s.Given {
			f.Notes = append(f.Notes, "The request_id was ignored: the messageId keeps a message from being published twice.")
		}
		return
	}
	switch {
	case f.Problems.Has(field.Name) || !s.Given && !required:
	case !s.Given:
		f.Problems.Add(field.Name, "is required when writing by GET: %d to %d letters, digits or . _ - :", field.Least, field.Most)
	case n < field.Least || n > field.Most:
		f.Problems.Add(field.Name, "must have %d to %d characters; this one has %d", field.Least, field.Most, n)
	case f.Body.InURL && strings.Trim(s.Value, safeInURL) != "":
		f.Problems.Add(field.Name, "may hold only letters, digits and . _ - : when writing by GET")
	default:
		f.Author.Request.ID = s.Value
		f.Set(field, s.Value)
	}
}

// safeInURL are the characters of a request_id that need no escapes in a URL.
const safeInURL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:"

// requestPrefix begins a request_id of an example.
const requestPrefix = "req-"

// freshID makes an unused request_id: a hash of what was sent and the time.
func freshID(now time.Time, seed ...string) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	for _, s := range seed {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	const digits = 16
	return requestPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:digits]
}

// Mention finds the agents that texts mention, except their author, and whether the texts
// ask something.
func (f *Form) Mention(texts ...string) {
	if !f.Problems.Any() {
		own := func(key string) bool { return key == f.Author.AgentKey }
		registered := f.Doc.Registered
		if registered == nil {
			registered = func(string) bool { return false }
		}
		f.Author.Mentions = slices.DeleteFunc(text.Mentions(registered, texts...), own)
		f.Author.Question = text.Asks(texts...)
	}
}
