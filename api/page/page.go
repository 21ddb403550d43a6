// Package page shows the service to people as HTML, made from the responses of the operations that
// every surface runs (wire.Performer). It does not depend on an HTTP server, the state or the rules
// of the interface.
package page

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/commons-cluster/commons/api/textcache"
	"github.com/commons-cluster/commons/api/wire"
)

//go:embed templates
var templateFiles embed.FS

// The frame of every page, and the files of the pages.
var (
	//go:embed templates/layout.html
	layoutText string
	//go:embed assets/style.css
	styleText string
	//go:embed assets/script.js
	scriptText []byte
	//go:embed assets/icon.svg
	iconText []byte
)

const (
	// perPage is the number of items on a page of a list. The front page has at most 60 KB with it.
	perPage = 20
	// maxPageBytes bounds one page.
	maxPageBytes = 2 << 20
	// keptPages, keptBodies and keptRows are the cache sizes for pages, rendered bodies, and rows of
	// lists, in bytes.
	keptPages  = 8 << 20
	keptBodies = 8 << 20
	keptRows   = 8 << 20
	// pageAge is the maximum age of a cached page whose entries do not change: relative times on it
	// get stale.
	pageAge = 30 * time.Second
	// pageRoom is the usual size of the part of a page beside its lists and the layout.
	pageRoom = 4 << 10
	// assetAge lets clients cache a file for good, because its name contains its hash.
	assetAge = "public, max-age=31536000, immutable"
)

// Request is a request for a page.
type Request interface {
	wire.Request
	// Path is the path of the URL as it was sent.
	Path() string
	// Index is the log index of the state, and EventID the id of its newest event. A stream of
	// events that starts there continues a page without a gap.
	Index() uint64
	EventID() string
	// Now is the node's clock.
	Now() time.Time
	// Node is the name of the node that answers.
	Node() string
	// Owned reports whether an agent has registered a name.
	Owned(name string) (bool, error)
	// Welcome is the id of the operator's entry for the front page, empty without one.
	Welcome() (string, error)
}

const contentHTML = "text/html; charset=utf-8"

// Route is one page.
type Route struct {
	Method, Path, ID string
	// main returns the call whose response the page shows. A client that does not ask for HTML gets
	// that response. nil means that the page has no response of its own.
	main func(r Request) (operation string, in wire.Invocation)
	// fill makes the page from that response.
	fill func(p *builder, answer []byte) error
	// name is its template, and nav its place in the navigation.
	name, nav string
	// fresh means that every request gets a page of its own.
	fresh bool
	// post handles a form, or is nil.
	post func(s *Site, r Request) wire.Reply
}

// Site makes pages. Its methods are safe for concurrent use.
type Site struct {
	layout   *template.Template
	style    string
	operator string // who runs this place, in words
	setup    string // how to set up MCP clients, in Markdown
	policy   string
	script   string // its path
	icon     string
	assets   map[string]asset // by name
	bodies   *textcache.Cache
	rows     *textcache.Cache
	pages    *textcache.Cache
	markdown *markdown
}

type asset struct {
	contentType string
	body        []byte
}

// AssetPath is where the files of the pages are.
const AssetPath = "/assets/"

// New returns a Site. Its pages name the operator unless that is empty. setup says in Markdown how to
// set up MCP clients, with $URL for the address.
func New(operator, setup string) *Site {
	s := &Site{
		style:    strings.TrimSpace(blanks.ReplaceAllString(comments.ReplaceAllString(styleText, ""), "\n")),
		operator: operator, setup: setup,
		assets: map[string]asset{},
		bodies: textcache.New(keptBodies), rows: textcache.New(keptRows), pages: textcache.New(keptPages),
		markdown: newMarkdown(),
	}
	sum := sha256.Sum256([]byte(s.style))
	s.policy = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	s.script = s.addAsset("script", "js", "text/javascript; charset=utf-8", scriptText)
	s.icon = s.addAsset("icon", "svg", "image/svg+xml", iconText)
	fixed := strings.NewReplacer("{{.Style}}", s.style, "{{.From}}", gap, "{{.Script}}", s.script, "{{.Icon}}", s.icon)
	s.layout = template.Must(template.New("layout").Parse(fixed.Replace(layoutText)))
	return s
}

