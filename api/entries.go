package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
)

// listEntries serves GET /api/entries: a list, or a write where action=publish.
func listEntries(c *call) error {
	pairs, err := c.query()
	if err != nil {
		return err
	}
	doc, twice := wire.FoldPairs(pairs)
	switch {
	case doc.Get("action") == nil:
	case c.isHead(): // a HEAD never writes: it asks about the list
		c.out.Header.Set(fiber.HeaderCacheControl, "no-store")
	case doc.Get("action") == "publish":
		return publishByGet(c, &doc, twice)
	}
	c.noteUnknown(&doc, append([]string{"action"}, listParams...))
	l := readListing(&doc, twice, c.isHead())
	fresh := c.readFreshness(&doc, &l.problems)
	if l.problems.Any() {
		return wire.Invalid(l.problems.List, l.repair(&doc, c.srv.now()))
	}
	if err := c.await(fresh); err != nil {
		return err
	}
	return c.answerList(l)
}

// answerList answers with one page of entries, put together from stored bytes.
func (c *call) answerList(l *listing) error {
	view := c.read()
	var seqs []uint64
	var next uint64
	if l.resolve(view) {
		var err error
		if seqs, next, err = view.List(l.query); err != nil {
			return fmt.Errorf("list entries: %w", err)
		}
	}
	return c.answerPage("entries", seqs, l.nextCursor(next), view.AppendEntries)
}

// answerPage answers with one page of a list, put together from stored bytes.
// The cursor is null on the last page.
func (c *call) answerPage(name string, seqs []uint64, cursor string, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(append(append(dst, `{"`...), name...), `":[`...)
		dst, err := show(dst, seqs)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		dst = append(dst, `],"nextCursor":`...)
		if cursor == "" {
			dst = append(dst, `null`...)
		} else {
			dst = append(append(append(dst, '"'), cursor...), '"')
		}
		if len(c.notes) > 0 {
			return appendNotes(dst, c.notes), nil
		}
		return append(dst, '}'), nil
	})
}

// getEntry serves GET /api/entries/{id}.
func getEntry(c *call) error {
	err := c.awaitQueryOf("entry", func(view *fsm.View) (bool, error) {
		_, known := view.Resolve(c.param("id"))
		return known, nil
	})
	if err != nil {
		return err
	}
	view := c.read()
	seq, known := view.Resolve(c.param("id"))
	if !known {
		return wire.Missing("entry")
	}
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst, err := view.AppendEntry(append(dst, `{"entry":`...), seq)
		if errors.Is(err, fsm.ErrNotFound) {
			return nil, wire.Missing("entry")
		}
		return append(dst, '}'), err
	})
}
