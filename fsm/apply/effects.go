package apply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Apply applies a log entry, unless the state already holds it.
func (tx *Txn) Apply(e *LogEntry) {
	if e.Index <= tx.Head.Applied {
		tx.Must(tx.Head.CheckApplied(e.Index, e.Term))
		return
	}
	tx.Head.Applied, tx.Head.Term = e.Index, e.Term
	switch {
	case e.Configuration:
		c := state.Configuration{Index: e.Index, Data: e.Data}
		tx.set(state.KeyConfig, state.Encode(&c))
	default:
		tx.applyBatch(e)
	}
}

// applyBatch applies a log entry that holds a batch.
func (tx *Txn) applyBatch(e *LogEntry) {
	b, err := command.DecodeBatch(e.Data)
	tx.Must(err)
	tx.now = max(b.Stamp, tx.Head.Now+1)
	tx.Head.Now, tx.timed = tx.now, false
	tx.timePassed()
	var results []command.Result
	for i := range b.Groups {
		g := &b.Groups[i]
		s := tx.Sessions.open(tx, g)
		for _, c := range g.Commands {
			r := s.run(tx, g.Boot, c)
			results = append(results, r)
			tx.Answers = append(tx.Answers, Answered{Boot: g.Boot, Seq: c.Seq, Index: e.Index, Res: r})
		}
	}
	if tx.refused {
		tx.refused = false
		tx.listPurge(&state.Purge{Cluster: tx.Cluster.ID, ID: state.RefusedTexts, Since: tx.now})
	}
	tx.putEvents()
	tx.Head.Roll(e.Index, e.Data, results)
}

// Discard ends a transaction without changes.
func (tx *Txn) Discard() { tx.Must(tx.Batch.Close()) }

// Commit writes the transaction and updates the caches of rows.
func (tx *Txn) Commit() Changes {
	tx.set(state.KeyHead, state.Encode(&tx.Head))
	tx.finish()
	if err := tx.stored.DB.Apply(tx.Batch, pebble.NoSync); err != nil {
		tx.Must(fmt.Errorf("write state: %w", err))
	}
	tx.Must(tx.Batch.Close())
	if len(tx.dropped) > 0 {
		tx.stored.Hot.Drop()
	}
	for _, c := range tx.changed {
		tx.stored.Hot.Put([]byte(c.Key), c.Row, tx.Head.Applied)
	}
	for i, row := range tx.fresh {
		tx.stored.Recent.Put(tx.firstFresh+uint64(i), row)
	}
	tx.stored.Recent.Drop(tx.recast)
	tx.stored.Later.Set(tx.superseded)
	tx.Queued, tx.Eventful = len(tx.outboxes) > 0, tx.Head.EventRows > tx.base.EventRows
	return tx.Changes
}

// LogEntry is a committed entry of the Raft log, for the state machine.
type LogEntry struct {
	Index, Term   uint64
	Configuration bool // data is a configuration, else a batch
	Data          []byte
}

// effects has the function that applies each kind of command, deterministically.
var effects = [...]func(*Txn, command.Payload) command.Result{
	command.OpTick: effect(func(*Txn, *command.Tick) command.Result { return done }),
	command.OpLead: effect(func(tx *Txn, c *command.Lead) command.Result {
		tx.noteLead(c.ServerID)
		return done
	}),
	command.OpNoteChange: effect(func(tx *Txn, c *command.NoteChange) command.Result {
		tx.note(c.By, c.Action, c.Server, c.Reason)
		return done
	}),
	command.OpInit:            effect((*Txn).applyInit),
	command.OpPublish:         effect((*Txn).applyPublish),
	command.OpRegister:        effect((*Txn).applyRegister),
	command.OpPostJob:         effect((*Txn).applyPostJob),
	command.OpClaimJob:        effect((*Txn).applyClaimJob),
	command.OpFinishJob:       effect((*Txn).applyFinishJob),
	command.OpReleaseJob:      effect((*Txn).applyReleaseJob),
	command.OpCloseJob:        effect((*Txn).applyCloseJob),
	command.OpTakeJob:         effect((*Txn).applyTakeJob),
	command.OpAskHuman:        effect((*Txn).applyAskHuman),
	command.OpAddUsage:        effect((*Txn).applyAddUsage),
	command.OpBeginDeliveries: effect((*Txn).applyBeginDeliveries),
	command.OpAckDelivery:     effect((*Txn).applyAckDelivery),
	command.OpTestDelivery:    effect((*Txn).applyTestDelivery),
	command.OpSetFormat:       effect((*Txn).applySetFormat),
	command.OpReseal:          effect((*Txn).applyReseal),
	command.OpRecordBackup:    effect((*Txn).applyRecordBackup),
	command.OpMarkSeen:        effect((*Txn).applyMarkSeen),
	command.OpReport:          effect((*Txn).applyReport),
	command.OpResetKey:        effect((*Txn).applyResetKey),
	command.OpProtectName:     effect((*Txn).applyProtectName),
	command.OpForgetSenders:   effect(func(tx *Txn, _ *command.ForgetSenders) command.Result { return tx.applyForgetSenders() }),
	command.OpSetSettings:     effect((*Txn).applySetSettings),
	command.OpSetModerator:    effect((*Txn).applySetModerator),
	command.OpHide:            effect((*Txn).applyHide),
	command.OpPurge:           effect((*Txn).applyPurge),
	command.OpSetRule:         effect((*Txn).applySetRule),
	command.OpLiftRule:        effect((*Txn).applyLiftRule),
	command.OpSweep:           effect((*Txn).applySweep),
	command.OpResolveReports:  effect((*Txn).applyResolveReports),
	command.OpRecover:         effect((*Txn).applyRecover),
}

