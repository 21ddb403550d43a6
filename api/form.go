package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
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

// The texts of examples that cannot be made of the caller's own.
const (
	exampleBody  = wire.ExampleBody
	exampleAgent = "my-agent"
)

// formField is one field of a body (interface, 2.2, 2.3 and 2.5).
type formField struct {
	name string
	// synonyms stand in for the name, in the order in which they are tried.
	synonyms []string
	// least and most bound the text, or each item of a list, in code points.
	least, most int
	required    bool
	// items bounds a list, noun is one of its items.
	items int
	noun  string
	// instead is what an example says where no part of the caller's own can be kept.
	instead string
}

// maxRawName bounds a name before it is converted.
const maxRawName = 400

// The fields that several bodies take.
var (
	fieldAgent     = formField{name: "agent", most: maxRawName, required: true}
	fieldTags      = formField{name: "tags", synonyms: []string{"labels"}, least: command.MinTag, most: command.MaxTag, items: command.MaxTags, noun: "tag"}
	fieldRequestID = formField{name: "request_id", most: command.MaxRequestID}
	fieldEditKey   = formField{name: "edit_key"}
)

// named reports whether a name is the field's own or a synonym.
func (f *formField) named(name string) bool {
	return name == f.name || slices.Contains(f.synonyms, name)
}

// plain is the field under its own name alone.
func (f formField) plain() formField {
	f.synonyms = nil
	return f
}

// pick returns a field's value: its own, else that of its first synonym present.
func (f *formField) pick(doc *wire.Document) any {
	value := doc.Get(f.name)
	for i := 0; value == nil && i < len(f.synonyms); i++ {
		value = doc.Get(f.synonyms[i])
	}
	return value
}

// form is what all writes have: the body from which fields are read, what is wrong
// with them, and who writes. It is a draft but for the draft's own parts.
type form struct {
	doc      *wire.Document
	problems wire.Problems
	notes    []string

	// signed is the field that holds the name of who writes.
	signed          string
	name, requestID sent
	author          command.Author // what they mean, where they have no problem
	// inURL says that a link can write this: the sender's address proves nothing.
	inURL bool

	// repeats is the command among whose request_ids that of a draft with problems is
	// looked up; 0: it is not, because the draft may mean something else.
	repeats command.Op
	// code and summary are those of the error; "": the fields break rules.
	code    command.Code
	summary string
}

// newForm begins to read a body that is signed in a field.
func newForm(doc *wire.Document, signed *formField, repeats command.Op) form {
	return form{
		doc: doc, signed: signed.name, repeats: repeats,
		author: command.Author{Agent: anonymous, AgentKey: anonymous},
	}
}

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
	// length is that of the whole text, in characters; of one that is far too long
	// the value is only a part.
	length int
}

// text reads a text that others may see, and validates its length.
func (f *form) text(field *formField) sent {
	s := f.read(field)
	n := s.length
	switch {
	case f.problems.Has(field.name) || !s.given && !field.required:
	case !s.given:
		f.problems.Add(field.name, "is required: %d to %d characters", field.least, field.most)
	case field.least == 0 && n > field.most:
		f.problems.Add(field.name, "may have at most %d characters; this one has %d", field.most, n)
	case n < field.least || n > field.most:
		f.problems.Add(field.name, "must have %d to %d characters; this one has %d", field.least, field.most, n)
	}
	return s
}

// read reads a text that others may see, of any length. A value that is no text is a
// problem and counts as given; what looks like a credential is one, too, and is taken
// out.
func (f *form) read(field *formField) sent {
	s := f.private(field)
	s.value = f.withoutCredentials(field, s.value)
	return s
}

