package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// DefaultPatience is how long calls are repeated unless Config says otherwise.
	DefaultPatience = time.Minute
	// DefaultTimeout bounds one attempt unless Config says otherwise. A node keeps a write
	// for up to 10 s, after up to 5 s for the minimum index.
	DefaultTimeout = 20 * time.Second

	firstPause   = 50 * time.Millisecond // before the second attempt; doubles
	longestPause = 2 * time.Second
	maxAnswer    = 8 << 20
	// codeBehind, if it is not retryable, rejects a minimum index from before a backup was restored.
	codeBehind = "behind"
	maxQuoted  = 300 // bytes of an answer that is not JSON, in an error
)

// Config is the configuration of a Client.
type Config struct {
	URLs     []string      // base URLs; a call begins at the one that answered last
	Key      string        // edit_key or moderator's token; empty means that in File, or no proof; Register replaces it
	File     string        // keeps the key and the place of Watch, for one program; empty means none
	HTTP     *http.Client  // nil means http.DefaultClient
	Header   http.Header   // added to every request
	Patience time.Duration // how long a call is repeated, beside the time that it asks to wait; 0 means DefaultPatience, negative never
	Timeout  time.Duration // of one attempt, beside the time that it asks to wait; 0 means DefaultTimeout
	MinIndex uint64        // log index of an earlier write that reads must include

	// KeyOverHTTP also sends the key over http to other machines, where everybody on the
	// way can read it. It is for closed test networks.
	KeyOverHTTP bool
}

// Client calls a service. Use New.
type Client struct {
	config Config
	http   http.Client
	urls   []*url.URL
	strong bool
	dryRun bool
	at     *atomic.Int64  // the address in use, modulo their number
	index  *atomic.Uint64 // of the newest write
	kept   *kept
}

// New returns a client, or an error that lists what is wrong with the addresses.
func New(config Config) (*Client, error) {
	c := &Client{config: config, at: new(atomic.Int64), index: new(atomic.Uint64)}
	var problems []error
	for _, raw := range config.URLs {
		u, err := url.Parse(strings.TrimRight(raw, "/"))
		switch {
		case err != nil:
			problems = append(problems, err)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, fmt.Errorf("%q is not an address such as https://commons.example", raw))
		}
		c.urls = append(c.urls, u)
	}
	if len(config.URLs) == 0 {
		problems = append(problems, errors.New("name at least one address, such as https://commons.example"))
	}
	var err error
	if c.kept, err = openKept(config.File, config.Key); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("client: %w", errors.Join(problems...))
	}
	if config.HTTP != nil {
		c.http = *config.HTTP
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.config.Patience = cmp.Or(config.Patience, DefaultPatience)
	c.config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	c.SetMinIndex(config.MinIndex)
	return c, nil
}

// Strong returns a client whose reads are linearizable: they include every write that was
// acknowledged to anybody before. The two clients share everything else.
func (c *Client) Strong() *Client {
	strong := *c
	strong.strong = true
	return &strong
}

// DryRun returns a client whose writes are checked and not carried out: their answers have
// Would and Notes alone. The two clients share everything else.
func (c *Client) DryRun() *Client {
	dry := *c
	dry.dryRun = true
	return &dry
}

// MinIndex returns the log index that all answers include: that of the client's newest
// write. A program that starts again can continue with it (Config.MinIndex). It is 0 after a
// service whose backup was restored has rejected it.
func (c *Client) MinIndex() uint64 { return c.index.Load() }

// SetMinIndex raises MinIndex, for instance to the Index of another client's write.
func (c *Client) SetMinIndex(index uint64) {
	for now := c.index.Load(); now < index && !c.index.CompareAndSwap(now, index); now = c.index.Load() {
	}
}

// Meta is the part that answers have in common.
type Meta struct {
	Duplicate bool            // the request_id was used before, and this is the first answer
	Notes     []string        // changes to the request, and ignored fields
	Would     json.RawMessage // of a dry run: the fields as they would be kept
	Node      string          `json:"-"` // that answered
	Index     uint64          `json:"-"` // log index that the answer includes
	Stale     time.Duration   `json:"-"` // since the node heard from a leader; 0 if it is up to date
	Raw       json.RawMessage `json:"-"` // the answer as it was sent
}

