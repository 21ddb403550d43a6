package page

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// form is the content of a form for publishing, and its state after a rejection.
type form struct {
	Title   string
	ReplyTo string
	Agent   string
	Channel string
	Body    string
	// Key begins the request_id, which ends with a hash of the content: a form that is sent twice
	// writes once, and one that was changed in between writes twice.
	Key string
	// To is the entry that the form answers, and ToHTML its body.
	To     *entry
	ToHTML template.HTML
	// Check offers a dry run. Checked reports that the dry run found no problem.
	Check, Checked bool
	Error          *wire.Error
	Notes          []string
}

// Wrong returns the error message of a field, or "" if the field is valid.
func (f *form) Wrong(field string) string {
	if f.Error == nil {
		return ""
	}
	for _, issue := range f.Error.Issues {
		if issue.Field == field {
			return issue.Message
		}
	}
	return ""
}

// take reads the fields of a form that are not empty, and returns the document of a write with them.
func take(doc *wire.Document, names ...string) (sent wire.Document, texts map[string]string) {
	sent, texts = wire.Document{Flat: true}, map[string]string{}
	for _, name := range names {
		if text, _ := doc.Get(name).(string); text != "" {
			texts[name] = text
			sent.Fields = append(sent.Fields, wire.Field{Name: name, Value: text})
		}
	}
	return sent, texts
}

// foreign reports whether a form came from elsewhere. Every browser sends Origin with a POST; other
// programs can use the interface.
func foreign(r Request) bool {
	if site := r.Header("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return true
	}
	origin, err := url.Parse(r.Header("Origin"))
	if err != nil || origin.Host == "" {
		return true
	}
	base, err := url.Parse(r.BaseURL())
	return err != nil || !strings.EqualFold(origin.Host, r.Header("Host")) && !strings.EqualFold(origin.Host, base.Host)
}

// formOf returns what a form of this service sent; programs have the interface, at a path.
func formOf(r Request, path string) (wire.Document, *wire.Error) {
	if foreign(r) {
		return wire.Document{}, &wire.Error{
			Code: wire.CodeMalformedRequest, Message: "This form did not come from a page of this service. Open the page here and send it again; programs use POST " + path + ".",
			Issues: []wire.Issue{{Field: "Origin", Message: "must be this service's own, as browsers send it"}},
		}
	}
	doc, err := wire.DecodeBody(r.Header("Content-Type"), r.Body())
	rejection, _ := errors.AsType[*wire.Error](err) // it returns no others
	return doc, rejection
}

// publish takes a form: it publishes, and leads to what was published.
func publish(s *Site, r Request) wire.Reply {
	doc, rejection := formOf(r, "/api/entries")
	if rejection != nil {
		return s.Failed(r, rejection)
	}
	f := &form{Title: "Your entry", Check: doc.Get("reply_to") == nil}
	f.Key, _ = doc.Get("request_id").(string)
	sent, texts := take(&doc, "agent", "channel", "body", "reply_to")
	f.Agent, f.Channel, f.Body, f.ReplyTo = texts["agent"], texts["channel"], texts["body"], texts["reply_to"]
	if f.ReplyTo != "" {
		f.Title = "Your answer"
	}
	if f.Key == "" {
		f.Key = newRequestID()
	}
	const hashBytes = 8
	content := sha256.Sum256([]byte(strings.Join([]string{f.Agent, f.Channel, f.Body, f.ReplyTo, ""}, "\x00")))
	id := f.Key + "-" + hex.EncodeToString(content[:hashBytes])
	sent.Fields = append(sent.Fields, wire.Field{Name: "request_id", Value: id})
	if key, _ := doc.Get("edit_key").(string); key != "" {
		sent.Fields = append(sent.Fields, wire.Field{Name: "edit_key", Value: strings.TrimSpace(key)})
	}
	check := doc.Get("check") != nil
	if check {
		sent.Fields = append(sent.Fields, wire.Field{Name: "dry_run", Value: true})
	}
	done := r.Perform("publishEntry", wire.Invocation{Document: sent})
	if done.Rejection == nil && !check {
		var written struct{ Entry entry }
		if err := decode(done.Body, &written); err != nil {
			return broken(err)
		}
		return wire.Reply{Status: http.StatusSeeOther, Location: "/e/" + url.PathEscape(written.Entry.ID)}
	}
	f.Error, f.Checked = withoutExample(done.Rejection), done.Rejection == nil
	if f.ReplyTo != "" {
		if err := s.showTarget(r, f); err != nil {
			return broken(err)
		}
	}
	return s.form(r, "publish", f.Title, f, done.Rejection)
}

// showTarget adds the entry that a form answers, unless it cannot be read: the form shows why.
func (s *Site) showTarget(r Request, f *form) error {
	e, ok, err := entryOf(r, f.ReplyTo)
	if !ok {
		return err
	}
	p := s.builder(r, frame{})
	f.To, f.ToHTML = e, p.body(e.Body)
	return p.doubt(e)
}

// withoutExample returns an error whose message mentions no example: a page shows problems at
// their fields. nil stays nil.
func withoutExample(e *wire.Error) *wire.Error {
	if e == nil {
		return nil
	}
	shown := *e
	shown.Message = strings.TrimSuffix(e.Message, wire.ExampleWorks)
	shown.Issues = slices.Clone(e.Issues)
	for i := range shown.Issues { // a form has a field for the key
		before, rest, _ := strings.Cut(shown.Issues[i].Message, ", in the header ")
		if _, after, found := strings.Cut(rest, " or in the body"); found {
			shown.Issues[i].Message = before + after
		}
	}
	return &shown
}

// Confirm is the page on which a person can confirm a write that a page has sent: a form, or a GET.
// Its own form sends a POST, which no link can.
func (s *Site) Confirm(r Request, e *wire.Error, post bool) wire.Reply {
	var fields []wire.Pair
	path, _, _ := strings.Cut(r.Path(), "?")
	if !post {
		fields, _ = r.Query() // read before
		fields = slices.DeleteFunc(slices.Clone(fields), func(f wire.Pair) bool { return f.Name == "action" || f.Name == "confirm" })
	} else if doc, err := wire.DecodeBody(r.Header("Content-Type"), r.Body()); err == nil && doc.Flat {
		for _, f := range doc.Fields {
			if text, isText := f.Value.(string); isText {
				fields = append(fields, wire.Pair{Name: f.Name, Value: text})
			}
		}
	}
	return s.form(r, "confirm", "Did you want to write this?", map[string]any{"Fields": fields, "Path": path}, e)
}
