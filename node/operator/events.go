package operator

import (
	"cmp"
	"context"
	"slices"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/admin"
)

// events tells who did what: the newest rows of both records together, as this node's
// state has them.
func (o *Operator) events(_ context.Context, request admin.EventsRequest) (answer admin.Events, err error) {
	limit := request.Limit
	if limit <= 0 || limit > admin.MaxEvents {
		limit = admin.MaxEvents
	}
	v := o.cfg.Machine.View()
	defer v.Release()
	answer.Events = []admin.Event{}
	for _, page := range []func(before uint64, limit int) ([]fsm.Record, uint64, error){v.Records, v.Changes} {
		if err := newest(page, request.Since, limit+1, func(r *fsm.Record) {
			answer.Events = append(answer.Events, admin.Event{At: r.At, By: r.By, Action: r.Action, What: r.What, Reason: r.Reason})
		}); err != nil {
			return answer, err
		}
	}
	slices.SortStableFunc(answer.Events, func(a, b admin.Event) int { return cmp.Compare(a.At, b.At) })
	if over := len(answer.Events) - limit; over > 0 {
		answer.Events, answer.More = answer.Events[over:], true
	}
	return answer, nil
}

// newest calls f for the rows of a record since an instant, at most limit of them, the
// oldest first.
func newest(page func(before uint64, limit int) ([]fsm.Record, uint64, error), since int64, limit int, f func(*fsm.Record)) error {
	var rows []fsm.Record
	for before, left := uint64(0), limit; left > 0; left = limit - len(rows) {
		records, next, err := page(before, left)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.At < since {
				next = 0
				break
			}
			rows = append(rows, r)
		}
		if before = next; next == 0 {
			break
		}
	}
	for i := range slices.Backward(rows) {
		f(&rows[i])
	}
	return nil
}
