package operator

import (
	"context"
	"net/http"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
)

// changeSettings changes the replicated settings, where the call says so, and returns
// them. It is called on the leader.
func (o *Operator) changeSettings(ctx context.Context, request admin.SettingsChange) (answer admin.SettingsReport, err error) {
	if request != (admin.SettingsChange{}) {
		payload := &command.SetSettings{DailyBytes: request.DailyBytes, SenderBytes: request.SenderBytes}
		if err := command.Check(payload); err != nil {
			return answer, rejectf(http.StatusBadRequest, "%v; give less, or 0 for no bound", err)
		}
		if _, _, err := o.cfg.Pipeline.ProposeAsLeader(ctx, payload); err != nil {
			return answer, rejectf(http.StatusServiceUnavailable, "whether the settings hold now is not known: %v; repeat it", err)
		}
	}
	v := o.cfg.Machine.View()
	defer v.Release()
	if answer, err = o.settings(v); err != nil {
		return answer, err
	}
	if request != (admin.SettingsChange{}) {
		o.cfg.Logger.InfoContext(ctx, "changed the settings, as an operator asked",
			"daily_bytes", answer.DailyBytes, "sender_bytes", answer.SenderBytes, "by", cluster.PeerID(ctx))
	}
	return answer, nil
}

// settings returns the settings and what is used of the budget today.
func (o *Operator) settings(v *fsm.View) (admin.SettingsReport, error) {
	set, err := v.Settings()
	if err != nil {
		return admin.SettingsReport{}, err
	}
	now := o.cfg.Pipeline.Clocks().Corrected().UnixMilli()
	used, err := v.Budget(now)
	return admin.SettingsReport{
		Settings: set, SmallShareBytes: set.SmallShare(), UsedBytes: used.Bytes, Senders: used.Senders, DayMillis: now - used.Day.Start(),
	}, err
}
