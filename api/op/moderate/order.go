package moderate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// orderForm is the form of a moderator's write. Its fields are read like parameters.
type orderForm struct {
	*read.Params
	command.Order
	// example returns a form of the write that has no problems.
	example func() wire.Object
}

// ordering returns the handler of a moderator's write. sample is a valid one, without dry_run; nil
// for the operator's own operations. read reads the form and returns the function that carries the
// write out. It gets a linearizable view: a node that lags would miss entries of a selection.
func ordering(params []string, sample wire.Object, read func(c *op.Call, f *orderForm) func() error) op.Handler {
	return op.Private(func(c *op.Call) (op.Task, error) {
		by, err := c.Moderator()
		if err != nil {
			return op.Task{}, err
		}
		doc, err := c.Body()
		if err != nil {
			return op.Task{}, err
		}
		pairs, err := c.Query()
		if err != nil {
			return op.Task{}, err
		}
		write.TakeDryRun(&doc, pairs)
		return op.Task{Fresh: op.Freshness{Strong: true}, Run: func() error {
			f := newOrder(c, &doc, params, by.Name)
			for _, wrong := range write.NotInURL(pairs) { // it may be meant to restrict the order
				f.Problems.Add(wire.Shown(wrong.Name, wire.MaxUnknownName), "must be in the body, not in the URL")
			}
			run := read(c, f)
			f.example = func() wire.Object { return orderExample(c, f, sample, read) }
			if f.Problems.Any() {
				return f.reject()
			}
			return run()
		}}, nil
	})
}

// reject returns the error for the problems of the form.
func (f *orderForm) reject() error { return wire.Invalid(f.Problems.List, f.example()) }

// orderExample returns the valid fields of a moderator's write, completed from the sample, or the
// sample if these have problems, too. It is a dry run, so that sending it back changes no entry by
// mistake. Without a sample it is empty.
func orderExample(c *op.Call, f *orderForm, sample wire.Object, read func(c *op.Call, f *orderForm) func() error) wire.Object {
	if sample == nil {
		return wire.Object{}
	}
	c.Notes = append(c.Notes, "The example is a dry run: check it, then send it without dry_run.")
	example := wire.Object{}
	for _, name := range f.Takes {
		value, isBad := f.Doc.Get(name), f.Problems.Has(name)
		if at := sample.Index(name); isBad && at >= 0 {
			value = sample[at].Value
		}
		if value != nil && (!isBad || sample.Index(name) >= 0) && name != write.FieldDryRun.Name {
			example = append(example, wire.Field{name, value})
		}
	}
	noted := len(c.Notes)
	fields, err := wire.ReadObject(example.AppendJSON(nil))
	again := newOrder(c, &wire.Document{Fields: fields}, f.Takes, f.By)
	read(c, again)
	if c.Notes = c.Notes[:noted]; err != nil || again.Problems.Any() {
		example = slices.Clone(sample)
	}
	return append(example, wire.Field{write.FieldDryRun.Name, true})
}

func newOrder(c *op.Call, doc *wire.Document, params []string, by string) *orderForm {
	noted := len(c.Notes)
	f := &orderForm{Params: read.New(c, doc, params, nil, nil), Order: command.Order{By: by}}
	for _, note := range c.Notes[noted:] { // an unknown field may be meant to restrict the call
		f.Problems.Add("request", "%s", note)
	}
	for i := range doc.Fields {
		if n, isNumber := doc.Fields[i].Value.(json.Number); isNumber {
			doc.Fields[i].Value = n.String()
		}
	}
	f.Reason = f.word("reason", command.MaxReason)
	return f
}

// word reads a text; a value of another type is a problem.
func (f *orderForm) word(field string, most int) string {
	value := f.Doc.Get(field)
	if _, isText := value.(string); value != nil && !isText {
		f.Problems.Add(field, "must be a text")
	}
	return f.Text(field, most)
}

func (f *orderForm) flag(field string) bool {
	switch value := f.Doc.Get(field).(type) {
	case bool:
		return value
	case nil:
		return false
	case string:
		if value == "true" || value == "false" {
			return value == "true"
		}
	}
	f.Problems.Add(field, "must be true or false")
	return false
}

// words reads a list of texts, as many as a call may hide.
func (f *orderForm) words(field string) (list []string) {
	switch value := f.Doc.Get(field).(type) {
	case nil:
	case string:
		list = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	case []any:
		for _, item := range value {
			s, isText := item.(string)
			if !isText {
				f.Problems.Add(field, "must be a list of texts")
				return nil
			}
			list = append(list, s)
		}
	default:
		f.Problems.Add(field, "must be a list of texts")
	}
	if len(list) > command.MaxHidden {
		f.Problems.Add(field, "may have at most %d items; these are %d", command.MaxHidden, len(list))
	}
	return list
}

