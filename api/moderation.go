package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The operations of moderation run for clients with a moderator's token, on any node,
// and for the operator over the private port (Operate). Each consists of a form, read
// like the parameters of a list, and one command.

// moderatorTokenPrefix begins every token of a moderator.
const moderatorTokenPrefix = "cmod_"

// maxSamples is how many entries are shown of those that a call hides, as many profiles,
// and maxSampleBody how much of a body, in code points.
const maxSamples, maxSampleBody = 5, 100

var (
	// selectionParams select entries.
	selectionParams = []string{"sender_of", "agent", "channel", "words", "since", "until"}
	hideParams      = append([]string{"ids", "profiles", "reason", "dry_run", "before"}, selectionParams...)
)

// moderationOperations are the operations of moderators.
func moderationOperations() []operation {
	fails := []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	}
	row := func(path, id string, handle handler, does string, fields []string) operation {
		o := operation{method: http.MethodPost, path: "/api/moderation/" + path, id: id, handle: handle, does: does, fails: fails}
		for _, name := range fields {
			o.fields = append(o.fields, formField{name: name})
		}
		return o
	}
	list := func(path, id string, handle handler, does string, params []string) operation {
		return operation{
			method: http.MethodGet, path: "/api/moderation/" + path, id: id, handle: handle, does: does,
			fails: append([]int{http.StatusForbidden}, failsList...), params: params,
		}
	}
	return []operation{
		row("block", "block", ruling(blockParams, blockRule), "Block a sender, a name or a network, for moderators", blockParams),
		row("freeze", "freeze", ruling(freezeParams, freezeRule), "Let nobody write to a channel, or anywhere, for moderators", freezeParams),
		row("watch", "watch", ruling(watchParams, watchRule), "Reject or hold texts with some words, for moderators", watchParams),
		row("lift", "lift", liftRule, "End a block, a freeze or a watch, for moderators", liftParams),
		list("rules", "listRules", listRules, "What is blocked, frozen and watched, for moderators", recordParams),
		list("held", "listHeld", listHeld, "What is held until somebody looks at it, for moderators", recordParams),
		list("reports", "listReports", listReports, "What was reported, for moderators", reportListParams),
		row("resolve", "resolveReports", resolveReports, "Say what became of reports, for moderators", resolveParams),
		row("hide", "hide", hiding(false), "Hide entries and profiles, for moderators", hideParams),
		row("unhide", "unhide", hiding(true), "Show what was hidden again, for moderators", hideParams),
		row("purge", "purge", purging(), "Erase entries and profiles for good, for moderators", purgeParams),
		{
			method: http.MethodGet, path: "/api/moderation/purges", id: "listPurges", handle: listPurges,
			does: "Which disks still hold what was purged, for moderators", fails: []int{http.StatusForbidden},
		},
		{
			method: http.MethodGet, path: "/api/moderation/log", id: "moderationLog", handle: moderationLog,
			does: "What moderators did, and why", fails: failsList, params: recordParams,
		},
	}
}

// ModerationPath returns the method and path of an operation of moderation; "" if it
// has none.
func ModerationPath(operationID string) (method, path string) {
	for _, o := range moderationOperations() {
		if o.id == operationID {
			return o.method, o.path
		}
	}
	return "", ""
}

// operatorOperations are the operations that only the operator may run. They have no path.
func operatorOperations() []operation {
	return []operation{
		{id: "setModerator", handle: setModerator},
		{id: "destroyDisk", handle: destroyDisk},
		{id: "listModerators", handle: private(simple(listModerators))},
	}
}

// Operate runs an operation of moderation for the operator, over the private port.
func (s *Server) Operate(operationID string, in wire.Invocation) wire.Performed {
	if !slices.ContainsFunc(append(moderationOperations(), operatorOperations()...), func(o operation) bool { return o.id == operationID }) {
		operationID = ""
	}
	return (&relay{srv: s, operator: true}).Perform(operationID, in)
}

// moderator returns the name of the moderator who makes the call; "" for others.
func (c *call) moderator() (string, error) {
	if c.relay != nil && c.relay.operator {
		return command.Operator, nil
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(c.header(fiber.HeaderAuthorization)), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, bearerScheme) || !strings.HasPrefix(token, moderatorTokenPrefix) {
		return "", nil
	}
	name, err := c.read().Moderator(hashSecret(token))
	c.release() // what is answered may have to wait for a newer view
	if err == nil && name == "" {
		err = notModerator()
	}
	return name, err
}

// onlyModerator is like moderator, but returns an error for others.
func (c *call) onlyModerator() (string, error) {
	by, err := c.moderator()
	if err == nil && by == "" {
		err = notModerator()
	}
	return by, err
}

