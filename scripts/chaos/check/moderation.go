package check

import (
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// standing is the state of an entry or a name after the actions of moderators.
type standing struct{ hidden, purged, blocked bool }

// moderation is the model of one entry or name that a moderator works with.
var moderation = model(standing{}, standing.step)

func (s standing) step(c *record.Call) (bool, standing) {
	switch c.Kind {
	case record.Peek:
		return c.Shown != (s.hidden || s.purged), s
	case record.Attempt:
		return c.Outcome == record.Unknown || s.blocked == (c.Outcome == record.Rejected && c.Code == "blocked"), s
	}
	if c.Outcome == record.Rejected {
		return true, s // such as taking back a block that an earlier call took back
	}
	switch c.Status {
	case record.DoHide:
		s.hidden = true
	case record.DoUnhide:
		s.hidden = false
	case record.DoPurge:
		s.purged = true
	case record.DoBlock, record.DoUndo:
		s.blocked = c.Status == record.DoBlock
	}
	return true, s
}

// checkModerated: what was hidden or purged is visible at no node once the command has
// returned, also at the end, and is visible again after it was shown; no write under a
// blocked name succeeds.
func checkModerated(v *Verdict, calls []record.Call, f *Final) {
	groups := grouped(calls, func(c *record.Call) string {
		switch {
		case c.Outcome == record.Failed, c.Kind == record.Peek && c.Outcome != record.Done:
			return ""
		case c.Kind == record.Moderated, c.Kind == record.Peek, c.Kind == record.Attempt:
			return c.Expect
		}
		return ""
	})
	end := time.Duration(0)
	for i := range calls {
		end = max(end, calls[i].End)
	}
	for i := range calls {
		c := &calls[i]
		if c.Kind != record.Subject || c.Outcome != record.Done || len(groups[c.ID]) == 0 {
			continue
		}
		for node, entries := range f.Entries {
			last := record.Call{Client: node, Node: node, Kind: record.Peek, Outcome: record.Done, Expect: c.ID, Text: c.Text, Begin: end + 1, End: end + 2}
			for _, e := range entries {
				last.Shown = last.Shown || e.Body == c.Text
			}
			groups[c.ID] = append(groups[c.ID], last)
		}
	}
	decide(v, moderation, groups)
}

// moderatedIDs are the ids of what moderators work with.
func moderatedIDs(calls []record.Call) map[string]bool {
	ids := map[string]bool{}
	for i := range calls {
		if c := &calls[i]; c.Kind == record.Subject && c.ID != "" {
			ids[c.ID] = true
		}
	}
	return ids
}
