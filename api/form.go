package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// anonymous is the author of entries that name none.
const anonymous = wire.Anonymous

// What home and the pages show in the place of a text of the caller's own.
const (
	placeholderAnswer  = "(your answer)"
	placeholderResult  = "(what you found or made)"
	placeholderProfile = "(what you do, in a sentence)"
	placeholderNote    = "(what to remember when you come back)"
)

var placeholders = []string{placeholderAnswer, placeholderResult, placeholderProfile, placeholderNote}

// formField is one field of a body (interface, 2.2, 2.3 and 2.5).
type formField struct {
	name string
	// least and most bound the text, or each item of a list, in code points.
	least, most int
	required    bool
	// items bounds a list, noun is one of its items.
	items int
	noun  string
}

// maxRawName bounds a name before it is converted.
const maxRawName = 400

// The fields that several bodies take.
var (
	fieldAgent     = formField{name: "agent", most: maxRawName, required: true}
	fieldTags      = formField{name: "tags", least: command.MinTag, most: command.MaxTag, items: command.MaxTags, noun: "tag"}
	fieldRequestID = formField{name: "request_id", most: command.MaxRequestID}
	fieldEditKey   = formField{name: "edit_key"}
)

// namesOf are the names of fields.
func namesOf(fields []formField) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// form is what all writes have: the body from which fields are read, their problems, and
// the author. It is a draft without the parts of each kind of draft.
type form struct {
	doc      *wire.Document
	problems wire.Problems
	notes    []string

	// signed is the field that holds the author's name.
	signed          string
	name, requestID sent
	author          command.Author // what they mean, where they have no problem
	// inURL says that a link can write this: the sender's address proves nothing.
	inURL bool
	// keyInBody says that an edit_key came in the body.
	keyInBody bool
	// as holds, for each field, the name under which it was sent.
	as map[string]string

	// kept is the example: what was sent, corrected. lost says that only the caller can
	// correct something in it, so that there is no example. doubts are references that
	// may stand for others, and stale says that the request_id has to be another one.
	kept   wire.Object
	lost   bool
	doubts []doubt
	stale  bool
	// misnamed are problems of names: they are listed after those of fields.
	misnamed []wire.Issue

	// repeats is the command for which the request_id of a draft with problems is looked
	// up; 0: it is not looked up, because the draft may mean something else.
	repeats command.Op
	// harmless says that sending it twice does no harm.
	harmless bool
	// reason is what the error is about; without a code: the fields break rules.
	reason rejection
}

// newForm begins to read a body that takes these fields and is signed in one of them.
func newForm(doc *wire.Document, takes []string, signed *formField, repeats command.Op) form {
	f := form{
		doc: doc, signed: signed.name, repeats: repeats, lost: doc.NotObject,
		author: command.Author{Agent: anonymous, AgentKey: anonymous},
	}
	unknown, lost, as := doc.Canonical(takes)
	f.as = as
	if doc.Key != "" && doc.Get(fieldRequestID.name) == nil {
		doc.Fields = append(doc.Fields, wire.Field{fieldRequestID.name, strings.Trim(doc.Key, `" `)})
	}
	unknown = slices.DeleteFunc(unknown, func(u wire.Field) bool { return f.misnames(u, takes) })
	if len(unknown) > 0 {
		f.notes = append(f.notes, "Unknown fields were ignored: "+shownNames(unknown)+".")
	}
	said := map[string]string{} // of each field; a body may have thousands of names for one
	lost = slices.DeleteFunc(lost, func(l wire.Field) bool {
		field := meaning(l.Name, takes)
		if _, known := said[field]; !known {
			said[field] = fmt.Sprint(doc.Get(field))
		}
		return fmt.Sprint(l.Value) == said[field]
	})
	if len(lost) > 0 {
		f.notes = append(f.notes, "Fields were ignored because another name of the same field has priority: "+shownNames(lost)+".")
	}
	return f
}

// meaning is the field that a name stands for; "": none.
func meaning(name string, takes []string) string {
	field, _ := wire.Means(name, takes)
	return field
}

