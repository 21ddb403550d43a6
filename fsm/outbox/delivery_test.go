package outbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// FuzzDeliveryRows holds that rows of any bytes are rejected, or stay as they are.
func FuzzDeliveryRows(f *testing.F) {
	f.Add(state.Encode(&DeliveryRow{Kind: DeliveryReply, Status: DeliverySending, Entry: 7, QueuedAt: 5, ChangedAt: 6, Attempts: 2, Hook: 1, Holder: command.BootID{1}, Reason: "timeout"}))
	f.Add(state.Encode(&Outbox{Active: true, Paused: true, Last: 1, Queue: []Queued{{Number: 1, Ready: 70}}}))
	f.Add(state.Encode(&Outbox{
		Active: true, Hook: 3, Last: 9, Sending: 5, NotBefore: 50, failing: 4,
		Queue: []Queued{{4, true, 70, 7}, {5, false, 0, 6}, {9, false, 40, 0}}, begun: []int64{10, 20},
	}))
	f.Fuzz(func(t *testing.T, row []byte) {
		if d, err := state.Decode[DeliveryRow](row); err == nil {
			again, err := state.Decode[DeliveryRow](state.Encode(&d))
			if d.Status != DeliverySending {
				d.Holder = command.BootID{} // only while it is sending
			}
			if diff := cmp.Diff(d, again, cmp.AllowUnexported(DeliveryRow{}, Queued{})); err != nil || diff != "" {
				t.Errorf("delivery %+v, %v:\n%s", d, err, diff)
			}
		}
		if o, err := DecodeOutbox(row); err == nil {
			again, err := DecodeOutbox(state.Encode(o))
			if diff := cmp.Diff(o, again, cmp.AllowUnexported(Outbox{})); err != nil || diff != "" {
				t.Errorf("outbox %+v, %v:\n%s", o, err, diff)
			}
		}
	})
}
