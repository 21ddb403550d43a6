package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/push"
)

const (
	// maxSending is how many deliveries are sent at the same time, and maxSendingToHost how
	// many of them to one host. Slow receivers have half of each, so that they keep others
	// waiting only once: those whose last answer took over slowAnswer, or did not come.
	maxSending       = 64
	maxSendingToHost = maxSending / 4
	slowAnswer       = time.Second
	// maxRemembered bounds the slow receivers and those that wait for room, of which this node
	// knows; above it, it forgets them.
	maxRemembered = 1 << 16

	// deliverInterval is how often the leader looks for due deliveries, and deliverPause is
	// the minimum time between two scans. After a scan it pauses deliverShare times as long
	// as the scan took.
	deliverInterval = time.Second
	deliverPause    = 10 * time.Millisecond
	deliverShare    = 10

	// outcomeGrace is how long a node that shuts down waits for the outcomes of its attempts
	// after the last of them must have ended.
	outcomeGrace = time.Second

	reasonInternal = "internal_error" // the reason that an agent sees if its event could not be encoded
)

// attempts are the running attempts of this node. They do not depend on its leadership:
// a started attempt is finished, and its outcome is proposed to the leader of that
// time.
type attempts struct {
	freed chan struct{} // gets a value when an attempt ends

	mu     sync.Mutex
	ending bool                 // no further attempt begins
	agents map[string]receivers // the agents with an attempt under way
	counts map[receivers]int    // attempts under way
	slow   map[string]bool      // agents whose receiver is slow
	parked map[string]string    // host, by agents that found no room
}

// receivers are those of a host, or of all if it is empty.
type receivers struct {
	host string
	slow bool // slow ones alone
}

func newAttempts() *attempts {
	return &attempts{
		freed:  make(chan struct{}, 1),
		agents: make(map[string]receivers), counts: make(map[receivers]int), slow: make(map[string]bool), parked: make(map[string]string),
	}
}

func (d *attempts) sending() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.agents)
}

// pick takes due deliveries at an instant, as many as there is room for. Each of them
// has to be released.
func (d *attempts) pick(v *view.View, now int64) (picked []outbox.Delivery, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending || len(d.agents) >= maxSending {
		return nil, nil
	}
	err = v.DueDeliveries(now, d.skips, func(due outbox.Delivery) (more bool) {
		if d.take(due.AgentKey, hostOf(due.URL)) {
			picked = append(picked, due)
		}
		return len(d.agents) < maxSending
	})
	if err == nil {
		return picked, nil
	}
	for i := range picked {
		d.free(picked[i].AgentKey)
	}
	return nil, err
}

// skips reports whether an agent has a running attempt or found no room, and there is none yet.
func (d *attempts) skips(agentKey string) bool {
	if _, busy := d.agents[agentKey]; busy {
		return true
	}
	host, parked := d.parked[agentKey]
	return parked && !d.room(receivers{host, d.slow[agentKey]})
}

// room reports whether an attempt may begin.
func (d *attempts) room(at receivers) bool {
	if at.slow && (d.counts[at] >= maxSendingToHost/2 || d.counts[receivers{slow: true}] >= maxSending/2) {
		return false
	}
	return d.counts[receivers{host: at.host}] < maxSendingToHost
}

// take begins an attempt, if there is room for it.
func (d *attempts) take(agentKey, host string) bool {
	at := receivers{host, d.slow[agentKey]}
	if !d.room(at) {
		if len(d.parked) >= maxRemembered {
			clear(d.parked)
		}
		d.parked[agentKey] = host
		return false
	}
	delete(d.parked, agentKey)
	d.agents[agentKey] = at
	d.count(at, 1)
	return true
}

// count adds n to the attempts at a host and, of a slow receiver, at the slow ones of it and of all.
func (d *attempts) count(at receivers, n int) {
	kinds := []receivers{{host: at.host}}
	if at.slow {
		kinds = append(kinds, at, receivers{slow: true})
	}
	for _, kind := range kinds {
		if d.counts[kind] += n; d.counts[kind] == 0 {
			delete(d.counts, kind)
		}
	}
}

