package check

import (
	"fmt"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// clockSlack is how far the time of a write may be outside of its call: the leader's
// clock may be that far from the median, and the median from ours.
const clockSlack = 3 * time.Second

// checkTime: createdAt is the time of the call that wrote, even if one clock is wrong. A
// repeated write may have been written by any of its calls.
func checkTime(v *Verdict, calls []record.Call, f *Final) {
	if f.AnyTime {
		return
	}
	created := map[string]time.Duration{}
	for _, e := range f.state() {
		created[e.Body] = time.UnixMilli(e.CreatedAt).Sub(f.Began)
	}
	for text, sent := range grouped(calls, textOf) {
		at, there := created[text]
		last := sent[len(sent)-1]
		if !there || last.Outcome != record.Done {
			continue
		}
		v.Looked++
		if at < sent[0].Begin-clockSlack || at > last.End+clockSlack {
			v.Add(fmt.Sprintf("%q was written between %v and %v, and was created at %v", text, sent[0].Begin, last.End, at), sent...)
		}
	}
}
