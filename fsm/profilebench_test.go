package fsm

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// BenchmarkListProfiles lists and searches profiles: their number must not matter.
func BenchmarkListProfiles(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		r := newRig(b)
		var bodies []command.Payload
		for i := range n {
			bodies = append(bodies, register(fmt.Sprint("agent-", i), "k", saying(fmt.Sprintf("Reads and answers, number %d.", i))))
			if len(bodies) == 100 {
				r.run(bodies...)
				bodies = nil
			}
		}
		v := r.View()
		for _, q := range []view.ProfileQuery{{}, {Q: "reads answers"}} {
			b.Run(fmt.Sprintf("%d/q=%s", n, q.Q), func(b *testing.B) {
				for b.Loop() {
					if revisions, _, err := v.ListProfiles(q); err != nil || len(revisions) != command.DefaultList {
						b.Fatal(len(revisions), err)
					}
				}
			})
		}
		v.Release()
	}
}
