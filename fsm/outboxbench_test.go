package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// BenchmarkOutbox measures what one change of an outbox costs in caches: one with a
// single delivery, and one that is as full as can be, with as many senders.
func BenchmarkOutbox(b *testing.B) {
	const now = 10 * hourMillis
	small, full := &outbox{}, &outbox{}
	small.queue = []queued{{number: 1, from: 2}}
	for i := range command.MaxWaitingDeliveries {
		full.queue = append(full.queue, queued{number: uint64(i + 1), from: senderGroup(2 * i), ready: now, failed: i%2 == 0})
	}
	for i := range command.MaxHourlyDeliveries {
		full.begun = append(full.begun, begunAttempt{now - int64(i), senderGroup(2 * i)})
	}
	for name, o := range map[string]*outbox{"small": small, "full": full} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var row []byte
			for b.Loop() {
				o.next(now)
				o.due()
				if o == full {
					surplus(o.queue, o.sending)
				}
				row = o.encode()
			}
			b.ReportMetric(float64(len(row)), "row-bytes")
		})
	}
}
