package delivery

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/fsm"
)

// TestEndedDeliveriesAreLogged holds which ends of deliveries get a line, and that
// all are counted.
func TestEndedDeliveriesAreLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		end    fsm.DeliveryEnd
		reason string // the label
		logged string // "": nothing
	}{
		"delivered": {fsm.DeliveryEnd{Status: fsm.DeliveryDelivered, Attempts: 2}, "ok", ""},
		"given up": {
			fsm.DeliveryEnd{Status: fsm.DeliveryFailed, Reason: "status_503", Attempts: 6},
			"status_5xx",
			`level=WARN msg="a delivery was given up" id=w1-2-3 agent=ada attempts=6 reason=status_503`,
		},
		"gone": {
			fsm.DeliveryEnd{Status: fsm.DeliveryFailed, Reason: "status_410", Attempts: 1, Gone: true},
			"status_4xx",
			`level=INFO msg="a receiver is gone; its notify_url was removed" id=w1-2-3 agent=ada attempts=1 reason=status_410`,
		},
		"queue full": {
			fsm.DeliveryEnd{Status: fsm.DeliveryDropped, Reason: fsm.ReasonQueueFull},
			fsm.ReasonQueueFull,
			`level=WARN msg="a delivery was dropped: too many wait for its receiver" id=w1-2-3 agent=ada attempts=0 reason=queue_full`,
		},
		"off":     {fsm.DeliveryEnd{Status: fsm.DeliveryDropped, Reason: fsm.ReasonHookOff}, fsm.ReasonHookOff, ""},
		"removed": {fsm.DeliveryEnd{Status: fsm.DeliveryDropped, Reason: fsm.ReasonHookGone}, fsm.ReasonHookGone, ""},
	} {
		var out bytes.Buffer
		m := newMetrics()
		tt.end.ID, tt.end.AgentKey = "w1-2-3", "ada"
		m.end(slog.New(slog.NewTextHandler(&out, nil)), []fsm.DeliveryEnd{tt.end})
		registry := prometheus.NewRegistry()
		registry.MustRegister(m.ended)
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%s: %v, %v", name, families, err)
		}
		var counted []string
		for _, m := range families[0].GetMetric() {
			if l := m.GetLabel(); m.GetCounter().GetValue() == 1 { // ordered by name
				counted = append(counted, l[0].GetValue(), l[1].GetValue())
			}
		}
		if want := []string{tt.reason, tt.end.Status.String()}; !slices.Equal(counted, want) {
			t.Errorf("%s: counted %q, want %q", name, counted, want)
		}
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, tt.logged) || (got == "") != (tt.logged == "") {
			t.Errorf("%s: logged %q, want %q", name, got, tt.logged)
		}
	}
}