// release undoes pick after an attempt that took so long, and wakes the worker.
func (d *attempts) release(agentKey string, took time.Duration) {
	d.mu.Lock()
	d.free(agentKey)
	if len(d.slow) >= maxRemembered {
		clear(d.slow)
	}
	if delete(d.slow, agentKey); took > slowAnswer {
		d.slow[agentKey] = true
	}
	d.mu.Unlock()
	loop.Wake(d.freed)
}

// drop undoes pick without an attempt.
func (d *attempts) drop(agentKey string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free(agentKey)
}

func (d *attempts) free(agentKey string) {
	d.count(d.agents[agentKey], -1)
	delete(d.agents, agentKey)
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// Stop stops new attempts; running ones are finished.
func (s *Service) Stop() {
	s.attempts.mu.Lock()
	defer s.attempts.mu.Unlock()
	s.attempts.ending = true
}

// deliver sends due deliveries to receivers, for as long as this node leads.
func (s *Service) deliver(ctx context.Context) {
	wake, stop := s.cfg.Machine.WatchDeliveries()
	defer stop()
	complained := false
	for {
		start := time.Now()
		picked, wait, err := s.pickDue()
		pause := max(deliverPause, deliverShare*time.Since(start))
		if len(picked) > 0 {
			err = s.begin(ctx, picked)
		}
		if err != nil && ctx.Err() == nil && !complained {
			s.cfg.Logger.WarnContext(ctx, "deliveries were not begun; it is tried again", "error", err)
		}
		complained = err != nil
		if !loop.Pause(ctx, pause) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-s.attempts.freed:
		case <-time.After(wait):
		}
	}
}

// pickDue takes due deliveries, and returns the time until the next one without changes.
func (s *Service) pickDue() (picked []outbox.Delivery, wait time.Duration, err error) {
	v := s.cfg.Machine.View()
	defer v.Release()
	now := s.cfg.Stamp()
	next, waiting, err := v.NextDelivery()
	switch {
	case err != nil, !waiting:
		return nil, deliverInterval, err
	case next > now:
		return nil, min(time.Duration(next-now)*time.Millisecond, deliverInterval), nil
	}
	picked, err = s.attempts.pick(v, now)
	return picked, deliverInterval, err
}

// begin proposes the start of attempts, and makes those that the state has accepted: it
// rejects, for instance, those beyond an agent's hourly limit.
func (s *Service) begin(ctx context.Context, picked []outbox.Delivery) error {
	c := &command.BeginDeliveries{Holder: s.cfg.Boot}
	for i := range picked {
		c.Attempts = append(c.Attempts, picked[i].NextAttempt())
	}
	err := s.cfg.Propose(ctx, c)
	v := s.cfg.Machine.View()
	defer v.Release()
	var failures error // each of one attempt alone
	for _, a := range c.Attempts {
		d, begun, failed := v.Begun(c.Holder, a)
		if err != nil || failed != nil || !begun {
			s.attempts.drop(a.AgentKey)
			failures = errors.Join(failures, failed)
			continue
		}
		body, failed := s.makeEvent(v, &d)
		failures = errors.Join(failures, failed)
		s.cfg.Go(func() { s.attempts.release(a.AgentKey, s.attempt(&d, a, body)) })
	}
	return errors.Join(err, failures)
}

