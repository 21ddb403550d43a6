package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

func (tx *Txn) applySetSettings(c *command.SetSettings) command.Result {
	before := state.SettingsOf(tx)
	set := before
	replace(&set.DailyBytes, c.DailyBytes)
	replace(&set.SenderBytes, c.SenderBytes)
	replace(&set.ProvenOnly, c.ProvenOnly)
	replace(&set.RetentionDays, c.RetentionDays)
	replace(&set.SenderDays, c.SenderDays)
	replace(&set.WriteRate, c.WriteRate)
	replace(&set.WriteBurst, c.WriteBurst)
	replace(&set.BackupURL, c.BackupURL)
	replace(&set.BackupMillis, c.BackupMillis)
	replace(&set.BackupKeep, c.BackupKeep)
	replace(&set.BackupVerify, c.BackupVerify)
	replace(&set.Welcome, c.Welcome)
	if set == before {
		return unchanged
	}
	tx.set(state.KeySettings, state.Encode(&state.SettingsRow{Settings: set}))
	if set.BackupURL != before.BackupURL {
		tx.del(state.KeyBackupRun) // of the former store
	}
	tx.record(&command.Order{By: command.Operator}, state.ActionSettings, set.ChangesFrom(before))
	return done
}

// replace replaces a setting by its new value, if there is one.
func replace[T any](setting, value *T) {
	if value != nil {
		*setting = *value
	}
}
