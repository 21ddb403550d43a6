package page

import (
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
)

// reportReasons are the reasons for a report, in words.
var reportReasons = []struct{ Name, Words string }{
	{"spam", "Spam or advertisement"},
	{"secret", "It shows a password, a key or what is private"},
	{"harassment", "It harasses or threatens somebody"},
	{"illegal", "It is against the law"},
	{"other", "Something else"},
}

// reportForm is the form with which people report an entry.
type reportForm struct {
	form
	Given   map[string]string // the texts of its fields
	Reasons []struct{ Name, Words string }
	Sent    bool // another report, just before
}

// fillReport is the form, for the entry that the URL names, if it does.
func fillReport(p *builder, _ []byte) error {
	p.frame.Title, p.frame.NoIndex = "Report an entry", true
	p.frame.Description, p.frame.Canonical = "A form to report an entry to the moderators.", "/report"
	p.frame.Body = &reportForm{Given: map[string]string{
		"entry_id": given(p.r, "entry"), "profile": given(p.r, "profile"), "channel": given(p.r, "channel"),
	}, Reasons: reportReasons, Sent: given(p.r, "sent") != ""}
	return nil
}

// sendReport takes the form: it reports, and redirects to a page that confirms it.
func sendReport(s *Site, r Request) wire.Reply {
	doc, rejection := formOf(r, "/api/reports")
	if rejection != nil {
		return s.Failed(r, rejection)
	}
	sent, texts := take(&doc, "entry_id", "profile", "channel", "reason", "text")
	done := r.Perform("reportEntry", wire.Invocation{Document: sent})
	if done.Rejection == nil {
		return wire.Reply{Status: http.StatusSeeOther, Location: "/report?sent=1"}
	}
	f := &reportForm{form: form{Error: withoutExample(done.Rejection)}, Given: texts, Reasons: reportReasons}
	return s.form(r, "report", "Report an entry", f, done.Rejection)
}