// attempt makes one attempt, proposes its outcome, and returns how long the receiver took. If the
// node ends meanwhile there is no outcome, and the attempt is made again when its lease has expired.
func (s *Service) attempt(d *outbox.Delivery, a command.Attempt, body []byte) (took time.Duration) {
	ctx := s.cfg.Work
	ack := &command.AckDelivery{Attempt: a, Outcome: command.AttemptFailed, Reason: reasonInternal}
	if body != nil {
		answer := s.receivers.Send(ctx, d.URL, push.Message{ID: d.ID, Body: body, Secret: s.cfg.Secret(d.Salt)})
		if took = answer.Took; ctx.Err() != nil {
			return took
		}
		ack.Outcome, ack.Reason, ack.RetryAfter = command.AttemptDelivered, string(answer.Reason), answer.RetryAfter.Milliseconds()
		switch {
		case answer.Gone:
			ack.Outcome = command.AttemptGone
		case answer.Reason != "":
			ack.Outcome = command.AttemptFailed
		}
		s.metrics.attempts.WithLabelValues(outcomeOf(answer.Reason)).Inc()
		s.metrics.seconds.Observe(answer.Took.Seconds())
		s.cfg.Logger.InfoContext(ctx, "delivery attempted", "id", d.ID, "agent", d.AgentKey, "host", hostOf(d.URL),
			"attempt", a.Number, "outcome", outcomeText(answer.Reason), "took", answer.Took.Round(time.Millisecond).String())
	}
	if ack.Outcome == command.AttemptFailed {
		ack.Jitter = rand.Int64N(command.MaxRetryJitter + 1)
	}
	if err := s.cfg.Propose(ctx, ack); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "the outcome of a delivery was lost; it is sent again", "id", d.ID, "error", err)
	}
	return took
}

// Finish waits, for a limited time, until no attempt is running.
func (s *Service) Finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.receivers.Timeout()+outcomeGrace)
	defer cancel()
	for s.attempts.sending() > 0 && loop.Pause(ctx, deliverPause) {
	}
}

// event is the body of a delivery. It is the same at each attempt and from each node
// with the same public URL, except for what later entries change in the shown one.
type event struct {
	Type      string          `json:"type"`
	Agent     string          `json:"agent"`
	Entry     json.RawMessage `json:"entry"`     // null in a test
	Timestamp string          `json:"timestamp"` // when the entry was written (RFC 3339)
	Read      string          `json:"read"`      // a call that shows the entry: GET and an address
	Reply     *string         `json:"reply"`     // a call that answers it: POST, an address and a body; else null
}

type replyCall struct {
	Agent   string `json:"agent"`
	ReplyTo string `json:"reply_to"`
	Body    string `json:"body"`
}

const answerHere = "(your answer)" // the placeholder for the agent's answer in a call

// event returns the body of a delivery. Without a public URL its addresses are paths:
// receivers are third parties and must not learn a node's own address.
func (s *Service) event(v *view.View, d *outbox.Delivery) ([]byte, error) {
	base := strings.TrimSuffix(s.cfg.PublicURL, "/")
	if base == "" {
		s.warnNoBase.Do(func() {
			s.cfg.Logger.Warn("events are pushed with paths alone: give --public-url, and receivers are shown whole addresses")
		})
	}
	e := event{
		Type: d.Kind.String(), Agent: d.Agent, Entry: json.RawMessage("null"),
		Timestamp: time.UnixMilli(d.QueuedAt).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Read:      "GET " + base + "/api/home?for=" + url.QueryEscape(d.Agent),
	}
	if d.Entry == 0 {
		return encodeEvent(e)
	}
	meta, _, err := v.Meta(d.Entry)
	if err == nil {
		e.Entry, err = v.AppendEntry(nil, d.Entry)
	}
	if err != nil {
		return nil, fmt.Errorf("entry %d of delivery %s: %w", d.Entry, d.ID, err)
	}
	id := state.FormatID(meta.Type, d.Entry)
	call, err := encodeEvent(replyCall{d.Agent, id, answerHere})
	if err != nil {
		return nil, fmt.Errorf("delivery %s: %w", d.ID, err)
	}
	reply := "POST " + base + "/api/entries " + string(call)
	e.Read, e.Reply = "GET "+base+"/api/entries/"+id, &reply
	return encodeEvent(e)
}

// encodeEvent renders JSON in which texts stay readable.
func encodeEvent(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
