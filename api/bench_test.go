package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/state"
)

// BenchmarkHTTP measures whole requests over loopback, client included.
func BenchmarkHTTP(b *testing.B) {
	s := apitest.Start(b, apitest.NewBackend(b), unboundedRejections)
	for i := range 500 {
		hello := publishHello
		hello.Agent = fmt.Sprint("bench-", i%16)
		hello.AgentKey = hello.Agent
		hello.Body = fmt.Sprint(i, strings.Repeat(" lorem ipsum", 85))
		s.Backend.Apply(&hello)
	}
	client := &fasthttp.HostClient{Addr: s.Addr, MaxConns: 512}
	for name, test := range map[string]struct {
		method, path, body string
		status             int
	}{
		"list50":       {http.MethodGet, "/api/entries", "", http.StatusOK},
		"home":         {http.MethodGet, "/api/home?for=bench-1", "", http.StatusOK},
		"entry":        {http.MethodGet, "/api/entries/e1", "", http.StatusOK},
		"publish":      {http.MethodPost, "/api/entries", `{"agent":"ada","body":"Hello, commons. This is a text of some length.","tags":["a","b"]}`, http.StatusCreated},
		"tool publish": {http.MethodPost, "/mcp", toolCall("publish_message", `{"agent":"ada","body":"Hello, commons. This is a text of some length.","tags":["a","b"]}`), http.StatusOK},
		"tool list50":  {http.MethodPost, "/mcp", toolCall("read_entries", `{}`), http.StatusOK},
		"rejected":     {http.MethodPost, "/api/entries", `{"agent":"ada","body":"x","tags":["a","b"]}`, http.StatusUnprocessableEntity},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				req.SetRequestURI(s.URL + test.path)
				req.Header.SetMethod(test.method)
				req.Header.SetContentType(jsonType)
				req.SetBodyString(test.body)
				for pb.Next() {
					if err := client.Do(req, resp); err != nil || resp.StatusCode() != test.status {
						b.Errorf("%d %s %v", resp.StatusCode(), resp.Body(), err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkLongAfterShort measures lists of 66 KB among many short answers, which are not
// in the time: by these the pool of buffers learns its length.
func BenchmarkLongAfterShort(b *testing.B) {
	s := apitest.Start(b, apitest.NewBackend(b))
	for i := range 50 {
		hello := publishHello
		hello.Body = fmt.Sprint(i, strings.Repeat(" lorem ipsum", 85))
		s.Backend.Apply(&hello)
	}
	client := &fasthttp.HostClient{Addr: s.Addr, MaxConns: 1}
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	get := func(path string) {
		req.SetRequestURI(s.URL + path)
		if err := client.Do(req, resp); err != nil || resp.StatusCode() != http.StatusOK {
			b.Fatalf("%d %s %v", resp.StatusCode(), resp.Body(), err)
		}
	}
	for range 50_000 { // more than the pool looks at to learn a length
		get("/api/entries/e1")
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for range 20 {
			get("/api/entries/e1")
		}
		b.StartTimer()
		get("/api/entries")
	}
}

// BenchmarkPages measures pages that are not cached against the calls whose
// answers they show, by turns and on one connection: the medians, in microseconds, and that of
// the ratios, with the ratio of the CPU time of client and server together. No body is rendered
// twice in "first", and all were before in "again". In "written", an entry is published before
// each page.
func BenchmarkPages(b *testing.B) {
	for _, bodies := range []string{"first", "again", "written"} {
		for name, paths := range map[string][2]string{
			"front":   {"/", "/api/threads?limit=30"},
			"channel": {"/c/general", "/api/entries?channel=general&limit=30"},
			"entry":   {"/e/%s", "/api/entries/%s"},
			"search":  {"/search?q=lorem", "/api/entries?q=lorem&limit=30"},
		} {
			b.Run(name+"/"+bodies, func(b *testing.B) { benchmarkPage(b, paths, bodies) })
		}
	}
}

// usedCPU returns the processor time of this process.
func usedCPU(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchmarkPage(b *testing.B, paths [2]string, bodies string) {
	b.Helper()
	const entries = 2000
	s := apitest.Start(b, apitest.NewBackend(b), func(c *api.Config) { c.Limits.ReadWork = 1 << 40 })
	publish := func(i int) {
		hello := publishHello
		hello.Title, hello.Body = fmt.Sprint("Measured ", i), fmt.Sprint(i, strings.Repeat(" lorem *ipsum*", 20), "\n\n- one\n- two\n\n", strings.Repeat(" `dolor` sit", 20))
		s.Backend.Apply(&hello)
	}
	for i := range entries {
		publish(i)
	}
	client := &fasthttp.HostClient{Addr: s.Addr, MaxConns: 1}
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	var took [2][]time.Duration
	var cpu [2]time.Duration
	for i := range max(b.N, 20) {
		for kind, accept := range []string{browserAccept, "application/json"} {
			seq := uint64(1)
			if bodies == "first" {
				seq += uint64(i % entries)
			}
			req.SetRequestURI(s.URL + strings.ReplaceAll(paths[kind], "%s", state.FormatID(state.TypeEntry, seq)))
			req.UseHostHeader = true
			req.Header.SetHost("h.example")
			if bodies != "written" { // so that no page is kept
				req.Header.SetHost(fmt.Sprintf("h%d.example", i))
			}
			req.Header.Set("Accept", accept)
			if bodies == "written" && kind == 0 {
				publish(entries + i)
			}
			begun, used := time.Now(), usedCPU(b)
			if err := client.Do(req, resp); err != nil || resp.StatusCode() != http.StatusOK {
				b.Fatalf("%d %s %v", resp.StatusCode(), resp.Body(), err)
			}
			took[kind] = append(took[kind], time.Since(begun))
			cpu[kind] += usedCPU(b) - used
		}
	}
	ratios := make([]float64, len(took[0]))
	for i := range ratios {
		ratios[i] = float64(took[0][i]) / float64(took[1][i])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "page/json")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "page/json-cpu")
	for kind, name := range []string{"page-us", "json-us"} {
		slices.Sort(took[kind])
		b.ReportMetric(float64(took[kind][len(took[kind])/2].Microseconds()), name)
	}
}
