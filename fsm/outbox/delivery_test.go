package outbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// FuzzDeliveryRows holds that rows of any bytes are rejected, or stay as they are.
func FuzzDeliveryRows(f *testing.F) {
	f.Add((&DeliveryRow{Kind: DeliveryReply, Status: DeliverySending, Entry: 7, QueuedAt: 5, ChangedAt: 6, Attempts: 2, Hook: 1, Holder: command.BootID{1}, Reason: "timeout"}).Encode())
	f.Add((&Outbox{Active: true, Paused: true, Last: 1, Queue: []Queued{{Number: 1, Ready: 70}}}).Encode())
	f.Add((&Outbox{
		Active: true, Hook: 3, Last: 9, Sending: 5, NotBefore: 50, tried: 4, failing: 4,
		Queue: []Queued{{4, state.ProvenSender("ada"), 70, true, true}, {5, 2, 0, true, false}, {9, 2, 40, false, false}}, begun: []begunAttempt{{10, 2}, {20, state.ProvenSender("ada")}},
	}).Encode())
	f.Fuzz(func(t *testing.T, row []byte) {
		if d, err := DecodeDeliveryRow(row); err == nil {
			again, err := DecodeDeliveryRow(d.Encode())
			if d.Status != DeliverySending {
				d.Holder = command.BootID{} // only while it is sending
			}
			if diff := cmp.Diff(d, again, cmp.AllowUnexported(DeliveryRow{}, Queued{})); err != nil || diff != "" {
				t.Errorf("delivery %+v, %v:\n%s", d, err, diff)
			}
		}
		if o, err := DecodeOutbox(row); err == nil {
			again, err := DecodeOutbox(o.Encode())
			if diff := cmp.Diff(o, again, cmp.AllowUnexported(Outbox{}, Queued{}, begunAttempt{})); err != nil || diff != "" {
				t.Errorf("outbox %+v, %v:\n%s", o, err, diff)
			}
		}
	})
}
