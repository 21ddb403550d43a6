package read

import (
	"errors"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// One returns the handler of a read of one thing by its id; of is 0 unless it is an entry. show
// appends it, or returns state.ErrNotFound. That error comes before problems of parameters,
// because correcting them would not help.
func One(what string, of state.EntryType, show func(view *view.View, dst []byte, id string) ([]byte, error)) op.Handler {
	find := func(view *view.View, dst []byte, id string) ([]byte, error) {
		dst, err := show(view, dst, id)
		if !errors.Is(err, state.ErrNotFound) {
			return dst, err
		}
		e := wire.Missing(what)
		if of == 0 {
			return nil, e
		}
		near, err := op.NearID(view, id, of)
		if near != "" {
			e.Issues[0].Message += "; there is " + near
		}
		return nil, errors.Join(err, e)
	}
	return func(c *op.Call) (op.Task, error) {
		l, rejected := Parse(c, op.FreshnessParams, nil)
		if l == nil {
			return op.Task{}, rejected
		}
		id := c.Param("id") // may be empty with CheckOnly
		if of != 0 {
			id = op.CleanID(id)
		}
		if id != "" && (rejected != nil || c.CheckOnly) {
			if _, err := find(c.View(), nil, id); err != nil {
				return op.Task{}, err
			}
		}
		return op.Task{Fresh: l.Fresh, Builds: l.Query.Limit, Versioned: true, Run: func() error {
			return c.Answer(http.StatusOK, func(dst []byte) ([]byte, error) {
				dst, err := find(c.View(), append(append(append(BeginNotes(c, dst), '"'), what...), `":`...), id)
				return append(dst, '}'), err
			})
		}}, rejected
	}
}

// OneEntry is One for entries, jobs and requests for help. show appends the one with a seq.
func OneEntry(what string, of state.EntryType, show func(view *view.View, dst []byte, seq uint64) ([]byte, error)) op.Handler {
	return One(what, of, func(view *view.View, dst []byte, id string) ([]byte, error) {
		seq, known := view.Resolve(id)
		if !known {
			return nil, state.ErrNotFound
		}
		return show(view, dst, seq)
	})
}
