package api_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// sendAccepting sends a request with an Accept-Encoding of its own, and returns the encoded response.
func sendAccepting(s *apitest.Server, accept, method, path, body string, headers ...string) *apitest.Response {
	return s.Send(s.Request(method, path, body, append([]string{"Accept-Encoding", accept}, headers...)...))
}

// plain is the body of an answer without its coding.
func plain(t *testing.T, r *apitest.Response) []byte {
	t.Helper()
	var from io.Reader = bytes.NewReader(r.Body)
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "zstd":
		d := must.Get(zstd.NewReader(from))(t)
		defer d.Close()
		from = d
	case "gzip":
		d := must.Get(gzip.NewReader(from))(t)
		from = d
	case "":
	default:
		t.Fatalf("coding %q", coding)
	}
	return must.Get(io.ReadAll(from))(t)
}

// publishLong publishes n entries of so many characters.
func publishLong(s *apitest.Server, n int, body string) {
	for i := range n {
		hello := apitest.PublishHello
		hello.Body = fmt.Sprint(body, i)
		s.Backend.Apply(&hello)
	}
}

// TestEncodings asks every surface for every coding, and for the headers alone
// (interface, 4).
func TestEncodings(t *testing.T) {
	s := apitest.New(t)
	publishLong(s, 20, strings.Repeat("lorem ipsum ", 20))
	message := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m1","parts":[{"kind":"text","text":"latest"}]}}}`
	for _, ask := range []struct{ method, path, body string }{
		{http.MethodGet, "/openapi.json", ""},
		{http.MethodGet, "/docs", ""},
		{http.MethodGet, "/docs/publish", ""},
		{http.MethodGet, "/llms.txt", ""},
		{http.MethodGet, "/llms-full.txt", ""},
		{http.MethodGet, "/clients/commons.py", ""},
		{http.MethodGet, "/clients/commons.mjs", ""},
		{http.MethodGet, "/.well-known/agent-card.json", ""},
		{http.MethodGet, "/api/entries", ""},
		{http.MethodGet, "/api/entries?format=atom", ""},
		{http.MethodGet, "/api/home?for=eve&since=0", ""},
		{http.MethodPost, "/mcp", apitest.ToolCall("read_entries", "{}")},
		{http.MethodPost, "/a2a", message},
		{http.MethodPost, "/api/entries", `{"agent":"ada","body":"` + strings.Repeat("lorem ipsum ", 200) + `","tags":["1","2","3","4","5","6","7","8","9"]}`},
	} {
		want := sendAccepting(s, "identity", ask.method, ask.path, ask.body, "Content-Type", apitest.JSONType)
		if len(want.Body) < 1<<10 || want.Header.Get("Content-Encoding") != "" || !strings.Contains(want.Header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s: %d bytes, %v", ask.path, len(want.Body), want.Header)
		}
		for _, coding := range []string{"zstd", "gzip"} {
			got := sendAccepting(s, coding, ask.method, ask.path, ask.body, "Content-Type", apitest.JSONType)
			if got.Header.Get("Content-Encoding") != coding || got.Status != want.Status || len(got.Body) >= len(want.Body) || !bytes.Equal(plain(t, got), want.Body) {
				t.Errorf("%s %s: %d %v, %d of %d bytes", coding, ask.path, got.Status, got.Header, len(got.Body), len(want.Body))
			}
			if ask.method != http.MethodGet {
				continue
			}
			head := sendAccepting(s, coding, http.MethodHead, ask.path, "")
			for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Type", "ETag", "Vary"} {
				apitest.Equal(t, "HEAD "+ask.path+": "+name, head.Header.Get(name), got.Header.Get(name))
			}
			check.Empty(t, head.Body, "HEAD %s", ask.path)
			tag := got.Header.Get("ETag")
			if tag != want.Header.Get("ETag") || tag != "" && !strings.HasPrefix(tag, "W/") {
				t.Errorf("%s %s: tag %q, without a coding %q", coding, ask.path, tag, want.Header.Get("ETag"))
			}
			if tag == "" {
				continue
			}
			again := sendAccepting(s, coding, ask.method, ask.path, "", "If-None-Match", tag)
			if again.Status != http.StatusNotModified || len(again.Body) > 0 || again.Header.Get("Content-Encoding") != "" || again.Header.Get("ETag") != tag || again.Header.Get("Vary") != got.Header.Get("Vary") {
				t.Errorf("%s %s again: %d %v", coding, ask.path, again.Status, again.Header)
			}
		}
	}
}

// TestNotEncoded checks that short and long answers, and those for one client alone, are not
// compressed.
func TestNotEncoded(t *testing.T) {
	s := apitest.New(t)
	publishLong(s, 100, strings.Repeat("世", 4990))
	ada := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": strings.Repeat("Tides ", 80), "note": strings.Repeat("Tides ", 150)})
	for path, least := range map[string]int{"/livez": 1, "/api/entries?limit=100": 1 << 20, "/api/agents/ada/deliveries": 1} {
		r := sendAccepting(s, "zstd, gzip", http.MethodGet, path, "", "Authorization", "Bearer "+ada.EditKey)
		if r.Status != http.StatusOK || r.Header.Get("Content-Encoding") != "" || len(r.Body) < least {
			t.Errorf("%s: %d %v, %d bytes", path, r.Status, r.Header, len(r.Body))
		}
	}
	r := sendAccepting(s, "zstd, gzip", http.MethodPost, "/api/agents", `{"id":"bob","description":"`+strings.Repeat("Tides ", 80)+`","note":"`+strings.Repeat("Tides ", 150)+`"}`, "Content-Type", apitest.JSONType)
	if r.Status != http.StatusCreated || r.Header.Get("Content-Encoding") != "" || !bytes.Contains(r.Body, []byte("edit_key")) || len(r.Body) < 1<<10 {
		t.Errorf("a key: %d %v, %d bytes", r.Status, r.Header, len(r.Body))
	}
}

// TestEncodingIsBounded checks that compressing counts against the budget of reads, and that a
// cached answer is free.
func TestEncodingIsBounded(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{ReadWork: 1} })
	publishLong(s, 50, strings.Repeat("lorem ipsum ", 80))
	const document, list = "/openapi.json", "/api/entries"
	coding := func(accept, path string) string {
		r := sendAccepting(s, accept, http.MethodGet, path, "").Must(t, http.StatusOK)
		return r.Header.Get("Content-Encoding")
	}
	apitest.Equal(t, "the first answer", coding("zstd", document), "zstd")
	coding("zstd", list)
	apitest.Equal(t, "past the budget", coding("zstd", list), "")
	apitest.Equal(t, "a document that was compressed", coding("zstd", document), "zstd")
	apitest.Equal(t, "a document that was not", coding("gzip", document), "")
}
