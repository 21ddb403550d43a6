package push

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	_ "golang.org/x/crypto/x509roots/fallback" // where the system has no roots of its own

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// defaultTimeout bounds one exchange: looking the name up, connecting, and the answer.
	defaultTimeout = 5 * time.Second
	// MaxAnswer bounds the part of an answer's body that is read, in bytes.
	MaxAnswer = 4 << 10
	// MaxRetryAfter bounds the pause that a receiver may ask for.
	MaxRetryAfter    = command.MaxRetryAfter * time.Millisecond
	maxAnswerHeaders = 64 << 10 // bounds the headers of an answer, in bytes
)

// Config is the configuration of a Client. The zero value reaches the public internet on port
// 443 and trusts the system's authorities.
type Config struct {
	// Check returns the problem with a URL, or "". It is called before each exchange. Nil means
	// that every https URL passes.
	Check func(rawURL string) (problem string)
	// Own reports an address of the service itself, which is never dialled.
	Own       func(netip.Addr) bool
	UserAgent string           // the header of that name
	Now       func() time.Time // for messages; nil means time.Now
	Resolver  *net.Resolver    // nil means the system's
	Timeout   time.Duration    // of one exchange with a receiver; 0 means 5 seconds

	// For tests: a further port, authorities in place of the system's, and networks that are
	// allowed although they are not public.
	Port      uint16
	Roots     *x509.CertPool
	AllowNets []netip.Prefix
}

// Client sends to receivers. It is safe for concurrent use.
type Client struct {
	cfg    Config
	public *ssrf.Guardian // the public internet, the ports of https
	http   *http.Client
}

// Message is a message to a receiver.
type Message struct {
	ID   string // the same at each attempt; without a full stop
	Body []byte // JSON
	// Secret is the receiver's. Without one the message is not signed.
	Secret []byte
}

// Answer is the result of one attempt to send a message.
type Answer struct {
	Reason Reason // the reason of a failure, or empty
	// Gone reports a receiver that does not want any more messages.
	Gone       bool
	RetryAfter time.Duration // the pause that the receiver asks for, or 0
	Took       time.Duration // the duration of the attempt

	body []byte // of a successful answer, at most MaxAnswer
}

// NewClient returns a client for receivers.
func NewClient(cfg Config) *Client {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ports := []uint16{httpsPort}
	if cfg.Port != 0 {
		ports = append(ports, cfg.Port)
	}
	c := &Client{cfg: cfg, public: ssrf.New(ssrf.WithPorts(ports...))}
	d := &dialer{
		net: net.Dialer{Control: c.control, Resolver: cfg.Resolver, KeepAlive: -1},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	c.http = &http.Client{
		// Each message has a separate connection: the name is looked up and
		// checked each time, and no connection is left open at receivers.
		Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return nil, &stageError{RejectedURL, errors.New("nothing is sent without TLS")}
			},
			DialTLSContext: d.dial, Protocols: &http1,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Timeout returns the upper bound of one exchange.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// Send posts a message to a receiver, once.
func (c *Client) Send(ctx context.Context, rawURL string, m Message) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	start := time.Now()
	a := c.send(ctx, rawURL, m)
	a.Took = time.Since(start)
	return a
}

func (c *Client) send(ctx context.Context, rawURL string, m Message) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, bytes.NewReader(m.Body))
	if err != nil || req.URL.Scheme != "https" || req.URL.User != nil ||
		c.cfg.Check != nil && c.cfg.Check(rawURL) != "" {
		return Answer{Reason: RejectedURL}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	sign(req.Header, &m, c.cfg.Now())
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{Reason: reasonOf(err)}
	}
	defer func() { _ = res.Body.Close() }() // the rest of the body does not matter
	a := Answer{Reason: statusReason(res.StatusCode), Gone: res.StatusCode == http.StatusGone}
	if a.Reason != "" {
		a.RetryAfter = retryAfter(res.Header.Get("Retry-After"), c.cfg.Now())
		return a
	}
	// With this status the receiver has the message, even if its answer breaks off.
	a.body, _ = io.ReadAll(io.LimitReader(res.Body, MaxAnswer))
	return a
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && seconds > uint64(MaxRetryAfter/time.Second):
		return MaxRetryAfter
	case err == nil:
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

type dialer struct {
	net net.Dialer
	tls *tls.Config
}

// dial connects to a host and checks its certificate. Its errors name the stage that failed.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &stageError{RejectedURL, err}
	}
	host = strings.TrimSuffix(host, ".")
	name := host
	if strings.Contains(host, ".") {
		name += "." // a complete name, to which the system's search list does not apply
	}
	plain, err := d.net.DialContext(ctx, network, net.JoinHostPort(name, port))
	if err != nil {
		return nil, &stageError{ConnectFailed, err}
	}
	config := d.tls.Clone()
	config.ServerName = host
	secured := tls.Client(plain, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, &stageError{TLSFailed, err}
	}
	return secured, nil
}

const httpsPort = 443

