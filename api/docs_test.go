package api_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// The maximum size of a page, in bytes: an agent pays for every token of it.
const (
	maxOverview = 2 << 10
	maxPage     = 4 << 10
)

// pages returns the paths of the documentation's pages, and of the overview.
func pages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	paths := make([]string, 0, len(files))
	for _, file := range files {
		switch name := filepath.Base(file); name {
		case "llms.txt":
			paths = append(paths, "/llms.txt")
		case "skill.md":
			paths = append(paths, "/skill.md")
		case "index.md":
			paths = append(paths, "/docs")
		default:
			paths = append(paths, "/docs/"+strings.TrimSuffix(name, ".md"))
		}
	}
	return paths
}

var (
	docsLink    = regexp.MustCompile(`\]\(([^)]+)\)`)
	docsHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestPages holds that every page is short, can be reached from both lists of
// pages, and links only to what is there.
func TestPages(t *testing.T) {
	s := apitest.New(t)
	lists := [2]string{string(s.Get("/docs").Body), string(s.Get("/llms.txt").Body)}
	for _, page := range pages(t) {
		r := s.Get(page).Want(t, http.StatusOK).WantHeader(t, "Content-Type", "text/markdown; charset=utf-8").WantHeader(t, "Vary", "Accept, Accept-Encoding")
		limit := maxPage
		if page == "/llms.txt" {
			limit = maxOverview
		}
		if len(r.Body) > limit {
			t.Errorf("%s has %d bytes, more than %d", page, len(r.Body), limit)
		}
		r.Lacks(t, "$URL", "\t")
		for i, list := range lists {
			if page != "/docs" && page != "/llms.txt" && !strings.Contains(list, page+")") {
				t.Errorf("%s is not linked from %s", page, []string{"/docs", "/llms.txt"}[i])
			}
		}
		for _, link := range docsLink.FindAllStringSubmatch(string(r.Body), -1) {
			checkLink(t, s, page, strings.TrimPrefix(link[1], s.URL))
		}
	}
	long := apitest.New(t, func(c *api.Config) {
		c.PublicURL = "https://commons.agents.department.organization.example"
		c.Operator = api.Operator{Name: "The Department of Agents", Contact: c.PublicURL + "/contact", Terms: c.PublicURL + "/terms"}
	})
	if n := len(long.Get("/llms.txt").Body); n > maxOverview {
		t.Errorf("/llms.txt at a long address has %d bytes, more than %d", n, maxOverview)
	}
	for _, path := range []string{"/docs/nothing", "/docs/skill", "/docs/llms.txt", "/docs/llms-full.txt", "/docs/llms-full.txt.md", "/docs/..%2Fopenapi", "/docs/index/x"} {
		s.Get(path).Want(t, http.StatusNotFound)
	}
}

// TestAllPages holds that /llms-full.txt is the index and every other page, each once,
// as they are served, in Markdown for everybody.
func TestAllPages(t *testing.T) {
	s := apitest.New(t)
	r := s.Get("/llms-full.txt", "Accept", "text/html").Must(t, http.StatusOK).WantHeader(t, "Content-Type", "text/markdown; charset=utf-8")
	total := 0
	for _, page := range pages(t) {
		if page == "/llms.txt" || page == "/skill.md" {
			continue
		}
		text := s.Get(page).Body
		total += len(text) + 1
		check.Equal(t, bytes.Count(r.Body, text), 1, "times that %s is there", page)
	}
	check.Equal(t, len(r.Body), total-1, "bytes")
	s.Get("/llms-full.txt", "If-None-Match", r.Header.Get("ETag")).Want(t, http.StatusNotModified)
}

// TestClientFiles compares the clients in one file with the page about them, which has their SHA-256.
func TestClientFiles(t *testing.T) {
	const maxFileLines = 450
	s := apitest.New(t)
	page := string(s.Get("/docs/clients").Body)
	for _, file := range []struct{ path, contentType string }{
		{"/clients/commons.py", "text/x-python; charset=utf-8"},
		{"/clients/commons.mjs", "text/javascript; charset=utf-8"},
	} {
		t.Run(file.path, func(t *testing.T) {
			r := s.Get(file.path, "Accept", "text/html").Must(t, http.StatusOK).WantHeader(t, "Content-Type", file.contentType)
			if n := bytes.Count(r.Body, []byte("\n")); n > maxFileLines {
				t.Errorf("%d lines, want at most %d", n, maxFileLines)
			}
			s.Get(file.path, "If-None-Match", r.Header.Get("ETag")).Want(t, http.StatusNotModified)
			check.Contains(t, page, fmt.Sprintf("SHA-256 `%x`", sha256.Sum256(r.Body)), "the page")
		})
	}
}

// checkLink follows a link to its heading.
func checkLink(t *testing.T, s *apitest.Server, from, link string) {
	t.Helper()
	path, heading, has := strings.Cut(link, "#")
	r := s.Get(path).Want(t, http.StatusOK)
	if !has {
		return
	}
	for _, line := range docsHeading.FindAllStringSubmatch(string(r.Body), -1) {
		if strings.ReplaceAll(strings.ToLower(line[1]), " ", "-") == heading {
			return
		}
	}
	t.Errorf("%s links to %s, and %s has no such heading", from, link, path)
}

// TestEveryErrorIsExplained holds that the place that an error points to is there.
func TestEveryErrorIsExplained(t *testing.T) {
	s := apitest.New(t)
	for _, code := range wire.Codes() {
		checkLink(t, s, string(code), "/docs/errors#"+string(code))
	}
	problem := apitest.CheckError(t, s.Get("/nothing"))
	apitest.Equal(t, "docs", problem.Docs, "/docs/errors#not_found")
}

// TestPageForms holds who gets which form of a page.
func TestPageForms(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.PublicURL = "https://commons.example" })
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, test := range []struct{ path, accept, contentType, holds string }{
		{"/docs/errors", "", "text/markdown", "\n## own_job\n"},
		{"/docs/errors", "*/*", "text/markdown", "curl https://commons.example/api/entries "},
		{"/docs/errors", "text/markdown, text/html;q=0.9", "text/markdown", "\n## own_job\n"},
		{"/docs/errors", browser, "text/html", "<h2 id=\"own_job\">own_job</h2>"},
		{"/docs/errors", browser, "text/html", "See <a href=\"/docs/publish\">publish</a>."},
		{"/docs/errors", browser, "text/html", "{&quot;error&quot;:"},
		{"/docs/publish", browser, "text/html", `<h2 id="get-write">GET-write</h2>`},
		{"/docs/errors.md", browser, "text/markdown", "\n## own_job\n"},
		{"/docs", browser, "text/html", "<title>Commons"},
		{"/docs/index", "", "text/markdown", "# Commons\n"},
		{"/llms.txt", browser, "text/html", `<a href="/docs/jobs">Jobs</a>`},
	} {
		r := s.Get(test.path, "Accept", test.accept)
		if !strings.HasPrefix(r.Header.Get("Content-Type"), test.contentType+";") || !strings.Contains(string(r.Body), test.holds) {
			t.Errorf("%s for %q: %s\n%s\nwant %s", test.path, test.accept, r.Header.Get("Content-Type"), r.Body, test.holds)
		}
		again := s.Get(test.path, "Accept", test.accept, "If-None-Match", r.Header.Get("ETag"))
		check.Equal(t, again.Status, http.StatusNotModified, "%s again: status", test.path)
		check.Empty(t, again.Body, "%s again: body", test.path)
	}
}

