package read

import (
	"errors"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// One is the handler of a read of one thing by its id: of a profile where it is no type
// of entries. show appends it, or returns state.ErrNotFound. That it does not exist is
// said before what is wrong with the parameters, because no others would help.
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
		id := c.Param("id") // a trial may have none
		if of != 0 {
			id = op.CleanID(id)
		}
		if id != "" && (rejected != nil || c.Trial) {
			if _, err := find(c.View(), nil, id); err != nil {
				return op.Task{}, err
			}
		}
		return op.Task{Fresh: l.Fresh, Builds: l.Items(), Versioned: true, Run: func() error {
			return c.Answer(http.StatusOK, func(dst []byte) ([]byte, error) {
				dst, err := find(c.View(), append(append(append(dst, `{"`...), what...), `":`...), id)
				return append(dst, '}'), err
			})
		}}, rejected
	}
}

// OneEntry is one for what is filed as an entry. show appends that with a seq.
func OneEntry(what string, of state.EntryType, show func(view *view.View, dst []byte, seq uint64) ([]byte, error)) op.Handler {
	return One(what, of, func(view *view.View, dst []byte, id string) ([]byte, error) {
		seq, known := view.Resolve(id)
		if !known {
			return nil, state.ErrNotFound
		}
		return show(view, dst, seq)
	})
}
