package moderate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
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

// sampleItems is a valid call of hide, unhide and purge.
var sampleItems = wire.Object{{"ids", []string{state.EntryID(1)}}, {"reason", "Advertisement"}}

// verb is an action on entries and profiles.
type verb byte

const (
	hides verb = iota
	unhides
	purges
)

// action is a moderator's action on some entries and profiles.
type action struct {
	verb
	form        *orderForm
	of          uint64 // the order that this one is a further part of, or that it takes back
	ids, agents []string
	blockFor    int64 // for how long the senders are blocked, in milliseconds, or 0
	dry         bool
}

func (a *action) command() command.Payload {
	if a.verb == purges {
		return &command.Purge{Order: a.form.Order, IDs: a.ids, Agents: a.agents}
	}
	return &command.Hide{Order: a.form.Order, IDs: a.ids, Agents: a.agents, Unhide: a.verb == unhides, Of: a.of}
}

// acting returns the handler of hide, unhide and purge, for named items or for a part of a
// selection. The answer has the place of the next part, until the last one. Any call may be
// repeated.
func acting(params []string, does verb) op.Handler {
	return ordering(params, sampleItems, func(c *op.Call, f *orderForm) func() error {
		a := &action{verb: does, form: f, dry: f.flag("dry_run")}
		a.ids, a.agents = f.items()
		hidden, sel := f.flag("hidden"), f.selection()
		if sel != nil {
			sel.SenderOf, sel.Before = f.entry(c.View(), "sender_of"), f.entry(c.View(), "before")
			sel.Hidden, sel.All = hidden || does == unhides, does == purges && !hidden
		}
		a.of = f.furtherPart(c.View(), sel)
		if does == purges || does == hides && !a.dry {
			f.needReason()
		}
		if slices.Contains(params, "block_for") {
			if a.blockFor = f.duration("block_for", false); a.blockFor > 0 {
				f.needReason()
			}
		}
		named := len(a.ids)+len(a.agents) > 0
		switch {
		case named && sel != nil:
			f.Problems.Add("ids", "go with none of %s: name what is meant, or select it", strings.Join(selectionParams, ", "))
		case !named && sel == nil && !f.Problems.Any():
			f.Problems.Add("ids", "is required: ids, profiles, or one of %s", strings.Join(selectionParams, ", "))
		}
		if sel != nil {
			return func() error { return a.onSelection(c, sel) }
		}
		return func() error { return a.onNamed(c) }
	})
}

// furtherPart reads the order that a call hides a further part of, or returns 0.
func (f *orderForm) furtherPart(v *view.View, sel *view.Selection) uint64 {
	order := f.order("order")
	if order == 0 {
		return 0
	}
	r, known, err := v.Record(order)
	if err != nil || !known || r.Action != state.ActionHide || r.By != f.By || sel == nil {
		f.Problems.Add("order", "goes with a selection: the record in the answer to its first part")
	}
	return order
}

// items reads ids, in any form in which they are pasted, and the names of profiles, folded.
func (f *orderForm) items() (ids, agents []string) {
	ids = f.ids()
	for _, name := range f.words("profiles") {
		agents = append(agents, text.Fold(text.AgentName(name)))
	}
	if n := len(ids) + len(agents); n > command.MaxHidden && !f.Problems.Any() {
		f.Problems.Add("ids", "and profiles may be at most %d together; these are %d: send the others in further calls", command.MaxHidden, n)
	}
	return ids, agents
}

// ids reads the field ids.
func (f *orderForm) ids() []string {
	ids := f.words("ids")
	for i := range ids {
		ids[i] = op.CleanID(ids[i])
	}
	if bad := slices.IndexFunc(ids, func(id string) bool { _, _, ok := state.ParseID(id); return !ok }); bad >= 0 {
		f.Problems.Add("ids", "has %s, which is no id", wire.Shorten(ids[bad], wire.MaxMethodShown))
	}
	return ids
}