// problemIssues explain why the state rejects a moderator's write.
var problemIssues = map[command.Problem]wire.Issue{
	command.ProblemUnknownSender: {"sender_of", "must be the id of an entry with a known sender"},
	command.ProblemUnknownRule:   {"number", nothingHolds},
	command.ProblemTooManyRules: {"reason", fmt.Sprintf("cannot be kept: there are %d rules of this kind, or %d patterns; take one back first, by undo",
		command.MaxRules, command.MaxPatterns)},
	command.ProblemUnknownModerator:  {"name", "has no token"},
	command.ProblemTooManyModerators: {"name", fmt.Sprintf("is one too many: %d have a token; revoke those that have ended", command.MaxModerators)},
}

// propose proposes the command of a form. It returns the form's error if the state rejects it.
func (f *orderForm) propose(c *op.Call, cmd command.Payload) (command.Result, error) {
	result, err := order(c, cmd)
	for _, p := range result.Problems {
		if issue, known := problemIssues[p]; known && err == nil {
			f.Problems.Add(issue.Field, "%s", issue.Message)
			err = f.reject()
		}
	}
	return result, err
}

// order proposes a command of a moderator.
func order(c *op.Call, cmd command.Payload) (command.Result, error) {
	result, err := write.Propose(c, command.Sender{}, cmd)
	if err == nil && slices.Contains(result.Problems, command.ProblemNotModerator) {
		err = op.NotModerator()
	}
	return result, err
}

// forModerators returns the handler of a list for moderators alone.
func forModerators(scope string, params []string, filters func(l *read.Params), run func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error)) op.Handler {
	return op.Private(func(c *op.Call) (op.Task, error) {
		if _, err := c.Moderator(); err != nil {
			return op.Task{}, err
		}
		return read.Handler(params, func(l *read.Params) {
			l.Scope = scope
			if filters != nil {
				filters(l)
			}
			l.ReadPage()
		}, func(c *op.Call, l *read.Params) error {
			rows, next, err := run(c, l)
			if err != nil {
				return fmt.Errorf("list %s: %w", scope, err)
			}
			return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{{scope, append([]wire.Object{}, rows...)}, {"nextCursor", wire.OrNull(l.NextCursor(next))}}))
		})(c)
	})
}

// only returns the one of some fields that was sent. Any other number of them is a problem.
func (f *orderForm) only(fields ...string) string {
	only := ""
	for _, name := range fields {
		if f.Doc.Get(name) == nil {
			continue
		}
		if only != "" {
			f.Problems.Add(name, "goes not with %s: give one of %s", only, strings.Join(fields, ", "))
			return ""
		}
		only = name
	}
	if only == "" {
		f.Problems.Add(fields[0], "is required, or one of %s", strings.Join(fields[1:], ", "))
	}
	return only
}

// duration reads a duration, in milliseconds.
func (f *orderForm) duration(field string, required bool) int64 {
	s := f.word(field, command.MaxName)
	var d time.Duration
	var err error
	switch days, inDays := strings.CutSuffix(s, "d"); {
	case s == "" && !required || f.Problems.Has(field):
		return 0
	case inDays:
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		const day = 24 * time.Hour
		d = time.Duration(n) * day //nolint:gosec // of 16 bits
	default:
		d, err = time.ParseDuration(s)
	}
	if err != nil || d < time.Second || d.Milliseconds() > command.MaxRuleMillis {
		f.Problems.Add(field, "must be a time from 1s to 366d, such as 90m, 12h or 7d; for a block or a watch without end: "+forever)
		return 0
	}
	return d.Milliseconds()
}

// order reads the number of an order, or returns 0.
func (f *orderForm) order(field string) uint64 {
	s := f.word(field, command.MaxName)
	number, err := strconv.ParseUint(s, 10, 64)
	if s != "" && err != nil {
		f.Problems.Add(field, "must be a number, as GET /api/moderation/log lists them")
	}
	return number
}

// entry reads the id of an entry and returns its seq, or 0.
func (f *orderForm) entry(v *view.View, field string) (seq uint64) {
	if id := op.CleanID(f.word(field, command.MaxTarget)); id != "" {
		var known bool
		if seq, known = v.Resolve(id); !known {
			f.Problems.Add(field, "names no entry that exists")
		}
	}
	return seq
}

// needReason adds a problem if the reason, which stubs and refusals show, is missing or blank.
func (f *orderForm) needReason() {
	if f.Reason == "" && !f.Problems.Has("reason") {
		f.Problems.Add("reason", "is required: everybody can read it")
	}
}