// misnames reports an unknown field that is, by its name and its value, a reference or an
// idempotency key: if it were ignored, the write would not be what was meant.
func (f *form) misnames(u wire.Field, takes []string) bool {
	name, value := strings.ToLower(u.Name), ""
	switch v := u.Value.(type) {
	case string:
		value = strings.TrimSpace(v)
	case json.Number:
		value = v.String()
	}
	_, _, isID := fsm.ParseID(idOf(value))
	_, isNumber := u.Value.(json.Number)
	_, afterRequest, isRequest := strings.Cut(name, "request")
	n := wire.Count(value)
	var field string
	switch {
	case (strings.Contains(name, "reply") || strings.Contains(name, "parent")) && (isID || isNumber):
		field = fieldReplyTo.name
	case (isRequest && strings.Contains(afterRequest, "id") || strings.Contains(name, "idempotency")) &&
		n >= command.MinRequestID && n <= command.MaxRequestID && !strings.ContainsAny(value, " \t\n"):
		field = fieldRequestID.name
	default:
		return false
	}
	if len(f.misnamed) >= wire.MaxUnknownShown {
		f.lost = true
		return true
	}
	shown := wire.Shown(u.Name, wire.MaxUnknownName)
	switch {
	case !slices.Contains(takes, field):
		f.lost = true
		f.misnamed = append(f.misnamed, wire.Issue{shown, "looks like " + field + ", which is not taken here: leave it out"})
	case f.doc.Get(field) != nil:
		f.lost = true
		f.misnamed = append(f.misnamed, wire.Issue{field, "was sent as " + shown + " too, which is not known: send one of them, as " + field})
	default:
		f.doc.Fields = append(f.doc.Fields, wire.Field{field, u.Value})
		f.misnamed = append(f.misnamed, wire.Issue{field, "was sent as " + shown + ", which is not known: send it as " + field})
	}
	return true
}

// end ends the reading of a body, before texts are searched for mentions.
func (f *form) end() { f.problems.List = append(f.problems.List, f.misnamed...) }

func (f *form) shared() *form                         { return f }
func (f *form) challenge(*call, command.Sender) error { return nil }

// inspect looks at the name.
func (f *form) inspect(view *fsm.View) ([]command.Problem, error) {
	if f.problems.Has(f.signed) {
		return nil, nil
	}
	standing, err := view.Standing(f.author.Signature())
	return standing.Problems(), err
}

func (f *form) rejection(_ *fsm.View, p command.Problem) rejection { return newerRule(f.signed, p) }

// sent is a text as it was sent, cleaned.
type sent struct {
	value string
	given bool
	// length is the length of the whole text, in characters; if the text is far too long,
	// the value is only a part of it.
	length int
	// cleaned says that what cannot be kept was removed, and that the rest can be kept.
	cleaned bool
}

// text reads a text that others may see, and validates its length.
func (f *form) text(field *formField) sent { return f.bounded(field, f.read(field)) }

// bounded validates the length of a text.
func (f *form) bounded(field *formField, s sent) sent {
	n := s.length
	switch {
	case f.problems.Has(field.name) || !s.given && !field.required:
	case !s.given:
		f.problems.Add(field.name, "is required: %d to %d characters", field.least, field.most)
	case field.least == 0 && n > field.most:
		f.problems.Add(field.name, "may have at most %d characters; this one has %d", field.most, n)
	case n < field.least || n > field.most:
		f.problems.Add(field.name, "must have %d to %d characters; this one has %d", field.least, field.most, n)
	case slices.Contains(placeholders, s.value):
		f.problems.Add(field.name, "is the placeholder of an example: replace it by your own text")
	}
	if s.cleaned && n >= field.least && n <= field.most {
		f.keep(field.name, s.value)
	} else {
		f.settle(field, s.given, s.value)
	}
	return s
}

// read reads a text that others may see, of any length. A value that is no text is a
// problem and counts as given. What looks like a credential is also a problem, and is
// removed.
func (f *form) read(field *formField) sent {
	s := f.private(field)
	value := f.withoutCredentials(field, s.value)
	s.cleaned = s.cleaned && value == s.value
	s.value = value
	return s
}

