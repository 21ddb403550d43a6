// Package page shows the service to people: HTML that is made of the answers of the
// same operations that every surface runs (wire.Performer). It knows no HTTP server, no
// state and no rule of the interface.
package page

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/commons-cluster/commons/api/textcache"
	"github.com/commons-cluster/commons/api/wire"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

const (
	// perPage is how many items a page of a list shows.
	perPage = 30
	// maxPageBytes bounds one page.
	maxPageBytes = 2 << 20
	// keptPages, keptBodies and keptRows bound what is kept of pages, of rendered bodies and
	// of rows of lists, in bytes.
	keptPages  = 8 << 20
	keptBodies = 8 << 20
	keptRows   = 8 << 20
	// pageAge is for how long a page is kept if its entries do not change: it shows how
	// long ago things were.
	pageAge = 30 * time.Second
	// assetAge is how long a file may be kept whose name changes with it, in seconds.
	assetAge = "public, max-age=31536000, immutable"
)

// Request is a request for a page.
type Request interface {
	wire.Request
	// Path is the path of the URL as it was sent.
	Path() string
	// Index is the log index that the state holds now, and EventID the id of its newest
	// event: a client that continues from there misses nothing that a page does not show.
	Index() uint64
	EventID() string
	// Now is the node's clock.
	Now() time.Time
	// Node is the name of the node that answers.
	Node() string
}

// Reply is the answer to a request for a page.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
	// Policy is the Content-Security-Policy, Caching Cache-Control, Location where to go
	// on; "": none.
	Policy, Caching, Location string
	// Tag is the entity tag; "": none.
	Tag string
	// Rejection is what headers are made of, such as when to try again; nil: none.
	Rejection *wire.Error
	// Work is how much rendering took, in bytes that were read and written.
	Work int
	// Cause is a mistake of ours, to be logged; nil: none.
	Cause error
}

const (
	contentHTML = "text/html; charset=utf-8"
	contentJSON = "application/json"
)

// Route is one page.
type Route struct {
	Method, Path, ID string
	// main is the call whose answer the page shows; a client that wants no HTML gets the
	// answer itself. With nil the page has no answer of its own.
	main func(r Request) (operation string, in wire.Invocation)
	// fill makes the page of that answer.
	fill func(p *builder, answer []byte) error
	// name is its template, and nav its place in the navigation.
	name, nav string
	// fresh says that no two requests get the same page.
	fresh bool
	// post answers a form; nil: the page has none.
	post func(s *Site, r Request) Reply
}

// Site makes pages. Its methods are safe for concurrent use.
type Site struct {
	templates map[string]*template.Template
	style     template.CSS
	operator  string // who runs this place, in words
	policy    string
	script    string // its path
	icon      string
	assets    map[string]asset // by name
	bodies    *textcache.Cache
	rows      *textcache.Cache
	pages     *textcache.Cache
	markdown  *markdown
}

type asset struct {
	contentType string
	body        []byte
}

// AssetPath is where the files of the pages are.
const AssetPath = "/assets/"

// New makes a Site. Its pages say who runs the place, unless that is empty.
func New(operator string) (*Site, error) {
	s := &Site{
		operator:  operator,
		templates: map[string]*template.Template{}, assets: map[string]asset{},
		bodies: textcache.New(keptBodies), rows: textcache.New(keptRows), pages: textcache.New(keptPages), markdown: newMarkdown(),
	}
	style, err := assetFiles.ReadFile("assets/style.css")
	if err != nil {
		return nil, fmt.Errorf("read the style of the pages: %w", err)
	}
	small := shrink(string(style))
	s.style = template.CSS(small) //nolint:gosec // ours
	sum := sha256.Sum256([]byte(small))
	s.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if s.script, err = s.addAsset("script.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if s.icon, err = s.addAsset("icon.svg", "image/svg+xml"); err != nil {
		return nil, err
	}
	layout, err := template.New("layout").Funcs(s.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	names, err := templateFiles.ReadDir("templates")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		one, err := layout.Clone()
		if err == nil {
			_, err = one.ParseFS(templateFiles, path.Join("templates", file.Name()))
		}
		if err != nil {
			return nil, fmt.Errorf("read the template %s: %w", name, err)
		}
		s.templates[name] = one
	}
	return s, nil
}

// Forget drops what is kept of pages and of the texts on them.
func (s *Site) Forget() {
	for _, kept := range []*textcache.Cache{s.bodies, s.rows, s.pages} {
		kept.Clear()
	}
}

