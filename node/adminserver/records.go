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

// ErasesNext reports whether all living servers before the one that was asked for the report have
// erased the purges up to a number. Servers erase in the order of their ids, the leader last.
func ErasesNext(report admin.ClusterReport, purge uint64) bool {
	own := report.AskedNode
	return !slices.ContainsFunc(report.Servers, func(s admin.Server) bool {
		before := s.ID != own && s.ID != report.Leader && (s.ID < own || own == report.Leader)
		return before && s.Alive && s.Part != admin.Outside && (s.Report == nil || s.Report.Purges.Done() < purge)
	})
}

// VerifiesBackups reports whether the server that made the report restores the scheduled backups as a
// check. The healthy follower with the lowest id does, or the leader if there is none.
func VerifiesBackups(report admin.ClusterReport) bool {
	for _, s := range report.Servers {
		if s.ID != report.Leader && s.Part != admin.Outside && s.Report != nil && s.Report.Ready && !s.Report.Slow {
			return s.ID == report.AskedNode
		}
	}
	return report.Leader == report.AskedNode
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
