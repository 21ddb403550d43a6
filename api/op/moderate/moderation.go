// Package moderate holds the operations of moderators and of the operator: hiding and
// erasing, rules, reports, and their record. They run for clients with a moderator's token,
// and for the operator over the private port. Each write consists of a form, read like
// the parameters of a list, and one command.
package moderate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// maxSamples is the number of entries and of profiles that a call shows, maxSampleBody the length
// of their bodies in code points.
const maxSamples, maxSampleBody = 5, 100

var (
	// selectionParams select entries.
	selectionParams = []string{"sender_of", "agent", "channel", "words", "since", "until"}
	unhideParams    = append([]string{"ids", "profiles", "reason", "dry_run", "before", "hidden"}, selectionParams...)
	purgeParams     = append([]string{"block_for"}, unhideParams...)
	hideParams      = append([]string{"order"}, purgeParams...)
	listParams      = append(append([]string{"hidden"}, selectionParams...), recordParams...)
)

// Operations are the operations of moderators.
func Operations() []op.Operation {
	row := func(path, id string, handle op.Handler, does string, fields []string) op.Operation {
		return op.Operation{Method: http.MethodPost, Path: op.ModerationPath + path, ID: id, Handle: handle, Does: does, Fields: fields}
	}
	list := func(path, id string, handle op.Handler, does string, params []string) op.Operation {
		return op.Operation{Method: http.MethodGet, Path: op.ModerationPath + path, ID: id, Handle: handle, Does: does, Params: params}
	}
	return []op.Operation{
		row("block", "block", ruling(blockParams, sampleBlock, blockRule), "Block a sender, a name or a network, for moderators", blockParams),
		row("freeze", "freeze", ruling(freezeParams, sampleFreeze, freezeRule), "Let nobody write to a channel, or anywhere, for moderators", freezeParams),
		row("watch", "watch", ruling(watchParams, sampleWatch, watchRule), "Reject texts with some words, for moderators", watchParams),
		row("undo", "undo", undo, "Take back a hide, a block, a freeze or a watch, for moderators", undoParams),
		list("rules", "listRules", listRules, "What is blocked, frozen and watched, for moderators", recordParams),
		list("entries", "selectEntries", selectEntries, "Entries of a selection, hidden or not, for moderators", listParams),
		list("reports", "listReports", listReports, "What was reported, for moderators", reportListParams),
		row("resolve", "resolveReports", resolveReports, "Say what became of reports, for moderators", resolveParams),
		row("hide", "hide", acting(hideParams, hides), "Hide entries and profiles, for moderators", hideParams),
		row("unhide", "unhide", acting(unhideParams, unhides), "Show what was hidden again, for moderators", unhideParams),
		list("log", "moderationLog", moderationLog, "What moderators did, and why, for moderators", recordParams),
	}
}

// PathOf returns the method and path of an operation of moderation, or "".
func PathOf(operationID string) (method, path string) {
	for _, o := range Operations() {
		if o.ID == operationID {
			return o.Method, o.Path
		}
	}
	return "", ""
}

// OperatorOperations are the operations that only the operator may run. They have no path.
func OperatorOperations() []op.Operation {
	return []op.Operation{
		{ID: "setModerator", Handle: setModerator},
		{ID: "purge", Handle: acting(purgeParams, purges)},
		{ID: "listPurges", Handle: listPurges},
		{ID: "listModerators", Handle: op.Simple(listModerators)},
	}
}

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
		by, err := c.OnlyModerator()
		if err != nil {
			return op.Task{}, err
		}
		doc, err := c.Body()
		if err != nil {
			return op.Task{}, err
		}
		return op.Task{Fresh: op.Freshness{Strong: true}, Run: func() error {
			f := newOrder(c, &doc, params, by.Name)
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

// flag reads a boolean.
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

var recordParams = []string{"limit", "cursor", "consistency", "min_index"}

// moderationLog serves GET /api/moderation/log.
var moderationLog = forModerators("records", recordParams, nil, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	records, next, err := c.View().Records(l.Query.Before, l.Query.Limit)
	for _, r := range records {
		rows = append(rows, wire.Object{{"number", r.Number}, {"at", r.At}, {"by", r.By}, {"action", r.Action}, {"what", r.What}, {"reason", r.Reason}, {"order", cmp.Or(r.Order, r.Number)}})
	}
	return rows, next, err
})

// setModerator creates or revokes the token of a moderator.
var setModerator = ordering([]string{"name", "revoke", "for"}, nil, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.SetModerator{Order: f.Order, Name: f.word("name", command.MaxName)}
	revoke, token := f.flag("revoke"), ""
	if !revoke {
		token, cmd.Token = op.NewSecret(op.ModeratorTokenPrefix)
		cmd.For = cmp.Or(f.duration("for", false), command.TokenMillis)
	}
	if err := command.Check(cmd); err != nil && !f.Problems.Any() {
		f.Problems.Add("name", "cannot be this: letters of a to z, digits and . _ - are allowed, and %s is none", command.Operator)
	}
	return func() error {
		if _, err := f.propose(c, cmd); err != nil {
			return err
		}
		answer := wire.Object{{"name", cmd.Name}, {"token", token}}
		if !revoke {
			view, err := write.ReadBack(c)
			if err != nil {
				return err
			}
			m, _, err := view.Moderator(cmd.Token)
			if err != nil {
				return fmt.Errorf("look for the token: %w", err)
			}
			answer = append(answer, wire.Field{"until", m.Until})
		}
		return c.AnswerObject(http.StatusOK, answer)
	}
})

func listModerators(c *op.Call) error {
	list, err := c.View().Moderators()
	if err != nil {
		return fmt.Errorf("list moderators: %w", err)
	}
	rows := make([]wire.Object, len(list))
	for i, m := range list {
		rows[i] = wire.Object{{"name", m.Name}, {"until", m.Until}}
	}
	return c.AnswerObject(http.StatusOK, wire.Object{{"moderators", rows}})
}

// listPurges lists the nodes with the purges that each has erased from its disk. It reads a
// linearizable view, because a node that lags does not know the newest purges.
func listPurges(c *op.Call) (op.Task, error) {
	return op.Task{Fresh: op.Freshness{Strong: true}, Run: func() error {
		ctx, done := c.Wait(op.WaitTimeout)
		defer done()
		purges, err := c.Env.Backend.Purges(ctx, c.View())
		if err != nil {
			return fmt.Errorf("read the purges: %w", err)
		}
		return c.AnswerValue(purges)
	}}, nil
}