func notModerator() *wire.Error {
	return &wire.Error{
		Code: wire.CodeNotModerator, Message: "This is for moderators.",
		Issues: []wire.Issue{{fiber.HeaderAuthorization, "must be " + bearerScheme + " and a moderator's token, which the operator gives out"}},
	}
}

// orderForm is the form of a moderator's write. Its fields are read like parameters.
type orderForm struct {
	*listing
	command.Order
}

// ordering is the handler of a moderator's write. read returns the function that
// carries it out if the form has no problems. It reads a linearizable view: a node
// that lags would miss entries of a selection without the caller noticing.
func ordering(params []string, read func(c *call, f *orderForm) func() error) handler {
	return private(func(c *call) (task, error) {
		by, err := c.onlyModerator()
		if err != nil {
			return task{}, err
		}
		doc, err := c.body()
		if err != nil {
			return task{}, err
		}
		return task{fresh: freshness{strong: true}, run: func() error {
			f := c.newOrder(&doc, params, by)
			run := read(c, f)
			if f.problems.Any() {
				return wire.Invalid(f.problems.List, wire.Object{}) // an example might hide what nobody meant
			}
			return run()
		}}, nil
	})
}

func (c *call) newOrder(doc *wire.Document, params []string, by string) *orderForm {
	noted := len(c.notes)
	f := &orderForm{listing: c.newListing(doc, params, nil), Order: command.Order{By: by}}
	for _, note := range c.notes[noted:] { // what is not known may be what was to bound the call
		f.problems.Add("request", "%s", note)
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
	value := f.doc.Get(field)
	if _, isText := value.(string); value != nil && !isText {
		f.problems.Add(field, "must be a text")
	}
	return f.text(field, most)
}

// flag reads a boolean.
func (f *orderForm) flag(field string) bool {
	switch value := f.doc.Get(field).(type) {
	case bool:
		return value
	case nil:
		return false
	case string:
		if value == "true" || value == "false" {
			return value == "true"
		}
	}
	f.problems.Add(field, "must be true or false")
	return false
}

// words reads a list of texts.
func (f *orderForm) words(field string, most int) (list []string) {
	switch value := f.doc.Get(field).(type) {
	case nil:
	case string:
		list = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	case []any:
		for _, item := range value {
			s, isText := item.(string)
			if !isText {
				f.problems.Add(field, "must be a list of texts")
				return nil
			}
			list = append(list, s)
		}
	default:
		f.problems.Add(field, "must be a list of texts")
	}
	if len(list) > most {
		f.problems.Add(field, "may have at most %d items; these are %d", most, len(list))
	}
	return list
}

// order proposes a command of a moderator.
func (c *call) order(p command.Payload) (command.Result, error) {
	result, err := c.propose(command.Sender{}, p)
	if err == nil && slices.Contains(result.Problems, command.ProblemNotModerator) {
		err = notModerator()
	}
	return result, err
}

// hiding is the handler of hide and unhide, for named items or for a part of a
// selection. The answer says where the next part begins: the caller continues until
// there is none, and may repeat any call.
func hiding(unhide bool) handler {
	return ordering(hideParams, func(c *call, f *orderForm) func() error {
		cmd := &command.Hide{Order: f.Order, Unhide: unhide, IDs: f.words("ids", command.MaxHidden)}
		cmd.Agents = f.profiles(command.MaxHidden - len(cmd.IDs))
		f.checkIDs(cmd.IDs)
		dry, sel := f.flag("dry_run"), f.selection(c.read(), unhide)
		named := len(cmd.IDs)+len(cmd.Agents) > 0
		switch {
		case named && sel != nil:
			f.problems.Add("ids", "go with none of %s: name what is meant, or select it", strings.Join(selectionParams, ", "))
		case !named && sel == nil && !f.problems.Any():
			f.problems.Add("ids", "is required: ids, profiles, or one of %s", strings.Join(selectionParams, ", "))
		}
		return func() error { return c.hide(cmd, sel, dry) }
	})
}

// profiles reads the names of profiles, folded.
func (f *orderForm) profiles(most int) (agents []string) {
	for _, name := range f.words("profiles", most) {
		agents = append(agents, text.Fold(text.AgentName(name)))
	}
	return agents
}

// checkIDs adds a problem for each invalid id.
func (f *orderForm) checkIDs(ids []string) {
	for _, id := range ids {
		if _, _, ok := fsm.ParseID(id); !ok {
			f.problems.Add("ids", "has %s, which is no id", wire.Shorten(id, wire.MaxMethodShown))
			return
		}
	}
}

// selection reads a selection of entries; nil if there is none.
func (f *orderForm) selection(view *fsm.View, hidden bool) *fsm.Selection {
	if !slices.ContainsFunc(selectionParams, func(name string) bool { return f.doc.Get(name) != nil }) {
		return nil
	}
	for _, name := range selectionParams {
		if f.doc.Get(name) != nil && f.word(name, maxRawName) == "" && !f.problems.Has(name) {
			f.problems.Add(name, "must not be empty: nothing selects everything")
		}
	}
	sel := &fsm.Selection{Query: f.query, Until: -1, Hidden: hidden}
	sel.AgentKey = text.Fold(f.agent("agent"))
	if s := f.text("channel", maxRawName); s != "" {
		sel.Channel = f.name("channel", text.ChannelName(s), command.MaxChannel)
	}
	sel.Q = f.text("words", command.MaxSearch)
	sel.Since, sel.Until = f.instant("since"), f.instant("until")
	entry := func(field, id string) (seq uint64) {
		if id != "" {
			var known bool
			if seq, known = view.Resolve(id); !known {
				f.problems.Add(field, "names no entry that exists")
			}
		}
		return seq
	}
	sel.SenderOf, sel.Before = entry("sender_of", f.text("sender_of", command.MaxTarget)), entry("before", f.word("before", command.MaxTarget))
	return sel
}

// hide hides or shows the items named by the command, or a part of the selection.
func (c *call) hide(cmd *command.Hide, sel *fsm.Selection, dry bool) error {
	if sel == nil {
		return c.actOn(cmd, &cmd.IDs, &cmd.Agents, dry)
	}
	view := c.read()
	if sel.Limit = command.MaxHidden; dry {
		sel.Limit = 10 * command.MaxHidden
	}
	seqs, before, err := view.Select(sel)
	if err != nil {
		return fmt.Errorf("select entries: %w", err)
	}
	next := any(nil)
	if before > 0 {
		next = c.shownID(view, before)
	}
	var due []uint64
	for _, seq := range seqs {
		is, err := view.Visibility(seq)
		if err != nil {
			return fmt.Errorf("look at entry %d: %w", seq, err)
		}
		if whyUnchanged(cmd, is) == "" {
			due, cmd.IDs = append(due, seq), append(cmd.IDs, c.shownID(view, seq))
		}
	}
	return c.act(cmd, due, nil, len(due), next, dry)
}

// actOn carries out a moderator's action on the items named by the command. Items that
// do not exist or need no change are noted and left out of the command.
func (c *call) actOn(cmd command.Payload, ids, agents *[]string, dry bool) error {
	view := c.read()
	var seqs []uint64
	var profiles, dueIDs, dueAgents []string
	note := func(name, why string) { c.notes = append(c.notes, name+" "+why+".") }
	for _, id := range *ids {
		seq, known := view.Resolve(id)
		switch is, err := view.Visibility(seq); {
		case !known:
			note(id, "names no entry that exists")
		case err != nil:
			return fmt.Errorf("look at %s: %w", id, err)
		case !slices.Contains(seqs, seq):
			seqs = append(seqs, seq)
			if why := whyUnchanged(cmd, is); why != "" {
				note(id, why)
			} else {
				dueIDs = append(dueIDs, id)
			}
		}
	}
	for _, name := range *agents {
		switch is, known, err := view.ProfileVisibility(name); {
		case err != nil:
			return fmt.Errorf("look for profile %s: %w", name, err)
		case !known:
			note(name, "names no profile that exists")
		case !slices.Contains(profiles, name):
			profiles = append(profiles, name)
			if why := whyUnchanged(cmd, is); why != "" {
				note("The profile of "+name, why)
			} else {
				dueAgents = append(dueAgents, name)
			}
		}
	}
	*ids, *agents = dueIDs, dueAgents
	return c.act(cmd, seqs, profiles, len(dueIDs)+len(dueAgents), nil, dry)
}

// whyUnchanged returns why a moderator's command does not change an item with this
// visibility; "" if it does.
func whyUnchanged(cmd command.Payload, is fsm.Visibility) string {
	hide, isHide := cmd.(*command.Hide)
	switch {
	case is == fsm.Purged:
		return "was erased before: nothing is left of it"
	case !isHide:
		return ""
	case is == fsm.Expired:
		return "has expired: nothing is left of it"
	case is == fsm.Hidden && !hide.Unhide:
		return "is hidden already"
	case is == fsm.Visible && hide.Unhide:
		return "is shown already"
	}
	return ""
}

// act carries out a moderator's action on entries and profiles, unless dry is set, and
// answers. due is the number of items that it changes.
func (c *call) act(cmd command.Payload, seqs []uint64, profiles []string, due int, next any, dry bool) error {
	view := c.read()
	samples, err := samplesOf(seqs, func(dst []byte, seq uint64) ([]byte, error) { return view.AppendOriginal(dst, seq, maxSampleBody) })
	if err != nil {
		return err
	}
	shown, err := samplesOf(profiles, view.AppendOriginalProfile)
	if err != nil {
		return err
	}
	answer := wire.Object{
		{"matched", due}, {"samples", json.RawMessage(samples)}, {"profiles", json.RawMessage(shown)}, {"next", next},
	}
	if dry || due == 0 {
		return c.answerObject(http.StatusOK, c.withNotes(answer.With("changed", 0).With("record", nil)))
	}
	result, err := c.order(cmd)
	if err != nil {
		return err
	}
	changed, record := 0, any(nil)
	if result.Outcome == command.OutcomeDone {
		if view, err = c.readBack(); err != nil {
			return err
		}
		rows, _, err := view.Records(result.Entry+1, 1)
		if err != nil || len(rows) == 0 {
			return fmt.Errorf("read the record: %w", errors.Join(err, fsm.ErrNotFound))
		}
		changed, record = len(strings.Fields(rows[0].What)), result.Entry
	}
	return c.answerObject(http.StatusOK, c.withNotes(answer.With("changed", changed).With("record", record)))
}

// shownID returns the public id of an entry that exists.
func (c *call) shownID(view *fsm.View, seq uint64) string {
	meta, _, err := view.Meta(seq)
	if err != nil || meta.Type == 0 {
		return fsm.EntryID(seq)
	}
	return fsm.FormatID(meta.Type, seq)
}

// samplesOf shows the first maxSamples items of a list.
func samplesOf[T any](items []T, appendItem func([]byte, T) ([]byte, error)) (dst []byte, err error) {
	dst = append(dst, '[')
	for i, item := range items[:min(len(items), maxSamples)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendItem(dst, item); err != nil {
			return nil, fmt.Errorf("show %v: %w", item, err)
		}
	}
	return append(dst, ']'), nil
}

var recordParams = []string{"limit", "cursor", "consistency", "min_index"}

// moderationLog serves GET /api/moderation/log: to moderators, and without names to
// everybody.
func moderationLog(c *call) (task, error) {
	by, err := c.moderator()
	if err != nil {
		return task{}, err
	}
	c.out.Header.Set(fiber.HeaderCacheControl, cachingNever)
	return reading(recordParams, func(l *listing) {
		l.scope = "record"
		l.readPage()
	}, func(c *call, l *listing) error {
		records, next, err := c.read().Records(l.query.Before, l.query.Limit)
		if err != nil {
			return fmt.Errorf("read the record: %w", err)
		}
		rows := make([]wire.Object, len(records))
		for i, r := range records {
			what := any(r.What)
			if r.Private && by == "" && r.Action != fsm.ActionResolve { // what is resolved has ids and an outcome alone
				what = nil
			}
			shown, _ := what.(string)
			rows[i] = wire.Object{
				{"number", r.Number}, {"at", r.At}, {"action", r.Action}, {"what", what}, {"text", recordText(r.Action, shown)}, {"reason", r.Reason},
			}
			if by != "" {
				rows[i] = rows[i].With("by", r.By)
			}
		}
		cursor := any(nil)
		if next > 0 {
			cursor = l.nextCursor(next)
		}
		return c.answerObject(http.StatusOK, c.withNotes(wire.Object{{"records", rows}, {"nextCursor", cursor}}))
	})(c)
}

// setModerator creates or revokes the token of a moderator.
func setModerator(c *call) (task, error) {
	return ordering([]string{"name", "revoke"}, func(c *call, f *orderForm) func() error {
		cmd := &command.SetModerator{Order: f.Order, Name: f.word("name", command.MaxName)}
		revoke, token := f.flag("revoke"), ""
		if !revoke {
			token, cmd.Token = newSecret(moderatorTokenPrefix)
		}
		if err := command.Check(cmd); err != nil {
			f.problems.Add("name", "cannot be this: letters of a to z, digits and . _ - are allowed, and %s is none", command.Operator)
		}
		return func() error {
			result, err := c.order(cmd)
			if err != nil {
				return err
			}
			for p, message := range map[command.Problem]string{
				command.ProblemUnknownModerator:  "has no token",
				command.ProblemTooManyModerators: fmt.Sprintf("is one too many: %d have a token", command.MaxModerators),
			} {
				if slices.Contains(result.Problems, p) {
					return wire.Invalid([]wire.Issue{{"name", message}}, wire.Object{})
				}
			}
			return c.answerObject(http.StatusOK, wire.Object{{"name", cmd.Name}, {"token", token}})
		}
	})(c)
}

func listModerators(c *call) error {
	names, err := c.read().Moderators()
	if err != nil {
		return fmt.Errorf("list moderators: %w", err)
	}
	return c.answerObject(http.StatusOK, wire.Object{{"moderators", append([]string{}, names...)}})
}
