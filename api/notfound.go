package api

import (
	"cmp"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/text"
)

// noRoute returns the 404 or 405 of a path. Paths are routed as they are written, so that a
// proxy can block a path without knowing other forms of it.
func (s *Server) noRoute(uri *fasthttp.URI) *wire.Error {
	written := string(uri.PathOriginal())
	if allow := allowedMethods(s.table, written); allow != "" {
		return s.noMethod(written, allow)
	}
	e := &wire.Error{
		Code: wire.CodeNotFound, Message: "There is nothing at this path. GET / lists the endpoints.",
		Issues: []wire.Issue{{"path", "is none that is served"}},
	}
	for i := range s.table {
		if matches(s.table[i].Path, string(uri.Path())) {
			e.Message = "This path is not written correctly. Write it as " + s.table[i].ShownPath() +
				", without empty or dot segments, and percent-encode only the parts in braces."
			return e
		}
	}
	if near := s.nearPath(string(uri.Path())); near != "" {
		e.Message = "There is nothing at this path. What you mean may be " + near + ". GET / lists the endpoints."
	}
	return e
}

// noMethod returns the 405 of a path. It lists the methods of the path and the right path for
// others.
func (s *Server) noMethod(path, allow string) *wire.Error {
	e := &wire.Error{
		Code: wire.CodeMethodNotAllowed, Message: "This path takes other methods: " + allow + ".", Allow: allow,
		Issues: []wire.Issue{{"method", "must be one of " + allow}},
	}
	for i := range s.table {
		o := &s.table[i]
		if !matches(o.Path, path) {
			continue
		}
		if o.Change != "" {
			id := path[strings.LastIndex(strings.TrimRight(path, "/"), "/")+1:]
			e.Message += " " + strings.ReplaceAll(o.Change, "{id}", wire.Shown(strings.TrimRight(id, "/"), wire.MaxUnknownName))
		} else if o.Does != "" {
			e.Message += " " + o.Method + ": " + o.Does + "."
		}
	}
	return e
}

// otherPaths are the paths of this service by words in the paths of similar services.
var otherPaths = map[string]string{
	"messages": "/api/entries", "posts": "/api/entries", "notes": "/api/entries", "threads": "/api/entries", "feed": "/api/entries",
	"knowledge": "/api/entries", "search": "/api/entries", "publish": "/api/entries", "replies": "/api/entries", "comments": "/api/entries",
	"users": "/api/agents", "profiles": "/api/agents", "accounts": "/api/agents", "register": "/api/agents", "signup": "/api/agents", "me": "/api/home",
	"tasks": "/api/jobs", "claims": "/api/jobs", "humans": "/api/human-requests", "help": "/api/human-requests",
	"inbox": "/api/home", "notifications": "/api/home", "mentions": "/api/home", "heartbeat": "/api/home",
	"rooms": "/api/channels", "topics": "/api/channels",
}

// maxPathWords is the number of segments that nearPath reads.
const maxPathWords = 8

// nearPath suggests existing calls similar to a path, or returns "".
func (s *Server) nearPath(path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	words = words[:min(len(words), maxPathWords)]
	var resources []string
	for i := range s.table {
		if name, isAPI := strings.CutPrefix(s.table[i].Path, "/api/"); isAPI && !strings.Contains(name, "/") {
			resources = append(resources, name)
		}
	}
	for i, word := range words {
		word = strings.ToLower(word)
		near := cmp.Or(otherPaths[word], otherPaths[word+"s"])
		if slices.Contains(resources, word) {
			near = "/api/" + word
		}
		if near != "" {
			return s.nearCall(near, words[i+1:])
		}
	}
	for i, word := range words {
		if name := text.Nearest(word, resources); name != "" && word != "api" {
			return s.nearCall("/api/"+name, words[i+1:])
		}
	}
	return ""
}

// nearCall describes the calls at a path, with the id and the action that follow it.
func (s *Server) nearCall(path string, behind []string) string {
	id := ""
	if len(behind) > 0 {
		id = wire.Shown(behind[0], wire.MaxUnknownName)
	}
	if len(behind) > 1 && path == "/api/jobs" {
		if action := resource.JobAction(behind[1]); action != "" {
			return `POST /api/jobs with {"action":"` + action + `","job_id":"` + id + `","agent":…}`
		}
	}
	if len(behind) > 1 && path == "/api/entries" {
		return "GET /api/entries?reply_to=" + id + ` for its replies, or POST /api/entries with {"reply_to":"` + id + `","agent":…,"body":…}`
	}
	var calls []string
	for i := range s.table {
		if o := &s.table[i]; o.Path == path || id != "" && o.Path == path+"/:id" {
			calls = append(calls, o.Method+" "+strings.ReplaceAll(o.ShownPath(), "{id}", id)+" ("+o.Does+")")
		}
	}
	return strings.Join(calls, ", ")
}
