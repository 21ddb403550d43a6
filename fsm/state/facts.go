// Package state has the contents of the replicated state: its keyspaces, the rows and their
// codecs, public ids, caches of rows, and the rules that are checked both when a command is
// applied and when a node answers a request. Rules read through Facts, so that they hold
// alike for a transaction and for a view.
//
// It is imported by apply, view, outbox and fsm, and by the packages that name kinds, ids and
// statuses of the state. It imports command, index and text only: no Raft, no snapshot.
package state

import (
	"github.com/commons-cluster/commons/fsm/command"
)

// Facts are read by rules: the transaction that applies a command, or a view.
type Facts interface {
	Get(key []byte) ([]byte, bool)
	Entry(seq uint64) (EntryRow, bool)
	Instant() int64
	ReportQueue() *ReportQueue
	Must(err error)
}

// Read returns the decoded row of a key, and false if the row is missing.
func Read[T any](s Facts, key []byte, decode func(row []byte) (T, error)) (v T, ok bool) {
	row, ok := s.Get(key)
	if ok {
		var err error
		v, err = decode(row)
		s.Must(err)
	}
	return v, ok
}

// SettingsOf returns the settings, or the defaults if no operator has set any.
func SettingsOf(s Facts) command.Settings {
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

// BackupRun is the newest run of the schedule of backups to the present store. Times are in
// milliseconds since the epoch; 0 means never.
type BackupRun struct {
	Began   int64  `json:"began"`
	Saved   int64  `json:"saved"`   // when the newest backup of the schedule was begun
	Oldest  int64  `json:"oldest"`  // when the oldest backup in the store was begun
	Failed  bool   `json:"failed"`  // the run saved no backup
	Problem string `json:"problem"` // of the run
	// Verified is when the newest backup was begun that a node has restored, and Doubt why a newer
	// one could not be restored.
	Verified int64  `json:"verified"`
	Doubt    string `json:"doubt"`
}

// Fields implements Row.
func (b *BackupRun) Fields(c *Codec) {
	c.Fields(&b.Began, &b.Saved, &b.Oldest, &b.Failed, &b.Problem, &b.Verified, &b.Doubt)
}

// Resolve returns the entry with a public id, of any type.
func Resolve(s Facts, id string) (EntryRow, bool) {
	entryType, seq, ok := ParseID(id)
	if !ok {
		return EntryRow{}, false
	}
	e, ok := s.Entry(seq)
	return e, ok && e.Type == entryType
}

// PageLimit returns the size of a page, given the limit in the request; 0 means the
// default.
func PageLimit(limit int) int {
	if limit <= 0 {
		return command.DefaultList
	}
	return min(limit, command.MaxList)
}

// RetentionOf returns for how many milliseconds of log time texts are kept; 0 means for good.
func RetentionOf(s Facts) int64 {
	return int64(SettingsOf(s).RetentionDays) * command.DayMillis //nolint:gosec // bounded by its check
}
