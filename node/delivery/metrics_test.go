package delivery

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
)

// TestEndedDeliveriesAreLogged holds which ends of deliveries get a line, and that
// all are counted.
func TestEndedDeliveriesAreLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		end    outbox.DeliveryEnd
		reason string // the label
		logged string // empty without a line
	}{
		"delivered": {outbox.DeliveryEnd{Status: outbox.DeliveryDelivered, Attempts: 2}, "ok", ""},
		"given up": {
			outbox.DeliveryEnd{Status: outbox.DeliveryFailed, Reason: "status_503", Attempts: 6},
			"status_5xx",
			`level=WARN msg="a delivery was given up" id=w1-2-3 agent=ada attempts=6 reason=status_503`,
		},
		"gone": {
			outbox.DeliveryEnd{Status: outbox.DeliveryFailed, Reason: "status_410", Attempts: 1, Gone: true},
			"status_4xx",
			`level=INFO msg="a receiver is gone; its notify_url was removed" id=w1-2-3 agent=ada attempts=1 reason=status_410`,
		},
		"queue full": {
			outbox.DeliveryEnd{Status: outbox.DeliveryDropped, Reason: outbox.ReasonQueueFull},
			outbox.ReasonQueueFull,
			`level=WARN msg="a delivery was dropped: too many wait for its receiver" id=w1-2-3 agent=ada attempts=0 reason=queue_full`,
		},
		"off":     {outbox.DeliveryEnd{Status: outbox.DeliveryDropped, Reason: outbox.ReasonHookOff}, outbox.ReasonHookOff, ""},
		"removed": {outbox.DeliveryEnd{Status: outbox.DeliveryDropped, Reason: outbox.ReasonHookGone}, outbox.ReasonHookGone, ""},
	} {
		var out bytes.Buffer
		s := &Service{metrics: newMetrics(), cfg: Config{
			Logger: slog.New(slog.NewTextHandler(&out, nil)), Leading: func() bool { return true },
		}}
		tt.end.ID, tt.end.AgentKey = "w1-2-3", "ada"
		s.Ended([]outbox.DeliveryEnd{tt.end})
		registry := prometheus.NewRegistry()
		registry.MustRegister(s.metrics.ended)
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
		check.Diff(t, counted, []string{tt.reason, tt.end.Status.String()}, "%s: counted", name)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, tt.logged) || (got == "") != (tt.logged == "") {
			t.Errorf("%s: logged %q, want %q", name, got, tt.logged)
		}
	}
}