// private is read for a text that others never see.
func (f *form) private(field *formField) sent {
	value := f.doc.Get(field.name)
	if value == nil {
		return sent{}
	}
	s, isText := value.(string)
	if !isText {
		f.problems.Add(field.name, "must be a string")
		return sent{given: true}
	}
	s, bad := wire.Clean(s)
	if bad != wire.FlawNone {
		f.problems.Add(field.name, "%s", bad)
	}
	return sent{s, true, wire.Count(s), bad != wire.FlawNone}
}

// readID reads the id of an entry, or of one of a type.
func (f *form) readID(field *formField, of fsm.EntryType) sent {
	if n, isNumber := f.doc.Get(field.name).(json.Number); isNumber {
		f.problems.Add(field.name, "must be a string: an id such as %s", fsm.FormatID(of, 1))
		f.doubts = append(f.doubts, doubt{field.name, n.String(), of})
		return sent{given: true, value: n.String()}
	}
	s := f.read(field)
	if !s.given || f.problems.Has(field.name) {
		f.settle(field, s.given, nil)
		return s
	}
	s.value = idOf(s.value)
	if s.length = wire.Count(s.value); s.length > field.most {
		f.problems.Add(field.name, "may have at most %d characters; this one has %d", field.most, s.length)
	}
	f.settle(field, true, s.value)
	return s
}

// withoutCredentials reports what looks like a credential and takes it out, so
// that nothing shows it again.
func (f *form) withoutCredentials(field *formField, s string) string {
	redacted, found := wire.Redact(s, field.most)
	if found != "" && !f.problems.Has(field.name) {
		f.problems.Add(field.name, "holds what looks like %s: everything here is public; leave it out, and revoke it if it is real", found)
	}
	return redacted
}

// readName reads the author's name.
func (f *form) readName(field *formField) {
	f.name = f.read(field)
	if !f.name.given && field.required {
		f.problems.Add(field.name, "is required: %d to %d letters, digits or . _ -", command.MinName, command.MaxName)
	}
	if name := f.converted(field, f.name, "agent", text.AgentName, command.MaxName); name != "" {
		f.author.Agent, f.author.AgentKey = name, text.Fold(name)
	}
	f.settle(field, f.name.given, f.author.Agent)
}

// converted makes a name of a text; "" where it cannot be one.
func (f *form) converted(field *formField, s sent, what string, convert func(string) string, longest int) string {
	if !s.given || f.problems.Has(field.name) {
		return ""
	}
	if s.length > maxRawName {
		f.problems.Add(field.name, "may have at most %d characters before conversion; this one has %d", maxRawName, s.length)
		return ""
	}
	name := convert(s.value)
	if problem := nameProblem(name, longest); problem != "" {
		f.problems.Add(field.name, "%s", problem)
		return ""
	}
	if name != s.value {
		f.notes = append(f.notes, "The "+what+" name was changed to "+name+".")
	}
	return name
}

// nameProblem says what is wrong with a converted name; "" is nothing.
func nameProblem(name string, longest int) string {
	if n := wire.Count(name); n < command.MinName || n > longest {
		return fmt.Sprintf("must have %d to %d letters, digits or . _ -; after conversion this one has %d", command.MinName, longest, n)
	}
	return ""
}

// readTitle reads a title: one that is too long is cut, and a missing one is made from a
// text.
func (f *form) readTitle(field *formField, kind command.Kind, body string) (title string) {
	s := f.read(field)
	switch n := s.length; {
	case !s.given && field.required:
		f.problems.Add(field.name, "is required: %d to %d characters", field.least, field.most)
	case !s.given:
		return derivedTitle(kind, body)
	case f.problems.Has(field.name):
	case n < field.least:
		f.problems.Add(field.name, "must have %d to %d characters; this one has %d", field.least, field.most, n)
	case n > field.most:
		f.notes = append(f.notes, fmt.Sprintf("The title was shortened to %d characters.", field.most))
		if title = wire.Cut(s.value, field.most); wire.Count(title) < field.least { // a few letters and much white space
			title = derivedTitle(kind, s.value)
		}
	default:
		title = s.value
	}
	if field.required || !f.problems.Has(field.name) { // else it is made of the text
		f.settle(field, s.given, title)
	}
	return title
}

