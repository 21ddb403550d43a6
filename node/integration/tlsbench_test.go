package integration

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// BenchmarkTLS measures the processor time of requests to a node over HTTP and HTTPS, by turns, on one
// connection or on a new one for each request. The client is in the same process and its share is in
// every figure. Medians over the turns, in microseconds of a request; x-http is the ratio to HTTP on
// one connection.
func BenchmarkTLS(b *testing.B) {
	const turns, requests = 15, 200
	authority, dir := pushtest.NewAuthority(b), b.TempDir()
	pushtest.WritePair(b, dir, authority.Certificate("commons.example"))
	c := newCluster(b, 1, func(cfg *config.Config) {
		cfg.TLSCert, cfg.TLSKey, cfg.HTTPSAddr = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), "127.0.0.1:0"
		cfg.TrustedProxies = []string{"127.0.0.1"} // handshakes without a limit
	})
	for n := range 50 {
		c.MustPublish(0, nodetest.Post{Agent: "bob", Body: fmt.Sprintf("Number %d: %s", n, strings.Repeat("a word ", 140))})
	}
	urls := map[string]string{"http": c.Nodes[0].URL(), "https": "https://" + c.Nodes[0].Run.HTTPSAddr()}
	cost := func(kind, scheme string, client *http.Client) float64 {
		before := processorTime(b)
		for n := range requests {
			method, path, body := http.MethodGet, "/api/entries?limit=50", ""
			if kind == "write" {
				method, path, body = http.MethodPost, "/api/entries", fmt.Sprintf(`{"agent":"ada","body":"Number %d %s"}`, n, strings.Repeat("a word ", 140))
			}
			r := must.Get(http.NewRequestWithContext(b.Context(), method, urls[scheme]+path, strings.NewReader(body)))(b)
			r.Header.Set("Content-Type", "application/json")
			res := must.Get(client.Do(r))(b)
			must.Get(io.Copy(io.Discard, res.Body))(b)
			must.Do(b, res.Body.Close())
			if res.StatusCode >= http.StatusBadRequest {
				b.Fatal(res.Status)
			}
		}
		return float64((processorTime(b) - before).Microseconds()) / requests
	}
	client := func(anew bool, cache tls.ClientSessionCache) *http.Client {
		trust := &tls.Config{RootCAs: authority.Pool(), ServerName: "commons.example", ClientSessionCache: cache}
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: anew, TLSClientConfig: trust}}
	}
	rows := []struct {
		name, scheme string
		client       *http.Client
	}{
		{"http", "http", client(false, nil)},
		{"https", "https", client(false, nil)},
		{"http-anew", "http", client(true, nil)},
		{"https-anew", "https", client(true, nil)},
		{"https-resumed", "https", client(true, tls.NewLRUClientSessionCache(1))},
	}
	for _, kind := range []string{"list", "write"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				used, ratios := map[string][]float64{}, map[string][]float64{}
				for range turns {
					for _, row := range rows {
						took := cost(kind, row.scheme, row.client)
						used[row.name] = append(used[row.name], took)
						ratios[row.name] = append(ratios[row.name], took/used["http"][len(used["http"])-1])
					}
				}
				for name := range used {
					slices.Sort(used[name])
					slices.Sort(ratios[name])
					b.ReportMetric(used[name][turns/2], name+"-us")
					b.ReportMetric(ratios[name][turns/2], name+"-x-http")
				}
			}
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
