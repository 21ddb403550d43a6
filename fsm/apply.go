package fsm

import (
	"github.com/commons-cluster/commons/fsm/apply"
)

// Apply applies one batch, from command.EncodeBatch, as the committed log entry with
// this index and term. It panics like apply.
func (m *Machine) Apply(index, term uint64, batch []byte) {
	m.applyAll([]apply.LogEntry{{Index: index, Term: term, Data: batch}})
}

// applyAll applies log entries in order. It publishes a view in between where a caller
// waits for the view of an index.
func (m *Machine) applyAll(entries []apply.LogEntry) {
	for len(entries) > 0 {
		n := m.captures.next(entries)
		m.apply(entries[:n])
		m.captures.serve(m)
		entries = entries[n:]
	}
}

// apply applies committed log entries, in order, in one write, and publishes the
// view after them. It skips entries that the state already holds. It panics when the log
// does not match the state, and when an entry cannot be decoded: a state machine that
// skips an entry would differ from the others.
func (m *Machine) apply(entries []apply.LogEntry) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	tx := m.begin()
	for i := range entries {
		tx.Apply(&entries[i])
	}
	if tx.Head.Applied == m.Head.Applied {
		tx.Discard()
		return
	}
	c := m.commit(tx)
	m.publish()
	if c.Queued {
		c.Notified = append(c.Notified, watchDeliveries)
	}
	if c.Eventful {
		c.Notified = append(c.Notified, watchEvents)
	}
	m.watchers.notify(c.Added, c.Notified...)
	m.notifyOpened(c.Opened)
	m.jobWaiters.wake(len(c.Opened))
	if len(c.Ended) > 0 && m.opts.DeliveriesEnded != nil {
		m.opts.DeliveriesEnded(c.Ended)
	}
	if m.opts.Observer == nil {
		return
	}
	for _, a := range c.Answers {
		m.opts.Observer.Applied(a.Boot, a.Seq, a.Res, a.Index)
	}
}

// begin starts a transaction on the live state.
func (m *Machine) begin() *apply.Txn {
	return apply.Begin(&m.store.Rows, m.Loaded, m.store.caches, m.opts.MaxFormat, m.opts.Fatal)
}

// commit writes a transaction and updates everything that is held in memory.
func (m *Machine) commit(tx *apply.Txn) apply.Changes {
	c := tx.Commit()
	m.Loaded = tx.Loaded
	for i := range c.Added {
		a := &c.Added[i]
		terms, words := m.terms.Terms(&a.Entry, a.Texts)
		m.store.index.Add(a.Entry.Seq, terms, words...)
	}
	for _, r := range c.Revised {
		m.store.profiles.Add(r.Revision, nil, m.terms.Words(r.Texts)...)
	}
	return c
}
