package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"code.dny.dev/ssrf"
)

// Reason says in one stable word why a receiver did not take an event. The agent
// that the event is for can read it, so it holds nothing that the receiver said
// but the status. "" is no failure.
type Reason string

// The reasons that are not a status.
const (
	NameNotFound     Reason = "name_not_found"    // the host's name has no address
	NameLookupFailed Reason = "lookup_failed"     // DNS gave no answer
	RejectedAddress  Reason = "refused_address"   // the name leads to where nothing is sent
	RejectedURL      Reason = "refused_url"       // the URL is none that is sent to
	ConnectFailed    Reason = "connect_failed"    // no connection
	TLSFailed        Reason = "tls"               // no trusted certificate, or no TLS
	TimedOut         Reason = "timeout"           // no answer within Timeout
	BrokenAnswer     Reason = "broken_answer"     // an answer that is no HTTP, or none
	Redirected       Reason = "redirect"          // an answer that leads elsewhere
	ChallengeMissing Reason = "challenge_missing" // an answer without the challenge
	DecoyRepeated    Reason = "decoy_repeated"    // an answer that repeats whatever was sent
)

// StatusPrefix begins the reason that an answer's status is, such as status_500.
const StatusPrefix = "status_"

// statusReason is the reason of an answer's status.
func statusReason(status int) Reason {
	switch {
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return ""
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return Redirected
	}
	return Reason(fmt.Sprintf("%s%03d", StatusPrefix, status)) // three digits, as they came
}

// sentences say the reasons to a person, as the end of "The receiver …".
var sentences = map[Reason]string{
	NameNotFound:     "has a name that has no address",
	NameLookupFailed: "could not be looked up: DNS gave no answer",
	RejectedAddress:  "has an address that is not on the public internet, or is this service's own",
	RejectedURL:      "has an address that nothing is sent to",
	ConnectFailed:    "could not be connected to",
	TLSFailed:        "showed no certificate that is valid for its name",
	TimedOut:         "did not answer within 5 seconds",
	BrokenAnswer:     "broke off, or answered with something that is no HTTP",
	Redirected:       "answered with a redirect, and none is followed",
	ChallengeMissing: "answered, but not with the challenge in the first 2000 characters of its body",
	DecoyRepeated:    "repeated the decoy, as a service does that sends back whatever it gets: answer with reply_with alone",
}

// Sentence returns the reason as the end of a sentence that begins with "The
// receiver".
func (r Reason) Sentence() string {
	if s, known := sentences[r]; known {
		return s
	}
	if len(r) > len(StatusPrefix) {
		return "answered with the status " + string(r[len(StatusPrefix):])
	}
	return "was not reached"
}

// stageError is the error of one stage of an exchange.
type stageError struct {
	reason Reason
	err    error
}

func (e *stageError) Error() string { return string(e.reason) + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// errOwn rejects an address of the service itself.
var errOwn = errors.New("the address is this service's own")

// errReserved rejects an address that is public in name only.
var errReserved = errors.New("the address belongs to a provider's own network")

// reasonOf finds out why an exchange failed.
func reasonOf(err error) Reason {
	var dns *net.DNSError
	var network net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errOwn), errors.Is(err, errReserved), errors.Is(err, ssrf.ErrProhibitedIP),
		errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return RejectedAddress
	case errors.As(err, &dns) && dns.IsNotFound:
		return NameNotFound
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return TimedOut
	case dns != nil:
		return NameLookupFailed
	}
	if stage, ok := errors.AsType[*stageError](err); ok {
		return stage.reason
	}
	return BrokenAnswer
}
