package state

import "github.com/commons-cluster/commons/fsm/command"

// SettingsOf returns the settings, or the defaults if no operator has set any.
func SettingsOf(s Reader) command.Settings {
	set, ok := Read(s, KeySettings, Decode[SettingsRow])
	if !ok {
		return command.DefaultSettings
	}
	return set.Settings
}

// SettingsRow is the row of KeySettings.
type SettingsRow struct{ command.Settings }

// Fields implements Row.
func (s *SettingsRow) Fields(c *Codec) {
	rate, burst := s.WriteRate-command.NotSet, s.WriteBurst-command.NotSet // not negative
	c.Fields(
		&s.DailyBytes, &s.SenderBytes, &s.ProvenOnly, &s.RetentionDays, &s.SenderDays, &rate, &burst,
		&s.BackupURL, &s.BackupMillis, &s.BackupKeep, &s.BackupVerify, &s.Welcome,
	)
	s.WriteRate, s.WriteBurst = rate+command.NotSet, burst+command.NotSet
}

// unlimited reports whether neither a write's node nor the settings limit it.
func unlimited(s Reader, proof *command.Proof) bool {
	set := SettingsOf(s)
	if set.WriteRate != command.NotSet || set.WriteBurst != command.NotSet {
		return set.WriteRate == 0 || set.WriteBurst == 0
	}
	return proof.Unlimited
}