// selection reads a selection of entries, without its ids, or returns nil.
func (f *orderForm) selection() *view.Selection {
	if !slices.ContainsFunc(selectionParams, func(name string) bool { return f.Doc.Get(name) != nil }) {
		return nil
	}
	for _, name := range selectionParams {
		if f.Doc.Get(name) != nil && f.word(name, wire.MaxRawName) == "" && !f.Problems.Has(name) {
			f.Problems.Add(name, "must not be empty: nothing selects everything")
		}
	}
	return f.filters()
}

// filters reads the filters of a selection.
func (f *orderForm) filters() *view.Selection {
	sel := &view.Selection{Query: f.Query, Until: -1}
	sel.AgentKey = text.Fold(f.Agent("agent"))
	if s := f.Text("channel", wire.MaxRawName); s != "" {
		sel.Channel = f.Name("channel", text.ChannelName(s), command.MaxChannel)
	}
	sel.Q = f.Text("words", command.MaxSearch)
	sel.Since, sel.Until = f.Instant("since"), f.Instant("until")
	return sel
}

// onSelection carries out an action on a part of a selection.
func (a *action) onSelection(c *op.Call, sel *view.Selection) error {
	view := c.View()
	if sel.Limit = command.MaxHidden; a.dry {
		sel.Limit = 10 * command.MaxHidden
	}
	seqs, before, err := view.Select(sel)
	if err != nil {
		return fmt.Errorf("select entries: %w", err)
	}
	var due []uint64
	for _, seq := range seqs {
		is, err := view.Visibility(seq)
		if err != nil {
			return fmt.Errorf("look at entry %d: %w", seq, err)
		}
		if a.whyUnchanged(is) == "" {
			due, a.ids = append(due, seq), append(a.ids, c.ShownID(view, seq))
		}
	}
	return a.act(c, a.command(), due, seqs, nil, len(due), before)
}

// onNamed carries out an action on the items that its command names. Items that do not exist or
// need no change are noted and left out of the command.
func (a *action) onNamed(c *op.Call) error {
	view := c.View()
	var seqs []uint64
	var profiles, dueIDs, dueAgents []string
	note := func(name, why string) { c.Notes = append(c.Notes, name+" "+why+".") }
	for _, id := range a.ids {
		seq, known := view.Resolve(id)
		switch is, err := view.Visibility(seq); {
		case !known:
			note(id, "names no entry that exists")
		case err != nil:
			return fmt.Errorf("look at %s: %w", id, err)
		case !slices.Contains(seqs, seq):
			seqs = append(seqs, seq)
			if why := a.whyUnchanged(is); why != "" {
				note(id, why)
			} else {
				dueIDs = append(dueIDs, id)
			}
		}
	}
	for _, name := range a.agents {
		switch is, known, err := view.ProfileVisibility(name); {
		case err != nil:
			return fmt.Errorf("look for profile %s: %w", name, err)
		case !known:
			note(name, "names no profile that exists")
		case !slices.Contains(profiles, name):
			profiles = append(profiles, name)
			if why := a.whyUnchanged(is); why != "" {
				note("The profile of "+name, why)
			} else {
				dueAgents = append(dueAgents, name)
			}
		}
	}
	a.ids, a.agents = dueIDs, dueAgents
	return a.act(c, a.command(), seqs, seqs, profiles, len(dueIDs)+len(dueAgents), 0)
}

// blockSenders blocks the senders of entries, unless the action is dry, and returns their number.
// Senders that are blocked already are left out.
func (a *action) blockSenders(c *op.Call, seqs []uint64) (blocked int, err error) {
	if a.blockFor == 0 {
		return 0, nil
	}
	view, seen := c.View(), map[string]bool{"": true}
	for _, seq := range seqs {
		sender, err := view.SenderFingerprint(seq)
		if err != nil {
			return blocked, fmt.Errorf("look for the sender of entry %d: %w", seq, err)
		}
		rule, err := view.SenderRule(seq)
		if err != nil {
			return blocked, fmt.Errorf("look for a rule against the sender of entry %d: %w", seq, err)
		}
		if seen[sender] || rule != nil {
			continue
		}
		if seen[sender] = true; !a.dry {
			result, err := order(c, &command.SetRule{Order: a.form.Order, Kind: command.RuleSender, Subject: c.ShownID(view, seq), For: a.blockFor})
			if err != nil {
				return blocked, err
			}
			if result.Outcome != command.OutcomeDone {
				c.Notes = append(c.Notes, fmt.Sprintf("No more senders are blocked: there are %d rules of this kind. Block a network, or freeze unproven writes.", command.MaxRules))
				return blocked, nil
			}
		}
		blocked++
	}
	return blocked, nil
}