// addAsset reads a file of the pages. Its name holds a hash of it.
func (s *Site) addAsset(file, contentType string) (string, error) {
	body, err := assetFiles.ReadFile("assets/" + file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	const hashBytes = 6
	sum := sha256.Sum256(body)
	base, suffix, _ := strings.Cut(file, ".")
	name := base + "." + hex.EncodeToString(sum[:hashBytes]) + "." + suffix
	s.assets[name] = asset{contentType, body}
	return AssetPath + name, nil
}

// Asset answers with a file of the pages.
func (s *Site) Asset(name string) (Reply, bool) {
	a, known := s.assets[name]
	return Reply{Status: http.StatusOK, ContentType: a.contentType, Body: a.body, Caching: assetAge}, known
}

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	blanks   = regexp.MustCompile(`\s*\n\s*`)
)

// shrink takes what no browser needs out of a style sheet.
func shrink(css string) string {
	return strings.TrimSpace(blanks.ReplaceAllString(comments.ReplaceAllString(css, ""), "\n"))
}

// WantsHTML reports whether a browser asks: Accept names HTML and not Markdown.
func WantsHTML(accept string) bool {
	return strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/markdown")
}

// Serve answers a request for a page.
func (s *Site) Serve(rt *Route, r Request) Reply {
	if rt.post != nil {
		return rt.post(s, r)
	}
	if !WantsHTML(r.Header("Accept")) && rt.main != nil {
		operation, in := rt.main(r)
		done := r.Perform(operation, in)
		reply := Reply{Status: done.Status, ContentType: contentJSON, Body: done.Body, Rejection: done.Rejection}
		if r.Header("Authorization") != "" {
			reply.Caching = "no-store"
		}
		return reply
	}
	// An answer that waits for an index, or is only for this client, is not kept.
	kept := !rt.fresh && r.Header("X-Commons-Min-Index") == "" && r.Header("Authorization") == ""
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

// keep keeps a page, behind its tag.
func (s *Site) keep(key string, reply Reply) {
	if reply.Tag != "" {
		s.pages.Put(key, reply.Tag+"\n"+string(reply.Body))
	}
}

// recall returns a page that was kept.
func (s *Site) recall(key string) (Reply, bool) {
	text, ok := s.pages.Get(key)
	if !ok {
		return Reply{}, false
	}
	tag, body, _ := strings.Cut(text, "\n")
	return Reply{Status: http.StatusOK, ContentType: contentHTML, Body: []byte(body), Policy: s.policy, Tag: tag}, true
}

// render makes a page.
func (s *Site) render(rt *Route, r Request) Reply {
	p := &builder{site: s, r: r, frame: frame{Nav: rt.nav}, fresh: rt.fresh}
	var answer []byte
	if rt.main != nil {
		operation, in := rt.main(r)
		done := r.Perform(operation, in)
		if done.Rejection != nil {
			return s.Failed(r, done.Rejection)
		}
		answer = done.Body
		p.frame.JSON, p.frame.Feed = jsonPath(operation, in), feedPath(operation, in.Params)
	}
	err := rt.fill(p, answer)
	switch {
	case p.rejection != nil:
		return s.Failed(r, p.rejection)
	case err != nil:
		return s.broken(r, fmt.Errorf("page %s: %w", rt.ID, err))
	}
	return s.execute(p, rt.name, http.StatusOK)
}

// execute runs a template.
func (s *Site) execute(p *builder, name string, status int) Reply {
	p.finish()
	var b bytes.Buffer
	if err := s.templates[name].ExecuteTemplate(&b, "layout", &p.frame); err != nil {
		return s.broken(p.r, fmt.Errorf("page %s: %w", name, err))
	}
	if b.Len() > maxPageBytes {
		return s.broken(p.r, fmt.Errorf("page %s has %d bytes", name, b.Len()))
	}
	reply := Reply{Status: status, ContentType: contentHTML, Body: b.Bytes(), Policy: s.policy, Work: p.work + b.Len()}
	if status == http.StatusOK && !p.fresh {
		const tagBytes = 15
		// The place where news begin is no part of what is shown.
		sum := sha256.Sum256(bytes.Replace(reply.Body, []byte(p.frame.From), nil, 1))
		reply.Tag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
	}
	return reply
}

// Failed is the page of an Error object.
func (s *Site) Failed(r Request, e *wire.Error) Reply {
	p := &builder{site: s, r: r, frame: frame{Title: http.StatusText(e.Status()), Body: e, NoIndex: true}}
	reply := s.execute(p, "error", e.Status())
	reply.Rejection = e
	return reply
}

// broken is the answer after a mistake of ours.
func (s *Site) broken(_ Request, err error) Reply {
	return Reply{Status: http.StatusInternalServerError, ContentType: "text/plain; charset=utf-8", Body: []byte("This page could not be made.\n"), Cause: err}
}

// frame is what every page has, around its own content.
type frame struct {
	Title string // of the page
	Nav   string
	// JSON is where the same thing is as JSON, Feed where it is as a feed; "": nowhere.
	JSON, Feed string
	// Live is the filter of the events that are news for this page, starting after From;
	// "": none are.
	Live, From string
	NoIndex    bool
	Body       any

	Style        template.CSS
	Script, Icon string
	Node         string
	Operator     string // who runs this place, in words
	Self         string // the page's own path and query
}

// builder makes one page.
type builder struct {
	site  *Site
	r     Request
	frame frame
	work  int
	// fresh says that nobody else gets this page.
	fresh bool
	// rejection is what a further call was answered with; nil: nothing.
	rejection *wire.Error
}

// finish fills in what every page has.
func (p *builder) finish() {
	p.frame.Style, p.frame.Script, p.frame.Icon = p.site.style, p.site.script, p.site.icon
	p.frame.Operator = p.site.operator
	if given(p.r, "cursor") != "" {
		p.frame.Live = "" // what is new does not stand on this page
	}
	if p.frame.Live != "" {
		p.frame.From = p.r.EventID()
	}
	p.frame.Node, p.frame.Self = p.r.Node(), p.r.Path()
}

// errRejected ends the making of a page whose further call was rejected.
var errRejected = errors.New("a call was rejected")

// call runs a further read of the page.
func (p *builder) call(into any, operation string, params ...string) error {
	return p.callOf(into, operation, "", params...)
}

func (p *builder) callOf(into any, operation, id string, params ...string) error {
	done := p.r.Perform(operation, wire.Invocation{ID: id, Params: pairs(params...)})
	if done.Rejection != nil {
		p.rejection = done.Rejection
		return errRejected
	}
	return decode(done.Body, into)
}

// readAnswer is how answers are read: we wrote them.
var readAnswer = json.JoinOptions(json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true))

