package fsm

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// BenchmarkListJobs measures a page of 50 jobs, shown, among few and many jobs of
// which every tenth is claimed.
func BenchmarkListJobs(b *testing.B) {
	for _, n := range []uint64{1_000, 10_000, 50_000} {
		r := newRig(b)
		for seq := uint64(1); seq <= n; {
			var bodies []command.Payload
			for ; len(bodies) < 100; seq++ {
				bodies = append(bodies, postJob("ada"))
			}
			r.run(bodies...)
		}
		for seq := uint64(1); seq <= n; seq += 10 {
			r.run(claim("bob", seq))
		}
		v := r.View()
		for name, q := range map[string]view.JobQuery{
			"open": {Status: state.JobOpen}, "all": {}, "open words": {Status: state.JobOpen, Q: "birds"}, "claimed words": {Status: state.JobClaimed, Q: "birds"},
			"none of words": {Status: state.JobDone, Q: "birds"},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var buf []byte
				for b.Loop() {
					seqs, _, err := v.ListJobs(q)
					if err != nil {
						b.Fatal(err)
					}
					if buf, err = v.AppendJobs(buf[:0], seqs); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		v.Release()
	}
}
