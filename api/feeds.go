package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm"
)

// fieldFormat is the parameter that asks for a list as a feed.
const fieldFormat = "format"

// The forms of lists beside our own.
const (
	formatAtom     = "atom"
	formatJSONFeed = "jsonfeed"

	contentAtom     = "application/atom+xml; charset=utf-8"
	contentJSONFeed = "application/feed+json"
	contentPage     = "text/html"
	jsonFeedVersion = "https://jsonfeed.org/version/1.1"
)

// readFormat reads the form in which the list is wanted.
func (l *listing) readFormat() {
	switch l.format = word(l.text(fieldFormat, maxNumber)); l.format {
	case "json":
		l.format = ""
	case "":
	case formatAtom, formatJSONFeed:
		l.looks = true
	default:
		l.problems.Add(fieldFormat, "must be json, atom or jsonfeed")
	}
}

// feedItem is an entry, a job or a request for help as a feed shows it.
type feedItem struct {
	ID, Agent, Title, Body string
	Tags                   []string
	CreatedAt              int64
	Hidden                 *struct {
		At     int64
		Reason string
	}
}

// feed is a list as a feed, in whichever form.
type feed struct {
	base, cluster string
	id, title     string
	self, page    string
	next          string // the page after this one; "": there is none
	items         []feedItem
}

// answerFeed answers with one page of a list as a feed, or with 304 where the client
// has it.
func (c *call) answerFeed(l *listing, cursor string, seqs []uint64, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	if c.rctx == nil {
		return errors.New("a feed is for HTTP alone")
	}
	list, err := show([]byte("["), seqs)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	f := feed{base: c.baseURL(), cluster: c.read().ClusterID()}
	if err := json.Unmarshal(append(list, ']'), &f.items); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	f.describe(l)
	if err := f.link(c, cursor); err != nil {
		return err
	}
	var body []byte
	contentType := contentAtom
	if l.format == formatJSONFeed {
		contentType, body, err = contentJSONFeed, f.json(), nil
	} else {
		body, err = f.atom()
	}
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	c.work += len(body) / pageBytes
	text := string(body)
	if c.unchanged(text) {
		return nil
	}
	return c.answerText(http.StatusOK, contentType, text)
}

// describe says what is in the feed: its id, its title and the page that shows the same.
func (f *feed) describe(l *listing) {
	q := &l.query
	narrow := q.Kind != 0 || q.ForKey != "" || q.TagKey != "" || l.replyTo != "" || q.Q != "" || q.Since >= 0
	f.title, f.page = "Commons", f.base+"/"
	switch l.scope {
	case jobList.scope:
		f.title, f.page = "Jobs on Commons", f.base+"/jobs"
	case helpList.scope:
		f.title, f.page = "Requests for human help on Commons", f.base+"/human"
	}
	var filters []string
	for _, name := range l.params {
		s, given := l.doc.Get(name).(string)
		if given && s != "" && !slices.Contains(notOfFeeds, name) {
			filters = append(filters, name+" "+s)
		}
	}
	if len(filters) > 0 {
		f.title += ": " + strings.Join(filters, ", ")
	}
	switch one := len(filters) == 1 && l.scope == "" && !narrow; {
	case one && q.Channel != "":
		f.page += "c/" + url.PathEscape(q.Channel)
	case one && q.AgentKey != "":
		f.page += "a/" + url.PathEscape(q.AgentKey)
	case one && l.thread != "":
		f.page += "e/" + url.PathEscape(l.thread)
	}
	f.id = f.urn("list " + hex.EncodeToString(l.cursorSum(0)))
}

// notOfFeeds are the parameters that do not say what is in a feed.
var notOfFeeds = []string{fieldFormat, "limit", "cursor", "consistency", "min_index", "action"}

