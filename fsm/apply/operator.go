package apply

import (
	"bytes"
	"runtime"
	"strconv"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

func (tx *Txn) applyResetKey(c *command.ResetKey) command.Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return rejected(command.ProblemUnknownAgent)
	}
	tx.setKey(c.AgentKey, &p, c.NewKey)
	tx.dropName(&p)
	p.Former, p.FormerRecovery, p.Sender, p.Issuer = state.NoKey, state.NoKey, "", ""
	p.Used = true // only an operator renews it
	copy(p.Recovery[:], c.NewRecovery)
	tx.putProfile(c.AgentKey, &p)
	tx.note(command.Operator, state.ActionResetKey, c.AgentKey, "")
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}
}

func (tx *Txn) applyProtectName(c *command.ProtectName) command.Result {
	p, known := tx.profile(c.AgentKey)
	switch {
	case !known:
		return rejected(command.ProblemUnknownAgent)
	case p.Protected == c.Protected:
		return unchanged
	}
	p.Protected = c.Protected
	tx.putProfile(c.AgentKey, &p)
	action := state.ActionUnprotectName
	if c.Protected {
		action = state.ActionProtectName
	}
	tx.note(command.Operator, action, c.AgentKey, "")
	return done
}

func (tx *Txn) applyReseal(c *command.Reseal) command.Result {
	if tx.Cluster.ID == "" || !bytes.Equal(tx.Cluster.SealedKey, c.Former) {
		return unchanged
	}
	tx.Cluster.SealedKey = c.SealedDataKey
	tx.set(state.KeyCluster, state.Encode(&tx.Cluster))
	tx.note(state.ByLeader, state.ActionChangeSecret, "", "")
	return done
}

func (tx *Txn) applyRecordBackup(c *command.RecordBackup) command.Result {
	run, _ := state.Read(tx, state.KeyBackupRun, state.Decode[state.BackupRun])
	if c.Verified > 0 {
		if c.Verified != run.Saved {
			return unchanged // of a former store, or a newer one was saved
		}
		if run.Doubt = c.Problem; run.Doubt == "" {
			run.Verified = run.Saved
		}
		tx.set(state.KeyBackupRun, state.Encode(&run))
		return done
	}
	at := min(c.At, tx.now) // a fast clock must not hide that no more are made
	newer := at > int64(tx.number(state.KeyBackup))
	if newer {
		tx.setNumber(state.KeyBackup, uint64(at))
	}
	if began := min(c.Run, tx.now); began > run.Began {
		run.Began, run.Failed, run.Problem = began, c.At == 0, c.Problem
		if !run.Failed {
			run.Saved, run.Oldest = at, c.Oldest
		}
		tx.set(state.KeyBackupRun, state.Encode(&run))
	} else if !newer {
		return unchanged
	}
	return done
}

func (tx *Txn) applySetFormat(c *command.SetFormat) command.Result {
	if c.Format > tx.Format {
		if err := command.CheckFormat(c.Format, tx.maxFormat); err != nil {
			// Only the program is outdated, so the node ends in good order, with the state
			// as it was before this log entry.
			tx.fatal(&Error{Index: tx.Head.Applied, err: err})
			runtime.Goexit()
		}
		tx.Format = c.Format
		tx.setNumber(state.KeyFormat, uint64(c.Format)) // checked
		tx.note(state.ByLeader, state.ActionSetFormat, strconv.Itoa(c.Format), "")
	}
	return done
}
