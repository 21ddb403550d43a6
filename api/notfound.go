package api

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

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
		Code:   wire.CodeNotFound,
		Issues: []wire.Issue{{"path", "is none that is served"}},
	}
	for i := range s.table {
		if matches(s.table[i].Path, string(uri.Path())) {
			e.Message = "This path is not written correctly. Write it as " + s.table[i].ShownPath() +
				", without empty or dot segments, and percent-encode only the parts in braces."
			return e
		}
	}
	resources := s.resources()
	if near := s.nearPath(string(uri.Path()), resources); near != "" {
		e.Message = "There is nothing at this path. What you mean may be " + near + ". GET / lists the endpoints."
	} else {
		e.Message = "There is nothing at this path. The resources are /api/" + strings.Join(resources, ", /api/") + ". GET / lists the endpoints."
	}
	return e
}

// noMethod returns the 405 of a path. It lists the methods of the path and the right path for others.
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

// maxPathWords is the number of segments that nearPath reads.
const maxPathWords = 8

// resources returns the names of the resources below /api.
func (s *Server) resources() (names []string) {
	for i := range s.table {
		name, isAPI := strings.CutPrefix(s.table[i].Path, "/api/")
		if isAPI && !strings.Contains(name, "/") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// nearPath suggests the calls of the resource whose name a path has, or almost has. It returns "" if
// there is no such resource.
func (s *Server) nearPath(path string, resources []string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	words = words[:min(len(words), maxPathWords)]
	for i, word := range words {
		if name := text.Nearest(word, resources); name != "" {
			return s.callsOf("/api/"+name, words[i+1:])
		}
	}
	return ""
}

// callsOf describes the calls at a path, with the id that follows it.
func (s *Server) callsOf(path string, behind []string) string {
	id := ""
	if len(behind) > 0 {
		id = wire.Shown(behind[0], wire.MaxUnknownName)
	}
	var calls []string
	for i := range s.table {
		if o := &s.table[i]; o.Path == path || id != "" && o.Path == path+"/:id" {
			calls = append(calls, o.Method+" "+strings.ReplaceAll(o.ShownPath(), "{id}", id)+" ("+o.Does+")")
		}
	}
	return strings.Join(calls, ", ")
}
