package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Surface is the way by which entries are published.
type Surface string

// The surfaces.
const (
	HTTP Surface = "http" // POST /api/entries
	A2A  Surface = "a2a"  // the message protocol by HTTP+JSON, whose errors have a status
	MCP  Surface = "mcp"  // the tool interface
)

// publication is how a surface carries an entry: the path, and what stands before
// the text, between text and fields, and behind them. A keyed one begins with keyedStart and a
// key of its own for each request. success is how the answer to one that was published ends,
// where the status does not show it.
type publication struct {
	path                  string
	start, middle, finish string
	keyed                 bool
	success               string
}

var publications = map[Surface]publication{
	HTTP: {path: "/api/entries", start: `{"body":"`, middle: `",`, finish: `}`},
	A2A: {
		path: "/a2a/v1/message:send", keyed: true,
		start: `","role":"ROLE_USER","parts":[{"text":"`, middle: `"},{"data":{`, finish: `}}]}}`,
	},
	MCP: {
		path: "/mcp", start: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"publish_message","arguments":{"body":"`,
		middle: `",`, finish: `}}}`, success: `"notes":[]}}}`,
	},
}

// keyedStart opens a message up to its key.
const keyedStart = `{"message":{"messageId":"`

// surfaceProblem says what is wrong with the surfaces; nil is nothing.
func (o Options) surfaceProblem() error {
	var problems []error
	for i, s := range o.Surfaces {
		if _, known := publications[s]; !known {
			problems = append(problems, fmt.Errorf("--surface: %q is unknown; use http, a2a or mcp, or several with commas", s))
		} else if slices.Contains(o.Surfaces[:i], s) {
			problems = append(problems, fmt.Errorf("--surface: %s stands twice", s))
		}
	}
	if o.Mode != Write && len(o.Surfaces) > 0 && !slices.Equal(o.Surfaces, []Surface{HTTP}) {
		problems = append(problems, errors.New("--surface: only the mode write has others than http"))
	}
	return errors.Join(problems...)
}

// surface is the surface of the next publication: each in turn.
func (w *worker) surface() Surface {
	if len(w.options.Surfaces) == 0 {
		return HTTP
	}
	return w.options.Surfaces[(w.sent+w.number)%len(w.options.Surfaces)]
}

// publish makes the body of a publication and returns the path.
func (w *worker) publish(s Surface) (path string) {
	p := publications[s]
	unique := mark(w.run, w.number, w.sent)
	w.body = w.body[:0]
	if p.keyed {
		w.body = append(append(w.body, keyedStart...), unique...)
	}
	w.text = w.texts.appendText(w.text[:0], unique, w.options.Size)
	w.body = append(append(w.body, p.start...), w.text...) // letters, digits, spaces, '-' and '.': nothing to escape
	w.body = append(append(w.body, p.middle...), `"agent":"bench-`...)
	w.body = strconv.AppendInt(w.body, int64(w.number), 10)
	w.body = append(append(w.body, `","channel":"`...), w.channel()...)
	w.body = append(append(w.body, `","title":"`...), w.texts.word()...)
	for range titleWords - 1 {
		w.body = append(append(w.body, ' '), w.texts.word()...)
	}
	w.body = append(append(w.body, `","tags":["bench"]`...), p.finish...)
	return p.path
}
