package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
)

// TestMoreConnectionsThanDescriptors: clients that open more connections than the
// process may have do not end the node, nor keep it from writing.
func TestMoreConnectionsThanDescriptors(t *testing.T) {
	t.Parallel()
	p := startProgram(t, `ulimit -n 256; exec "$0" "$@"`, &syscall.SysProcAttr{Setsid: true}, nil)
	p.logs(`msg="open files and connections" limit=256 clients=128 state=43 others=85`)
	found := regexp.MustCompile(`msg=listening .*http=(\S+)`).FindStringSubmatch(p.log.String())
	if found == nil {
		t.Fatalf("where it listens is not logged:\n%s", p.log.String())
	}
	addr := found[1]
	early := &http.Client{Timeout: childPatience, Transport: &http.Transport{MaxConnsPerHost: 1}}
	must.Equal(t, get(t, early, "http://"+addr+"/livez"), http.StatusOK, "before the crowd: status")
	crowd := openMany(t, addr, 400)
	last := crowd[len(crowd)-1]
	must.Do(t, last.SetReadDeadline(time.Now().Add(childPatience)))
	must.Get(io.WriteString(last, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))(t)
	answer, err := io.ReadAll(last)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("one that came late: %q, %v\n%s", answer, err, p.log.String())
	}
	res, err := early.PostForm("http://"+addr+"/api/entries", url.Values{"agent": {"early"}, "body": {"written in a crowd"}})
	if err != nil {
		t.Fatalf("a client that was there before: %v\n%s", err, p.log.String())
	}
	_ = res.Body.Close() // its status is enough
	check.Equal(t, res.StatusCode, http.StatusCreated, "a client that was there before: status")
	for _, conn := range crowd {
		_ = conn.Close() // some are closed by the node
	}
	late := &http.Client{Timeout: childPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	await.Eventually(t, "ready after the crowd has gone", func() bool { return get(t, late, "http://"+addr+"/readyz") == http.StatusOK })
	p.signal(syscall.SIGTERM)
	p.ends()
}

// openMany opens connections and leaves them open.
func openMany(t *testing.T, addr string, n int) []net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), childPatience)
	defer cancel()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = must.Get((&net.Dialer{}).DialContext(ctx, "tcp", addr))(t)
		t.Cleanup(func() { _ = conns[i].Close() }) // the test closes them
	}
	return conns
}

func get(t *testing.T, client *http.Client, address string) (status int) {
	t.Helper()
	res, err := raw.Do(t.Context(), client, http.MethodGet, address, "")
	if err != nil {
		return 0
	}
	return res.Status
}
