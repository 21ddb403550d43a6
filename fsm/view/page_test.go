package view_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPages compares pages of any choice and order with what is shown alone, for
// rows in memory and in the store.
func TestPages(t *testing.T) {
	r := newRig(t)
	var entries, jobs, helps []uint64
	for range 30 {
		entries = append(entries,
			r.Publish(func(p *command.Publish) { p.Body = strings.Repeat("é", state.RecentRowBytes/2+1) }), r.Publish(nil))
		job := r.Run(fsmtest.PostJob("ada"))[0].Entry
		r.Run(fsmtest.Claim("bob", job))
		jobs = append(jobs, job)
		helps = append(helps, r.Run(fsmtest.Help("ada"))[0].Entry)
	}
	v := r.View()
	defer v.Release()
	type show func(dst []byte, seqs []uint64) ([]byte, error)
	check := func(name string, page show, all []uint64, others uint64) {
		t.Helper()
		for range 50 {
			seqs := make([]uint64, rand.IntN(8))
			var want []string
			for i := range seqs {
				seqs[i] = all[rand.IntN(len(all))]
				alone := must.Get(page(nil, seqs[i:i+1]))(t)
				want = append(want, string(alone))
			}
			if got, err := page([]byte("["), seqs); err != nil || string(got) != "["+strings.Join(want, ",") {
				t.Errorf("%s %v: %v\n%s", name, seqs, err, got)
			}
			for _, wrong := range []uint64{0, others, v.LastSeq() + 1, 1<<64 - 1} {
				at := rand.IntN(len(seqs) + 1)
				with := append(append(append([]uint64(nil), seqs[:at]...), wrong), seqs[at:]...)
				if got, err := page([]byte("["), with); !errors.Is(err, state.ErrNotFound) || string(got) != "[" {
					t.Errorf("%s %v: %v\n%s", name, with, err, got)
				}
			}
		}
	}
	check("entries", v.AppendEntries, entries, 0)
	check("jobs", v.AppendJobs, jobs, helps[0])
	check("helps", v.AppendHelps, helps, jobs[0])
}

func TestChannelsAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range 11 {
		var bodies []command.Payload
		for range 100 {
			name := fmt.Sprintf("room-%d", len(bodies)+i*100)
			bodies = append(bodies, fsmtest.Post("ada", func(p *command.Publish) { p.Channel = name }))
		}
		r.Run(bodies...)
	}
	v := r.View()
	defer v.Release()
	check.Equal(t, len(v.Channels()), command.MaxChannels, "channels")
}
