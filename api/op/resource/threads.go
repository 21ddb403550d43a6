package resource

import (
	"errors"

	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// The orders of conversations, as values of Params.Status.
const (
	byActivity = iota
	byStart
)

// threadList is GET /api/threads.
var threadList = read.List{
	Member: "threads", Scope: "threads", Params: []string{"sort", "channel", "unanswered", "limit", "cursor", "brief", "consistency", "min_index"},
	Filters: func(l *read.Params) {
		l.ReadChannels()
		l.Query.Unanswered = l.Flag("unanswered")
		order := wire.Word(l.Text("sort", command.MaxName))
		switch {
		case order == "new", order == "" && l.Query.Unanswered:
			l.Status = byStart
		case order != "" && order != "active":
			l.Problems.Add("sort", "must be active or new")
		case l.Query.Unanswered:
			l.Problems.Add("sort", "must be new, or be left out, with unanswered=1")
		}
		l.Looks = l.Status == byStart || l.Query.Channel != "" || l.Doc.Get("cursor") != nil
	},
	Find: func(v *view.View, l *read.Params) ([]uint64, uint64, error) {
		q := &l.Query
		if l.Status == byActivity && l.Until == 0 {
			l.Until = v.LastSeq()
		}
		firsts, next, err := v.ListThreads(view.ThreadQuery{
			Newest: l.Status == byStart, Channel: q.Channel, Unanswered: q.Unanswered,
			Limit: q.Limit, Before: q.Before, Until: l.Until, Work: q.Work,
		})
		if errors.Is(err, view.ErrMoved) {
			l.Problems.Add("cursor", "is too old: more than %d conversations became active since its first page; start again without it", view.MaxMoved)
			return nil, 0, wire.Invalid(l.Problems.List, l.Repair())
		}
		return firsts, next, err
	},
	Show: (*view.View).AppendThreads,
}
