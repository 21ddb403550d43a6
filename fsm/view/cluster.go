package view

import "github.com/commons-cluster/commons/fsm/state"

// ClusterID is the id that Init gave the cluster; "" before.
func (v *View) ClusterID() string { return v.at.Cluster.ID }

// SealedDataKey is the immutable data key under the cluster secret, or nil before Init.
func (v *View) SealedDataKey() []byte { return v.at.Cluster.SealedKey }

// Configuration is the newest committed configuration in Raft's encoding, with its index,
// or 0 and nil.
func (v *View) Configuration() (index uint64, data []byte) {
	c, err := state.LoadConfiguration(v.snap)
	v.must(err)
	return c.Index, c.Data
}

// Format is the replicated format number, which gates new kinds of commands.
func (v *View) Format() int { return v.at.Format }

// LastBackup returns when the newest backup was begun, in milliseconds since the epoch, or
// 0.
func (v *View) LastBackup() (int64, error) {
	at, err := state.LoadOrZero(v.snap, state.KeyBackup, state.DecodeNumber)
	return int64(at), err //nolint:gosec // bounded when it was set
}

// BackupRun returns the newest run of the schedule of backups.
func (v *View) BackupRun() (state.BackupRun, error) {
	return state.LoadOrZero(v.snap, state.KeyBackupRun, state.Decode[state.BackupRun])
}

// Changes returns rows of the record of changes in the cluster, as Records does.
func (v *View) Changes(before uint64, limit int) (records []state.Record, next uint64, err error) {
	return v.journal(state.ChangeRecord, before, limit)
}
