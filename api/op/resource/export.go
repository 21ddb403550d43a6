package resource

import (
	"fmt"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	contentNDJSON = "application/x-ndjson"
	formatJSON    = "json"
	fieldAfter    = "after"
)

// exportParams are the parameters of GET /api/export.
var exportParams = []string{fieldAfter, "limit", read.ParamFormat, "consistency", "min_index"}

// getExport serves GET /api/export: everything public, in the order of the log. Tools get the JSON
// object of format=json.
func getExport(c *op.Call) (op.Task, error) {
	after, asObject := "", c.Inner
	l, err := read.Parse(c, exportParams, func(l *read.Params) {
		l.Looks = true
		l.Query.Limit = l.Number("limit", command.MaxExported, command.MaxExported)
		if after = op.CleanID(l.Text(fieldAfter, command.MaxTarget)); after != "" {
			if _, _, is := state.ParseID(after); !is {
				l.Problems.Add(fieldAfter, "must be the id in the last line of the call before; leave it out to begin")
			}
		}
		switch l.Text(read.ParamFormat, read.MaxNumber) {
		case "", "ndjson":
		case formatJSON:
			asObject = true
		default:
			l.Problems.Add(read.ParamFormat, "must be ndjson or json")
		}
	})
	if err != nil {
		return op.Task{}, err
	}
	return op.Task{Fresh: l.Fresh, Versioned: true, Run: func() error {
		over, ok := c.Env.Guard.Export(guard.ClientOf(c.Sender()))
		if !ok {
			return tooManyExports()
		}
		defer over()
		built, err := c.Build(command.MaxList)
		if err != nil {
			return err
		}
		defer built()
		seq, known := c.View().Resolve(after)
		if !known && after != "" {
			return wire.Invalid([]wire.Issue{{fieldAfter, "names no entry that exists: leave it out to begin"}}, wire.Object{{"limit", l.Query.Limit}})
		}
		return answerExport(c, l, after, seq, asObject)
	}}, nil
}

// answerExport answers with the lines after a seq, and charges their bytes.
func answerExport(c *op.Call, l *read.Params, after string, seq uint64, asObject bool) error {
	view, separator := c.View(), "\n"
	if asObject {
		separator = ","
	}
	lines, last, err := view.AppendExport(nil, seq, l.Query.Limit, command.MaxExportBytes, separator)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	c.Work += len(lines) / op.PageBytes
	if len(lines) > 0 {
		lines, after = lines[1:], c.ShownID(view, last) // without the first separator
	}
	if !asObject {
		if len(lines) > 0 {
			lines = append(lines, '\n')
		}
		c.Out.EndBody(lines)
		c.Out.Status, c.Out.ContentType = http.StatusOK, contentNDJSON
		return nil
	}
	return c.AnswerOf(len(lines), http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(append(append(read.BeginNotes(c, dst), `"lines":[`...), lines...), `],"after":`...)
		return append(wire.AppendJSON(dst, wire.OrNull(after)), '}'), nil
	})
}

func tooManyExports() error {
	return &command.RateLimited{RetryAfter: time.Second, Limit: &command.RateLimit{
		Name: "exports", Quota: 1, Window: time.Second, Field: "sender",
		Message: "Another export for your address is running. Wait for its end, then go on after its last line.",
	}}
}
