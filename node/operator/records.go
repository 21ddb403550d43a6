package operator

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
)

// LeastApplied returns the lowest applied index of the other servers that gossip knows;
// 0 while one of them does not answer.
func (o *Operator) LeastApplied(ctx context.Context) uint64 {
	least := uint64(math.MaxUint64)
	for _, s := range o.ClusterReport(ctx).Servers {
		switch {
		case s.ID == o.cfg.ServerID || s.Part == admin.Outside || !s.Alive:
		case s.Report == nil:
			least = 0
		default:
			least = min(least, s.Report.Applied)
		}
	}
	return least
}

// Purges returns which disks may still hold purged texts, as far as a view knows: those
// of the present servers, of the servers at the time of each purge, and of those that were removed
// before it and had the text. The disk of a server that has left is unknown.
func (o *Operator) Purges(ctx context.Context, v *view.View) (report admin.PurgeReport, err error) {
	own, gone := o.cfg.ClusterID(), map[string]uint64{} // by server, how many purges it was there for
	former, err := v.FormerServers()
	if err != nil {
		return report, err
	}
	newest := int64(0)
	err = v.Purges(0, func(p state.Purge) error {
		report.Purged, newest = p.Number, p.At
		for id, f := range former {
			if f.Had(&p) && (p.Cluster != own || !slices.Contains(p.Servers, id)) {
				gone[id]++
			}
		}
		if p.Cluster == own { // else the servers are those of the cluster that a backup is of
			for _, id := range p.Servers {
				gone[id]++
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return report, err
	}
	if report.BackupsUntil, err = backupsUntil(v, newest); err != nil {
		return report, err
	}
	for _, s := range o.ClusterReport(ctx).Servers {
		delete(gone, s.ID)
		on := admin.PurgeServer{ID: s.ID, Part: s.Part, Purged: report.Purged, Pending: report.Purged, Problem: s.Error}
		if s.Report != nil {
			on.Done = min(s.Report.Purges.Done(), report.Purged)
			on.Pending = report.Purged - on.Done
		}
		report.Servers = append(report.Servers, on)
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		on := admin.PurgeServer{ID: id, Part: admin.Removed, Purged: gone[id]}
		if former[id].Destroyed {
			on.Part, on.Done = admin.Destroyed, gone[id]
		} else {
			on.Pending, on.Problem = gone[id], "not in the cluster any more: erase or destroy its disk, then say so with 'mod purge-destroyed'"
		}
		report.Servers = append(report.Servers, on)
	}
	return report, nil
}

// backupsUntil returns when the schedule will have deleted the last backup from before a purge, or
// "" without such a backup.
func backupsUntil(v *view.View, purged int64) (string, error) {
	set, err := v.Settings()
	if err != nil {
		return "", err
	}
	run, err := v.BackupRun()
	if err != nil || run.Oldest == 0 || run.Oldest > purged {
		return "", err
	}
	kept := int64(set.BackupKeep * set.BackupSeconds) //nolint:gosec // bounded by their check
	return time.Unix(purged/1000+kept, 0).UTC().Format(time.RFC3339), nil
}

// PurgeList returns all purges before the call.
func (o *Operator) PurgeList(ctx context.Context) (list backup.PurgeList, err error) {
	index, err := o.cfg.Pipeline.ReadIndex(ctx)
	if err == nil {
		err = o.cfg.Machine.Wait(ctx, index)
	}
	if err != nil {
		return list, rejectf(http.StatusServiceUnavailable, "what was purged is not known here: %v; repeat, or ask another node", err)
	}
	v := o.cfg.Machine.View()
	defer v.Release()
	list = backup.PurgeList{ClusterID: o.cfg.ClusterID(), CreatedAt: o.cfg.Pipeline.Clocks().Corrected().UnixMilli(), Purged: []backup.PurgedEntry{}}
	err = v.Purges(0, func(p state.Purge) error {
		if p.ID != "" && p.ID != state.RefusedTexts { // a backup has the keys of its own time, and no log
			list.Purged = append(list.Purged, backup.PurgedEntry{ClusterID: p.Cluster, ID: p.ID, CreatedAt: p.CreatedAt})
		}
		return ctx.Err()
	})
	return list, err
}

// events returns the newest rows of both records, merged, from this node's state.
func (o *Operator) events(_ context.Context, request admin.EventsRequest) (answer admin.Events, err error) {
	limit := request.Limit
	if limit <= 0 || limit > admin.MaxEvents {
		limit = admin.MaxEvents
	}
	v := o.cfg.Machine.View()
	defer v.Release()
	answer.Events = []admin.Event{}
	for _, page := range []func(before uint64, limit int) ([]state.Record, uint64, error){v.Records, v.Changes} {
		if err := newest(page, request.Since, limit+1, func(r *state.Record) {
			answer.Events = append(answer.Events, admin.Event{At: r.At, By: r.By, Action: r.Action, What: r.What, Reason: r.Reason})
		}); err != nil {
			return answer, err
		}
	}
	slices.SortStableFunc(answer.Events, func(a, b admin.Event) int { return cmp.Compare(a.At, b.At) })
	if over := len(answer.Events) - limit; over > 0 {
		answer.Events, answer.More = answer.Events[over:], true
	}
	return answer, nil
}

// newest calls f for the newest rows of a record since an instant, at most limit,
// oldest first.
func newest(page func(before uint64, limit int) ([]state.Record, uint64, error), since int64, limit int, f func(*state.Record)) error {
	var rows []state.Record
	for before, left := uint64(0), limit; left > 0; left = limit - len(rows) {
		records, next, err := page(before, left)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.At < since {
				next = 0
				break
			}
			rows = append(rows, r)
		}
		if before = next; next == 0 {
			break
		}
	}
	for i := range slices.Backward(rows) {
		f(&rows[i])
	}
	return nil
}
