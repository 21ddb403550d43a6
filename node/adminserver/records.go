package adminserver

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/loop"
)

// LeastApplied returns the lowest applied index of the other servers that gossip knows;
// 0 while one of them does not answer.
func (a *Server) LeastApplied(ctx context.Context) uint64 {
	least := uint64(math.MaxUint64)
	for _, s := range a.ClusterReport(ctx).Servers {
		switch {
		case s.ID == a.cfg.ServerID || s.Part == admin.Outside || !s.Alive:
		case s.Report == nil:
			least = 0
		default:
			least = min(least, s.Report.Applied)
		}
	}
	return least
}

// ErasesNext reports whether all living servers before this one have erased the purges up to a
// number. Servers erase in the order of their ids, the leader last.
func (a *Server) ErasesNext(ctx context.Context, purge uint64) bool {
	report := a.ClusterReport(ctx)
	return erasesNext(&report, purge)
}

// erasesNext is ErasesNext for the server that was asked for the report.
func erasesNext(report *admin.ClusterReport, purge uint64) bool {
	own := report.AskedNode
	return !slices.ContainsFunc(report.Servers, func(s admin.Server) bool {
		before := s.ID != own && s.ID != report.Leader && (s.ID < own || own == report.Leader)
		return before && s.Alive && s.Part != admin.Outside && (s.Report == nil || s.Report.Purges.Done() < purge)
	})
}

// VerifiesBackups reports whether this node restores the scheduled backups as a check: the healthy
// follower with the lowest id, or the leader without one.
func (a *Server) VerifiesBackups(ctx context.Context) bool {
	report := a.ClusterReport(ctx)
	return verifiesBackups(&report)
}

// verifiesBackups is VerifiesBackups for the server that was asked for the report.
func verifiesBackups(report *admin.ClusterReport) bool {
	for _, s := range report.Servers {
		if s.ID != report.Leader && s.Part != admin.Outside && s.Report != nil && s.Report.Ready && !s.Report.Slow {
			return s.ID == report.AskedNode
		}
	}
	return report.Leader == report.AskedNode
}

