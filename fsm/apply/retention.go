package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// An entry older than the retention is swept: it is hidden and its content
// deleted, like a purge but without a proof for any disk. The bytes go with the log, with
// compactions, and with the next EraseSwept.
//
// An open or claimed job, the claim of one, and an open request for help are kept until
// they are over and the newest entry that relates to them is old enough. Profiles are not
// swept.

// sweptReason is the reason for which swept entries are hidden.
const sweptReason = "Older than the retention"

func (tx *Txn) applySweep(c *command.Sweep) command.Result {
	period := state.RetentionOf(tx)
	if period == 0 {
		return done
	}
	s, _ := state.Read(tx, state.KeySweep, state.Decode[state.SweepRow])
	look, room := MaxSweepLook, command.MaxSwept
	sweep := func(e *state.EntryRow) {
		if tx.sweep(e, period) {
			s.Swept++
			room--
		}
	}
	for ; look > 0 && room > 0; look-- {
		e, some := tx.Entry(s.Last + 1)
		if !some || e.CreatedAt > tx.now-period {
			break
		}
		s.Last++
		sweep(&e)
	}
	for _, seq := range c.Over {
		if e, some := tx.Entry(seq); some && room > 0 && tx.release(state.KeptKey(seq)) {
			sweep(&e)
		}
	}
	tx.set(state.KeySweep, state.Encode(&s))
	return done
}

// sweep makes a stub of an entry whose texts were kept for long enough, and reports
// whether it has. An entry that must be kept longer is noted, to be looked at again.
func (tx *Txn) sweep(e *state.EntryRow, period int64) bool {
	if tx.gone(e.Seq) {
		return false
	}
	if start, over := state.RetentionStart(tx, e); !over || start > tx.now-period {
		tx.set(state.KeptKey(e.Seq), []byte{})
		return false
	}
	if !e.Hidden {
		tx.hideQuietly(e, sweptReason, 0)
	}
	tx.erase(e.Seq, state.SpaceSweptBits, sweptReason)
	tx.closeReports(command.ReportExpired, func(r state.ReportSubject) bool { return r.Entry == e.Seq })
	return true
}

// MaxSweepLook is how many entries one sweep looks at in the order of their seqs.
const MaxSweepLook = 1000
