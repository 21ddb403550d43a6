package api

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// pageBytes is how many bytes of a page that is made count as one step of a search.
const pageBytes = 16

// What crawlers may read where the operator says no more than that.
const (
	// RobotsAllow is all pages but searches and forms.
	RobotsAllow = "User-agent: *\nDisallow: /search\nDisallow: /publish\nDisallow: /report\nDisallow: /api/\n"
	// RobotsDeny is nothing.
	RobotsDeny = "User-agent: *\nDisallow: /\n"
)

// getRobots serves GET /robots.txt.
func getRobots(c *call) error { return c.answerText(http.StatusOK, contentText, c.srv.robots) }

// pageOperations are the pages for people. They run the operations of the interface.
func pageOperations() []operation {
	routes := page.Routes()
	table := make([]operation, 0, len(routes)+1)
	for i := range routes {
		rt := &routes[i]
		table = append(table, operation{method: rt.Method, path: rt.Path, id: rt.ID, handle: simple(func(c *call) error { return c.answerRoute(rt) }), page: true})
	}
	return append(table,
		operation{method: http.MethodGet, path: page.AssetPath + ":file", id: "pageAsset", handle: simple(getAsset), page: true},
		operation{method: http.MethodGet, path: "/robots.txt", id: "getRobots", handle: simple(getRobots), page: true},
	)
}

// pageRequest is a request for a page.
type pageRequest struct{ *request }

var _ page.Request = pageRequest{}

func (r pageRequest) Path() string {
	path := string(r.c.rctx.URI().PathOriginal())
	if query := r.c.rctx.URI().QueryString(); len(query) > 0 {
		path += "?" + string(query)
	}
	return path
}

func (r pageRequest) Index() uint64 { return r.c.read().Index() }
func (r pageRequest) EventID() string {
	view := r.c.read()
	return fsm.FormatEventID(view.ClusterID(), view.EventsEnd().EventPlace)
}
func (r pageRequest) Now() time.Time { return r.srv.now() }
func (r pageRequest) Node() string   { return r.srv.backend.NodeName() }

// newPageRequest prepares a request for a page. The calls that the page runs are not
// counted: the page is. What a browser writes is never proven by its address.
func (c *call) newPageRequest() pageRequest {
	r := c.newRelay()
	r.page = true
	if r.origin == "" {
		r.origin = "null"
	}
	return pageRequest{&request{r, c}}
}

// answerRoute answers with a page, as long as making pages for the address has not taken
// too much.
func (c *call) answerRoute(rt *page.Route) error {
	if err := c.withinBudget(c.srv.guard.Reads, "reads", "Pages and searches for your address have taken too much work. Ask for fewer, or by the paths below /api."); err != nil {
		return err
	}
	return c.answerPageReply(c.srv.site.Serve(rt, c.newPageRequest()))
}

func (c *call) answerPageReply(reply page.Reply) error {
	if reply.Cause != nil {
		c.srv.log.Error("request failed", "route", c.template(), "err", reply.Cause)
	}
	c.work += reply.Work / pageBytes
	h := &c.out.Header
	h.Add(fiber.HeaderVary, fiber.HeaderAccept)
	if reply.Rejection != nil {
		c.hint(reply.Rejection)
	}
	if reply.Location != "" {
		h.Set(fiber.HeaderLocation, reply.Location)
	}
	if reply.Caching != "" {
		h.Set(fiber.HeaderCacheControl, reply.Caching)
	}
	if reply.Policy != "" {
		h.Set(fiber.HeaderContentSecurityPolicy, reply.Policy)
		// Not no-referrer: the Origin of forms would be null.
		h.Set(fiber.HeaderReferrerPolicy, "same-origin")
	}
	if c.document = reply.Tag; reply.Tag != "" && c.hasTag(reply.Tag) {
		return nil
	}
	c.out.SetStatusCode(reply.Status)
	h.SetContentType(reply.ContentType)
	c.out.SetBodyRaw(reply.Body)
	return nil
}

// getAsset serves GET /assets/{file}.
func getAsset(c *call) error {
	reply, known := c.srv.site.Asset(c.param("file"))
	if !known {
		return &wire.Error{Code: wire.CodeNotFound, Message: "There is no such file.", Issues: []wire.Issue{{"file", "names no file"}}}
	}
	return c.answerPageReply(reply)
}

// answerFront answers GET / to a browser.
func (c *call) answerFront() error { return c.answerRoute(&page.Front) }

// prefersHTML reports whether a browser asks.
func (c *call) prefersHTML() bool { return page.WantsHTML(c.header(fiber.HeaderAccept)) }

// showFailure answers with an Error object, and a browser that looks for a page with one
// that shows it.
func (c *call) showFailure(err error) {
	e := c.reject(err)
	method := string(c.rctx.Method())
	if (method == http.MethodGet || c.isHead()) && surfaceOf(string(c.rctx.URI().PathOriginal())) == command.SurfaceWeb && c.prefersHTML() {
		_ = c.answerPageReply(c.srv.site.Failed(c.newPageRequest(), e)) // sets it, and fails never
	}
}
