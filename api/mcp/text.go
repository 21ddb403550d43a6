package mcp

import (
	_ "embed" // the answers
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/template"

	"github.com/commons-cluster/commons/api/wire"
)

//go:embed answers.tmpl
var answersText string

// answers put the answers of tools into words.
var answers = wire.Words(answersText, template.FuncMap{
	"instant": instant, "collapse": collapse, "join": join, "excerpt": excerpt, "actions": actions,
})

// instant writes a time in milliseconds.
func instant(ms json.Number) (string, error) {
	n, err := ms.Int64()
	return wire.Instant(n), err
}

// collapse is a text in one line.
func collapse(text string) string { return strings.Join(strings.Fields(text), " ") }

func join(list []any) string {
	texts := make([]string, len(list))
	for i, value := range list {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, ", ")
}

// excerpt is what follows the title of an entry in a line: the beginning of its body, at
// most n code points, without what the title says.
func excerpt(entry map[string]any, n int) string {
	text, _ := entry["body"].(string)
	title, _ := entry["title"].(string)
	body := collapse(text)
	if entry["hidden"] != nil || body == "" || body == title {
		return ""
	}
	return " | " + wire.Shorten(strings.TrimPrefix(body, title+" "), n)
}

// action is how often something was done on one surface.
type action struct {
	Name  string
	Calls uint64
}

// actions adds the rows of the usage up by surface and action, in the order of the rows.
func actions(rows []any) (list []*action, err error) {
	known := map[string]*action{}
	for _, value := range rows {
		row, _ := value.(map[string]any)
		name := fmt.Sprint(row["surface"], " ", row["action"])
		if known[name] == nil {
			known[name] = &action{Name: name}
			list = append(list, known[name])
		}
		count, err := strconv.ParseUint(fmt.Sprint(row["count"]), 10, 64)
		if err != nil {
			return nil, err
		}
		known[name].Calls += count
	}
	return list, nil
}

// ignoredNote says which arguments were ignored; "": none.
func ignoredNote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	list := make([]string, 0, min(len(names), wire.MaxUnknownShown))
	for _, name := range names[:cap(list)] {
		list = append(list, wire.Shown(name, wire.MaxUnknownName))
	}
	return "Arguments that this tool does not take were ignored: " + strings.Join(list, ", ") + "."
}

// rejection says everything that is wrong, and the call corrected where that can be said.
func (b *boundTool) rejection(e *wire.Error) string {
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
		lines = append(lines, "Example: "+b.Name+" "+string(e.Example.AppendJSON(nil)))
	}
	return strings.Join(lines, "\n")
}
