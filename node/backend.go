package node

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/delivery"
	"github.com/commons-cluster/commons/node/health"
	"github.com/commons-cluster/commons/node/membership"
)

// backend is the node's interface to the HTTP service.
type backend struct{ *Node }

// Propose replicates one command of a client.
func (b *backend) Propose(ctx context.Context, from command.Sender, payload command.Payload) (result command.Result, index uint64, err error) {
	begun := time.Now()
	err = b.accepts(from, payload)
	if err == nil {
		result, index, err = b.pipeline.Propose(ctx, from, payload)
	}
	if err == nil && slices.Contains(result.Problems, command.ProblemOverBudget) {
		err = b.overBudget()
	}
	b.health.NoteWrite(begun, err)
	return result, index, err
}

// accepts returns the reason why this node rejects writes of a sender now, or nil. A sender without
// a fingerprint came before the key of fingerprints was known here.
func (b *backend) accepts(from command.Sender, payload command.Payload) error {
	if from.Fingerprint == "" && command.OrderOf(payload) == nil { // a moderator is known by a token
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "this node is not yet part of a cluster"}
	}
	if reason := b.health.Rejection(); reason != nil {
		return reason
	}
	return nil
}

func (b *backend) overBudget() error {
	v := b.machine.View()
	defer v.Release()
	set, err := v.Settings()
	if err != nil {
		return err
	}
	return set.OverBudget(b.pipeline.Clocks().Corrected())
}

// Fingerprint returns the pseudonym of a client address; "" while the data key is not known;
// Propose rejects all writes then.
func (b *backend) Fingerprint(addr netip.Addr) string { return b.dataKey.Fingerprint(addr) }
func (b *backend) View() *view.View                   { return b.machine.View() }

// WebhookSecret returns the secret of a receiver by its salt, as its agent gets it.
func (b *backend) WebhookSecret(salt string) string {
	secret := b.dataKey.WebhookSecret(salt)
	if secret == nil {
		return ""
	}
	return op.WebhookSecretPrefix + base64.StdEncoding.EncodeToString(secret)
}

func (b *backend) WaitIndex(ctx context.Context, index uint64) error {
	if err := b.machine.Wait(ctx, index); err != nil {
		return &command.Unavailable{Code: command.CodeBehind, Reason: "this node has not applied that index yet"}
	}
	return nil
}

func (b *backend) ReadIndex(ctx context.Context) (uint64, error) { return b.pipeline.ReadIndex(ctx) }

func (b *backend) Watch(keys ...string) (wake <-chan struct{}, stop func()) {
	return b.machine.Watch(keys...)
}

func (b *backend) WatchJobs() (wake <-chan struct{}, pass, stop func()) { return b.machine.WatchJobs() }

func (b *backend) WatchEvents() (wake <-chan struct{}, stop func()) { return b.machine.WatchEvents() }
func (b *backend) Joined() <-chan struct{}                          { return b.dataKey.Known() }
func (b *backend) StaleFor() time.Duration                          { return b.health.StaleFor() }
func (b *backend) NodeName() string                                 { return b.identity.NodeName }
func (b *backend) Process() string                                  { return b.process }

func (b *backend) CaughtUp() <-chan struct{} {
	if b.members.Outside() { // no leader tells it what is purged
		return nil
	}
	return b.caughtUp
}

func (b *backend) Status() op.Status {
	ready := !slices.ContainsFunc(b.health.Checks(), func(c health.Check) bool { return !c.OK })
	return op.Status{Role: health.Role(b.raft.State()), Voter: b.members.Part() == admin.Voter, Ready: ready, AppliedIndex: b.machine.Applied()}
}

func (b *backend) Checks() []op.Check {
	checks := b.health.Checks()
	list := make([]op.Check, len(checks))
	for i, c := range checks {
		list[i] = op.Check{Name: c.Name, OK: c.OK, Detail: c.Detail}
	}
	return list
}

// VerifyReceiver lets the leader verify a receiver for an agent.
func (b *backend) VerifyReceiver(ctx context.Context, from command.Sender, agent, notifyURL string) error {
	err := b.delivery.Verify(ctx, from.Fingerprint, agent, notifyURL)
	if failed, ok := errors.AsType[*delivery.FailedError](err); ok {
		return &op.ReceiverFailed{Reason: failed.Reason}
	}
	return err
}

