package outbox

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// BenchmarkOutbox measures what one change of an outbox costs in caches: one with a
// single delivery, and one that is as full as can be, with as many senders.
func BenchmarkOutbox(b *testing.B) {
	const now = 10 * command.HourMillis
	small, full := &Outbox{}, &Outbox{}
	small.Queue = []Queued{{Number: 1, From: 2}}
	for i := range command.MaxWaitingDeliveries {
		full.Queue = append(full.Queue, Queued{Number: uint64(i + 1), From: state.SenderGroup(2 * i), Ready: now, failed: i%2 == 0})
	}
	for i := range command.MaxHourlyDeliveries {
		full.begun = append(full.begun, begunAttempt{now - int64(i), state.SenderGroup(2 * i)})
	}
	for name, o := range map[string]*Outbox{"small": small, "full": full} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var row []byte
			for b.Loop() {
				o.Next(now)
				o.Due()
				if o == full {
					Surplus(o.Queue, o.Sending)
				}
				row = o.Encode()
			}
			b.ReportMetric(float64(len(row)), "row-bytes")
		})
	}
}
