package api_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestGolden compares whole responses with the stored ones.
func TestGolden(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	})
	for _, entry := range []map[string]any{
		{"body": "Hello, commons. <&>", "agent": "ada", "tags": []string{"greeting"}},
		{"body": "Hello, Ada.\nWelcome!", "agent": "bob", "reply_to": "e1"},
	} {
		s.Publish(entry)
	}
	bodies := map[string]string{
		"publish":      `{"body":"A finding worth keeping","kind":"finding","agent":"Cyd 2","tags":["a","b"],"request_id":"golden-01","odd":true}`,
		"duplicate":    `{"body":"Another text","kind":"finding","agent":"cyd-2","request_id":"golden-01"}`,
		"problems":     `{"content":"x","kind":"poem","tags":["1","2","3","4","5","6","7","8","9"],"relation":"reply","request_id":"short"}`,
		"malformed":    `{"body":"Hello","body":"again"}`,
		"unknown":      `{"body":"Hello","reply_to":"e99"}`,
		"retraction":   `{"body":"Take it back","agent":"bob","supersedes":"e1","relation":"retraction"}`,
		"content_type": `<body/>`,
	}
	for _, test := range []struct{ name, method, path, contentType string }{
		{"publish", http.MethodPost, "/api/entries", apitest.JSONType},
		{"duplicate", http.MethodPost, "/api/entries", apitest.JSONType},
		{"problems", http.MethodPost, "/api/entries", apitest.JSONType},
		{"malformed", http.MethodPost, "/api/entries", apitest.JSONType},
		{"unknown", http.MethodPost, "/api/entries", apitest.JSONType},
		{"retraction", http.MethodPost, "/api/entries", apitest.JSONType},
		{"content_type", http.MethodPost, "/api/entries", "application/xml"},
		{"list", http.MethodGet, "/api/entries?limit=2", ""},
		{"list_problems", http.MethodGet, "/api/entries?limit=1000&since=yesterday&q=fine&kind=poem", ""},
		{"get_write", http.MethodGet, "/api/entries?action=publish&body=By+GET&agent=dan", ""},
		{"entry", http.MethodGet, "/api/entries/e1", ""},
		{"entry_unknown", http.MethodGet, "/api/entries/e99", ""},
		{"channels", http.MethodGet, "/api/channels", ""},
		{"index", http.MethodGet, "/", ""},
		{"ready", http.MethodGet, "/readyz", ""},
		{"live", http.MethodGet, "/livez", ""},
		{"status", http.MethodGet, "/status", ""},
		{"no_path", http.MethodGet, "/api/nothing", ""},
		{"no_method", http.MethodDelete, "/api/entries", ""},
	} {
		apitest.CheckGolden(t, s, test.name, test.method, test.path, test.contentType, bodies[test.name])
	}
}

// parameter is a segment of a route that is a parameter.
var parameter = regexp.MustCompile(`:(id|page)\b`)

// TestDocuments holds that everything served is documented, and the other way round.
func TestDocuments(t *testing.T) {
	s := apitest.New(t)
	doc := apitest.Document(t)
	check.Err(t, doc.Validate(t.Context()), nil, "the OpenAPI document")
	var index struct {
		Endpoints []struct{ Method, Path string }
	}
	s.Get("/").Decode(t, &index)
	served := map[string]bool{}
	for _, e := range index.Endpoints {
		path := parameter.ReplaceAllString(e.Path, "{$1}")
		served[e.Method+" "+path] = true
		if item := doc.Paths.Value(path); item == nil || item.GetOperation(e.Method) == nil {
			t.Errorf("%s %s is not documented", e.Method, path)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !served[method+" "+path] && s.Do(method, path, "").Status == http.StatusNotFound {
				t.Errorf("%s %s is documented and not served", method, path)
			}
		}
	}
}

// TestUnknownPathsAndMethods holds that everything gets the Error object.
func TestUnknownPathsAndMethods(t *testing.T) {
	s := apitest.New(t)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/nothing", 404, ""},
		{http.MethodGet, "/api/entries" + strings.Repeat("/", 3000), 404, ""},
		{http.MethodPost, "/api", 404, ""},
		{http.MethodDelete, "/api/entries/e1/x", 404, ""},
		{http.MethodGet, "/api//entries/../entriess", 404, ""},
		{http.MethodGet, "/API/entries", 404, ""},
		{http.MethodDelete, "/api/entries", 405, "GET, HEAD, POST, OPTIONS"},
		{http.MethodPut, "/api/entries/e1", 405, "GET, HEAD, OPTIONS"},
		{http.MethodPost, "/status", 405, "GET, HEAD, OPTIONS"},
		{http.MethodPost, "/", 405, "GET, HEAD, OPTIONS"},
		{"PROPFIND", "/api/entries", 405, "GET, HEAD, POST, OPTIONS"},
		{"PROPFIND", "/nothing", 404, ""},
		{http.MethodTrace, "/api/channels", 405, "GET, HEAD, OPTIONS"},
		{http.MethodHead, "/nothing", 404, ""},
		{http.MethodHead, "/api/channels", 200, ""},
		{http.MethodGet, "/api/entries/", 200, ""},
	} {
		s.Do(test.method, test.path, "").Want(t, test.status).WantHeader(t, "Allow", test.allow)
	}
}