func (n *Node) moderate(request admin.Moderation) (status int, answer []byte) {
	server := n.serving.Load()
	if server == nil {
		return http.StatusServiceUnavailable, nil
	}
	params, err := wire.ParsePairs(request.Query)
	if err != nil {
		return http.StatusBadRequest, wire.Malformed(err).Object().AppendJSON(nil)
	}
	doc, err := wire.DecodeBody(wire.MediaJSON, request.Body)
	if err != nil {
		return http.StatusBadRequest, wire.Malformed(err).Object().AppendJSON(nil)
	}
	done := server.Operate(request.Operation, wire.Invocation{Params: params, Document: doc})
	return done.Status, done.Body
}

func (b *backend) Cluster(ctx context.Context) wire.Cluster {
	report := b.admin.Pulse(ctx)
	newest := report.Newest()
	c := wire.Cluster{Leader: membership.NameOf(report.Leader), Nodes: make([]wire.ClusterNode, len(report.Servers)), Elections: []wire.Election{}}
	for i := range report.Servers {
		c.Nodes[i] = shownNode(&report.Servers[i], newest)
	}
	for _, e := range b.health.History().Elections {
		c.Elections = append(c.Elections, wire.Election{At: e.At.UnixMilli(), Leader: membership.NameOf(e.Leader), Term: e.Term})
	}
	return c
}

// shownNode is one server of it; newest is the highest index that any has applied.
func shownNode(s *admin.Server, newest uint64) wire.ClusterNode {
	n := wire.ClusterNode{Name: membership.NameOf(s.ID), Voter: s.Part == admin.Voter, Health: wire.NodeAway}
	r := s.Report
	if r == nil {
		return n
	}
	n.Health = wire.NodeWell
	if !r.Ready || r.Rejects != "" {
		n.Health = wire.NodeUnready
	}
	const minute = 60
	n.Name, n.Role, n.Term, n.AppliedIndex, n.Lag = r.Name, r.Role, r.Term, r.Applied, newest-r.Applied
	n.UptimeMillis = r.UptimeMillis
	n.ReadRate, n.WriteRate = float64(r.Read.Count)/minute, float64(r.Write.Count)/minute
	return n
}

// Purges returns which nodes have erased the purges that a view knows. The disk of a server that has
// left is unknown.
func (b *backend) Purges(ctx context.Context, v *view.View) (report op.Purges, err error) {
	newest, since := int64(0), int64(math.MaxInt64)
	err = v.Purges(0, func(p state.Purge) error {
		report.Purged, newest, since = p.Number, p.At, min(since, p.Since)
		return ctx.Err()
	})
	if err != nil {
		return report, err
	}
	if report.Purged > 0 {
		report.RemovedSince = time.UnixMilli(since).UTC().Format(time.RFC3339)
	}
	if report.BackupsUntil, err = backupsUntil(v, newest); err != nil {
		return report, err
	}
	for _, s := range b.admin.ClusterReport(ctx).Servers {
		on := op.PurgeDisk{ID: s.ID, Part: s.Part, Pending: report.Purged, Problem: s.Error}
		if s.Report != nil {
			on.Done = min(s.Report.Purges.Done(), report.Purged)
			on.Pending = report.Purged - on.Done
		}
		report.Servers = append(report.Servers, on)
	}
	return report, nil
}

// backupsUntil returns when the schedule will have deleted the last backup from before a purge, or
// "" without such a backup.
func backupsUntil(v *view.View, purged int64) (string, error) {
	set, err := v.Settings()
	if err != nil {
		return "", err
	}
	run, err := v.BackupRun()
	if err != nil || run.Oldest == 0 || run.Oldest > purged {
		return "", err
	}
	kept := int64(set.BackupKeep * set.BackupMillis) //nolint:gosec // bounded by their check
	// The date has whole seconds. It is rounded up, so that it is never too early.
	until := time.UnixMilli(purged + kept).Add(time.Second - time.Millisecond)
	return until.UTC().Format(time.RFC3339), nil
}

func (b *backend) Measured() wire.Measured {
	h := b.health.History()
	points := func(list []admin.Timing) []wire.Point {
		points := make([]wire.Point, len(list))
		for i, t := range list {
			points[i] = wire.Point(t)
		}
		return points
	}
	m := wire.Measured{PartMillis: h.Part.Milliseconds(), Writes: points(h.Writes), Reads: points(h.Reads)}
	for _, o := range h.Outages {
		out := wire.Outage{From: o.From.UnixMilli()}
		if !o.To.IsZero() {
			out.To = o.To.UnixMilli()
		}
		m.Outages = append(m.Outages, out)
	}
	return m
}