// decode reads an answer of ours.
func decode(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into, readAnswer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// pairs makes parameters of alternating names and values, without those whose value is
// empty.
func pairs(params ...string) (list []wire.Pair) {
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			list = append(list, wire.Pair{Name: params[i], Value: params[i+1]})
		}
	}
	return list
}

// given returns a parameter of the URL; "" where it is missing.
func given(r Request, name string) string {
	query, err := r.Query()
	if err != nil {
		return ""
	}
	for _, pair := range query {
		if pair.Name == name {
			return pair.Value
		}
	}
	return ""
}

// passed are the parameters of the URL that a page hands on, if they are given.
func passed(r Request, names ...string) (params []string) {
	for _, name := range names {
		params = append(params, name, given(r, name))
	}
	return params
}

// jsonPaths are the paths of reads by HTTP.
var jsonPaths = map[string]string{
	"listEntries": "/api/entries", "getEntry": "/api/entries/", "listChannels": "/api/channels", "listAgents": "/api/agents",
	"getAgent": "/api/agents/", "listJobs": "/api/jobs", "getJob": "/api/jobs/", "listHumanRequests": "/api/human-requests", "getHumanRequest": "/api/human-requests/",
	"getStats": "/api/stats", "getUsage": "/api/usage", "moderationLog": "/api/moderation/log",
	"getCluster": "/cluster.json",
}

// jsonPath is the path of the same answer by HTTP.
func jsonPath(operation string, in wire.Invocation) string {
	at := jsonPaths[operation]
	if strings.HasSuffix(at, "/") {
		at += url.PathEscape(in.ID)
	}
	if query := encode(in.Params); query != "" {
		at += "?" + query
	}
	return at
}

// feedPath is the path of a list as a feed, from its beginning; "": it has none.
func feedPath(operation string, params []wire.Pair) string {
	switch operation {
	case "listEntries", "listJobs", "listHumanRequests":
	default:
		return ""
	}
	params = slices.DeleteFunc(slices.Clone(params), func(p wire.Pair) bool { return p.Name == "cursor" || p.Name == "limit" })
	return jsonPaths[operation] + "?" + encode(append(params, wire.Pair{Name: "format", Value: "atom"}))
}

// encode writes parameters as in a URL.
func encode(params []wire.Pair) string {
	var b strings.Builder
	for i, p := range params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value))
	}
	return b.String()
}

// more is the address of the next page of a list; "" on the last one.
func more(r Request, cursor *string) string {
	if cursor == nil {
		return ""
	}
	query, err := r.Query()
	if err != nil {
		return ""
	}
	var kept []wire.Pair
	for _, pair := range query {
		if pair.Name != "cursor" {
			kept = append(kept, pair)
		}
	}
	at, _, _ := strings.Cut(r.Path(), "?")
	return at + "?" + encode(append(kept, wire.Pair{Name: "cursor", Value: *cursor}))
}

// news is the filter of the events that bring a list something new.
func news(params ...string) string {
	return "?" + encode(append([]wire.Pair{{Name: "event", Value: "entry,job,human_request,claim,result"}}, pairs(params...)...))
}

// newRequestID makes the key of a form, so that sending it twice writes once.
func newRequestID() string {
	const keyBytes = 12
	var raw [keyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "page-" + hex.EncodeToString(raw[:])
}
