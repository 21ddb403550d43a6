package api_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// startTLS serves a server over TLS, too. It returns the address, and the configuration of
// clients.
func startTLS(t *testing.T, s *apitest.Server) (addr string, trusting *tls.Config) {
	t.Helper()
	made := httptest.NewTLSServer(nil)
	t.Cleanup(made.Close)
	ln := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	go func() {
		_ = s.API.ServeTLS(ln, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &made.TLS.Certificates[0], nil })
	}()
	pool := x509.NewCertPool()
	pool.AddCert(made.Certificate())
	return ln.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "example.com"}
}

// talkTLS opens a connection to talk over.
func talkTLS(t *testing.T, addr string, config *tls.Config) *talker {
	t.Helper()
	conn := must.Get((&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(apitest.Deadline)))
	return &talker{t, conn, bufio.NewReader(conn)}
}

// Everything that is served in clear is served over TLS 1.2 and 1.3, and with a resumed session.
func TestServeTLS(t *testing.T) {
	s := apitest.New(t)
	addr, trusting := startTLS(t, s)
	trusting.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			config := trusting.Clone()
			config.MinVersion, config.MaxVersion = version, version
			config.NextProtos = []string{"h2", "http/1.1"}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			defer client.CloseIdleConnections()
			for range 2 {
				resp := must.Get(client.Get("https://" + addr + "/robots.txt"))(t)
				check.Equal(t, resp.TLS.Version, version, "version")
				_ = must.Get(io.ReadAll(resp.Body))(t)
				must.Do(t, resp.Body.Close())
				client.CloseIdleConnections()
			}
			body := fmt.Sprintf(`{"agent":"ada","body":"Over TLS %x"}`, version)
			resp := must.Get(client.Post("https://"+addr+"/api/entries", "application/json", strings.NewReader(body)))(t)
			answer := string(must.Get(io.ReadAll(resp.Body))(t))
			must.Do(t, resp.Body.Close())
			check.Equal(t, resp.StatusCode, http.StatusCreated, "status of %s", answer)

			long := must.Get(client.Get("https://" + addr + "/openapi.json"))(t)
			document := must.Get(io.ReadAll(long.Body))(t)
			must.Do(t, long.Body.Close())
			check.Equal(t, string(document), string(s.Get("/openapi.json").Body), "the document over TLS")

			resumed := talkTLS(t, addr, config)
			check.Equal(t, resumed.Conn.(*tls.Conn).ConnectionState().DidResume, true, "the session is resumed")
			resumed.say("GET /llms.txt HTTP/1.1\r\nHost: commons.example\r\n\r\n")
			resumed.read(nil).Want(t, http.StatusOK, "https://commons.example")
		})
	}
	old := trusting.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 //nolint:gosec // rejected, as it must be
	check.Fails((&tls.Dialer{Config: old}).DialContext(t.Context(), "tcp", addr))(t, "TLS 1.1 is served")
}

// A wait over TLS ends when its client leaves or sends its next request, and a stream sends.
func TestWaitsOverTLS(t *testing.T) {
	s := apitest.New(t)
	addr, trusting := startTLS(t, s)
	gone := talkTLS(t, addr, trusting)
	gone.say(waitingHome)
	busy := talkTLS(t, addr, trusting)
	busy.say(waitingHome)
	await.Eventually(t, "two wait", func() bool { return s.Backend.Watchers() == 2 })
	must.Do(t, gone.Close())
	await.Eventually(t, "one waits", func() bool { return s.Backend.Watchers() == 1 })
	busy.say("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	busy.read(nil).Want(t, http.StatusOK, `"forYou":[]`)
	busy.read(nil).Want(t, http.StatusOK, "ok\n")

	events := talkTLS(t, addr, trusting)
	events.say("GET /api/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
	resp := must.Get(http.ReadResponse(events.in, nil))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() && !strings.Contains(lines.Text(), text) {
		}
		check.Err(t, lines.Err(), nil, "the stream ended before it sent %s", text)
	}
	until("event: ping")
	apitest.PublishFor(t, s, "ada")
	until("ada")
}

// A broken handshake counts as no request.
func TestBrokenHandshake(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	addr, _ := startTLS(t, s)
	before := s.API.Requests()
	for _, sent := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x00\x02\x01\x02"} {
		conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", addr))(t)
		must.Do(t, conn.SetDeadline(time.Now().Add(apitest.Deadline)))
		must.Get(io.WriteString(conn, sent))(t)
		_, _ = io.ReadAll(conn)
		must.Do(t, conn.Close())
	}
	check.Equal(t, s.API.Requests(), before, "requests after broken handshakes")
}

// With a redirect, requests over plain HTTP are sent to the public URL, except those for health.
func TestRedirect(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.PublicURL, c.Redirect = "https://commons.example", true
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	addr, trusting := startTLS(t, s)
	location := func(method, path string, headers ...string) string {
		r := s.Send(s.Request(method, path, "", headers...))
		if r.Header.Get("Location") != "" {
			check.Equal(t, r.Status, http.StatusPermanentRedirect, "status of %s %s", method, path)
		}
		return r.Header.Get("Location")
	}
	for path, want := range map[string]string{
		"/api/entries?limit=1&q=a%20b": "https://commons.example/api/entries?limit=1&q=a%20b",
		"/":                            "https://commons.example/",
		"/no%2Fwhere":                  "https://commons.example/no%2Fwhere",
		"/livez":                       "",
		"/metrics":                     "",
	} {
		check.Equal(t, location(http.MethodGet, path), want, "GET %s", path)
	}
	check.Equal(t, location(http.MethodPost, "/api/entries"), "https://commons.example/api/entries", "POST")
	check.Equal(t, location(http.MethodGet, "/", "X-Forwarded-Proto", "https"), "", "from a proxy that terminates TLS")
	secure := talkTLS(t, addr, trusting)
	check.Equal(t, secure.ask("GET /api/entries HTTP/1.1\r\nHost: x\r\n\r\n"), http.StatusOK, "over TLS")
}
