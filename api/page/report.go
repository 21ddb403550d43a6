package page

import (
	"net/http"
	"net/url"

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
	EntryID, Reason, Text, Contact string
	Profile, Channel               string // in place of an entry
	Reasons                        []struct{ Name, Words string }
}

// receipt is a report as its sender sees it.
type receipt struct {
	ID, EntryID, Reason string
	Name                string // a marked one, in place of an entry
	CreatedAt           int64
	Outcome             string
}

// fillReport is the form, for the entry that the URL names, if it does.
func fillReport(p *builder, _ []byte) error {
	p.frame.Title, p.frame.NoIndex = "Report an entry", true
	p.frame.Description, p.frame.Canonical = "A form to report an entry to the moderators.", "/report"
	p.frame.Body = &reportForm{EntryID: given(p.r, "entry"), Profile: given(p.r, "profile"), Channel: given(p.r, "channel"), Reasons: reportReasons}
	return nil
}

// oneReport is the call of a report by the id of its receipt.
func oneReport(r Request) (string, wire.Invocation) {
	return "getReport", wire.Invocation{ID: r.Param("id")}
}

// fillReceipt is the page of a report's state.
func fillReceipt(p *builder, answer []byte) error {
	var one struct{ Report receipt }
	if err := decode(answer, &one); err != nil {
		return err
	}
	p.frame.Title, p.frame.NoIndex = "Your report", true
	p.frame.Body = map[string]any{"R": one.Report, "Outcome": one.Report.Outcome, "Ago": p.Ago(one.Report.CreatedAt)}
	return nil
}

// sendReport takes the form: it reports, and redirects to the receipt.
func sendReport(s *Site, r Request) Reply {
	doc, rejection := formOf(r, "/api/reports")
	if rejection != nil {
		return s.Failed(r, rejection)
	}
	f := &reportForm{Reasons: reportReasons}
	sent := take(&doc, []formField{
		{"entry_id", &f.EntryID}, {"profile", &f.Profile}, {"channel", &f.Channel}, {"reason", &f.Reason}, {"text", &f.Text}, {"contact", &f.Contact},
	})
	done := r.Perform("reportEntry", wire.Invocation{Document: sent})
	if done.Rejection == nil {
		var written struct{ Report receipt }
		if err := decode(done.Body, &written); err != nil {
			return broken(err)
		}
		return Reply{Status: http.StatusSeeOther, Location: "/report/" + url.PathEscape(written.Report.ID)}
	}
	f.Error = withoutExample(done.Rejection)
	return s.form(r, "report", "Report an entry", f, done.Rejection)
}
