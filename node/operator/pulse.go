package operator

import (
	"context"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

const (
	// pulseAge is for how long a look at the cluster counts as new: whoever asks in
	// between gets it, so that strangers cannot make nodes ask each other more often.
	pulseAge = 400 * time.Millisecond
	// pulseTimeout is how long a node may take to answer for it: one that went away is
	// to be seen away within two seconds.
	pulseTimeout = 700 * time.Millisecond
)

// pulse is the newest look at the cluster. The zero value is ready.
type pulse struct {
	mu      sync.Mutex
	at      time.Time
	report  admin.ClusterReport
	running chan struct{} // closed when the look that is being taken ends; nil: none is
}

// Pulse returns what all servers said of themselves a moment ago, or what was known
// last where ctx ends first.
func (o *Operator) Pulse(ctx context.Context) admin.ClusterReport {
	p := &o.pulse
	p.mu.Lock()
	if time.Since(p.at) < pulseAge {
		defer p.mu.Unlock()
		return p.report
	}
	running := p.running
	if running == nil {
		p.running = make(chan struct{})
	}
	p.mu.Unlock()
	if running == nil {
		return o.look(ctx)
	}
	select {
	case <-running:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report
}

// look asks all servers, for everybody who waits: it goes on when the first of them
// has gone.
func (o *Operator) look(ctx context.Context) (report admin.ClusterReport) {
	defer func() {
		o.pulse.mu.Lock()
		defer o.pulse.mu.Unlock()
		close(o.pulse.running)
		o.pulse.report, o.pulse.at, o.pulse.running = report, time.Now(), nil
	}()
	return o.clusterReport(context.WithoutCancel(ctx), pulseTimeout)
}
