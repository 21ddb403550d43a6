package main

import (
	"fmt"
	"time"
)

// clockSlack is how far the time of a write may be outside of its call: the leader's
// clock may be that far from the median, and the median from ours.
const clockSlack = 3 * time.Second

// checkTime: createdAt is the time of the call that wrote, even if one clock is wrong. A
// repeated write may have been written by any of its calls.
func checkTime(v *verdict, calls []call, f *final) {
	created := map[string]time.Duration{}
	for _, e := range f.state() {
		created[e.Body] = time.UnixMilli(e.CreatedAt).Sub(f.began)
	}
	for text, sent := range grouped(calls, textOf) {
		at, there := created[text]
		last := sent[len(sent)-1]
		if !there || last.Outcome != done {
			continue
		}
		v.Looked++
		if at < sent[0].Begin-clockSlack || at > last.End+clockSlack {
			v.add(fmt.Sprintf("%q was written between %v and %v, and was created at %v", text, sent[0].Begin, last.End, at), sent...)
		}
	}
}
