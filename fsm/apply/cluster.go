package apply

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

func (tx *Txn) applyInit(c *command.Init) command.Result {
	if tx.Cluster.ID == "" {
		tx.Cluster = state.Cluster{ID: c.ClusterID, SealedKey: c.SealedDataKey}
		tx.set(state.KeyCluster, state.Encode(&tx.Cluster))
		tx.note(state.ByLeader, state.ActionForm, c.ClusterID, "")
	}
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

// note adds a row to the record of changes in the cluster.
func (tx *Txn) note(by, action, what, reason string) {
	tx.journal(state.ChangeRecord, state.Record{By: by, Action: action, What: what, Reason: reason})
}

// noteLead records that a leader began its term, and before the first one the founding.
func (tx *Txn) noteLead(server string) {
	if action, what, has := strings.Cut(tx.Cluster.Founding, " "); has {
		tx.Cluster.Founding = ""
		tx.set(state.KeyCluster, state.Encode(&tx.Cluster))
		tx.note(command.Operator, action, what, "")
	}
	tx.note(server, state.ActionLead, "term "+strconv.FormatUint(tx.Head.Term, 10), "")
}
