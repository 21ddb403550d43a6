package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

// The usual values of Config.Robots.
const (
	// RobotsAllow lets crawlers read all pages but searches and forms.
	RobotsAllow = "User-agent: *\nDisallow: /search\nDisallow: /publish\nDisallow: /report\nDisallow: /api/\n"
	// RobotsDeny lets crawlers read no page.
	RobotsDeny = "User-agent: *\nDisallow: /\n"
)

// pageRoutes are the pages for people. They run the operations of the interface.
func pageRoutes() []route {
	row := func(method, path, id string, serve func(*exchange) error) route {
		return route{op.Operation{Method: method, Path: path, ID: id, Page: true}, serve}
	}
	var table []route
	for _, rt := range page.Routes() {
		table = append(table, row(rt.Method, rt.Path, rt.ID, func(x *exchange) error { return x.answerRoute(&rt) }))
	}
	return append(table,
		row(http.MethodGet, page.AssetPath+":file", "pageAsset", getAsset),
		row(http.MethodGet, "/robots.txt", "getRobots", func(x *exchange) error { return x.AnswerText(http.StatusOK, op.ContentText, x.http.cfg.Robots) }),
		row(http.MethodGet, "/favicon.ico", "pageIcon", func(x *exchange) error { return x.answerPageReply(x.http.site.Icon()) }),
	)
}

// pageRequest is a request for a page.
type pageRequest struct{ *request }

var _ page.Request = pageRequest{}

func (r pageRequest) Path() string  { return r.target() }
func (r pageRequest) Index() uint64 { return r.View().Index() }
func (r pageRequest) EventID() string {
	view := r.View()
	return state.FormatEventID(view.ClusterID(), view.EventsEnd().EventPlace)
}
func (r pageRequest) Now() time.Time { return r.Env.Now() }
func (r pageRequest) Node() string   { return r.Env.Backend.NodeName() }

func (r pageRequest) Owned(name string) (bool, error) {
	// A deleted profile keeps its name.
	s, err := r.View().Standing(command.Signature{AgentKey: text.Fold(name), Proof: &command.Proof{}})
	return s.Registered, err
}

func (r pageRequest) Welcome() (string, error) {
	set, err := r.View().Settings()
	return set.Welcome, err
}

// newPageRequest prepares a request for a page. The page is counted, and not the calls that it
// runs. The address of a browser never proves the name of a write.
func (x *exchange) newPageRequest() pageRequest {
	r := x.newRequest()
	r.Relay.Page = true
	r.Relay.Origin = cmp.Or(r.Relay.Origin, "null")
	return pageRequest{r}
}

// answerRoute answers with a page.
func (x *exchange) answerRoute(rt *page.Route) error {
	return x.makePage(func(r pageRequest) (wire.Reply, error) { return x.http.site.Serve(rt, r), nil })
}

// makePage answers with a page that is made within the budget of the client's address, and in its turn,
// which begins when the state is as fresh as asked. A form has no turn: its write may wait.
func (x *exchange) makePage(serve func(r pageRequest) (wire.Reply, error)) error {
	if err := x.WithinBudget(x.Env.Guard.Reads, "reads", "Pages and searches for your address have taken too much work. Ask for fewer, or by the paths below /api."); err != nil {
		return err
	}
	r := x.newPageRequest()
	if !x.rctx.IsPost() {
		var wrong wire.Problems // which the page shows
		pairs, _ := r.Query()
		query, _ := wire.FoldPairs(pairs)
		query.Canonical(op.FreshnessParams)
		if fresh := x.ReadFreshness(&query, &wrong); !wrong.Any() {
			if err := x.Await(fresh); err != nil {
				return err
			}
		}
		x.Release() // the call holds no view while it waits
		done, ok := x.Env.Guard.MakePage(x.Env.Waits, op.WaitTimeout, guard.ClientOf(x.Sender()))
		if !ok {
			full := x.Env.TooManyAnswers()
			full.Message = "Too many pages are being made for your address, or in all. Ask again in a moment."
			return full
		}
		defer done()
	}
	reply, err := serve(r)
	if err != nil {
		return err
	}
	return x.answerPageReply(reply)
}

func (x *exchange) answerPageReply(reply wire.Reply) error {
	x.Out.VaryBy(op.HeaderAccept)
	return x.answerReply(reply)
}

// getAsset serves GET /assets/{file}.
func getAsset(x *exchange) error {
	reply, known := x.http.site.Asset(x.Param("file"))
	if !known {
		return &wire.Error{Code: wire.CodeNotFound, Message: "There is no such file.", Issues: []wire.Issue{{"file", "names no file"}}}
	}
	return x.answerPageReply(reply)
}

// pageHeader returns the header that shows that a browser sends a write for a page, and not for a
// script that may read the answer or a person who opens an address, or "". Writes by GET are sent by
// links, pictures and prefetches of any page; ours send none. Forms of our own pages use POST.
func (x *exchange) pageHeader() string {
	site, mode := x.Header("Sec-Fetch-Site"), x.Header("Sec-Fetch-Mode")
	switch {
	case x.rctx.IsPost():
		if site == "cross-site" && mode != "" && mode != "cors" {
			return "Sec-Fetch-Site"
		}
		return ""
	case x.Header("Sec-Purpose") != "" || x.Header("Purpose") != "":
		return "Sec-Purpose"
	case site != "":
		if site != "none" && mode != "cors" {
			return "Sec-Fetch-Site"
		}
		return ""
	case x.Header(op.HeaderAuthorization) != "": // only scripts send it
		return ""
	}
	for _, name := range []string{fiber.HeaderReferer, fiber.HeaderOrigin} {
		if x.Header(name) != "" {
			return name
		}
	}
	return ""
}

// askPerson rejects a write that a page makes in the name of its visitor. In a browser the answer is
// a page on which the person can confirm the write.
func (x *exchange) askPerson(header string) error {
	e := &wire.Error{
		Code: wire.CodeCrossSite, Message: "A page has sent this write, by a link, a form, a picture or the like. Nothing was written. A script may send it by fetch, with POST; a person can confirm it in the browser.",
		Issues: []wire.Issue{{header, "shows that a browser sends this for a page"}},
	}
	if !x.prefersHTML() {
		return e
	}
	return x.answerPageReply(x.http.site.Confirm(x.newPageRequest(), e, x.rctx.IsPost()))
}

// prefersHTML reports whether a browser asks.
func (x *exchange) prefersHTML() bool { return page.WantsHTML(x.Header(op.HeaderAccept)) }

// showFailure answers with an Error object, or with a page that shows it to a browser.
func (x *exchange) showFailure(err error) {
	e := x.refuse(err)
	method := string(x.rctx.Method())
	if (method == http.MethodGet || x.rctx.IsHead()) && surfaceOf(string(x.rctx.URI().PathOriginal())) == command.SurfaceWeb && x.prefersHTML() {
		if x.Operation == nil && e.Code == wire.CodeNotFound { // the paths of the interface are for programs
			e.Message, e.Issues = "There is no page at this address.", nil
		}
		_ = x.answerPageReply(x.http.site.Failed(x.newPageRequest(), e)) // sets it, and fails never
	}
}
