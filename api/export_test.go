package api

import (
	"log/slog"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/wire"
)

// Served is a route as the table has it.
type Served struct{ Method, Path string }

// Routes returns the table of routes. Parameters are written {id}.
func Routes() []Served {
	table := routeTable()
	served := make([]Served, len(table))
	for i := range table {
		served[i] = Served{table[i].method, table[i].documented()}
	}
	return served
}

// QueryParams are the parameters that the lists of the interface read, by path.
func QueryParams() map[string][]string {
	published := []string{"action", "confirm"}
	for _, f := range []entryField{fieldBody, fieldTitle, fieldRequestID, fieldTags, fieldSupersedes, fieldRelation} {
		published = append(published, f.name) // the others filter, too
	}
	return map[string][]string{
		"/api/entries": append(published, listParams...), "/api/home": homeParams, "/api/usage": usageParams,
		"/api/agents": agentParams, "/api/jobs": jobParams, "/api/human-requests": helpParams,
	}
}

// BodyFields are the fields that the bodies of the interface take, by path,
// without synonyms.
func BodyFields() map[string][]string {
	entry := make([]string, 0, len(entryFields))
	for _, f := range entryFields {
		entry = append(entry, f.name)
	}
	return map[string][]string{
		"/api/entries": entry, "/api/agents": agentFields, "/api/jobs": jobFields, "/api/human-requests": helpFields,
	}
}

// OtherParams are the parameters of every other read.
func OtherParams() []string { return freshnessParams }

// Relayed is what came of an operation that a test ran in memory.
type Relayed struct {
	Status  int
	Body    []byte
	Refusal *wire.Error
	Index   uint64
}

// Relay runs an operation on behalf of the surface at a path, for a client of its
// own. The query is written as in a URL, the body as JSON.
func Relay(s *Server, path, operationID, query, id, body string) Relayed {
	var req fasthttp.Request
	req.Header.Set(fiber.HeaderUserAgent, "curl/8")
	var rctx fasthttp.RequestCtx
	rctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
	c := s.newCall(&rctx)
	c.route = &route{path: path}
	r := c.behalf()
	in := wire.Invocation{ID: id}
	in.Params, _ = wire.ParsePairs(query)
	in.Document, _ = wire.DecodeBody(contentJSON, []byte(body))
	done := r.perform(operationID, in)
	return Relayed{done.Status, done.Body, done.Refusal, done.Index}
}

// RequestLog writes a sample of requests.
type RequestLog struct{ *requestLog }

// NewRequestLog returns a log of at most perSecond lines.
func NewRequestLog(log *slog.Logger, perSecond int) RequestLog {
	return RequestLog{newRequestLog(log, perSecond)}
}

// Write logs one request, or leaves it out.
func (l RequestLog) Write(now time.Time, method, route string, status, bytes int, took time.Duration) {
	l.write(now, method, route, status, bytes, took)
}