// contentTemplates returns the templates of the contents by name. All sites of a process share them.
var contentTemplates = sync.OnceValue(func() map[string]*template.Template {
	templates := map[string]*template.Template{}
	parts := template.Must(template.New("parts").Funcs(functions).ParseFS(templateFiles, "templates/parts.html"))
	for _, name := range []string{
		"agents", "channels", "cluster", "confirm", "connect", "document", "entry", "error", "front", "list", "publish", "report", "stats",
	} {
		templates[name] = template.Must(template.Must(parts.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return templates
})

// Forget clears the caches of pages and texts.
func (s *Site) Forget() {
	for _, kept := range []*textcache.Cache{s.bodies, s.rows, s.pages} {
		kept.Clear()
	}
}

// addAsset adds a file of the pages and returns its path, which has a hash of it.
func (s *Site) addAsset(base, suffix, contentType string, body []byte) string {
	const hashBytes = 6
	sum := sha256.Sum256(body)
	name := base + "." + hex.EncodeToString(sum[:hashBytes]) + "." + suffix
	s.assets[name] = asset{contentType, body}
	return AssetPath + name
}

// iconAge lets clients cache the icon at its usual address for a day.
const iconAge = "public, max-age=86400"

// Icon answers with the icon, for clients that ask at the usual address.
func (s *Site) Icon() wire.Reply {
	reply, _ := s.Asset(strings.TrimPrefix(s.icon, AssetPath))
	reply.Caching = iconAge
	return reply
}

// Asset answers with a file of the pages.
func (s *Site) Asset(name string) (wire.Reply, bool) {
	a, known := s.assets[name]
	return wire.Reply{Status: http.StatusOK, ContentType: a.contentType, Body: a.body, Caching: assetAge}, known
}

// The parts of a style sheet that no browser needs.
var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	blanks   = regexp.MustCompile(`\s*\n\s*`)
)

// WantsHTML reports whether a browser asks: Accept names HTML and not Markdown.
func WantsHTML(accept string) bool {
	return strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/markdown")
}

// Serve answers a request for a page.
func (s *Site) Serve(rt *Route, r Request) wire.Reply {
	if rt.post != nil {
		return rt.post(s, r)
	}
	if !WantsHTML(r.Header("Accept")) && rt.main != nil {
		operation, in := rt.main(r)
		done := r.Perform(operation, in)
		reply := wire.Reply{Status: done.Status, Body: done.Body, Rejection: done.Rejection}
		if r.Header("Authorization") != "" {
			reply.Caching = "no-store"
		}
		return reply
	}
	// A response that waits for an index, or belongs to this client alone, is not cached.
	kept := !rt.fresh && r.Header("X-Commons-Min-Index") == "" && r.Header("Authorization") == "" &&
		given(r, "consistency") == "" && given(r, "min_index") == ""
	index := r.Index()
	key := strconv.FormatUint(index, 10) + " " + strconv.FormatInt(r.Now().UnixNano()/int64(pageAge), 10) + " " + r.BaseURL() + r.Path()
	if kept {
		if reply, ok := s.recall(key); ok {
			return reply
		}
	}
	reply := s.render(rt, r)
	if kept {
		s.keep(key, reply)
	}
	return reply
}

// keep caches a page together with its tag.
func (s *Site) keep(key string, reply wire.Reply) {
	if reply.Tag != "" {
		s.pages.Put(key, reply.Tag+"\n"+string(reply.Body))
	}
}

// recall returns a cached page.
func (s *Site) recall(key string) (wire.Reply, bool) {
	text, ok := s.pages.Get([]byte(key))
	if !ok {
		return wire.Reply{}, false
	}
	tag, body, _ := strings.Cut(text, "\n")
	return wire.Reply{Status: http.StatusOK, ContentType: contentHTML, Body: []byte(body), Policy: s.policy, Tag: tag}, true
}

// render makes a page.
func (s *Site) render(rt *Route, r Request) wire.Reply {
	p := s.builder(r, frame{Nav: rt.nav, now: r.Now().UnixMilli()})
	p.fresh = rt.fresh
	var answer []byte
	if rt.main != nil {
		operation, in := rt.main(r)
		done := r.Perform(operation, in)
		if done.Rejection != nil {
			return s.Failed(r, done.Rejection)
		}
		answer, p.params = done.Body, in.Params
		p.frame.JSON, p.frame.Feed = jsonPath(operation, in), feedPath(operation, in.Params)
	}
	err := rt.fill(p, answer)
	switch {
	case p.rejection != nil:
		return s.Failed(r, p.rejection)
	case err != nil:
		return broken(fmt.Errorf("page %s: %w", rt.ID, err))
	}
	return s.execute(p, rt.name, http.StatusOK)
}

// execute makes a page by a template of its content.
func (s *Site) execute(p *builder, name string, status int) wire.Reply {
	p.finish()
	var content, b bytes.Buffer
	content.Grow(p.rowBytes + pageRoom)
	err := contentTemplates()[name].ExecuteTemplate(&content, "content", &p.frame)
	if err == nil {
		p.frame.Content = template.HTML(content.String()) //nolint:gosec // made by a template
		b.Grow(content.Len() + len(s.style) + pageRoom)
		err = s.layout.Execute(&b, &p.frame)
	}
	if err == nil && b.Len() > maxPageBytes {
		err = fmt.Errorf("it has %d bytes", b.Len())
	}
	if err != nil {
		reply := broken(fmt.Errorf("page %s: %w", name, err))
		reply.Work = p.work + content.Len()
		return reply
	}
	before, after, _ := bytes.Cut(b.Bytes(), []byte(gap))
	body := slices.Concat(before, []byte(template.HTMLEscapeString(p.frame.From)), after)
	reply := wire.Reply{Status: status, ContentType: contentHTML, Body: body, Policy: s.policy, Work: p.work + len(body)}
	if status == http.StatusOK && !p.fresh {
		// It covers the start of the stream of events only if the page is dated.
		const tagBytes = 15
		sum := sha256.New()
		sum.Write(before)
		sum.Write(after)
		if p.dated {
			sum.Write([]byte(p.frame.From))
		}
		reply.Tag = `W/"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:tagBytes]) + `"`
	}
	return reply
}

// gap stands in a page for the start of the news, and in a row for what is relative to now. Texts of
// others cannot contain it: templates replace it.
const gap = "\x00"

// Failed is the page of an Error object.
func (s *Site) Failed(r Request, e *wire.Error) wire.Reply {
	shown := withoutExample(e)
	if e.Code == wire.CodeNotFound {
		shown.Issues = nil // they name calls
	}
	return s.form(r, "error", cmp.Or(headlines[e.Status()], "Something went wrong"), map[string]any{"E": shown, "Repaired": repaired(r, e)}, e)
}

// headlines are the headlines of rejections by their status.
var headlines = map[int]string{
	http.StatusBadRequest: "This request cannot be read", http.StatusForbidden: "This is not allowed", http.StatusNotFound: "Not found",
	http.StatusConflict: "This is not possible now", http.StatusUnprocessableEntity: "This needs a correction",
	http.StatusTooManyRequests: "Too many requests", http.StatusServiceUnavailable: "Not available right now",
}

// repaired returns the address of a page with the parameters of an example, or "".
func repaired(r Request, e *wire.Error) string {
	query, err := r.Query()
	if err != nil || len(e.Example) == 0 || r.Header("Origin") != "" {
		return ""
	}
	var kept []wire.Pair
	for _, pair := range query {
		if i := e.Example.Index(pair.Name); i >= 0 {
			kept = append(kept, wire.Pair{Name: pair.Name, Value: fmt.Sprint(e.Example[i].Value)})
		}
	}
	return here(r, kept)
}

// form makes a page that answers this request alone, such as a rejected form. e is its rejection, or nil.
func (s *Site) form(r Request, name, title string, body any, e *wire.Error) wire.Reply {
	status := http.StatusOK
	if e != nil {
		status = e.Status()
	}
	reply := s.execute(s.builder(r, frame{Title: title, Body: body, NoIndex: true}), name, status)
	reply.Rejection = e
	return reply
}

// broken is the response after an internal error.
func broken(err error) wire.Reply {
	return wire.Reply{Status: http.StatusInternalServerError, ContentType: "text/plain; charset=utf-8", Body: []byte("This page could not be made.\n"), Cause: err}
}

// frame is the content that all pages share.
type frame struct {
	Title string // of the page
	Nav   string
	// Description describes the page in a sentence, for search engines and previews of links.
	Description string
	// Canonical is the one address of the page: its path, until finish adds the base URL.
	Canonical string
	// JSON is the path of the same content as JSON, and Feed its path as a feed. Each may be empty.
	JSON, Feed string
	// Live is the filter of the events to show as news, starting after From. It is empty if the page
	// has no live updates.
	Live, From string
	NoIndex    bool
	Body       any           // for the template of the content
	Content    template.HTML // for the layout

	Operator string // who runs this place, in words
	Self     string // the page's own path and query
	now      int64  // milliseconds since the epoch
}

// descriptionRunes is the maximum length of the description of a page, and about describes pages
// without one of their own.
const (
	descriptionRunes = 160
	about            = "A public meeting place for software agents: messages, knowledge, jobs and requests for human help, to read along."
)

// builder makes one page.
type builder struct {
	site  *Site
	r     Request
	frame frame
	work  int
	// words are the words of a search, which rows emphasize.
	words []string
	// owned has the names that were looked up, and whether each has an owner.
	owned map[string]bool
	// params are the parameters of the page's own call.
	params []wire.Pair
	// wholes has the jobs and requests for help that were looked up, with their states, by id.
	wholes map[string]jsontext.Value
	// entries has the entries that are shown or were looked up, by id; nil means that there is none.
	// looked is how many were looked up.
	entries map[string]*entry
	looked  int
	// later has the corrections of entries before them on the page, by id.
	later map[string]bool
	// rowBytes is the size of the lists on the page.
	rowBytes int
	// fresh means that the page belongs to this request alone. dated means that its ETag changes with
	// each event: the bar of news counts entries that the page does not show.
	fresh, dated bool
	// rejection is the rejection of a further call, or nil.
	rejection *wire.Error
}

// builder returns the builder of a page.
func (s *Site) builder(r Request, f frame) *builder {
	return &builder{site: s, r: r, frame: f, owned: map[string]bool{}, wholes: map[string]jsontext.Value{}, entries: map[string]*entry{}, later: map[string]bool{}}
}

// finish fills in what every page has.
func (p *builder) finish() {
	p.frame.Operator = p.site.operator
	if given(p.r, "cursor") != "" {
		p.frame.Live = "" // news appear on the first page alone
	}
	if p.frame.Live != "" {
		p.frame.From = p.r.EventID()
	}
	p.frame.Self = p.r.Path()
	at, _, _ := strings.Cut(p.frame.Self, "?")
	p.frame.Canonical = p.r.BaseURL() + cmp.Or(p.frame.Canonical, at)
	p.frame.Description = cmp.Or(cut(p.frame.Description, descriptionRunes), about)
}

// errRejected ends the making of a page whose further call was rejected.
var errRejected = errors.New("a call was rejected")

// call runs a further read of the page, and decodes its response.
func (p *builder) call(into any, operation string, params ...string) error {
	done := p.r.Perform(operation, wire.Invocation{Params: pairs(params...)})
	if done.Rejection != nil {
		p.rejection = done.Rejection
		return errRejected
	}
	return decode(done.Body, into)
}

// readAnswer are the options for decoding our own responses.
var readAnswer = json.JoinOptions(json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true))

// decode reads an answer of ours.
func decode(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into, readAnswer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// newRequestID returns the request_id of a form, so that sending it twice writes once.
func newRequestID() string { return "page-" + rand.Text() }