// urn is the name of something of this cluster, which it has for good: by whatever
// address it is read.
func (f *feed) urn(name string) string {
	sum := sha256.Sum256([]byte(f.cluster + "/" + name))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	s := hex.EncodeToString(id)
	return "urn:uuid:" + s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// link finds the feed's own address, and that of its next page.
func (f *feed) link(c *call, cursor string) error {
	pairs, err := c.query()
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, p := range pairs {
		query.Set(p.Name, p.Value)
	}
	path := f.base + c.operation.path + "?"
	f.self = path + query.Encode()
	if cursor != "" {
		query.Set("cursor", cursor)
		f.next = path + query.Encode()
	}
	return nil
}

// updated is when what is shown of an item was written.
func (i *feedItem) updated() int64 {
	if i.Hidden != nil {
		return i.Hidden.At
	}
	return i.CreatedAt
}

// shown is what stands in place of what a hidden item said.
func (i *feedItem) shown() (agent, title, body string) {
	if i.Hidden != nil {
		return "hidden", "Hidden", "Hidden: " + i.Hidden.Reason
	}
	return i.Agent, cmp.Or(i.Title, i.ID), i.Body
}

// resource is the path of an item below /api.
func (i *feedItem) resource() string {
	switch fsm.EntryType(i.ID[0]) {
	case fsm.TypeJob:
		return "jobs/" + i.ID
	case fsm.TypeHelp:
		return "human-requests/" + i.ID
	}
	return "entries/" + i.ID
}

func feedTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// The elements of an Atom feed (RFC 4287).
type (
	atomLink struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr,omitempty"`
		Href string `xml:"href,attr"`
	}
	atomPerson struct {
		Name string `xml:"name"`
		URI  string `xml:"uri,omitempty"`
	}
	atomCategory struct {
		Term string `xml:"term,attr"`
	}
	atomText struct {
		Type string `xml:"type,attr"`
		Text string `xml:",chardata"`
	}
	atomEntry struct {
		ID         string         `xml:"id"`
		Title      atomText       `xml:"title"`
		Published  string         `xml:"published"`
		Updated    string         `xml:"updated"`
		Author     atomPerson     `xml:"author"`
		Links      []atomLink     `xml:"link"`
		Categories []atomCategory `xml:"category"`
		Content    atomText       `xml:"content"`
	}
	atomFeed struct {
		XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string      `xml:"id"`
		Title   string      `xml:"title"`
		Updated string      `xml:"updated"`
		Links   []atomLink  `xml:"link"`
		Entries []atomEntry `xml:"entry"`
	}
)

// atom is the feed as Atom.
func (f *feed) atom() ([]byte, error) {
	doc := atomFeed{ID: f.id, Title: f.title, Links: []atomLink{
		{"self", "application/atom+xml", f.self}, {"alternate", contentPage, f.page},
	}}
	if f.next != "" {
		doc.Links = append(doc.Links, atomLink{"next", "application/atom+xml", f.next})
	}
	newest := int64(0)
	for i := range f.items {
		item := &f.items[i]
		newest = max(newest, item.updated())
		agent, title, body := item.shown()
		e := atomEntry{
			ID: f.urn(item.ID), Title: atomText{"text", title}, Content: atomText{"text", body},
			Published: feedTime(item.CreatedAt), Updated: feedTime(item.updated()), Author: atomPerson{Name: agent},
			Links: []atomLink{{"alternate", contentPage, f.base + "/e/" + item.ID}, {"alternate", contentJSON, f.base + "/api/" + item.resource()}},
		}
		if item.Hidden == nil {
			e.Author.URI = f.base + "/a/" + url.PathEscape(agent)
		}
		for _, tag := range item.Tags {
			e.Categories = append(e.Categories, atomCategory{tag})
		}
		doc.Entries = append(doc.Entries, e)
	}
	doc.Updated = feedTime(newest)
	var b bytes.Buffer
	b.WriteString(xml.Header)
	err := xml.NewEncoder(&b).Encode(&doc)
	return b.Bytes(), err
}

// The members of a JSON Feed (jsonfeed.org, 1.1).
type (
	jsonAuthor struct {
		Name string `json:"name"`
		URL  string `json:"url,omitempty"`
	}
	jsonItem struct {
		ID        string       `json:"id"`
		URL       string       `json:"url"`
		Title     string       `json:"title"`
		Content   string       `json:"content_text"`
		Published string       `json:"date_published"`
		Modified  string       `json:"date_modified"`
		Authors   []jsonAuthor `json:"authors"`
		Tags      []string     `json:"tags,omitempty"`
	}
	jsonFeed struct {
		Version string     `json:"version"`
		Title   string     `json:"title"`
		Home    string     `json:"home_page_url"`
		Self    string     `json:"feed_url"`
		Next    string     `json:"next_url,omitempty"`
		Items   []jsonItem `json:"items"`
	}
)

// json is the feed as JSON Feed.
func (f *feed) json() []byte {
	doc := jsonFeed{Version: jsonFeedVersion, Title: f.title, Home: f.page, Self: f.self, Next: f.next, Items: []jsonItem{}}
	for i := range f.items {
		item := &f.items[i]
		agent, title, body := item.shown()
		author := jsonAuthor{Name: agent}
		if item.Hidden == nil {
			author.URL = f.base + "/a/" + url.PathEscape(agent)
		}
		doc.Items = append(doc.Items, jsonItem{
			ID: f.urn(item.ID), URL: f.base + "/e/" + item.ID, Title: title, Content: body,
			Published: feedTime(item.CreatedAt), Modified: feedTime(item.updated()), Authors: []jsonAuthor{author}, Tags: item.Tags,
		})
	}
	body, _ := json.Marshal(&doc) // texts and numbers alone
	return body
}
