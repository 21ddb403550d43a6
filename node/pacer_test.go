package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/must"
)

// TestBackgroundWorkYields: work of the state and backups rest once writes to the log take longer
// than before. Each write is delayed for longer than the last one, so that the test does not depend
// on the speed of the machine.
func TestBackgroundWorkYields(t *testing.T) {
	const (
		work     = 10 * time.Millisecond // before a step of the pacer, which ignores shorter work
		maxDelay = 500 * time.Millisecond
	)
	var delay, rested atomic.Int64
	c := local(t)
	c.Tuning.AroundWrite = func(_ string, do func() error) error {
		time.Sleep(time.Duration(delay.Load()))
		return do()
	}
	c.Tuning.Rest = func(rest time.Duration) { rested.Add(int64(rest)) }
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	for name, step := range map[string]func(t *testing.T){
		"an export of the state": func(t *testing.T) {
			t.Helper()
			export := must.Get(n.machine.Export())(t)
			time.Sleep(work)
			must.Get(export.Read(make([]byte, 1)))(t)
			must.Do(t, export.Close())
		},
		"a backup": func(t *testing.T) {
			t.Helper()
			step := n.backups.Pacer.Begin()
			time.Sleep(work)
			step()
		},
	} {
		t.Run(name, func(t *testing.T) {
			rested.Store(0)
			await.Eventually(t, "a rest", func() bool {
				delay.Store(min(max(2*delay.Load(), int64(time.Millisecond)), int64(maxDelay)))
				if n.proposeAsLeader(t.Context(), &command.Tick{}) != nil {
					return false
				}
				step(t)
				return rested.Load() > 0
			})
		})
	}
}
