package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
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

// FailedError is the error of a receiver that did not pass its check.
type FailedError struct {
	Reason string // the end of a sentence that begins "The receiver"
}

func (e *FailedError) Error() string { return "the receiver " + e.Reason }

// errNotLeading is the answer of a node that has no right to ask.
var errNotLeading = errors.New("this node does not lead")

// Verify has the leader ask a receiver whether it wants what is pushed to
// an agent; sender is the fingerprint of the client. Errors: a *FailedError, a
// *command.RateLimited, a *command.Unavailable.
func (s *Service) Verify(ctx context.Context, sender, agent, notifyURL string) error {
	q := verifyQuestion{URL: notifyURL, Agent: agent, Sender: sender}
	for {
		a, err := s.verifyByLeader(ctx, q)
		if err == nil {
			return a.asError()
		}
		s.cfg.Logger.DebugContext(ctx, "a receiver could not be asked; it is tried again", "error", err)
		if !loop.Pause(ctx, verifyRetry) {
			return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader could ask the receiver at notify_url"}
		}
	}
}

// asError is the error that a client gets for an answer.
func (a verifyAnswer) asError() error {
	switch {
	case a.WaitMs > 0:
		limit := &verificationLimit
		if a.Shared {
			limit = &sharedVerificationLimit
		}
		return &command.RateLimited{RetryAfter: time.Duration(a.WaitMs) * time.Millisecond, Limit: limit}
	case a.Reason != "":
		return &FailedError{Reason: a.Reason.Sentence()}
	}
	return nil
}

var (
	verificationLimit = newVerificationLimit(fmt.Sprintf("A sender has at most %d checks of a notify_url an hour, and fewer of a host that others have checked, too: there are %d for all of them.",
		push.VerificationsPerHour, push.HostVerificationsPerHour))
	// sharedVerificationLimit is for senders that share an allowance.
	sharedVerificationLimit = newVerificationLimit("Very many receivers are being checked: some share the checks of a notify_url that there are an hour, and others have used up these.")
)

func newVerificationLimit(message string) command.RateLimit {
	return command.RateLimit{
		Name: "verifications", Quota: push.VerificationsPerHour, Window: time.Hour,
		Message: message, Field: "notify_url",
	}
}

func (s *Service) verifyByLeader(ctx context.Context, q verifyQuestion) (verifyAnswer, error) {
	switch leader := s.cfg.LeaderID(); leader {
	case "":
		return verifyAnswer{}, errors.New("no leader is known")
	case s.cfg.ServerID:
		return s.verifyHere(ctx, q)
	default:
		return s.verifyAt(ctx, leader, q)
	}
}

// verifyHere asks the receiver, if this node leads.
func (s *Service) verifyHere(ctx context.Context, q verifyQuestion) (verifyAnswer, error) {
	if s.cfg.LeaderID() != s.cfg.ServerID {
		return verifyAnswer{}, errNotLeading
	}
	keys, err := s.signingKeys()
	if err != nil {
		return verifyAnswer{}, err
	}
	select {
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	case <-ctx.Done():
		return verifyAnswer{}, ctx.Err()
	}
	// From here on somebody is asked: what ends before counts against nobody, because
	// it is tried again.
	host := hostOf(q.URL)
	if wait, shared := s.verifications.Admit(host, q.Sender); wait > 0 {
		return verifyAnswer{WaitMs: max(1, wait.Milliseconds()), Shared: shared}, nil
	}
	a := s.receivers.Verify(ctx, q.URL, q.Agent, keys)
	s.metrics.verified(a.Reason)
	s.cfg.Logger.InfoContext(ctx, "asked a receiver", "agent", q.Agent, "host", host, "outcome", outcomeText(a.Reason), "took", a.Took.Round(time.Millisecond).String())
	return verifyAnswer{Reason: a.Reason}, nil
}

// verifyAt has another node ask, for as long as nobody else leads.
func (s *Service) verifyAt(ctx context.Context, leader string, q verifyQuestion) (verifyAnswer, error) {
	ctx, cancel := s.cfg.UntilAnotherLeads(ctx, leader)
	defer cancel()
	return cluster.Ask[verifyAnswer](ctx, s.cfg.Client, leader, pathVerify, q)
}

// Handle answers other nodes that have this one ask a receiver.
func (s *Service) Handle(mux *http.ServeMux) { mux.HandleFunc("POST "+pathVerify, s.serveVerify) }

// serveVerify asks a receiver for another node.
func (s *Service) serveVerify(w http.ResponseWriter, r *http.Request) {
	var q verifyQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxVerifyQuestion)).Decode(&q); err != nil {
		http.Error(w, "the question cannot be read", http.StatusBadRequest)
		return
	}
	a, err := s.verifyHere(r.Context(), q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		return
	}
	cluster.Reply(w, s.cfg.Logger, http.StatusOK, a)
}

const (
	// ownNamesInterval is how often the names are looked up that nodes advertise, and
	// ownNamesTimeout bounds how long that takes.
	ownNamesInterval = 10 * time.Second
	ownNamesTimeout  = 2 * time.Second
)

// OwnHosts are the hosts of this service: of its public URL, and of every live node.
func (s *Service) OwnHosts() []string {
	hosts := s.memberHosts()
	if u, err := url.Parse(s.cfg.PublicURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}

// memberHosts are the hosts that the live nodes advertise, names and addresses.
func (s *Service) memberHosts() (hosts []string) {
	members := s.cfg.Members()
	for i := range members {
		for _, at := range []string{members[i].HTTPAddr, members[i].ClusterAddr, members[i].GossipAddr} {
			if host, _, err := net.SplitHostPort(at); err == nil && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// ownAddress reports an address of this machine or of a node of the cluster. That of
// the public URL is none: a provider may have others' hosts there, too.
func (s *Service) ownAddress(addr netip.Addr) bool {
	if here, err := net.InterfaceAddrs(); err == nil {
		for _, a := range here {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
				return true
			}
		}
	}
	named := s.ownNames.Load()
	for _, host := range s.memberHosts() {
		if a, err := netip.ParseAddr(host); err == nil && a.Unmap() == addr {
			return true
		}
		if named != nil && slices.Contains((*named)[host], addr) {
			return true
		}
	}
	return false
}

// followOwnNames keeps what ownAddress knows of names up to date: while a
// connection is made there is no time to look them up.
func (s *Service) followOwnNames(ctx context.Context) {
	loop.Every(ctx, ownNamesInterval, s.lookUpOwnNames)
}

// lookUpOwnNames looks the names up that nodes advertise. One that DNS says nothing
// of leads where it led before.
func (s *Service) lookUpOwnNames(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ownNamesTimeout)
	defer cancel()
	resolver := s.cfg.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	before := s.ownNames.Load()
	var mu sync.Mutex
	found := make(map[string][]netip.Addr)
	var lookups sync.WaitGroup
	for _, host := range s.memberHosts() {
		if _, err := netip.ParseAddr(host); err == nil {
			continue
		}
		lookups.Go(func() {
			addrs, err := resolver.LookupNetIP(ctx, "ip", host)
			for i := range addrs {
				addrs[i] = addrs[i].Unmap()
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				found[host] = addrs
			} else if before != nil {
				found[host] = (*before)[host]
			}
		})
	}
	lookups.Wait()
	s.ownNames.Store(&found)
}