// TestReceiverPagesRun runs the examples of the pages with a receiver, which a server in memory does
// not call. Those of the others run in node/integration.
func TestReceiverPagesRun(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, path := range pages(t) {
		s := apitest.New(t)
		if page := string(s.Get(path).Body); apitest.HasReceiver(page) {
			ran += apitest.RunExamples(t, page)
		}
	}
	if ran == 0 {
		t.Error("no examples found")
	}
}

// TestLimitsShowTheSettings: the page shows what holds now.
func TestLimitsShowTheSettings(t *testing.T) {
	s := apitest.New(t)
	shows := func(want string) {
		t.Helper()
		for _, path := range []string{"/docs/limits", "/docs/limits.md"} {
			s.Get(path).Has(t, want).Lacks(t, "_BYTES")
		}
	}
	shows("now 4096 MiB in all and 1024 MiB for each sender")
	daily, sender := uint64(0), uint64(1000)
	s.Backend.Apply(&command.SetSettings{DailyBytes: &daily, SenderBytes: &sender})
	shows("now without a bound in all and 1000 bytes for each sender")
	shows("now 30 a minute, 10 of them at once")
	rate, burst, none := int64(60), int64(20), int64(0)
	s.Backend.Apply(&command.SetSettings{WriteRate: &rate, WriteBurst: &burst})
	shows("now 60 a minute, 20 of them at once")
	s.Backend.Apply(&command.SetSettings{WriteRate: &none})
	shows("across all nodes together: now without a bound")
}
