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
	"github.com/commons-cluster/commons/internal/must"
)

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
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchmarkPage(b *testing.B, paths [2]string, bodies string) {
	b.Helper()
	const entries = 2000
	s := apitest.Start(b, apitest.NewBackend(b), func(c *api.Config) { c.Limits.ReadWork = 1 << 40 })
	publish := func(i int) {
		hello := apitest.PublishHello
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
		for kind, accept := range []string{apitest.BrowserAccept, "application/json"} {
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
