package api

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// Served is an operation as the table has it.
type Served struct {
	Method, Path, ID string
	Interface        bool // every surface can run it
	TakesBody        bool
	Tools            []string
}

// Operations returns the table of operations. Parameters are written {id}.
func Operations() []Served {
	// The document leaves pages out.
	return servedWhere(func(o *op.Operation) bool { return !o.Page })
}

// AllOperations returns the table with the pages.
func AllOperations() []Served { return servedWhere(func(*op.Operation) bool { return true }) }

func servedWhere(is func(*op.Operation) bool) []Served {
	table := routes()
	served := make([]Served, 0, len(table))
	for i := range table {
		o := &table[i]
		if !is(&o.Operation) {
			continue
		}
		served = append(served, Served{o.Method, o.ShownPath(), o.ID, o.Surface == command.SurfaceAPI, o.Fields != nil, strings.Fields(o.Tools)})
	}
	return served
}

// QueryParams are the parameters that the reads of the interface take beside those of
// freshness, by path.
func QueryParams() map[string][]string {
	params := map[string][]string{}
	for _, o := range routes() {
		if o.Params != nil {
			params[o.Path] = o.Params
		}
	}
	published := []string{"action", "confirm"}
	for _, field := range BodyFields()["/api/entries"] {
		if field != "edit_key" && !slices.Contains(params["/api/entries"], field) { // the others filter, too
			published = append(published, field)
		}
	}
	params["/api/entries"] = append(published, params["/api/entries"]...)
	return params
}

// BodyFields are the fields that the bodies of the interface take, by path,
// without synonyms.
func BodyFields() map[string][]string {
	fields := map[string][]string{}
	for _, o := range routes() {
		if o.Fields != nil {
			fields[o.Path] = append(fields[o.Path], o.Fields...)
		}
	}
	return fields
}

// OtherParams are the parameters of every other read.
func OtherParams() []string { return op.FreshnessParams }

// Relayed is the result of an operation that a test ran in memory.
type Relayed struct {
	Status    int
	Body      []byte
	Rejection *wire.Error
	Index     uint64
}

// Relay runs an operation for the surface at a path, for a client of its
// own. The query is written as in a URL, the body as JSON.
func Relay(s *Server, path, operationID, query, id, body string) Relayed {
	var req fasthttp.Request
	req.Header.Set(fiber.HeaderUserAgent, "curl/8")
	var rctx fasthttp.RequestCtx
	rctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
	x := s.newExchange(&rctx)
	x.Operation = &op.Operation{Path: path, Surface: surfaceOf(path)}
	r := x.newRequest().Relay
	in := wire.Invocation{ID: id}
	in.Params, _ = wire.ParsePairs(query)
	in.Document, _ = wire.DecodeBody(op.ContentJSON, []byte(body))
	done := r.Perform(operationID, in)
	return Relayed{done.Status, done.Body, done.Rejection, done.Index}
}

// Held is how long the answer to a GET is, and how much memory it holds.
func Held(s *Server, uri string) (length, capacity int) {
	var req fasthttp.Request
	req.SetRequestURI(uri)
	req.Header.SetHost("x")
	var rctx fasthttp.RequestCtx
	rctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
	s.handle(&rctx)
	body := rctx.Response.Body()
	return len(body), cap(body)
}

// RequestLog writes a sample of requests.
type RequestLog struct{ *requestLog }

// NewRequestLog returns a log of at most perSecond lines.
func NewRequestLog(log *slog.Logger, perSecond int) RequestLog {
	return RequestLog{newRequestLog(log, perSecond)}
}

// Write logs one request, or leaves it out.
func (l RequestLog) Write(now time.Time, method, route string, status, bytes int, took time.Duration, parent trace.Parent) {
	l.write(now, method, route, status, bytes, took, parent)
}