func (m *Meta) describe(header http.Header, body []byte) {
	stale, _ := strconv.ParseInt(header.Get("X-Commons-Stale-Ms"), 10, 64) // 0 if it is missing
	m.Node, m.Index, m.Stale, m.Raw = header.Get("X-Commons-Node"), indexOf(header), time.Duration(stale)*time.Millisecond, body
}

func indexOf(header http.Header) uint64 {
	index, _ := strconv.ParseUint(header.Get("X-Commons-Index"), 10, 64) // 0 if it is missing
	return index
}

// Do calls a path of the service that has no method here, with a body as JSON unless it is
// nil, and decodes the answer unless into is nil. Reads are repeated; other calls only if
// they were certainly not carried out.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("client: the query of %s: %w", path, err)
	}
	return c.do(ctx, request{method: method, path: path, query: values, body: body, into: into})
}

// get reads a path.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (answer T, err error) {
	err = c.do(ctx, request{method: http.MethodGet, path: path, query: query, into: &answer})
	return answer, err
}

// post writes. Its attempts share the request_id, which body contains.
func post[T any](ctx context.Context, c *Client, path, requestID string, body any) (answer T, err error) {
	err = c.do(ctx, request{method: http.MethodPost, path: path, body: body, requestID: requestID, into: &answer})
	return answer, err
}

// NewRequestID returns a request_id that was not used before.
func NewRequestID() string { return rand.Text() }

// values returns the pairs of name and value that are not empty.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// number formats a parameter; 0 means its default.
func number[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// request is a call, of one attempt or several.
type request struct {
	method, path string
	query        url.Values
	body         any
	requestID    string        // of a write that is safe to repeat
	wait         time.Duration // for which the node is asked to hold the answer
	header       http.Header
	into         any

	// stream reads the answer in place of into. It calls alive when something arrives.
	stream func(body io.Reader, alive func()) error
}

// checkUTF8 returns an error for a text that is not UTF-8. As JSON, it would lose bytes.
func checkUTF8(v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); !utf8.ValidString(text) {
			err = fmt.Errorf("client: a text is not UTF-8, and nothing was sent: %.40q; convert it, for example with iconv", text)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			err = cmp.Or(err, checkUTF8(field))
		}
	case reflect.Slice, reflect.Map:
		for _, item := range v.Seq2() {
			err = cmp.Or(err, checkUTF8(item))
		}
	case reflect.Pointer, reflect.Interface:
		err = checkUTF8(v.Elem())
	}
	return err
}

func (r *request) reads() bool { return r.method == http.MethodGet || r.method == http.MethodHead }

// do sends a request until its outcome is known or the client's patience ends.
func (c *Client) do(ctx context.Context, r request) error {
	var payload []byte
	if r.body != nil {
		err := checkUTF8(reflect.ValueOf(r.body))
		if err != nil {
			return err
		}
		if payload, err = json.Marshal(r.body); err != nil {
			return fmt.Errorf("client: %w", err)
		}
	}
	deadline := time.Now().Add(c.config.Patience)
	if c.config.Patience > 0 {
		deadline = deadline.Add(r.wait)
	}
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	unknown := false // an attempt may have been carried out
	for attempt := 1; ; attempt++ {
		at := c.at.Load()
		index := c.index.Load()
		lost, err := c.attempt(ctx, c.urls[int(at)%len(c.urls)], &r, payload, index)
		if err == nil {
			return nil
		}
		if rejection, is := errors.AsType[*Error](err); is && rejection.Code == codeBehind && !rejection.Retryable && index > 0 {
			c.index.CompareAndSwap(index, 0)
			continue // it was not carried out
		}
		unknown = unknown || lost && !r.reads() && !c.dryRun
		pause, again := c.again(err, attempt)
		again = again && (r.reads() || r.requestID != "" || !lost)
		if again {
			c.at.CompareAndSwap(at, at+1)
			again = rest(ctx, pause, deadline)
		}
		if again {
			continue
		}
		// A final answer of the service is also one about the earlier attempts.
		rejection, is := errors.AsType[*Error](err)
		if settled := is && !lost && !rejection.Retryable && rejection.Code != ""; settled || !unknown {
			return err
		}
		return &UnknownError{RequestID: r.requestID, Err: err}
	}
}

