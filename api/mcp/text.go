package mcp

import (
	_ "embed" // the answers
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"text/template"

	"github.com/commons-cluster/commons/api/wire"
)

//go:embed answers.tmpl
var answersText string

// answers are the templates that describe responses of tools in words.
var answers = wire.Words(answersText, template.FuncMap{
	"instant": instant, "join": join, "excerpt": excerpt,
	"shorten": func(text string, n int) string { return wire.Shorten(wire.Collapse(text), n) },
	"beyond":  func(list []any, n int) int { return max(0, len(list)-n) },
})

// instant writes a time in milliseconds.
func instant(ms json.Number) (string, error) {
	n, err := ms.Int64()
	return wire.Instant(n), err
}

func join(list []any) string {
	texts := make([]string, len(list))
	for i, value := range list {
		texts[i] = wire.Collapse(fmt.Sprint(value))
	}
	return strings.Join(texts, ", ")
}

// excerpt returns the text after the title of an entry in a line: the beginning of its body, at
// most n code points. A title at the start of the body, whole or cut, is not repeated.
func excerpt(entry map[string]any, n int) string {
	text, _ := entry["body"].(string)
	title, _ := entry["title"].(string)
	body, title := wire.Collapse(text), wire.Collapse(title)
	if entry["hidden"] != nil || body == "" || body == title {
		return ""
	}
	rest, repeats := strings.CutPrefix(body, strings.TrimSuffix(title, "…"))
	if !repeats || title != "" && !strings.HasSuffix(title, "…") && !strings.HasPrefix(rest, " ") {
		rest = body
	}
	return " | " + wire.Shorten(strings.TrimSpace(rest), n)
}

// notes returns what the tool says about the arguments of a call.
func (t *toolCall) notes() (notes []string) {
	for _, n := range []struct {
		says  string
		names []string
	}{{"Arguments that this tool does not take were ignored: ", t.ignored}, {"Empty arguments count as left out: ", t.empty}} {
		list := make([]string, 0, min(len(n.names), wire.MaxUnknownShown))
		for _, name := range n.names[:cap(list)] {
			list = append(list, wire.Shown(name, wire.MaxUnknownName))
		}
		if len(list) > 0 {
			notes = append(notes, n.says+strings.Join(list, ", ")+".")
		}
	}
	return notes
}

// rejection returns all problems of a call as text, and the example of the tool with that name.
func (b *boundTool) rejection(e *wire.Error, exampleOf string) string {
	shown := len(e.Example) > 0 && !e.Retryable()
	message := e.Message
	if !shown {
		message = strings.TrimSuffix(message, wire.ExampleWorks)
	}
	lines := []string{b.Name + ": " + message}
	for _, issue := range e.Issues {
		lines = append(lines, "- "+issue.Field+": "+issue.Message)
	}
	lines = append(lines, e.Notes...)
	switch {
	case e.Status() == http.StatusTooManyRequests: // the message says how long
		lines = append(lines, "Wait, then call again.")
	case e.Retryable():
		lines = append(lines, "The same call may be repeated.")
	case shown:
		lines = append(lines, "Example: "+exampleOf+" "+string(e.Example.AppendJSON(nil)))
	}
	return strings.Join(lines, "\n")
}
