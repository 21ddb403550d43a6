package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/fsm/command"
)

// route is a method of a path that the server serves.
type route struct {
	op.Operation
	// serve answers a request that needs the HTTP exchange; nil runs the operation.
	serve func(*exchange) error
}

// allowedMethods returns the methods of a path for Allow, or "" if the path does not exist.
func allowedMethods(table []route, path string) string {
	var methods []string
	for i := range table {
		if !matches(table[i].Path, path) {
			continue
		}
		methods = append(methods, table[i].Method)
		if table[i].Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if methods == nil {
		return ""
	}
	slices.Sort(methods)
	return strings.Join(append(methods, http.MethodOptions), ", ")
}

// spellings returns the forms of a path template for Fiber: a colon inside a segment starts no
// parameter, and some clients escape it.
func spellings(template string) []string {
	path, verb, has := strings.Cut(template[1:], ":")
	if !has || strings.HasSuffix(path, "/") {
		return []string{template}
	}
	path = "/" + path
	return []string{path + `\:` + verb, path + "%3A" + verb, path + "%3a" + verb}
}

// matches reports whether a path, as it is written, fits a template. Trailing slashes are
// ignored, as in Fiber.
func matches(template, path string) bool {
	if len(path) > 1 {
		path = strings.TrimRight(path, "/")
	}
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(want, have string) bool {
		return want == escapedColon.Replace(have) || strings.HasPrefix(want, ":") && have != ""
	})
}

var escapedColon = strings.NewReplacer("%3A", ":", "%3a", ":")

// surfaceOf returns the surface of a path template. 0 means that its calls are not counted.
func surfaceOf(template string) command.Surface {
	switch {
	case strings.HasPrefix(template, "/api/"):
		return command.SurfaceAPI
	case strings.HasPrefix(template, "/a2a"):
		return command.SurfaceA2A
	case strings.HasPrefix(template, "/mcp"):
		return command.SurfaceMCP
	case template == "/livez", template == "/readyz", template == "/status", template == "/metrics",
		template == "/cluster.json", template == "/measured.json", template == "/robots.txt", template == "/favicon.ico", strings.HasPrefix(template, page.AssetPath):
		return 0
	}
	return command.SurfaceWeb
}
