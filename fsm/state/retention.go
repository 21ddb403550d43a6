package state

import "github.com/commons-cluster/commons/fsm/command"

// SweepRow is the progress of the sweeps: the row of KeySweep.
type SweepRow struct {
	Swept uint64 // entries, in all
	Last  uint64 // seq of the newest entry that a sweep has looked at: it is swept, or in SpaceKept
}

// Fields implements Row.
func (s *SweepRow) Fields(c *Codec) { c.Fields(&s.Swept, &s.Last) }

// KeptKey is the key of an entry that is old enough to be swept and is kept.
func KeptKey(seq uint64) []byte { return SeqKey(SpaceKept, seq) }

// RetentionStart returns the instant from which the retention of an entry counts. over is false
// while the entry is kept because of open activity.
func RetentionStart(s Reader, e *EntryRow) (start int64, over bool) {
	switch {
	case e.Hidden:
		return e.CreatedAt, true
	case e.Type == TypeJob:
		over = JobOf(s, e.Seq).At(s.Instant()).Status.Over()
	case e.Type == TypeHelp:
		counts, _ := Read(s, SeqKey(SpaceCounts, e.Seq), Decode[LaterCounts])
		over = counts.Help() > HelpOpen
	case e.ParentType == TypeJob && e.Relation == command.RelationReply:
		job := JobOf(s, e.Parent).At(s.Instant())
		return e.CreatedAt, !job.isHeldBy(e.Seq)
	default:
		return e.CreatedAt, true
	}
	start = e.CreatedAt
	list, _ := Read(s, SeqKey(SpaceLater, e.Seq), Decode[Successors])
	if len(list) > 0 {
		newest, _ := s.Entry(list[len(list)-1].Seq)
		start = newest.CreatedAt
	}
	return start, over
}

// RetentionOf returns for how many milliseconds of log time texts are kept; 0 means for good.
func RetentionOf(s Reader) int64 {
	return int64(SettingsOf(s).RetentionDays) * command.DayMillis //nolint:gosec // bounded by its check
}
