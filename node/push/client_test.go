package push_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/push"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

const host = "hook.example"

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// ground is the environment of a test: an authority, names, and one receiver.
type ground struct {
	authority *pushtest.Authority
	names     *pushtest.Names
	receiver  *pushtest.Receiver
	client    *push.Client
	url       string
}

// newGround starts a receiver that is reachable as hook.example.
func newGround(t *testing.T, answer func(w http.ResponseWriter, got pushtest.Received, r *http.Request), change ...func(*ground, *push.Config)) *ground {
	t.Helper()
	g := &ground{authority: pushtest.NewAuthority(t), names: pushtest.NewNames(t)}
	g.names.Set(host, "127.0.0.1")
	g.receiver = pushtest.NewReceiver(t, g.authority.Certificate(host), answer)
	cfg := push.Config{
		Resolver: g.names.Resolver(), Port: g.receiver.Port(), Roots: g.authority.Pool(), AllowNets: loopback,
		UserAgent: "Commons/test",
	}
	for _, c := range change {
		c(g, &cfg)
	}
	g.client = push.NewClient(cfg)
	g.url = fmt.Sprintf("https://%s:%d/hook", host, g.receiver.Port())
	return g
}

func (g *ground) send(t *testing.T, url string) push.Answer {
	t.Helper()
	return g.client.Send(t.Context(), url, push.Message{ID: "msg_1", Body: []byte(`{"type":"common.reply"}`)})
}

func status(code int) func(http.ResponseWriter, pushtest.Received, *http.Request) {
	return func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) { w.WriteHeader(code) }
}

func TestSend(t *testing.T) {
	secret := []byte("a secret of 24 bytes or more")
	at := time.Unix(1_767_225_600, 0)
	g := newGround(t, status(http.StatusAccepted), func(_ *ground, c *push.Config) { c.Now = func() time.Time { return at } })
	body := []byte(`{"type":"common.mention"}`)
	a := g.client.Send(t.Context(), g.url, push.Message{ID: "msg_7", Body: body, Secret: secret})
	if a.Reason != "" || a.Gone || a.Took <= 0 {
		t.Fatalf("answer %+v", a)
	}
	got := g.receiver.Received()
	must.Equal(t, len(got), 1, "requests")
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Commons/test",
		push.HeaderID: "msg_7", push.HeaderTimestamp: "1767225600",
	} {
		check.Equal(t, got[0].Header.Get(name), want, "%s", name)
	}
	if !bytes.Equal(got[0].Body, body) || got[0].Path != "/hook" {
		t.Errorf("got %s with %q", got[0].Path, got[0].Body)
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "msg_7.1767225600.%s", body)
	check.Equal(t, got[0].Header.Get(push.HeaderSignature), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), "signature")
}

// raw answers with bytes.
func raw(answer string) func(http.ResponseWriter, pushtest.Received, *http.Request) {
	return func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte(answer))
		_ = conn.Close()
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		answer     func(w http.ResponseWriter, got pushtest.Received, r *http.Request)
		reason     push.Reason
		gone       bool
		retryAfter time.Duration
	}{
		{"created", status(http.StatusCreated), "", false, 0},
		{"server error", status(http.StatusInternalServerError), "status_500", false, 0},
		{"gone", status(http.StatusGone), "status_410", true, 0},
		{"redirect", func(w http.ResponseWriter, _ pushtest.Received, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, push.Redirected, false, 0},
		{"asks for a pause", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "status_429", false, 90 * time.Second},
		{"asks for a long pause", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(1000*time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "status_503", false, push.MaxRetryAfter},
		{"many headers", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("X-Policy", strings.Repeat("a", 60<<10))
			w.WriteHeader(http.StatusOK)
		}, "", false, 0},
		{"too many headers", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("X-Policy", strings.Repeat("a", 65<<10))
			w.WriteHeader(http.StatusOK)
		}, push.BrokenAnswer, false, 0},
		{"a strange status", raw("HTTP/1.1 007 Bond\r\nContent-Length: 0\r\n\r\n"), "status_007", false, 0},
		{"asks for a pause without end", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", strings.Repeat("9", 30))
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "status_503", false, 6 * time.Hour},
		{"asks for a month", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", "2592000")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "status_503", false, 6 * time.Hour},
		{"asks for what has no end in a clock", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", "9223372037")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "status_503", false, 6 * time.Hour},
		{"asks in words", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("Retry-After", "soon")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "status_503", false, 0},
		{"a huge body", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			_, _ = io.CopyN(w, endless{}, 64<<20)
		}, "", false, 0},
		{"huge headers", func(w http.ResponseWriter, _ pushtest.Received, _ *http.Request) {
			w.Header().Set("X-Filler", strings.Repeat("x", 64<<10))
		}, push.BrokenAnswer, false, 0},
		{"hangs up", func(http.ResponseWriter, pushtest.Received, *http.Request) { panic(http.ErrAbortHandler) }, push.BrokenAnswer, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGround(t, tt.answer)
			a := g.send(t, g.url)
			if a.Reason != tt.reason || a.Gone != tt.gone || a.RetryAfter != tt.retryAfter {
				t.Errorf("answer %+v, want reason %q, gone %v, pause %v", a, tt.reason, tt.gone, tt.retryAfter)
			}
			check.Equal(t, len(g.receiver.Received()), 1, "requests")
		})
	}
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestTimeouts(t *testing.T) {
	hang := func(_ http.ResponseWriter, _ pushtest.Received, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter, got pushtest.Received, r *http.Request)
		change func(g *ground)
		within time.Duration
		reason push.Reason
	}{
		{"hanging", hang, nil, 300 * time.Millisecond, push.TimedOut},
		{"no name server", hang, func(g *ground) { g.names.Silence() }, 300 * time.Millisecond, push.TimedOut},
		{"drop by drop", func(w http.ResponseWriter, _ pushtest.Received, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		}, nil, 4 * time.Second, ""}, // its status said that it has it; a busy machine needs time for that
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t, tt.answer, func(_ *ground, cfg *push.Config) { cfg.Timeout = tt.within })
			if tt.change != nil {
				tt.change(g)
			}
			check.Equal(t, g.send(t, g.url).Reason, tt.reason, "reason")
		})
	}
}