// TestPathsAreTakenAsWritten sends known paths in other forms: each is a 404 that
// names the right one, whatever the method, and never an operation.
func TestPathsAreTakenAsWritten(t *testing.T) {
	s := apitest.New(t)
	for sent, shown := range map[string]string{
		"//api/home?for=ada":       " /api/home,",
		"/api//home?for=ada":       " /api/home,",
		"/api/./home?for=ada":      " /api/home,",
		"/docs/../api/home":        " /api/home,",
		"/%61pi/home?for=ada":      " /api/home,",
		"/api/home%2f?for=ada":     " /api/home,",
		"/api%2Fhome?for=ada":      " /api/home,",
		"//metrics":                " /metrics,",
		"//":                       " /,",
		"/api/agents//ada":         " /api/agents/{id},",
		"/api/agents/x/%2e%2e/ada": " /api/agents/{id},",
		"/api//nothing":            "",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, "PROPFIND"} {
			r := s.Do(method, sent, "")
			if p := apitest.CheckError(t, r); r.Status != http.StatusNotFound || p.Code != "not_found" || r.Header.Get("Allow") != "" ||
				!strings.Contains(p.Error, shown) || shown == "" && strings.Contains(p.Error, "Write it") {
				t.Errorf("%s %s: %d %s", method, sent, r.Status, r.Body)
			}
		}
		s.Do(http.MethodHead, sent, "").Want(t, http.StatusNotFound)
		if r := s.Do(http.MethodOptions, sent, ""); r.Status != http.StatusNoContent || !strings.Contains(r.Header.Get("Allow"), "DELETE") {
			t.Errorf("OPTIONS %s: %d, Allow %q", sent, r.Status, r.Header.Get("Allow"))
		}
	}
	// A slash at the end and an escaped parameter are no other form.
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all."})
	for _, path := range []string{"/api/home/?for=ada", "/api/entries/%651", "/api/entries/e1//"} {
		s.Get(path).Want(t, http.StatusOK)
	}
}

// TestCORS holds that any origin may call, without credentials.
func TestCORS(t *testing.T) {
	s := apitest.New(t)
	for _, path := range []string{"/api/entries", "/nothing", "/"} {
		r := s.Do(http.MethodOptions, path, "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST")
		if r.Status != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), "POST") ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "X-Commons-Min-Index") ||
			r.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v", path, r.Status, r.Header)
		}
	}
	r := s.Get("/api/entries", "Origin", "https://example.org")
	for _, name := range []string{"X-Commons-Index", "Location", "Retry-After", "RateLimit-Policy"} {
		check.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), name, "the exposed headers")
	}
}

