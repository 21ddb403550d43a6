package fsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// logEntry is a committed entry of the Raft log, as far as the state machine
// is concerned.
type logEntry struct {
	index, term   uint64
	configuration bool // data is a configuration, else a batch
	data          []byte
}

// answered is a command's result, to be passed to the observer.
type answered struct {
	boot  command.BootID
	seq   uint64
	index uint64
	res   command.Result
}

// Apply applies one batch, from command.EncodeBatch, as the committed log entry with
// this index and term. It panics like apply.
func (m *Machine) Apply(index, term uint64, batch []byte) {
	m.applyAll([]logEntry{{index: index, term: term, data: batch}})
}

// applyAll applies log entries in order. It publishes a view in between where a caller
// waits for the view of an index.
func (m *Machine) applyAll(entries []logEntry) {
	for len(entries) > 0 {
		n := m.captures.next(entries)
		m.apply(entries[:n])
		m.captures.serve(m)
		entries = entries[n:]
	}
}

// apply carries out committed log entries, in order, in one write, and publishes the
// view after them. What the state already holds is skipped. It panics when the log does
// not match the state, and when an entry cannot be decoded: a state machine that skips
// an entry would differ from the others.
func (m *Machine) apply(entries []logEntry) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	tx := m.begin()
	var answers []answered
	for i := range entries {
		e := &entries[i]
		if e.index <= tx.head.applied {
			tx.must(tx.head.checkApplied(e))
			continue
		}
		tx.head.applied, tx.head.term = e.index, e.term
		if e.configuration {
			c := configuration{index: e.index, data: e.data}
			tx.set(keyConfig, c.append(nil))
			continue
		}
		answers = m.applyBatch(tx, e, answers)
	}
	if tx.head.applied == m.head.applied {
		tx.must(tx.batch.Close())
		return
	}
	eventful := tx.head.eventRows > m.head.eventRows
	m.commit(tx)
	m.publish()
	m.watchers.notify(tx.added, tx.notified)
	if len(tx.outboxes) > 0 {
		m.watchers.notifyOthers(watchDeliveries)
	}
	if eventful {
		m.watchers.notifyOthers(watchEvents)
	}
	if len(tx.ended) > 0 && m.opts.DeliveriesEnded != nil {
		m.opts.DeliveriesEnded(tx.ended)
	}
	if m.opts.Observer == nil {
		return
	}
	for _, a := range answers {
		m.opts.Observer.Applied(a.boot, a.seq, a.res, a.index)
	}
}

// begin starts the transaction of one call of apply.
func (m *Machine) begin() *txn {
	return &txn{
		db:         m.store.db,
		batch:      m.store.db.NewBatch(),
		recent:     &m.store.recent,
		hot:        &m.store.hot,
		base:       m.head.applied,
		loaded:     m.loaded,
		maxFormat:  m.opts.MaxFormat,
		fatal:      m.opts.Fatal,
		rows:       make(map[string][]byte),
		firstFresh: m.head.lastSeq + 1,
		activities: make(map[string]*activity),
		recents:    make(map[string]*recentByAuthor),
		owned:      make(map[string][]uint64),
		caches:     m.store.caches,
		outboxes:   make(map[string]*outbox),
	}
}

// applyBatch applies one log entry that holds a batch.
func (m *Machine) applyBatch(tx *txn, e *logEntry, answers []answered) []answered {
	b, err := command.DecodeBatch(e.data)
	tx.must(err)
	tx.now = max(b.Stamp, tx.head.now+1)
	tx.head.now, tx.timed = tx.now, false
	tx.reopenClaims()
	tx.endRules()
	tx.endReports()
	var results []command.Result
	for i := range b.Groups {
		g := &b.Groups[i]
		s := m.sessions.open(tx, g)
		for _, c := range g.Commands {
			r := s.run(tx, g.Boot, c)
			results = append(results, r)
			answers = append(answers, answered{boot: g.Boot, seq: c.Seq, index: e.index, res: r})
		}
	}
	tx.putEvents()
	tx.head.roll(e.index, e.data, results)
	tx.rolled = append(tx.rolled, rolled{e.index, tx.head.rolling})
	return answers
}

// run applies a command, unless it was applied before.
func (s *session) run(tx *txn, boot command.BootID, c command.Command) command.Result {
	if !s.holds(c.Seq) {
		return command.Result{Outcome: command.OutcomeDropped}
	}
	if r, ok := s.answers[c.Seq]; ok {
		return r
	}
	r := tx.checkAndCarryOut(c)
	s.keep(tx, boot, c.Seq, r)
	return r
}