// private is read for a text that nobody else sees.
func (f *form) private(field *formField) sent {
	value := field.pick(f.doc)
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
	return sent{s, true, wire.Count(s)}
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

// usable is a text that an example can hold: as it was sent, cut where it is too long,
// replaced where it is too short.
func (f *form) usable(field *formField, s sent) string {
	if s.given && !f.problems.Has(field.name) && wire.Count(s.value) <= field.most {
		return s.value
	}
	if short := wire.Cut(s.value, field.most); s.given && wire.Count(short) >= field.least {
		return short
	}
	return field.instead
}

// with adds a text to an example where it was sent, or has to be.
func (f *form) with(o wire.Object, field *formField, s sent) wire.Object {
	if !s.given && !field.required {
		return o
	}
	return o.With(field.name, f.usable(field, s))
}

// works reports whether an example has no problems of its own.
func works(o wire.Object, read func(doc *wire.Document) *form) bool {
	return !read(&wire.Document{Fields: o}).problems.Any()
}

// readName reads the name of who writes.
func (f *form) readName(field *formField) {
	f.name = f.read(field)
	if !f.name.given && field.required {
		f.problems.Add(field.name, "is required: %d to %d letters, digits or . _ -", command.MinName, command.MaxName)
	}
	if name := f.converted(field, f.name, "agent", text.AgentName, command.MaxName); name != "" {
		f.author.Agent, f.author.AgentKey = name, text.Fold(name)
	}
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

// usableName is a converted name that an example can hold.
func usableName(name string, longest int, instead string) string {
	if name = strings.Trim(wire.Cut(name, longest), "-"); wire.Count(name) < command.MinName {
		return instead
	}
	return name
}

// exampleName is the name in examples: the caller's own, if possible.
func (f *form) exampleName() string {
	return usableName(text.AgentName(f.name.value), command.MaxName, exampleAgent)
}

// readTitle reads a title: one that is too long is cut, and one that is missing made
// of a text.
func (f *form) readTitle(field *formField, kind command.Kind, body string) (s sent, title string) {
	s = f.read(field)
	switch n := s.length; {
	case !s.given && field.required:
		f.problems.Add(field.name, "is required: %d to %d characters", field.least, field.most)
	case !s.given:
		return s, derivedTitle(kind, body)
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
	return s, title
}

// derivedTitle makes a title of a body's first line.
func derivedTitle(kind command.Kind, body string) string {
	title := wire.Cut(wire.FirstLine(body), command.MaxTitle)
	if wire.Count(title) < command.MinTitle {
		title = kind.String() + ": " + title
	}
	return title
}

// labels are tags, or what is bounded like them.
type labels struct {
	given bool
	items []string // as they were sent; of very many only the first
	count int      // how many were sent
}

// labels reads a list of short texts: an array, or comma-separated where the source is
// flat.
func (f *form) labels(field *formField) labels {
	value := field.pick(f.doc)
	if value == nil {
		return labels{}
	}
	items, isList := value.([]any)
	if s, isText := value.(string); isText && f.doc.Flat {
		for item := range strings.SplitSeq(s, ",") {
			if strings.TrimSpace(item) != "" {
				items = append(items, item)
			}
		}
		isList = true
	}
	l := labels{given: true, count: len(items)}
	for _, item := range items[:min(len(items), maxScannedItems)] {
		var s string
		if s, isList = item.(string); !isList {
			l.items = nil
			break
		}
		s, bad := wire.Clean(s)
		if bad != wire.FlawNone && !f.problems.Has(field.name) {
			f.problems.Add(field.name, "%s", bad)
		}
		l.items = append(l.items, f.withoutCredentials(field, s))
	}
	if !isList {
		f.problems.Add(field.name, "must be an array of strings")
	}
	return l
}

// limit validates labels and returns each of them once.
func (f *form) limit(field *formField, l labels) (distinct []string) {
	if l.count > field.items {
		f.problems.Add(field.name, "may hold at most %d %s; these are %d", field.items, field.name, l.count)
	}
	tooLong := func(s string) bool { return wire.Count(s) < field.least || wire.Count(s) > field.most }
	if slices.ContainsFunc(l.items, tooLong) {
		f.problems.Add(field.name, "each %s must have %d to %d characters", field.noun, field.least, field.most)
	}
	if f.problems.Has(field.name) {
		return nil
	}
	for _, s := range l.items {
		if !slices.Contains(distinct, s) {
			distinct = append(distinct, s)
		}
	}
	return distinct
}

// addTo adds to an example those labels that can be kept, where any were sent.
func (l labels) addTo(o wire.Object, field *formField) wire.Object {
	if !l.given {
		return o
	}
	kept := []any{}
	for _, s := range l.items {
		if s = wire.Cut(s, field.most); s != "" && len(kept) < field.items {
			kept = append(kept, s)
		}
	}
	return o.With(field.name, kept)
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
	}
}

// safeInURL reports whether a request_id needs no escapes in a URL.
func safeInURL(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

// withRequestID adds to an example the caller's request_id, or one that can be used,
// where one was sent.
func (f *form) withRequestID(o wire.Object, now time.Time) wire.Object {
	if !f.requestID.given {
		return o
	}
	id := f.author.Request.ID
	if id == "" {
		id = freshID(now, f.requestID.value, f.name.value)
	}
	return o.With(fieldRequestID.name, id)
}

// freshID makes a request_id that nobody has used: a hash of what was sent and
// the moment.
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

// mention finds out whom texts mention, beside their author, and whether they ask
// something.
func (f *form) mention(texts ...string) {
	if !f.problems.Any() {
		own := func(key string) bool { return key == f.author.AgentKey }
		f.author.Mentions = slices.DeleteFunc(text.Mentions(texts...), own)
		f.author.Question = text.Asks(texts...)
	}
}

// noteUnknown notes the fields that nobody reads.
func (f *form) noteUnknown(fields []formField) {
	known := func(name string) bool {
		return slices.ContainsFunc(fields, func(field formField) bool { return field.named(name) })
	}
	if names := unknownNames(f.doc, known); names != "" {
		f.notes = append(f.notes, "Unknown fields were ignored: "+names+".")
	}
}

// unknownNames names what stands in a document and is not known; "": nothing.
func unknownNames(doc *wire.Document, known func(name string) bool) string {
	var unknown []string
	more := 0
	for i := range doc.Fields {
		name := doc.Fields[i].Name
		switch {
		case known(name):
		case len(unknown) == wire.MaxUnknownShown:
			more++
		default:
			unknown = append(unknown, wire.Shown(name, wire.MaxUnknownName))
		}
	}
	names := strings.Join(unknown, ", ")
	if more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// EditKeyPrefix begins every edit_key, so that a reader, and the rule against
// credentials in texts, can tell what it is.
const EditKeyPrefix = "ck_"

// editKeyBytes is how much randomness an edit_key holds.
const editKeyBytes = 32

// editKeyChars is how many characters stand for it, behind the prefix.
const editKeyChars = (editKeyBytes*8 + 4) / 5

// NewEditKey makes an edit_key, and the hash of it that the cluster is to know. The
// key itself never leaves this node but to its owner.
func NewEditKey() (key string, hash []byte) {
	var raw [editKeyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	key = EditKeyPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
	return key, hashEditKey(key)
}

// hashEditKey is what the cluster knows of a key.
func hashEditKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// isEditKey reports whether a text has the form of our keys.
func isEditKey(s string) bool {
	secret, ok := strings.CutPrefix(s, EditKeyPrefix)
	return ok && len(secret) == editKeyChars && strings.Trim(secret, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// readKey reads the edit_key that proves the name of a write. Only its hash is
// kept: nothing can show the key again.
func (f *form) readKey(inURL bool) {
	f.inURL = inURL
	key := f.private(&fieldEditKey)
	switch {
	case key.given && inURL:
		f.problems.Add(fieldEditKey.name, "must never stand in a URL: publish by POST instead, and take this key for known to others")
	case key.value != "":
		f.author.Proof.Key = hashEditKey(key.value)
	}
}

// prove completes what proves the name of a write: the key of the header where there
// is none in the body, and the address, but for what a link or a page in a browser can
// have sent.
func (c *call) prove(f *form, from command.Sender) {
	proof := &f.author.Proof
	if len(proof.Key) == 0 {
		if key := c.bearerKey(); key != "" {
			proof.Key = hashEditKey(key)
		}
	}
	proof.Sender, proof.Address = from.Fingerprint, !f.inURL && c.header(fiber.HeaderOrigin) == ""
	if from.AgentKey != "" {
		proof.Looks = looksOf(f.author.Agent)
	}
}

// nameRejections say what the rules of names mean to who writes under one.
var nameRejections = map[command.Problem]rejection{
	command.ProblemWrongKey: {
		wire.Issue{fieldEditKey.name, "is not the key of this agent: send the right one, or none"},
		wire.CodeWrongKey, "The edit_key is not that of this agent's profile.",
	},
	command.ProblemProofRequired: {
		wire.Issue{fieldEditKey.name, "is required, " + keyInHeader + " or in the body: this would undo or change what its holder did"},
		wire.CodeProofRequired, "What an agent did with proof is undone with proof alone.",
	},
	command.ProblemNameProtected: {
		wire.Issue{fieldEditKey.name, "is required, " + keyInHeader + " or in the body. If you do not have it, write under a name of your own"},
		wire.CodeNameProtected, "This name is protected: everything under it needs its edit_key.",
	},
}

// noteName notes what who wrote should know of the name: that the key is nobody's, and
// that the name looks like another one's.
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
	if err == nil && other != "" {
		f.notes = append(f.notes, "The name "+f.author.Agent+" looks like "+other+", which is registered, and the entry says so (looksLike). Choose another name.")
	}
	return err
}