// whyUnchanged returns why the action does not change an item with this visibility; "" if it does.
func (a *action) whyUnchanged(is view.Visibility) string {
	switch {
	case is == view.Purged:
		return "was erased before: nothing is left of it"
	case a.verb == purges:
		return ""
	case is == view.Expired:
		return "has expired: nothing is left of it"
	case is == view.Hidden && a.verb == hides:
		return "is hidden already"
	case is == view.Visible && a.verb == unhides:
		return "is shown already"
	}
	return ""
}

// act blocks the senders of some entries, carries out the command on entries and profiles, unless
// the action is dry, and answers. due is the number of items that it changes.
func (a *action) act(c *op.Call, cmd command.Payload, seqs, senders []uint64, profiles []string, due int, next uint64) error {
	view := c.View()
	samples, err := samplesOf(seqs, func(dst []byte, seq uint64) ([]byte, error) { return view.AppendOriginal(dst, seq, maxSampleBody) })
	if err != nil {
		return err
	}
	shown, err := samplesOf(profiles, view.AppendOriginalProfile)
	if err != nil {
		return err
	}
	blocked, err := a.blockSenders(c, senders)
	if err != nil {
		return err
	}
	var changed int
	var record uint64
	if !a.dry && due > 0 {
		result, err := a.form.propose(c, cmd)
		if err != nil {
			return err
		}
		if result.Outcome == command.OutcomeDone {
			if view, err = write.ReadBack(c); err != nil {
				return err
			}
			row, known, err := view.Record(result.Entry)
			if err != nil || !known {
				return fmt.Errorf("read the record: %w", errors.Join(err, state.ErrNotFound))
			}
			changed, record = due, result.Entry
			// Others may have changed some items meanwhile. The record names the changed ones if it has room.
			if _, isRule := cmd.(*command.LiftRule); !isRule && len(row.What) < state.MaxRecordedBytes {
				changed = len(strings.Fields(row.What))
			}
		}
	}
	return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{
		{"matched", due},
		{"samples", json.RawMessage(samples)},
		{"profiles", json.RawMessage(shown)},
		{"next", wire.OrNull(c.ShownID(view, next))},
		{"blocked", blocked},
		{"changed", changed},
		{"record", wire.OrNull(record)},
	}))
}

// maxListedBody is how many code points of a body a list for moderators shows.
const maxListedBody = 1000

// selectEntries serves GET /api/moderation/entries: entries of a selection, or all.
var selectEntries = forModerators("entries", listParams, func(l *read.Params) {
	(&orderForm{Params: l}).filters()
	l.Flag("hidden")
	l.Thread = l.ID("sender_of")
}, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	view := c.View()
	if !l.Resolve(view) {
		return nil, 0, nil
	}
	sel := (&orderForm{Params: l}).filters()
	sel.Thread, sel.SenderOf = 0, l.Query.Thread
	sel.Hidden = l.Flag("hidden")
	sel.All = !sel.Hidden
	seqs, next, err := view.Select(sel)
	for _, seq := range seqs {
		row, err := entryRow(view, seq, maxListedBody)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, next, err
})

// entryRow returns an entry for moderators, with the texts of a hidden one.
func entryRow(v *view.View, seq uint64, maxBody int) (wire.Object, error) {
	entry, err := v.AppendOriginal(nil, seq, maxBody)
	state, errState := v.Visibility(seq)
	if err = errors.Join(err, errState); err != nil {
		return nil, fmt.Errorf("show entry %d: %w", seq, err)
	}
	return wire.Object{{"entryState", state}, {"entry", json.RawMessage(entry)}}, nil
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