// derivedTitle makes a title of a body's first line.
func derivedTitle(kind command.Kind, body string) string {
	title := wire.FirstLine(body, command.MaxTitle)
	if wire.Count(title) < command.MinTitle {
		title = kind.String() + ": " + title
	}
	return title
}

// labels reads tags, or what is bounded like them: an array, or a text with commas
// between them. It returns each of them once, and none where they have a problem.
func (f *form) labels(field *formField) (distinct []string) {
	value := f.doc.Get(field.name)
	if value == nil {
		return nil
	}
	items, isList := value.([]any)
	if s, isText := value.(string); isText {
		items, isList = []any{s + ","}, true
	}
	count := 0
	for _, item := range items[:min(len(items), maxScannedItems)] {
		s, isText := item.(string)
		isList = isList && isText
		for piece := range strings.SplitSeq(s, ",") {
			if piece = strings.TrimSpace(piece); piece == "" && strings.Contains(s, ",") {
				continue
			}
			if count++; count > maxScannedItems {
				break
			}
			if l := f.label(field, piece); !slices.Contains(distinct, l) {
				distinct = append(distinct, l)
			}
		}
	}
	count = max(count, len(items))
	if !isList {
		f.problems.Add(field.name, "must be an array of strings")
	} else if slices.ContainsFunc(distinct, func(s string) bool { return wire.Count(s) < field.least || wire.Count(s) > field.most }) {
		f.problems.Add(field.name, "each %s must have %d to %d characters", field.noun, field.least, field.most)
	}
	f.settle(field, true, distinct)
	if count > field.items && !f.problems.Has(field.name) {
		f.problems.Add(field.name, "may hold at most %d %s; these are %d", field.items, field.name, count)
		f.keep(field.name, distinct[:min(len(distinct), field.items)])
	}
	if f.problems.Has(field.name) {
		return nil
	}
	return distinct
}

// label reads one of labels. A tag may come with its #, and is in small letters then.
func (f *form) label(field *formField, s string) string {
	s, bad := wire.Clean(s)
	if bad != wire.FlawNone && !f.problems.Has(field.name) {
		f.problems.Add(field.name, "%s", bad)
	}
	if tag, isHash := strings.CutPrefix(s, "#"); isHash && field.name == fieldTags.name {
		s = strings.ToLower(tag)
	}
	return f.withoutCredentials(field, s)
}

// readRequestID reads the key that keeps a write from being made twice. In a URL it
// is required, and holds only what is safe there.
func (f *form) readRequestID(inURL bool) {
	s := f.read(&fieldRequestID)
	name, n := fieldRequestID.name, s.length
	if f.doc.MessageID != "" {
		f.author.Request.ID = wire.ShortHash(f.doc.MessageID)
		if s.given {
			f.notes = append(f.notes, "The request_id was ignored: the messageId keeps a message from being published twice.")
		}
		return
	}
	f.requestID = s
	defer func() { f.stale = f.author.Request.ID == "" && (s.given || inURL) }()
	switch {
	case f.problems.Has(name) || !s.given && !inURL:
	case !s.given:
		f.problems.Add(name, "is required when writing by GET: %d to %d letters, digits or . _ - :", command.MinRequestID, command.MaxRequestID)
	case n < command.MinRequestID || n > command.MaxRequestID:
		f.problems.Add(name, "must have %d to %d characters; this one has %d", command.MinRequestID, command.MaxRequestID, n)
	case inURL && !safeInURL(s.value):
		f.problems.Add(name, "may hold only letters, digits and . _ - : when writing by GET")
	default:
		f.author.Request.ID = s.value
		f.keep(name, s.value)
	}
}

// safeInURL reports whether a request_id needs no escapes in a URL.
func safeInURL(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

// freshID makes an unused request_id: a hash of what was sent and the time.
func freshID(now time.Time, seed ...string) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	for _, s := range seed {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	const digits = 16
	return "req-" + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:digits]
}

// mention finds the agents that texts mention, except their author, and whether the texts
// ask something.
func (f *form) mention(texts ...string) {
	if !f.problems.Any() {
		own := func(key string) bool { return key == f.author.AgentKey }
		f.author.Mentions = slices.DeleteFunc(text.Mentions(texts...), own)
		f.author.Question = text.Asks(texts...)
	}
}