// again reports whether a failed request may succeed later, and after which pause.
// Retry-After of one node does not apply to the others.
func (c *Client) again(err error, attempt int) (pause time.Duration, again bool) {
	pause = min(firstPause<<min(attempt-1, 10), longestPause)
	pause += mathrand.N(pause) / 2
	rejection, is := errors.AsType[*Error](err)
	switch {
	case !is:
		_, broken := errors.AsType[*transportError](err)
		return pause, broken
	case rejection.Status == http.StatusTooManyRequests, attempt%len(c.urls) == 0:
		pause = max(pause, rejection.RetryAfter)
	}
	// An answer may leave the outcome open and not be retryable, because a repetition without a
	// request_id could write twice; with one it is safe.
	switch rejection.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return pause, rejection.Retryable || rejection.Code != codeBehind
	}
	return pause, rejection.Retryable
}

// rest waits for a pause. It returns false at once if the deadline comes first.
func rest(ctx context.Context, pause time.Duration, deadline time.Time) bool {
	if time.Until(deadline) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// attempt sends a request once. lost reports that it may have been carried out although it failed.
func (c *Client) attempt(ctx context.Context, base *url.URL, r *request, payload []byte, index uint64) (lost bool, err error) {
	attemptContext, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(c.config.Timeout+r.wait, cancel)
	defer timer.Stop()
	var sent atomic.Bool
	req, err := c.newRequest(httptrace.WithClientTrace(attemptContext, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}), base, r, payload, index)
	if err != nil {
		return false, err
	}
	broken := func(err error) (bool, error) {
		if ctx.Err() == nil && attemptContext.Err() != nil {
			err = fmt.Errorf("%s %s: no answer within %v", r.method, req.URL.Redacted(), c.config.Timeout+r.wait)
		}
		return sent.Load(), &transportError{err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	defer res.Body.Close()
	if r.stream != nil && res.StatusCode == http.StatusOK {
		return false, r.stream(res.Body, func() { timer.Reset(streamTimeout) })
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return broken(fmt.Errorf("%s %s: %w", r.method, req.URL.Redacted(), err))
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return rejected(res, body)
	}
	if !r.reads() && !c.dryRun {
		c.SetMinIndex(indexOf(res.Header))
	}
	if m, is := r.into.(interface{ describe(http.Header, []byte) }); is {
		m.describe(res.Header, body)
	}
	if r.into != nil {
		if err := json.Unmarshal(body, r.into); err != nil {
			return false, fmt.Errorf("client: %s %s: %w in %.*q", r.method, req.URL.Redacted(), err, maxQuoted, body)
		}
	}
	return false, nil
}

// newRequest makes the HTTP request of an attempt.
func (c *Client) newRequest(ctx context.Context, base *url.URL, r *request, payload []byte, index uint64) (*http.Request, error) {
	query := url.Values{}
	maps.Copy(query, r.query)
	if c.strong && r.reads() {
		query.Set("consistency", "strong")
	}
	if c.dryRun && !r.reads() {
		query.Set("dry_run", "1")
	}
	target := base.String() + r.path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.requestID != "" && !strings.ContainsFunc(r.requestID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		req.Header.Set("Idempotency-Key", r.requestID) // balancers may repeat the call, too
	}
	if index > 0 {
		req.Header.Set("X-Commons-Min-Index", strconv.FormatUint(index, 10))
	}
	maps.Copy(req.Header, c.config.Header)
	maps.Copy(req.Header, r.header)
	key := c.kept.now().Key // or one in the body
	if key != "" || bytes.Contains(payload, []byte(`"recovery_key":`)) || bytes.Contains(payload, []byte(`"edit_key":`)) {
		addr, err := netip.ParseAddr(base.Hostname())
		local := base.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback()
		if base.Scheme == "http" && !c.config.KeyOverHTTP && !local {
			return nil, fmt.Errorf("client: the key is not sent to %s: %w", base.Redacted(), ErrKeyWithheld)
		}
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req, nil
}