// carryOut calls the function that applies a command; carryOutOrder is its second part.
// These functions must be deterministic: they may depend on the transaction and the
// command only.
func (tx *txn) carryOut(p command.Payload) command.Result {
	switch c := p.(type) {
	case *command.Tick:
		return command.Result{Outcome: command.OutcomeDone} // that it is applied says everything
	case *command.Lead:
		tx.noteLead(c.ServerID)
		return command.Result{Outcome: command.OutcomeDone}
	case *command.NoteChange:
		tx.note(c.By, c.Action, c.Server, c.Reason)
		return command.Result{Outcome: command.OutcomeDone}
	case *command.Init:
		return tx.applyInit(c)
	case *command.Publish:
		return tx.applyPublish(c)
	case *command.Register:
		return tx.applyRegister(c)
	case *command.PostJob:
		return tx.applyPostJob(c)
	case *command.ClaimJob:
		return tx.applyClaimJob(c)
	case *command.FinishJob:
		return tx.applyFinishJob(c)
	case *command.ReleaseJob:
		return tx.applyReleaseJob(c)
	case *command.CloseJob:
		return tx.applyCloseJob(c)
	case *command.AskHuman:
		return tx.applyAskHuman(c)
	case *command.AddUsage:
		return tx.applyAddUsage(c)
	case *command.BeginDeliveries:
		return tx.applyBeginDeliveries(c)
	case *command.AckDelivery:
		return tx.applyAckDelivery(c)
	case *command.TestDelivery:
		return tx.applyTestDelivery(c)
	case *command.RotateSigningKey:
		return tx.applyRotateSigningKey(c)
	case *command.SetFormat:
		return tx.applySetFormat(c)
	case *command.Reseal:
		return tx.applyReseal(c)
	case *command.RecordBackup:
		return tx.applyRecordBackup(c)
	case *command.MarkSeen:
		return tx.applyMarkSeen(c)
	case *command.Report:
		return tx.applyReport(c)
	}
	return tx.carryOutOrder(p)
}

// carryOutOrder is carryOut for the commands of operators and moderators.
func (tx *txn) carryOutOrder(p command.Payload) command.Result {
	switch c := p.(type) {
	case *command.ResetKey:
		return tx.applyResetKey(c)
	case *command.ProtectName:
		return tx.applyProtectName(c)
	case *command.NextEpoch:
		return tx.applyNextEpoch(c)
	case *command.ForgetSenders:
		return tx.applyForgetSenders()
	case *command.SetSettings:
		return tx.applySetSettings(c)
	case *command.SetModerator:
		return tx.applySetModerator(c)
	case *command.Hide:
		return tx.applyHide(c)
	case *command.DestroyDisk:
		return tx.applyDestroyDisk(c)
	case *command.Purge:
		return tx.applyPurge(c)
	case *command.SetRule:
		return tx.applySetRule(c)
	case *command.LiftRule:
		return tx.applyLiftRule(c)
	case *command.Sweep:
		return tx.applySweep(c)
	case *command.ResolveReports:
		return tx.applyResolveReports(c)
	}
	tx.must(fmt.Errorf("command %s has no row here", command.OpOf(p)))
	return command.Result{}
}

// commit writes the transaction and updates what is kept in memory.
func (m *Machine) commit(tx *txn) {
	tx.finish()
	tx.set(keyHead, tx.head.append(nil))
	if err := m.store.db.Apply(tx.batch, pebble.NoSync); err != nil {
		tx.must(fmt.Errorf("write state: %w", err))
	}
	tx.must(tx.batch.Close())
	m.digests.add(tx.rolled)
	m.loaded = tx.loaded
	tx.finishHot()
	for i, row := range tx.fresh {
		m.store.recent.put(tx.firstFresh+uint64(i), row)
	}
	for i := range tx.added {
		a := &tx.added[i]
		terms, words := m.terms.terms(&a.entry, a.texts)
		m.store.index.Add(a.entry.Seq, terms, words...)
	}
	for _, r := range tx.revised {
		m.store.profiles.Add(r.revision, nil, m.terms.textWords(r.texts)...)
	}
	m.store.recent.drop(tx.recast)
	m.store.later.set(tx.superseded)
}