func effect[C command.Payload](apply func(*Txn, C) command.Result) func(*Txn, command.Payload) command.Result {
	return func(tx *Txn, p command.Payload) command.Result { return apply(tx, p.(C)) }
}

// targetProblems reject an entry because of its target. Its text stands in the log alone, which is
// rewritten then. Nodes do not propose an entry that their newest state rejects, so this is rare.
var targetProblems = []command.Problem{command.ProblemHidden, command.ProblemUnknownTarget}

// checkAndCarryOut applies a command, unless one of the checks rejects it. A repeated
// request_id is not checked and costs no bytes.
func (tx *Txn) checkAndCarryOut(c command.Command) command.Result {
	tx.judged = state.Admit(tx, c.Payload)
	j := &tx.judged
	if o := command.OrderOf(c.Payload); o != nil && o.By != command.Operator {
		m, _ := state.Read(tx, state.ModeratorKey(o.By), state.Decode[state.Moderator])
		if m.Until <= tx.now {
			return rejected(command.ProblemNotModerator)
		}
	}
	op := command.OpOf(c.Payload)
	if j.Proof == nil || j.Repeated() {
		return tx.carryOut(op, c.Payload)
	}
	against := tx.Policy.OfSender(j.Proof.Sender)
	old := j.Proof.Policy != tx.Policy.Revision
	if against == nil && !old {
		against = tx.Policy.Against(tx, c.Payload, &j.Writer)
	}
	limit, opens := j.OverLimit(tx, c.Payload)
	switch {
	case against != nil:
		r := rejected(command.ProblemBlocked)
		r.Entry = against.Number
		return r
	case old:
		return rejected(command.ProblemOldPolicy)
	case j.ProvenOnly(c.Payload):
		return rejected(command.ProblemProvenOnly)
	case limit != 0:
		return rejected(limit)
	case !tx.takeBudget(c, j): // the last one, because it counts the bytes of the command
		return rejected(command.ProblemOverBudget)
	}
	r := tx.carryOut(op, c.Payload)
	if r.Outcome != command.OutcomeDone {
		tx.refused = tx.refused || slices.ContainsFunc(r.Problems, func(p command.Problem) bool { return slices.Contains(targetProblems, p) })
		return r
	}
	if opens {
		for _, sh := range state.SharesOf(j.Proof, "", 1) {
			tx.count(state.ChannelsKey(command.DayOf(tx.now), sh.Of))
		}
	}
	return r
}

// carryOut applies a command that passed the checks. The key of its signer, which is not renewed any
// more, counts as used from then on.
func (tx *Txn) carryOut(op command.Op, p command.Payload) command.Result {
	if j := &tx.judged; j.Strength == command.ByKey && op != command.OpRecover && !j.Profile.Used {
		j.Profile.Used = true
		tx.putProfile(j.AgentKey, &j.Profile)
	}
	return effects[op](tx, p)
}

// run applies a command, unless it was applied before.
func (s *Session) run(tx *Txn, boot command.BootID, c command.Command) command.Result {
	if !s.Holds(c.Seq) {
		return command.Result{Outcome: command.OutcomeDropped}
	}
	if r, ok := s.Answers[c.Seq]; ok {
		return r
	}
	r := tx.checkAndCarryOut(c)
	s.store(tx, boot, c.Seq, r)
	return r
}

// finish moves all rows into the batch.
func (tx *Txn) finish() {
	tx.finishHome()
	tx.finishOutboxes()
	for _, name := range slices.Sorted(maps.Keys(tx.rows)) { // the tables of the batch take rising keys fastest
		key, row := []byte(name), tx.rows[name]
		tx.touch(key)
		if row == nil {
			tx.Must(tx.Batch.Delete(key, nil))
		} else {
			tx.Must(tx.Batch.Set(key, row, nil))
		}
		if state.KeyspaceOf[key[0]].Hot {
			tx.changed = append(tx.changed, state.HotRow{Key: name, Row: row})
		}
	}
}