// reserved are addresses that look public and are not: on them, providers answer their
// customers' machines.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host
}

// control decides which addresses may be connected to. It checks each address after the name
// was resolved and right before the connection is made, so that no answer of DNS can change in
// between.
func (c *Client) control(network, address string, raw syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return c.public.Safe(network, address, raw) // returns the problem
	}
	addr := to.Addr().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(c.cfg.AllowNets, within) {
		// The address is allowed. Its port is still checked, beside an address that passes.
		return c.public.SafeAddrPort(netip.AddrPortFrom(certainlyPublic, to.Port()))
	}
	if slices.ContainsFunc(reserved, within) {
		return errReserved
	}
	if c.cfg.Own != nil && c.cfg.Own(addr.Unmap()) {
		return errOwn
	}
	return c.public.Safe(network, address, raw)
}

var certainlyPublic = netip.AddrFrom4([4]byte{1, 1, 1, 1}) // an address that is not reserved for special purposes

// MaxChallengeAt is the number of characters of an answer that are searched for the challenge.
const MaxChallengeAt = 2000

const verifyType = "common.verify" // the type of the message that carries a challenge

type verification struct {
	Type      string    `json:"type"`
	Agent     string    `json:"agent"`
	Decoy     string    `json:"decoy"` // a receiver that repeats it repeats anything
	Challenge string    `json:"challenge"`
	ReplyWith replyWith `json:"reply_with"`
}

// replyWith is a body that passes.
type replyWith struct {
	Challenge string `json:"challenge"`
}

// Verify asks a receiver once whether it takes events for an agent. It has to answer with a
// success and the challenge in its body, without the decoy: a service that sends back whatever
// it gets has not agreed. The message is not signed: the agent gets the secret afterwards.
func (c *Client) Verify(ctx context.Context, rawURL, agent string) Answer {
	challenge, decoy := rand.Text(), rand.Text()
	body, err := json.Marshal(verification{verifyType, agent, decoy, challenge, replyWith{challenge}})
	if err != nil {
		return Answer{Reason: RejectedURL} // texts always encode
	}
	a := c.Send(ctx, rawURL, Message{ID: "verify_" + rand.Text(), Body: body})
	first := []rune(string(a.body))
	switch {
	case a.Reason != "":
	case !strings.Contains(string(first[:min(len(first), MaxChallengeAt)]), challenge):
		a.Reason = ChallengeMissing
	case bytes.Contains(a.body, []byte(decoy)):
		a.Reason = DecoyRepeated
	}
	a.body = nil
	return a
}

// The headers of Standard Webhooks, and the name of its signatures by HMAC-SHA256.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"

	signatureVersion = "v1"
)

// sign sets the headers of a message: its id, the time, and the signature over
// "id.seconds.body". An id holds no full stop.
func sign(h http.Header, m *Message, at time.Time) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	h.Set(HeaderID, m.ID)
	h.Set(HeaderTimestamp, seconds)
	if len(m.Secret) == 0 {
		return
	}
	mac := hmac.New(sha256.New, m.Secret)
	mac.Write([]byte(m.ID + "." + seconds + "."))
	mac.Write(m.Body)
	h.Set(HeaderSignature, signatureVersion+","+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// Reason is the reason why a receiver did not take an event, as a stable word. The agent that
// the event is for can read it, so the status is the only part of the receiver's answer in it.
// It is empty without a failure.
type Reason string

// The reasons that are not a status.
const (
	NameNotFound     Reason = "name_not_found"    // the host's name has no address
	NameLookupFailed Reason = "lookup_failed"     // DNS gave no answer
	RejectedAddress  Reason = "refused_address"   // the name has an address that is not allowed
	RejectedURL      Reason = "refused_url"       // the URL is not allowed
	ConnectFailed    Reason = "connect_failed"    // no connection
	TLSFailed        Reason = "tls"               // no trusted certificate, or no TLS
	TimedOut         Reason = "timeout"           // no answer within Timeout
	BrokenAnswer     Reason = "broken_answer"     // no answer, or one that is not HTTP
	Redirected       Reason = "redirect"          // an answer that names another address
	ChallengeMissing Reason = "challenge_missing" // an answer without the challenge
	DecoyRepeated    Reason = "decoy_repeated"    // an answer that repeats whatever was sent
)

// StatusPrefix begins the reason of an answer's status, such as status_500.
const StatusPrefix = "status_"

func statusReason(status int) Reason {
	switch {
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return ""
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return Redirected
	}
	return Reason(fmt.Sprintf("%s%03d", StatusPrefix, status)) // three digits, as they came
}

// sentences are the reasons for people, as the end of "The receiver …".
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

// Sentence returns the reason as the end of a sentence that begins with "The receiver".
func (r Reason) Sentence() string {
	if s, known := sentences[r]; known {
		return s
	}
	if len(r) > len(StatusPrefix) {
		return "answered with the status " + string(r[len(StatusPrefix):])
	}
	return "was not reached"
}

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