// Purges returns which nodes have erased the purges that a view knows. The disk of a server that has
// left is unknown.
func (a *Server) Purges(ctx context.Context, v *view.View) (report admin.PurgeReport, err error) {
	newest, since := int64(0), int64(math.MaxInt64)
	err = v.Purges(0, func(p state.Purge) error {
		report.Purged, newest, since = p.Number, p.At, min(since, p.Since)
		return ctx.Err()
	})
	if err != nil {
		return report, err
	}
	if report.Purged > 0 {
		report.RemovedSince = time.UnixMilli(since).UTC().Format(time.RFC3339)
	}
	if report.BackupsUntil, err = backupsUntil(v, newest); err != nil {
		return report, err
	}
	for _, s := range a.ClusterReport(ctx).Servers {
		on := admin.PurgeServer{ID: s.ID, Part: s.Part, Pending: report.Purged, Problem: s.Error}
		if s.Report != nil {
			on.Done = min(s.Report.Purges.Done(), report.Purged)
			on.Pending = report.Purged - on.Done
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
	kept := int64(set.BackupKeep * set.BackupMillis) //nolint:gosec // bounded by their check
	// The date has whole seconds. It is rounded up, so that it is never too early.
	until := time.UnixMilli(purged + kept).Add(time.Second - time.Millisecond)
	return until.UTC().Format(time.RFC3339), nil
}

// PurgeList returns all purges before the call.
func (a *Server) PurgeList(ctx context.Context) (list backup.PurgeList, err error) {
	// The time comes first: the list may have later purges, and lacks no earlier one.
	begun := a.cfg.Pipeline.Clocks().Corrected()
	index, err := a.cfg.Pipeline.ReadIndex(ctx)
	if err == nil {
		err = a.cfg.Machine.Wait(ctx, index)
	}
	if err != nil {
		return list, rejectf(http.StatusServiceUnavailable, "what was purged is not known here: %v; repeat, or ask another node", err)
	}
	v := a.cfg.Machine.View()
	defer v.Release()
	list = backup.PurgeList{ClusterID: a.cfg.ClusterID(), CreatedAt: begun.UnixMilli(), Index: v.Index(), Purged: []backup.PurgedEntry{}}
	err = v.Purges(0, func(p state.Purge) error {
		if p.ID != "" && p.ID != state.RefusedTexts { // a backup has the keys of its own time, and no log
			list.Purged = append(list.Purged, backup.PurgedEntry{ClusterID: p.Cluster, ID: p.ID, CreatedAt: p.CreatedAt})
		}
		return ctx.Err()
	})
	return list, err
}

// events returns rows of both records, merged, from this node's state.
func (a *Server) events(_ context.Context, request admin.EventsRequest) (answer admin.Events, err error) {
	limit := request.Limit
	if limit <= 0 || limit > admin.MaxEvents {
		limit = admin.MaxEvents
	}
	v := a.cfg.Machine.View()
	defer v.Release()
	events, err := merged(v, request.Since, limit+1)
	if err != nil {
		return answer, err
	}
	events = events[max(0, len(events)-limit-1):] // rows of the other record may be missing before these
	if request.From == 0 {
		if over := len(events) - limit; over > 0 {
			events, answer.More = events[over:], true
		}
		answer.Events = events
		return answer, nil
	}
	if len(events) > limit && events[0].Number > request.From { // a collector that is far behind
		if events, err = merged(v, request.Since, math.MaxInt); err != nil {
			return answer, err
		}
	}
	first, _ := slices.BinarySearchFunc(events, request.From, func(e admin.Event, from uint64) int { return cmp.Compare(e.Number, from) })
	events = events[first:]
	answer.More = len(events) > limit
	answer.Events = events[:min(len(events), limit)]
	return answer, nil
}

const logEventsEvery = time.Second

// LogEvents logs each event from now on, for as long as this node leads.
func (a *Server) LogEvents(ctx context.Context) {
	next := uint64(0)
	loop.Every(ctx, logEventsEvery, func(ctx context.Context) {
		request := admin.EventsRequest{From: next}
		if next == 0 {
			request.Limit = 1
		}
		for more := true; more; {
			answer, err := a.events(ctx, request)
			if err != nil {
				a.cfg.Logger.WarnContext(ctx, "events cannot be read", "error", err)
				return
			}
			for _, e := range answer.Events {
				if next > 0 {
					a.cfg.Logger.InfoContext(ctx, "event", "number", e.Number, "at", time.UnixMilli(e.At).UTC(), "by", e.By, "action", e.Action, "what", e.What, "reason", e.Reason)
				}
				request.From = e.Number + 1
			}
			more = next > 0 && answer.More
			next = max(request.From, 1)
		}
	})
}

// merged returns the newest rows of both records since an instant, at least limit if there are as
// many, in their order. The number of an event is that of its row plus the number of the rows of
// the other record before it. Rows of one instant are of one log entry, so no later row comes
// between them.
func merged(v *view.View, since int64, limit int) ([]admin.Event, error) {
	var rows [2][]state.Record
	var before [2]uint64 // rows of each record before the current one
	for i, page := range []recordPage{v.Records, v.Changes} {
		last, _, err := page(0, 1)
		if err == nil && len(last) > 0 {
			before[i] = last[0].Number
			rows[i], err = newest(page, since, limit)
		}
		if err != nil {
			return nil, err
		}
		if len(rows[i]) > 0 {
			before[i] = rows[i][0].Number - 1
		}
	}
	events := []admin.Event{}
	for len(rows[0])+len(rows[1]) > 0 {
		next := 0
		if len(rows[0]) == 0 || len(rows[1]) > 0 && rows[1][0].At < rows[0][0].At {
			next = 1
		}
		r := &rows[next][0]
		rows[next], before[next] = rows[next][1:], r.Number
		events = append(events, admin.Event{Number: before[0] + before[1], At: r.At, By: r.By, Action: r.Action, What: r.What, Reason: r.Reason})
	}
	return events, nil
}

// recordPage returns rows of a record; see view.View.Records.
type recordPage func(before uint64, limit int) ([]state.Record, uint64, error)

// newest returns the newest rows of a record since an instant, at most limit, oldest first.
func newest(page recordPage, since int64, limit int) (rows []state.Record, err error) {
	for before, left := uint64(0), limit; left > 0; left = limit - len(rows) {
		records, next, err := page(before, left)
		if err != nil {
			return nil, err
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
	slices.Reverse(rows)
	return rows, nil
}
