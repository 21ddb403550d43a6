package check

import (
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// checkFollow: each follower of the stream, and each poller of the list, received each entry
// once, in order. Entries that moderators work with are left out: they may come as stubs.
func checkFollow(v *Verdict, calls []record.Call, f *Final) {
	moderated := moderatedIDs(calls)
	entries := slices.DeleteFunc(slices.Clone(f.state()), func(e Entry) bool { return moderated[e.ID] })
	streams := grouped(calls, func(c *record.Call) string {
		if c.Kind != record.Follow && c.Kind != record.Poll {
			return ""
		}
		return c.Client
	})
	for name, read := range streams {
		at := 0
		for _, c := range read {
			if c.Code != "" {
				v.Add(name+" could not go on: "+c.Code, c)
			}
			for _, id := range c.Seen {
				if moderated[id] {
					continue
				}
				if at >= len(entries) || entries[at].ID != id {
					v.Add(fmt.Sprintf("%s was told of %s as number %d", name, id, at+1), c)
					return
				}
				at++
			}
		}
		if v.Looked += at; at < len(entries) {
			v.Add(fmt.Sprintf("%s was told of %d of %d entries", name, at, len(entries)), read[len(read)-1])
		}
	}
}