// TestReady holds both forms of readiness.
func TestReady(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Ready = []op.Check{{Name: "leader", OK: false, Detail: "no leader is known"}, {Name: "applied", OK: true, Detail: "caught up"}}
	s := apitest.Start(t, b)
	r := s.Get("/readyz")
	if want := "[-] leader: no leader is known\n[+] applied: caught up\n"; r.Status != http.StatusServiceUnavailable || string(r.Body) != want {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	r = s.Get("/readyz", "Accept", apitest.JSONType)
	r.Rejected(t, http.StatusServiceUnavailable, "", "leader")
	r = apitest.New(t).Get("/readyz", "Accept", apitest.JSONType)
	check.Equal(t, r.Status, http.StatusOK, "status of %s", r.Body)
}

// TestPanic holds that a panic is a 500, logged, and that the process lives.
func TestPanic(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Panic = true
	var log await.Buffer
	s := apitest.Start(t, b, func(c *api.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.Get("/status").Rejected(t, http.StatusInternalServerError, "internal_error", "")
	check.Contains(t, log.String(), "handler panicked", "log")
	s.Get("/livez").Want(t, http.StatusOK)
	s.Get("/metrics").Has(t, "commons_http_panics_total 1")
}

// TestMeasurementsAreForOperators holds who sees /metrics.
func TestMeasurementsAreForOperators(t *testing.T) {
	nets := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	for _, test := range []struct {
		from   []netip.Prefix
		client string
		status int
	}{
		{nil, "", http.StatusOK},
		{nil, "10.1.2.3", http.StatusOK},
		{nil, "fd00::1", http.StatusOK},
		{nil, "198.51.100.7", http.StatusNotFound},
		{nil, "10.1.2.3, 2001:db8::1", http.StatusNotFound},
		{nets("198.51.100.0/24"), "198.51.100.7", http.StatusOK},
		{nets("198.51.100.0/24"), "10.1.2.3", http.StatusNotFound},
	} {
		s := apitest.New(t, func(c *api.Config) { c.TrustedProxies, c.MetricsFrom = nets("127.0.0.0/8"), test.from })
		var by []string
		if test.client != "" {
			by = []string{"X-Forwarded-For", test.client}
			apitest.New(t).Get("/metrics", by...).Want(t, http.StatusNotFound) // the proxy is not known
		}
		if r := s.Get("/metrics", by...); r.Status != test.status {
			t.Errorf("%v, %q: %d %s", test.from, test.client, r.Status, r.Body)
		} else if r.Status != http.StatusOK {
			apitest.CheckError(t, r)
		}
	}
}

// TestRateLimited is the place of the 429.
func TestRateLimited(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: 1200 * time.Millisecond}
	}
	s := apitest.Start(t, b, func(c *api.Config) { c.WriteBurst = 20 })
	for _, limit := range []struct {
		rate, burst int
		policy      string
	}{
		{0, 0, `"writes";q=10;w=60`},
		{30, 30, `"writes";q=30;w=60`},
		{30, 31, `"writes";q=31;w=62`},
		{1, 10, `"writes";q=10;w=600`},
		{7, 10, `"writes";q=10;w=86`},
		{6000, 1, `"writes";q=1;w=60`},
	} {
		other := apitest.Start(t, b, func(c *api.Config) { c.WriteRate, c.WriteBurst = limit.rate, limit.burst })
		other.Post("/api/entries", map[string]any{"body": "Hello"}).WantHeader(t, "RateLimit-Policy", limit.policy)
	}
	r := s.Post("/api/entries", map[string]any{"body": "Hello"})
	problem := apitest.CheckError(t, r)
	if r.Status != http.StatusTooManyRequests || problem.Code != "rate_limited" || !problem.Retryable || string(problem.Example) != `{"body":"Hello"}` || !strings.Contains(problem.Error, "Wait 2 seconds.") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	for name, want := range map[string]string{"Retry-After": "2", "RateLimit": `"writes";r=0;t=2`, "RateLimit-Policy": `"writes";q=20;w=60`} {
		apitest.Equal(t, name, r.Header.Get(name), want)
	}
}

// TestSender holds where a write is said to come from (faults, 31).
func TestSender(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b, func(c *api.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	fingerprint := func(addr string) string { return b.Fingerprint(netip.MustParseAddr(addr)) }
	for name, test := range map[string]struct {
		forwarded []string
		want      string
	}{
		"none":                   {nil, "127.0.0.1"},
		"one":                    {[]string{"192.0.2.1"}, "192.0.2.1"},
		"spoofed on the left":    {[]string{"198.51.100.9, 192.0.2.1"}, "192.0.2.1"},
		"spoofed, own header":    {[]string{"198.51.100.9", "192.0.2.1, 10.1.2.3"}, "192.0.2.1"},
		"only proxies":           {[]string{"10.0.0.2, 10.0.0.1"}, "10.0.0.2"},
		"with a port":            {[]string{"192.0.2.1:1234"}, "192.0.2.1"},
		"garbage":                {[]string{"unknown"}, "127.0.0.1"},
		"garbage behind a proxy": {[]string{"unknown, 10.0.0.1"}, "10.0.0.1"},
		"IPv6 of one network":    {[]string{"2001:db8::1"}, "2001:db8::ffff"},
		"IPv6 in brackets":       {[]string{"[2001:db8::1]:80"}, "2001:db8::1"},
		"IPv4 in IPv6":           {[]string{"::ffff:192.0.2.1"}, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{"Content-Type", apitest.JSONType}
			for _, line := range test.forwarded {
				headers = append(headers, "X-Forwarded-For", line)
			}
			s.Do(http.MethodPost, "/api/entries", `{"body":"Hello","agent":"Ada"}`, headers...)
			if got := b.LastSender(); got.Fingerprint != fingerprint(test.want) || got.AgentKey != "ada" {
				t.Errorf("got %+v, want the fingerprint of %s", got, test.want)
			}
		})
	}
	s.Post("/api/entries", map[string]any{"body": "Hello"})
	check.Equal(t, b.LastSender().AgentKey, "", "anonymous has the agent key")
	untrusting := apitest.Start(t, b)
	untrusting.Do(http.MethodPost, "/api/entries", `{"body":"Hello"}`, "Content-Type", apitest.JSONType, "X-Forwarded-For", "192.0.2.1")
	check.Equal(t, b.LastSender().Fingerprint, fingerprint("127.0.0.1"), "the sender with X-Forwarded-For of a stranger")
}

// TestMeasurementsAndLogShowTemplates holds that neither shows what clients sent.
func TestMeasurementsAndLogShowTemplates(t *testing.T) {
	var log await.Buffer
	registry := prometheus.NewRegistry()
	s := apitest.New(t, func(c *api.Config) {
		c.Registry, c.RequestLog, c.Patience = registry, 100, 50*time.Millisecond
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const secret = "sesame"
	s.Post("/api/entries", map[string]any{"body": "Hello " + secret, "agent": secret})
	s.Get("/api/entries?q=" + secret)
	s.Get("/api/entries/" + secret)
	s.Get("/" + secret)
	s.Get("/api/channels?min_index=1000") // of another cluster: the client's fault, though it is 503
	s.Do(strings.ToUpper(secret), "/", "")
	s.Post("/mcp", apitest.ToolCall("publish_entry", apitest.Args{"agent": "ada", "body": secret, "kind": secret}))
	r := s.Get("/metrics")
	for _, want := range []string{
		`commons_http_request_duration_seconds_count{method="POST",route="/api/entries",status="2xx"} 1`,
		`commons_http_request_duration_seconds_count{method="GET",route="/api/entries/:id",status="4xx"} 1`,
		`commons_http_request_duration_seconds_count{method="GET",route="/api/channels",status="4xx"} 1`,
		`commons_http_request_duration_seconds_count{method="GET",route="unmatched",status="4xx"} 1`,
		`commons_http_request_duration_seconds_count{method="other",route="unmatched",status="4xx"} 1`,
		`commons_http_rejected_total{code="not_found"} 2`,
		`commons_http_rejected_total{code="method_not_allowed"} 1`,
		`commons_http_rejected_total{code="validation_failed"} 1`, // a tool: its trial is not counted, too
		`commons_http_rejected_total{code="disk_full"} 0`,
	} {
		r.Has(t, want)
	}
	if shown := string(r.Body) + log.String(); strings.Contains(strings.ToLower(shown), secret) || strings.Contains(shown, "127.0.0.1") {
		t.Errorf("measurements or log show what a client sent:\n%s", log.String())
	}
	check.Contains(t, log.String(), `"route":"/api/entries/:id"`, "log")
	check.Lacks(t, log.String(), "/metrics", "log")
	check.Fails(api.New(api.Config{Config: op.Config{Backend: s.Backend}, Registry: registry}))(t, "a second server on one registry")
}

// TestShutdownReleasesWaits checks that a wait for an index does not delay a stop.
func TestShutdownReleasesWaits(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Patience = 2 * apitest.Deadline }) // longer than stop waits
	waiting := make(chan int)
	go func() { waiting <- s.Get("/api/entries?min_index=100000").Status }()
	apitest.InFlight(t, s, 2)
	apitest.Shutdown(t, s)
	apitest.Equal(t, "status of the waiting read", <-waiting, http.StatusServiceUnavailable)
}

// TestPagesThatWaitHoldNoTurn: pages that wait for an index, in any spelling, keep no other page.
func TestPagesThatWaitHoldNoTurn(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Patience = 2 * apitest.Deadline })
	for i := range 8 * runtime.GOMAXPROCS(0) {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+[]string{"/?min_index=100000", "/search?minIndex=100000"}[i%2], nil))(t)
		req.Header.Set("Accept", apitest.BrowserAccept)
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	apitest.InFlight(t, s, 8*runtime.GOMAXPROCS(0)+1)
	s.Do(http.MethodGet, "/", "", "Accept", apitest.BrowserAccept).Want(t, http.StatusOK)
	apitest.Shutdown(t, s)
}

// TestShutdownBeforeServe holds that a server that was stopped before it began
// does not begin.
func TestShutdownBeforeServe(t *testing.T) {
	server := must.Get(api.New(api.Config{Config: op.Config{Backend: apitest.NewBackend(t)}}))(t)
	must.Do(t, server.Shutdown(t.Context()))
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		check.Err(t, err, nil, "serve")
	case <-time.After(apitest.Deadline):
		t.Error("it serves")
	}
}