func TestRejectedAddresses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		addrs []string
	}{
		{"loopback", []string{"127.0.0.1"}},
		{"private", []string{"10.1.2.3", "192.168.0.1"}},
		{"link local", []string{"169.254.169.254"}},
		{"shared", []string{"100.100.100.200"}},
		{"provider", []string{"168.63.129.16"}},
		{"unspecified", []string{"0.0.0.0"}},
		{"own", []string{"8.8.4.4"}},
		{"loopback, six", []string{"::1"}},
		{"mapped", []string{"::ffff:127.0.0.1"}},
		{"unique local", []string{"fd00:ec2::254"}},
		{"through a translator", []string{"64:ff9b::7f00:1"}},
		{"six to four", []string{"2002:7f00:1::1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGround(t, status(http.StatusOK), func(g *ground, c *push.Config) {
				g.names.Set(host, tt.addrs...)
				c.AllowNets = nil
				c.Own = func(a netip.Addr) bool { return a == netip.MustParseAddr("8.8.4.4") }
			})
			check.Equal(t, g.send(t, g.url).Reason, push.RejectedAddress, "answer")
			check.Equal(t, len(g.receiver.Received()), 0, "requests")
		})
	}
}

// TestNameThatChanges holds that the address that was checked is the one that is
// connected to, whatever the name leads to a moment later.
func TestNameThatChanges(t *testing.T) {
	g := newGround(t, status(http.StatusOK), func(g *ground, c *push.Config) {
		c.AllowNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		g.names.SetInTurn(host, []string{"127.0.0.1"}, []string{"127.0.0.2"}, []string{"127.0.0.1"})
	})
	for i, want := range []push.Reason{"", push.RejectedAddress, ""} {
		check.Equal(t, g.send(t, g.url).Reason, want, "attempt %d: answer", i)
		check.Equal(t, g.names.Asked(host), i+1, "questions in attempt %d", i)
	}
}

func TestRejections(t *testing.T) {
	g := newGround(t, status(http.StatusOK), func(g *ground, c *push.Config) {
		g.names.Set("other.example", "127.0.0.1")
		g.names.Set("deaf.example", "127.0.0.1")
		c.Check = func(u string) string {
			if strings.Contains(u, "forbidden") {
				return "is forbidden"
			}
			return ""
		}
	})
	port := g.receiver.Port()
	for url, want := range map[string]push.Reason{
		fmt.Sprintf("http://%s:%d/", host, port):            push.RejectedURL,
		fmt.Sprintf("https://user:word@%s:%d/", host, port): push.RejectedURL,
		fmt.Sprintf("https://%s:%d/forbidden", host, port):  push.RejectedURL,
		"https://%zz/": push.RejectedURL,
		fmt.Sprintf("https://%s:%d/", host, port^1):    push.RejectedAddress, // another port
		fmt.Sprintf("https://none.example:%d/", port):  push.NameNotFound,
		fmt.Sprintf("https://other.example:%d/", port): push.TLSFailed, // the certificate is another's
	} {
		check.Equal(t, g.send(t, url).Reason, want, "%s: answer", url)
	}
	check.Equal(t, len(g.receiver.Received()), 0, "requests")
}

func TestCertificates(t *testing.T) {
	stranger := pushtest.NewAuthority(t)
	g := newGround(t, status(http.StatusOK), func(_ *ground, c *push.Config) { c.Roots = stranger.Pool() })
	check.Equal(t, g.send(t, g.url).Reason, push.TLSFailed, "a certificate of an unknown authority: answer")
	g = newGround(t, status(http.StatusOK), func(_ *ground, c *push.Config) { c.Roots = nil })
	check.Equal(t, g.send(t, g.url).Reason, push.TLSFailed, "a certificate that the system does not know: answer")
}

func TestConnectFailed(t *testing.T) {
	g := newGround(t, status(http.StatusOK), func(g *ground, _ *push.Config) { g.names.Set(host, "127.9.9.9") })
	check.Equal(t, g.send(t, g.url).Reason, push.ConnectFailed, "answer")
}

// TestLocalhost reaches a receiver as somebody does who tries things out.
func TestLocalhost(t *testing.T) {
	g := newGround(t, status(http.StatusOK), func(g *ground, c *push.Config) {
		g.receiver = pushtest.NewReceiver(t, g.authority.Certificate("localhost"), status(http.StatusOK))
		c.Resolver, c.Port = nil, g.receiver.Port()
	})
	check.Equal(t, g.send(t, fmt.Sprintf("https://localhost:%d/", g.receiver.Port())).Reason, "", "answer")
}

func TestNoProxy(t *testing.T) {
	check.Equal(t, push.NewClient(push.Config{}).HasProxy(), false, "the environment may lead messages elsewhere")
}

func TestSentences(t *testing.T) {
	for reason, want := range map[push.Reason]string{
		push.NameNotFound: "has a name that has no address",
		"status_503":      "answered with the status 503",
		"status_007":      "answered with the status 007",
	} {
		check.Equal(t, reason.Sentence(), want, "%s", reason)
	}
}