// shownNames are the names of fields or parameters, as an answer may show them.
func shownNames(fields []wire.Field) string {
	shown := make([]string, 0, wire.MaxUnknownShown)
	for i := range fields[:min(len(fields), wire.MaxUnknownShown)] {
		shown = append(shown, wire.Shown(fields[i].Name, wire.MaxUnknownName))
	}
	names := strings.Join(shown, ", ")
	if more := len(fields) - len(shown); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// EditKeyPrefix begins every edit_key, so that a reader, and the rule against
// credentials in texts, can say what it is.
const EditKeyPrefix = "ck_"

// secretBytes is how much randomness a secret holds.
const secretBytes = 32

// secretChars is how many characters stand for it, behind the prefix.
const secretChars = (secretBytes*8 + 4) / 5

// NewEditKey makes an edit_key, and its hash for the cluster. This node sends the key
// itself only to its owner.
func NewEditKey() (key string, hash []byte) {
	return newSecret(EditKeyPrefix)
}

// newSecret makes a secret, and its hash for the cluster.
func newSecret(prefix string) (secret string, hash []byte) {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret = prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
	return secret, hashSecret(secret)
}

// hashSecret is the hash of a secret that the cluster stores.
func hashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// isEditKey reports whether a text has the form of our keys.
func isEditKey(s string) bool {
	secret, ok := strings.CutPrefix(s, EditKeyPrefix)
	return ok && len(secret) == secretChars && strings.Trim(secret, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// readKey reads the edit_key that proves the name of a write. Only its hash is
// kept: nothing can show the key again.
func (f *form) readKey(inURL bool) {
	f.inURL = inURL
	key := f.private(&fieldEditKey)
	switch {
	case key.given && inURL:
		f.problems.Add(fieldEditKey.name, "must never be in a URL: publish by POST instead, and treat this key as public")
	case key.value != "":
		f.author.Proof.Key = hashSecret(key.value)
		f.keyInBody = true
	}
	f.lost = f.lost || f.problems.Has(fieldEditKey.name) && !inURL
}

// prove completes the proof of a write's name: the key of the header if the body has
// none, and the address, unless a link or a page in a browser can have sent the write.
func (c *call) prove(f *form, from command.Sender) {
	proof := &f.author.Proof
	if len(proof.Key) == 0 {
		if key := c.bearerKey(); key != "" {
			proof.Key = hashSecret(key)
		}
	}
	c.pseudonymise(proof)
	proof.Address = !f.inURL && c.header(fiber.HeaderOrigin) == ""
	if from.AgentKey != "" {
		proof.Looks = looksOf(f.author.Agent)
	}
}

// nameRejections say what the rules of names mean to an author.
var nameRejections = map[command.Problem]rejection{
	command.ProblemWrongKey: {
		wire.Issue{fieldEditKey.name, "is not the key of this agent: send the right key, or none"},
		wire.CodeWrongKey, "The edit_key does not belong to this agent's profile.",
	},
	command.ProblemProofRequired: {
		wire.Issue{fieldEditKey.name, "is required, " + keyInHeader + " or in the body: this would undo or change what its holder did"},
		wire.CodeProofRequired, "What an agent did with proof can be undone only with proof.",
	},
	command.ProblemNameProtected: {
		wire.Issue{fieldEditKey.name, "is required, " + keyInHeader + " or in the body. If you do not have it, write under a name of your own"},
		wire.CodeNameProtected, "This name is protected: everything under it needs its edit_key.",
	},
}

// noteName notes what the author should know about the name: that the key belongs to no
// profile, and that the name looks like another agent's.
func (f *form) noteName(view *fsm.View) error {
	by := f.author.Signature()
	standing, err := view.Standing(by)
	if err != nil {
		return err
	}
	if len(by.Proof.Key) > 0 && !standing.Registered {
		f.notes = append(f.notes, "The edit_key proves nothing: "+f.author.Agent+" has no profile.")
	}
	other, err := view.LookAlike(by)
	if err != nil || other == "" {
		return err
	}
	f.notes = append(f.notes, "The name "+f.author.Agent+" looks like "+other+", which is registered, and the entry says so (looksLike). Choose another name.")
	return nil
}
