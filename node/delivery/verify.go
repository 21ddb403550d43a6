package delivery

import (
	"cmp"
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
	pathVerify        = "/v1/push/verify"      // the path on which other nodes let the leader verify a receiver
	verifyRetry       = 100 * time.Millisecond // the pause before the next attempt at a leader
	maxVerifying      = 64                     // how many receivers are verified at the same time
	maxVerifyQuestion = 16 << 10               // bounds the body of a request, in bytes
)

// verifyQuestion is the request to the leader to verify a receiver.
type verifyQuestion struct {
	URL    string `json:"url"`
	Agent  string `json:"agent"`  // as it is spelled
	Sender string `json:"sender"` // fingerprint of the client
}

type verifyAnswer struct {
	Reason push.Reason `json:"reason,omitempty"` // empty if the receiver passed
	WaitMs int64       `json:"waitMs,omitempty"` // pause because of too many verifications
	Shared bool        `json:"shared,omitempty"` // several senders share the allowance
}

// FailedError is the error of a receiver that did not pass its check.
type FailedError struct {
	Reason string // the end of a sentence that begins "The receiver"
}

func (e *FailedError) Error() string { return "the receiver " + e.Reason }

// Verify lets the leader verify a receiver for an agent. sender is the fingerprint of the
// client. The error is a *FailedError, a *command.RateLimited or a *command.Unavailable.
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

// asError returns the error for the client, or nil.
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
		ctx, cancel := s.cfg.UntilAnotherLeads(ctx, leader)
		defer cancel()
		return cluster.Ask[verifyAnswer](ctx, s.cfg.Client, leader, pathVerify, q)
	}
}

// verifyHere verifies the receiver, if this node leads.
func (s *Service) verifyHere(ctx context.Context, q verifyQuestion) (verifyAnswer, error) {
	if s.cfg.LeaderID() != s.cfg.ServerID {
		return verifyAnswer{}, errors.New("this node does not lead")
	}
	select {
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	case <-ctx.Done():
		return verifyAnswer{}, ctx.Err()
	}
	// Only from here on the check counts against the sender: earlier failures are tried
	// again.
	host := hostOf(q.URL)
	if wait, shared := s.verifications.Admit(host, q.Sender); wait > 0 {
		return verifyAnswer{WaitMs: max(1, wait.Milliseconds()), Shared: shared}, nil
	}
	a := s.receivers.Verify(ctx, q.URL, q.Agent)
	s.metrics.verifications.WithLabelValues(outcomeOf(a.Reason)).Inc()
	s.cfg.Logger.InfoContext(ctx, "asked a receiver", "agent", q.Agent, "host", host, "outcome", outcomeText(a.Reason), "took", a.Took.Round(time.Millisecond).String())
	return verifyAnswer{Reason: a.Reason}, nil
}

// Handle serves other nodes' requests to verify a receiver.
func (s *Service) Handle(mux *http.ServeMux) { mux.HandleFunc("POST "+pathVerify, s.serveVerify) }

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
	// ownNamesInterval is the time between two lookups of the host names that nodes advertise,
	// and ownNamesTimeout bounds a lookup.
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

// ownAddress reports whether an address belongs to this machine or to a node of the
// cluster. The address of the public URL does not count: a provider may serve other
// customers' hosts on it, too.
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

// lookUpOwnNames resolves the host names that nodes advertise. A name that does not
// resolve keeps its former addresses.
func (s *Service) lookUpOwnNames(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ownNamesTimeout)
	defer cancel()
	resolver := cmp.Or(s.cfg.Push.Resolver, net.DefaultResolver)
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
