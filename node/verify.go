package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/push"
)

const (
	// pathVerify is where other nodes have the leader ask a receiver.
	pathVerify = "/v1/push/verify"
	// verifyRetry is the pause before another leader is asked to ask.
	verifyRetry = 100 * time.Millisecond
	// maxVerifying is how many receivers are asked at once.
	maxVerifying = 64
	// maxVerifyQuestion bounds the body of such a call, in bytes.
	maxVerifyQuestion = 16 << 10
)

// verifyQuestion asks the leader to ask a receiver.
type verifyQuestion struct {
	URL    string `json:"url"`
	Agent  string `json:"agent"`  // as it is spelled
	Sender string `json:"sender"` // fingerprint of who wants it
}

// verifyAnswer is what came of it.
type verifyAnswer struct {
	Reason push.Reason `json:"reason,omitempty"` // "" when the receiver passed
	WaitMs int64       `json:"waitMs,omitempty"` // too many were asked: wait so long
	Shared bool        `json:"shared,omitempty"` // by several who share an allowance
}

// errNotLeading is the answer of a node that has no right to ask.
var errNotLeading = errors.New("this node does not lead")

// VerifyReceiver has the leader ask a receiver whether it wants what is pushed to
// an agent.
func (b *backend) VerifyReceiver(ctx context.Context, from command.Sender, agent, notifyURL string) error {
	q := verifyQuestion{URL: notifyURL, Agent: agent, Sender: from.Fingerprint}
	for {
		a, err := b.verifyByLeader(ctx, q)
		if err == nil {
			return a.asError()
		}
		b.logger.DebugContext(ctx, "a receiver could not be asked; it is tried again", "error", err)
		select {
		case <-ctx.Done():
			return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader could ask the receiver at notify_url"}
		case <-time.After(verifyRetry):
		}
	}
}

// asError is what a client is told of an answer.
func (a verifyAnswer) asError() error {
	switch {
	case a.WaitMs > 0:
		limit := &verificationLimit
		if a.Shared {
			limit = &sharedVerificationLimit
		}
		return &command.RateLimited{RetryAfter: time.Duration(a.WaitMs) * time.Millisecond, Limit: limit}
	case a.Reason != "":
		return &api.ReceiverFailed{Reason: a.Reason.Sentence()}
	}
	return nil
}

var (
	verificationLimit = newVerificationLimit(fmt.Sprintf("A sender has at most %d checks of a notify_url an hour, and fewer of a host that others have checked, too: there are %d for all of them.",
		push.VerificationsPerHour, push.HostVerificationsPerHour))
	// sharedVerificationLimit is for who shares an allowance.
	sharedVerificationLimit = newVerificationLimit("Very many receivers are being checked: some share the checks of a notify_url that there are an hour, and others have used up these.")
)

func newVerificationLimit(message string) command.RateLimit {
	return command.RateLimit{
		Name: "verifications", Quota: push.VerificationsPerHour, Window: time.Hour,
		Message: message, Field: "notify_url",
	}
}

func (n *Node) verifyByLeader(ctx context.Context, q verifyQuestion) (verifyAnswer, error) {
	switch leader := n.raft.LeaderID(); leader {
	case "":
		return verifyAnswer{}, errors.New("no leader is known")
	case n.identity.ServerID:
		return n.verifyHere(ctx, q)
	default:
		return n.verifyAt(ctx, leader, q)
	}
}

// verifyHere asks the receiver, if this node leads.
func (n *Node) verifyHere(ctx context.Context, q verifyQuestion) (verifyAnswer, error) {
	if !n.raft.Leads() {
		return verifyAnswer{}, errNotLeading
	}
	keys, err := n.signingKeys()
	if err != nil {
		return verifyAnswer{}, err
	}
	select {
	case n.verifying <- struct{}{}:
		defer func() { <-n.verifying }()
	case <-ctx.Done():
		return verifyAnswer{}, ctx.Err()
	}
	// From here on somebody is asked: what ends before counts against nobody, because
	// it is tried again.
	host := hostOf(q.URL)
	if wait, shared := n.verifications.Admit(host, q.Sender); wait > 0 {
		return verifyAnswer{WaitMs: max(1, wait.Milliseconds()), Shared: shared}, nil
	}
	a := n.receivers.Verify(ctx, q.URL, q.Agent, keys)
	n.deliveries.metrics.verified(a.Reason)
	n.logger.InfoContext(ctx, "asked a receiver", "agent", q.Agent, "host", host, "outcome", outcomeText(a.Reason), "took", a.Took.Round(time.Millisecond).String())
	return verifyAnswer{Reason: a.Reason}, nil
}

// verifyAt has another node ask, for as long as nobody else leads.
func (n *Node) verifyAt(ctx context.Context, leader string, q verifyQuestion) (verifyAnswer, error) {
	ctx, cancel := n.pipeline.UntilAnotherLeads(ctx, leader)
	defer cancel()
	return cluster.Ask[verifyAnswer](ctx, n.port.Client(), leader, pathVerify, q)
}

// serveVerify asks a receiver for another node.
func (n *Node) serveVerify(w http.ResponseWriter, r *http.Request) {
	var q verifyQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxVerifyQuestion)).Decode(&q); err != nil {
		http.Error(w, "the question cannot be read", http.StatusBadRequest)
		return
	}
	a, err := n.verifyHere(r.Context(), q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		return
	}
	cluster.Reply(w, n.logger, http.StatusOK, a)
}
