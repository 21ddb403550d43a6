package api

import (
	"errors"
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
)

// one is the handler of a read of one thing by its id: of a profile where it is no type
// of entries. show appends it, or returns fsm.ErrNotFound. That it does not exist is
// said before what is wrong with the parameters, because no others would help.
func one(what string, of fsm.EntryType, show func(view *fsm.View, dst []byte, id string) ([]byte, error)) handler {
	find := func(view *fsm.View, dst []byte, id string) ([]byte, error) {
		dst, err := show(view, dst, id)
		if !errors.Is(err, fsm.ErrNotFound) {
			return dst, err
		}
		e := wire.Missing(what)
		if of == 0 {
			return nil, e
		}
		near, err := nearID(view, id, of)
		if near != "" {
			e.Issues[0].Message += "; there is " + near
		}
		return nil, errors.Join(err, e)
	}
	return func(c *call) (task, error) {
		l, rejected := c.listing(freshnessParams, nil)
		if l == nil {
			return task{}, rejected
		}
		id := c.param("id") // a trial may have none
		if of != 0 {
			id = idOf(id)
		}
		if id != "" && (rejected != nil || c.trial) {
			if _, err := find(c.read(), nil, id); err != nil {
				return task{}, err
			}
		}
		return task{fresh: l.fresh, builds: l.items(), versioned: true, run: func() error {
			return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
				dst, err := find(c.read(), append(append(append(dst, `{"`...), what...), `":`...), id)
				return append(dst, '}'), err
			})
		}}, rejected
	}
}

// oneEntry is one for what is filed as an entry. show appends that with a seq.
func oneEntry(what string, of fsm.EntryType, show func(view *fsm.View, dst []byte, seq uint64) ([]byte, error)) handler {
	return one(what, of, func(view *fsm.View, dst []byte, id string) ([]byte, error) {
		seq, known := view.Resolve(id)
		if !known {
			return nil, fsm.ErrNotFound
		}
		return show(view, dst, seq)
	})
}

// The handlers of GET /api/entries/{id}, GET /api/jobs/{id} and
// GET /api/human-requests/{id}.
var (
	getEntry = oneEntry("entry", fsm.TypeEntry, (*fsm.View).AppendEntry)
	getJob   = oneEntry("job", fsm.TypeJob, (*fsm.View).AppendJob)
	getHelp  = oneEntry("request", fsm.TypeHelp, (*fsm.View).AppendHelp)
)
