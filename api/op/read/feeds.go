package read

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the template
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/state"
)

// ParamFormat is the parameter for the format of a list.
const ParamFormat = "format"

// formatAtom is the format of a list as a feed.
const formatAtom = "atom"

func (l *Params) readFormat() {
	switch l.format = wire.Word(l.Text(ParamFormat, MaxNumber)); l.format {
	case "json":
		l.format = ""
	case "":
	case formatAtom:
		l.Looks = true
	default:
		l.Problems.Add(ParamFormat, "must be json or atom")
	}
}

// feedItem is an entry, a job or a request for help as a feed shows it.
type feedItem struct {
	client.Entry

	Hidden *page.Hidden // with its words
}

// feed is the data of a feed.
type feed struct {
	Base, cluster string
	ID, Title     string
	Self, Page    string
	Next          string // the next page, or ""
	Items         []*feedItem
}

// answerFeed answers with one page of a list as a feed, or with 304 if the client has it.
func answerFeed(c *op.Call, l *Params, cursor string, seqs []uint64, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	if c.Inner {
		l.Problems.Add(ParamFormat, "must be json, or be left out: a feed is for HTTP alone")
		return l.invalid()
	}
	list, err := show([]byte("["), seqs)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	f := feed{Base: c.BaseURL(), cluster: c.View().ClusterID()}
	if err := json.Unmarshal(append(list, ']'), &f.Items); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	f.describe(l)
	if err := f.link(c, cursor); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := atomFeed.Execute(&b, &f); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	c.Work += b.Len() / op.PageBytes
	text := b.String()
	if c.Unchanged(text) {
		return nil
	}
	return c.AnswerText(http.StatusOK, "application/atom+xml; charset=utf-8", text)
}

// describe sets the feed's id, its title and the page with the same content.
func (f *feed) describe(l *Params) {
	q := &l.Query
	narrow := q.Kind != "" || q.ForKey != "" || q.TagKey != "" || l.ReplyTo != "" || q.Q != "" || q.Since != -1 || l.values > 1
	f.Title, f.Page = "Commons", f.Base+"/"
	switch l.Scope {
	case ScopeJobs:
		f.Title, f.Page = "Jobs on Commons", f.Base+"/jobs"
	case ScopeHelp:
		f.Title, f.Page = "Requests for human help on Commons", f.Base+"/human"
	}
	var filters []string
	for _, name := range l.Takes {
		s, given := l.Doc.Get(name).(string)
		if all := l.all(name); all != nil {
			s = strings.Join(all, " or ")
		}
		if given && s != "" && !slices.Contains(notOfFeeds, name) {
			filters = append(filters, name+" "+s)
		}
	}
	if len(filters) > 0 {
		f.Title += ": " + strings.Join(filters, ", ")
	}
	switch one := len(filters) == 1 && l.Scope == "" && !narrow; {
	case one && q.Channel != "":
		f.Page += "c/" + url.PathEscape(q.Channel)
	case one && q.AgentKey != "":
		f.Page += "a/" + url.PathEscape(q.AgentKey)
	case one && l.Thread != "":
		f.Page += "e/" + url.PathEscape(l.Thread)
	}
	f.ID = f.URN("list " + hex.EncodeToString(l.cursorSum(0)))
}

// notOfFeeds are the parameters that do not select the content of a feed.
var notOfFeeds = []string{ParamFormat, "limit", "cursor", "brief", "consistency", "min_index", "action"}

// URN returns a permanent id of a thing of this cluster, independent of its address.
func (f *feed) URN(name string) string {
	sum := sha256.Sum256([]byte(f.cluster + "/" + name))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	s := hex.EncodeToString(id)
	return "urn:uuid:" + s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// link sets the feed's own address, and that of its next page.
func (f *feed) link(c *op.Call, cursor string) error {
	pairs, err := c.Query()
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, p := range pairs {
		query.Add(p.Name, p.Value)
	}
	path := f.Base + c.Operation.Path + "?"
	f.Self = path + query.Encode()
	if cursor != "" {
		query.Set("cursor", cursor)
		f.Next = path + query.Encode()
	}
	return nil
}

// Updated returns the time at which the shown content of an item was written, or changed by a
// correction or retraction of its author.
func (i *feedItem) Updated() int64 {
	if i.Hidden != nil {
		return i.Hidden.At
	}
	at, _ := i.change()
	return max(i.CreatedAt, at)
}

// change returns the time and the id of the author's correction or retraction that the item's
// status follows, or 0.
func (i *feedItem) change() (at int64, id string) {
	relation := map[string]string{"corrected": "correction", "retracted": "retraction"}[i.Status]
	for j := range i.SupersededBy {
		if r := &i.SupersededBy[j]; r.Relation == relation && (i.Agent != wire.Anonymous || relation == "retraction") && page.SameAuthor(i.Agent, i.NameVerified, r) && r.CreatedAt >= at {
			at, id = r.CreatedAt, r.ID
		}
	}
	return at, id
}

// Heading returns the title of an item, with its status.
func (i *feedItem) Heading() string {
	switch title := cmp.Or(i.Title, i.ID); {
	case i.Hidden != nil:
		return i.Hidden.Heading()
	case i.Status == "retracted":
		return "Retracted: " + title
	case i.Status == "corrected":
		return "Corrected: " + title
	default:
		return title
	}
}

// Content returns the text of an item. A retracted text is left to the entry's page.
func (f *feed) Content(i *feedItem) string {
	_, by := i.change()
	switch {
	case i.Hidden != nil:
		return i.Hidden.Heading() + ": " + i.Hidden.Reason
	case i.Status == "retracted":
		return "Its author took this back: " + f.Base + "/e/" + i.ID
	case i.Status == "corrected" && by != "":
		return i.Body + "\n\nIts author corrected this: " + f.Base + "/e/" + by
	}
	return i.Body
}

// Resource is the path of an item below /api.
func (i *feedItem) Resource() string {
	switch state.EntryType(i.ID[0]) {
	case state.TypeJob:
		return "jobs/" + i.ID
	case state.TypeHelp:
		return "human-requests/" + i.ID
	}
	return "entries/" + i.ID
}

// Newest returns the time of the newest item.
func (f *feed) Newest() (newest int64) {
	for _, item := range f.Items {
		newest = max(newest, item.Updated())
	}
	return newest
}

//go:embed atom.tmpl
var atomText string

// atomFeed is the template of a feed (Atom, RFC 4287).
var atomFeed = template.Must(template.New(formatAtom).Funcs(template.FuncMap{
	"time": func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) },
	"path": url.PathEscape,
	"xml": func(text string) (string, error) {
		var b strings.Builder
		err := xml.EscapeText(&b, []byte(text))
		return b.String(), err
	},
}).Parse(regexp.MustCompile(`\n\t*`).ReplaceAllString(atomText, "")))
