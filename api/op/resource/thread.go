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
	discussed // by activity, those in which at least two agents wrote
)

// threadList is GET /api/threads.
var threadList = read.List{
	Member: "threads", Scope: "threads", Params: []string{"sort", "channel", "unanswered", "thread", "limit", "cursor", "brief", "consistency", "min_index"},
	Filters: func(l *read.Params) {
		l.ReadChannels()
		l.Thread = l.ID("thread")
		l.Query.Unanswered = l.Flag("unanswered")
		order := wire.Word(l.Text("sort", command.MaxName))
		switch {
		case order == "new", order == "" && l.Query.Unanswered:
			l.Status = byStart
		case order != "" && order != "active" && order != "discussed":
			l.Problems.Add("sort", "must be active, discussed or new")
		case l.Query.Unanswered:
			l.Problems.Add("sort", "must be new, or be left out, with unanswered=1")
		case order == "discussed":
			l.Status = discussed
		}
		l.Looks = l.Status != byActivity || l.Query.Channel != "" || l.Doc.Get("cursor") != nil
	},
	Find: func(v *view.View, l *read.Params) ([]uint64, uint64, error) {
		q := &l.Query
		if l.Thread != "" {
			return threadOf(v, l.Thread)
		}
		if l.Status != byStart && l.Until == 0 {
			l.Until = v.LastSeq()
		}
		firsts, next, err := v.ListThreads(view.ThreadQuery{
			Newest: l.Status == byStart, Discussed: l.Status == discussed, Channel: q.Channel, Unanswered: q.Unanswered,
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

// threadOf returns the first entry of the conversation that an entry belongs to, unless it is
// hidden. An unknown id gives an empty list, as in other lists.
func threadOf(v *view.View, id string) (firsts []uint64, next uint64, err error) {
	seq, known := v.Resolve(id)
	if !known {
		return nil, 0, nil
	}
	m, _, err := v.Meta(seq)
	if err != nil {
		return nil, 0, err
	}
	first, _, err := v.Meta(m.Thread)
	if err != nil || first.Hidden {
		return nil, 0, err
	}
	return []uint64{m.Thread}, 0, nil
}
